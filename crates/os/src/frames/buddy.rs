//! The binary buddy allocator: which frames are free, and in blocks of which order.
//!
//! After Linux's mm/page_alloc.c: free blocks of each order and zone are in a doubly linked list,
//! blocks are taken from and put back at its head, and a freed block merges with its buddy
//! as long as that is free too (`__free_one_page`, `expand`). `grouping` has migrate types; per-CPU lists are left out.
//!
//! As in struct page, what a frame needs while it is free (list links) and what its user keeps
//! about it while it is in use share the same words: 9 bytes a frame in all.

use crate::frames::random::SplitMix64;
use crate::grouping::{MOVABLE, PageblockTypes};
use pagelab_addr::Pfn;

/// log2 of the frames in a 2 MiB block.
pub const PAGEBLOCK_ORDER: u32 = 9;
/// Frames in a 2 MiB block.
pub const PAGEBLOCK_FRAMES: u32 = 1 << PAGEBLOCK_ORDER;

/// Set in the tag of the first frame of a free block, beside its order.
pub(crate) const FREE_HEAD: u8 = 0x80;
/// The tag of the other frames of a free block.
const FREE_BODY: u8 = 0;
/// The end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// Frames `start..end` with their free lists.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// First block of each order's free lists, one for each migrate type.
    pub(crate) heads: Vec<[u32; 2]>,
    /// Length of each order's free list.
    blocks: Vec<u32>,
}

/// The buddy allocator, and one tag and two words for each frame in use.
#[derive(Clone, Debug)]
pub struct Buddy {
    pub(crate) zones: Vec<Zone>,
    /// The first frame of each node.
    nodes: Vec<u32>,
    /// For each node, all zones in the order in which they are asked for memory: its own from the
    /// highest down, then those of the next node (the kernel's zonelists).
    pub(crate) zonelists: Vec<Vec<usize>>,
    pub(crate) max_order: u32,
    pub(crate) tags: Vec<u8>,
    /// Migrate types of pageblocks, where pages are kept apart by them.
    pub(crate) pageblocks: Option<PageblockTypes>,
    /// For the first frame of a free block: the next and the previous block in its list. Of a frame
    /// in use: its user's.
    words: Vec<[u32; 2]>,
    /// Frames in use of each 2 MiB block. Those that the last one lacks count as in use.
    used: Vec<u16>,
    free_frames: u32,
    free_pageblocks: u32,
}

impl Buddy {
    /// An allocator over `tags.len()` frames. A frame with tag 0 is free, any other is in use.
    /// A zone begins at each element of `zone_starts`, the first of which is 0. Blocks have
    /// orders 0 to `max_order`.
    ///
    /// # Panics
    /// When there are 2^32 frames or more, a zone does not start at a multiple of the largest block, zones are
    /// not in ascending order or start past the last frame, or a tag is 128 or more.
    pub fn new(tags: Vec<u8>, zone_starts: &[u32], max_order: u32) -> Self {
        Self::with_nodes(tags, zone_starts, vec![0], max_order)
    }

    /// The same for memory of several nodes; a node begins at each element of `nodes`.
    ///
    /// # Panics
    /// When a node does not start with a zone, besides.
    pub fn with_nodes(tags: Vec<u8>, zone_starts: &[u32], nodes: Vec<u32>, max_order: u32) -> Self {
        let count = u32::try_from(tags.len()).expect("frame numbers have 32 bits");
        assert_eq!(zone_starts.first(), Some(&0));
        let ends = zone_starts[1..].iter().copied().chain([count]);
        let zones = zone_starts.iter().zip(ends).map(|(&start, end)| {
            assert!(start.is_multiple_of(1 << max_order) && start <= end);
            Zone {
                start,
                end,
                heads: vec![[NONE; 2]; max_order as usize + 1],
                blocks: vec![0; max_order as usize + 1],
            }
        });
        assert!(nodes.iter().all(|start| zone_starts.contains(start)));
        let mut buddy = Buddy {
            zones: zones.collect(),
            zonelists: zonelists(zone_starts, &nodes),
            nodes,
            max_order,
            words: vec![[0; 2]; tags.len()],
            used: Vec::new(),
            free_frames: 0,
            free_pageblocks: 0,
            tags,
            pageblocks: None,
        };
        buddy.count_used();
        buddy.build_lists();
        buddy
    }

    fn count_used(&mut self) {
        for block in self.tags.chunks(PAGEBLOCK_FRAMES as usize) {
            let free: u32 = block
                .chunks(64)
                .map(|tags| free_mask(tags).count_ones())
                .sum();
            self.used.push((PAGEBLOCK_FRAMES - free) as u16);
            self.free_frames += free;
            self.free_pageblocks += u32::from(free == PAGEBLOCK_FRAMES);
        }
    }

    /// Puts the free frames into lists, lowest address first, as the kernel does at boot
    /// (`__free_pages_core`).
    fn build_lists(&mut self) {
        for zone in 0..self.zones.len() {
            let Zone { start, end, .. } = self.zones[zone];
            let mut tails = vec![NONE; self.max_order as usize + 1];
            // Everything below is in use or in a list.
            let mut done = start;
            for group in (start..end).step_by(64) {
                let stop = end.min(group + 64);
                if done >= stop {
                    continue;
                }
                let mut free = free_mask(&self.tags[group as usize..stop as usize]);
                free &= u64::MAX << done.saturating_sub(group);
                while free != 0 {
                    let pfn = group + free.trailing_zeros();
                    let order = self.largest_free(pfn, end);
                    self.append(zone, pfn, order, &mut tails);
                    done = pfn + (1 << order);
                    free &= u64::MAX.checked_shl(done - group).unwrap_or(0);
                }
            }
        }
    }

    /// Puts every list into random order, as blocks that were freed one by one are in.
    pub(crate) fn shuffle(&mut self, random: &mut SplitMix64) {
        for zone in 0..self.zones.len() {
            for order in 0..=self.max_order {
                let mut blocks = Vec::new();
                let mut next = self.zones[zone].heads[order as usize][0];
                while next != NONE {
                    blocks.push(next);
                    next = self.words[next as usize][0];
                }
                random.shuffle(&mut blocks);
                for &block in &blocks {
                    self.unlink(zone, block, order);
                    self.link(zone, block, order);
                }
            }
        }
    }

    /// The largest order of an aligned free block that starts at a free frame, when no list
    /// holds anything from there on.
    fn largest_free(&self, pfn: u32, end: u32) -> u32 {
        let mut order = 0;
        while order < self.max_order && pfn.trailing_zeros() > order {
            let upper = pfn + (1 << order);
            let top = upper + (1 << order);
            let free = |tag: &u8| *tag == FREE_BODY;
            if top > end || !self.tags[upper as usize..top as usize].iter().all(free) {
                break;
            }
            order += 1;
        }
        order
    }

    fn append(&mut self, zone: usize, pfn: u32, order: u32, tails: &mut [u32]) {
        let tail = std::mem::replace(&mut tails[order as usize], pfn);
        self.tags[pfn as usize] = FREE_HEAD | order as u8;
        self.words[pfn as usize] = [NONE, tail];
        self.zones[zone].blocks[order as usize] += 1;
        if tail == NONE {
            self.zones[zone].heads[order as usize][0] = pfn;
        } else {
            self.words[tail as usize][0] = pfn;
        }
    }

    /// Number of frames.
    pub fn count(&self) -> u32 {
        self.tags.len() as u32
    }

    /// The largest order of a block.
    pub fn max_order(&self) -> u32 {
        self.max_order
    }

    /// Free frames.
    pub fn free_frames(&self) -> u32 {
        self.free_frames
    }

    /// Free blocks of each order, over all zones (/proc/buddyinfo).
    pub fn free_blocks(&self) -> Vec<u32> {
        let mut sums = vec![0; self.max_order as usize + 1];
        for zone in &self.zones {
            for (sum, blocks) in sums.iter_mut().zip(&zone.blocks) {
                *sum += blocks;
            }
        }
        sums
    }

    /// Aligned 2 MiB blocks without a frame in use, whether or not they are parts of larger free
    /// blocks.
    pub fn free_pageblocks(&self) -> u32 {
        self.free_pageblocks
    }

    /// The share of the free memory that does not lie in free aligned 2 MiB blocks, 0 when
    /// nothing is free: the unusable free space index at order 9 (Gorman and Whitcroft, "The
    /// What, The Why and the Where To of Anti-Fragmentation", OLS 2006; `unusable_free_index` in
    /// mm/vmstat.c).
    pub fn unusable_free_space_index(&self) -> f64 {
        if self.free_frames == 0 {
            return 0.0;
        }
        let usable = f64::from(self.free_pageblocks) * f64::from(PAGEBLOCK_FRAMES);
        1.0 - usable / f64::from(self.free_frames)
    }

    /// Frames in use of the 2 MiB block around a frame. Where the memory ends inside the block, the
    /// frames that it lacks count as in use.
    #[inline]
    pub fn used_in_pageblock(&self, pfn: Pfn) -> u32 {
        u32::from(self.used[(pfn.0 >> PAGEBLOCK_ORDER) as usize])
    }

    /// True if a frame is free.
    #[inline]
    pub fn is_free(&self, pfn: Pfn) -> bool {
        is_free_tag(self.tags[pfn.0 as usize])
    }

    /// The tag of a frame in use, 0 for a free one.
    #[inline]
    pub fn tag(&self, pfn: Pfn) -> u8 {
        let tag = self.tags[pfn.0 as usize];
        if is_free_tag(tag) { FREE_BODY } else { tag }
    }

    /// Changes the tag of 2^`order` frames in use.
    #[inline]
    pub fn set_tag(&mut self, pfn: Pfn, order: u32, tag: u8) {
        debug_assert!(!is_free_tag(tag));
        let first = pfn.0 as usize;
        self.tags[first..first + (1 << order)].fill(tag);
    }

    /// The two words of a frame in use.
    #[inline]
    pub fn words(&self, pfn: Pfn) -> [u32; 2] {
        self.words[pfn.0 as usize]
    }

    /// The two words of a frame in use, to be changed.
    #[inline]
    pub fn words_mut(&mut self, pfn: Pfn) -> &mut [u32; 2] {
        &mut self.words[pfn.0 as usize]
    }

    /// Free frames of a node.
    pub fn free_frames_of(&self, node: usize) -> u32 {
        let end = self.nodes.get(node + 1).copied().unwrap_or(self.count());
        let inside = |zone: &&Zone| (self.nodes[node]..end).contains(&zone.start);
        let blocks = |zone: &Zone| {
            let orders = zone.blocks.iter().enumerate();
            orders.map(|(order, blocks)| blocks << order).sum::<u32>()
        };
        self.zones.iter().filter(inside).map(blocks).sum()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The node of a frame.
    #[inline]
    pub fn node_of(&self, pfn: Pfn) -> usize {
        self.nodes.partition_point(|&start| start <= pfn.0) - 1
    }

    /// Takes 2^`order` contiguous, aligned frames and tags each of them, from the first node or,
    /// where that has none, from the next; `None` when none has.
    #[inline]
    pub fn allocate(&mut self, order: u32, tag: u8) -> Option<Pfn> {
        self.allocate_from(0, order, tag)
    }

    /// The same, from this node first.
    #[inline]
    pub fn allocate_from(&mut self, node: usize, order: u32, tag: u8) -> Option<Pfn> {
        debug_assert!(!is_free_tag(tag));
        if order > self.max_order {
            return self.allocate_contiguous(node, order, tag);
        }
        if self.pageblocks.is_some() {
            return self.allocate_by_type(node, order, tag);
        }
        for place in 0..self.zones.len() {
            let zone = self.zonelists[node][place];
            if let Some(pfn) = self.smallest(zone, order, MOVABLE, tag) {
                return Some(pfn);
            }
        }
        None
    }

    /// Takes the smallest block of a zone and a migrate type that is large enough (`__rmqueue_smallest`).
    #[inline]
    pub(crate) fn smallest(
        &mut self,
        zone: usize,
        order: u32,
        migrate_type: usize,
        tag: u8,
    ) -> Option<Pfn> {
        for from in order..=self.max_order {
            let pfn = self.zones[zone].heads[from as usize][migrate_type];
            if pfn != NONE {
                self.unlink(zone, pfn, from);
                self.take_half(zone, pfn, from, order, tag);
                return Some(Pfn(pfn));
            }
        }
        None
    }

    /// Takes the first frames of a block that is in no list, and puts the rest back.
    #[inline]
    pub(crate) fn take_half(&mut self, zone: usize, pfn: u32, from: u32, order: u32, tag: u8) {
        // The lower half is taken, the upper half goes back to its list: so a run of
        // allocations has ascending frames.
        for half in (order..from).rev() {
            self.link(zone, pfn + (1 << half), half);
        }
        self.take(pfn, order, tag);
    }

    /// A block above the largest order, out of free neighbours of the largest order
    /// (`alloc_contig_pages`, without its migration of what is in the way).
    fn allocate_contiguous(&mut self, node: usize, order: u32, tag: u8) -> Option<Pfn> {
        let length = 1u32.checked_shl(order)?;
        let step = 1 << self.max_order;
        let head = FREE_HEAD | self.max_order as u8;
        for place in 0..self.zones.len() {
            let zone = self.zonelists[node][place];
            let Zone { start, end, .. } = self.zones[zone];
            let mut first = start.checked_next_multiple_of(length)?;
            while end.checked_sub(first).is_some_and(|left| left >= length) {
                let mut blocks = (first..first + length).step_by(step);
                if blocks.all(|pfn| self.tags[pfn as usize] == head) {
                    for pfn in (first..first + length).step_by(step) {
                        self.unlink(zone, pfn, self.max_order);
                    }
                    self.take(first, order, tag);
                    return Some(Pfn(first));
                }
                let Some(next) = first.checked_add(length) else {
                    break;
                };
                first = next;
            }
        }
        None
    }

    /// Takes frames in a row, more than the largest block has, at most so many: of the first zone that has neighbouring
    /// free blocks, the first range that has them all, else the longest (`fbmm_alloc_range` in
    /// linux/source/mm/fbmm/range.c). Returns the first frame, and how many there are.
    pub fn allocate_row(&mut self, most: u32, tag: u8) -> Option<(Pfn, u32)> {
        let block = 1 << self.max_order;
        if most <= block {
            return None;
        }
        let order = self.max_order;
        let zones = self.zonelists[0].iter();
        let (zone, first, nr) = zones
            .map(|&zone| (zone, self.longest_row(zone, most)))
            .find_map(|(zone, (first, nr))| (nr > block).then_some((zone, first, nr)))?;
        let nr = nr.min(most);
        let end = first + nr.next_multiple_of(block);
        for pfn in (first..end).step_by(block as usize) {
            self.unlink(zone, pfn, order);
            self.take(pfn, order, tag);
        }
        for rest in first + nr..end {
            self.free(Pfn(rest), 0);
        }
        Some((Pfn(first), nr))
    }

    /// The first row of free blocks of the largest order in a zone that has so many frames, else the longest: its
    /// first frame, and frames.
    fn longest_row(&self, zone: usize, wanted: u32) -> (u32, u32) {
        let Zone { start, end, .. } = self.zones[zone];
        let block = 1 << self.max_order;
        let head = FREE_HEAD | self.max_order as u8;
        let (mut longest, mut row) = ((start, 0), (start, 0));
        for pfn in (start..end).step_by(block as usize) {
            if self.tags[pfn as usize] != head {
                row = (pfn + block, 0);
                continue;
            }
            row.1 += block;
            if row.1 > longest.1 {
                longest = row;
            }
            if longest.1 >= wanted {
                break;
            }
        }
        longest
    }

    /// Takes this one frame, if it is free, and splits the block around it
    /// (`take_page_off_buddy` and `break_down_buddy_pages` in mm/page_alloc.c).
    pub fn claim(&mut self, pfn: Pfn, tag: u8) -> bool {
        debug_assert!(!is_free_tag(tag));
        if !self.is_free(pfn) {
            return false;
        }
        let zone = self.zone_of(pfn.0);
        let is_head = |order: &u32| {
            let head = pfn.0 & !((1 << order) - 1);
            self.tags[head as usize] == FREE_HEAD | *order as u8
        };
        let Some(order) = (0..=self.max_order).find(is_head) else {
            unreachable!("free frame {} lies in no free block", pfn.0);
        };
        let mut head = pfn.0 & !((1 << order) - 1);
        self.unlink(zone, head, order);
        for half in (0..order).rev() {
            let upper = head + (1 << half);
            if pfn.0 >= upper {
                self.link(zone, head, half);
                head = upper;
            } else {
                self.link(zone, upper, half);
            }
        }
        self.take(pfn.0, 0, tag);
        true
    }

    /// Gives back 2^`order` aligned frames, all of them in use.
    pub fn free(&mut self, pfn: Pfn, order: u32) {
        debug_assert!(pfn.0.is_multiple_of(1 << order));
        let first = pfn.0 as usize;
        debug_assert!(
            self.tags[first..first + (1 << order)]
                .iter()
                .all(|&tag| !is_free_tag(tag))
        );
        self.tags[first..first + (1 << order)].fill(FREE_BODY);
        self.count_free(pfn.0, order);
        let zone = self.zone_of(pfn.0);
        if order <= self.max_order {
            self.merge(zone, pfn.0, order);
            return;
        }
        for block in (pfn.0..pfn.0 + (1 << order)).step_by(1 << self.max_order) {
            self.link(zone, block, self.max_order);
        }
    }

    pub(crate) fn merge(&mut self, zone: usize, mut pfn: u32, mut order: u32) {
        let end = self.zones[zone].end;
        while order < self.max_order {
            // A zone starts at a multiple of the largest block: a buddy is never below it.
            let buddy = pfn ^ (1 << order);
            let head = FREE_HEAD | order as u8;
            if buddy >= end || self.tags[buddy as usize] != head || self.are_apart(pfn, buddy) {
                break;
            }
            self.unlink(zone, buddy, order);
            if order >= PAGEBLOCK_ORDER {
                self.set_type(buddy, order, self.type_at(pfn));
            }
            pfn &= buddy;
            order += 1;
        }
        self.link(zone, pfn, order);
    }

    #[inline]
    fn take(&mut self, pfn: u32, order: u32, tag: u8) {
        let first = pfn as usize;
        self.tags[first..first + (1 << order)].fill(tag);
        self.free_frames -= 1 << order;
        let (step, blocks) = pageblocks(order);
        for block in 0..blocks {
            let used = &mut self.used[(pfn >> PAGEBLOCK_ORDER) as usize + block];
            self.free_pageblocks -= u32::from(*used == 0);
            *used += step;
        }
    }

    #[inline]
    fn count_free(&mut self, pfn: u32, order: u32) {
        self.free_frames += 1 << order;
        let (step, blocks) = pageblocks(order);
        for block in 0..blocks {
            let used = &mut self.used[(pfn >> PAGEBLOCK_ORDER) as usize + block];
            *used -= step;
            self.free_pageblocks += u32::from(*used == 0);
        }
    }

    pub(crate) fn zone_of(&self, pfn: u32) -> usize {
        self.zones.partition_point(|zone| zone.end <= pfn)
    }

    #[inline]
    pub(crate) fn link(&mut self, zone: usize, pfn: u32, order: u32) {
        let migrate_type = self.type_at(pfn);
        let Zone { heads, blocks, .. } = &mut self.zones[zone];
        let next = std::mem::replace(&mut heads[order as usize][migrate_type], pfn);
        blocks[order as usize] += 1;
        self.tags[pfn as usize] = FREE_HEAD | order as u8;
        self.words[pfn as usize] = [next, NONE];
        if next != NONE {
            self.words[next as usize][1] = pfn;
        }
    }

    #[inline]
    pub(crate) fn unlink(&mut self, zone: usize, pfn: u32, order: u32) {
        let migrate_type = self.type_at(pfn);
        let [next, previous] = self.words[pfn as usize];
        let Zone { heads, blocks, .. } = &mut self.zones[zone];
        blocks[order as usize] -= 1;
        self.tags[pfn as usize] = FREE_BODY;
        if previous == NONE {
            heads[order as usize][migrate_type] = next;
        } else {
            self.words[previous as usize][0] = next;
        }
        if next != NONE {
            self.words[next as usize][1] = previous;
        }
    }
}

/// For each node the order in which zones are asked.
fn zonelists(zone_starts: &[u32], nodes: &[u32]) -> Vec<Vec<usize>> {
    let node_of = |zone: usize| nodes.partition_point(|&start| start <= zone_starts[zone]) - 1;
    let from = |node: usize| {
        let mut zones: Vec<usize> = (0..zone_starts.len()).rev().collect();
        // Stable, so that the zones of a node stay in order.
        zones.sort_by_key(|&zone| (node_of(zone) + nodes.len() - node) % nodes.len());
        zones
    };
    (0..nodes.len()).map(from).collect()
}

/// Mask of the frames, of up to 64, that are free when none is in a list: bit 0 for the first.
fn free_mask(tags: &[u8]) -> u64 {
    let mut mask = 0;
    for (byte, tags) in tags.chunks(8).enumerate() {
        let mut eight = [1; 8];
        eight[..tags.len()].copy_from_slice(tags);
        let tags = u64::from_le_bytes(eight);
        assert_eq!(tags & 0x8080_8080_8080_8080, 0, "a tag is 128 or more");
        // Bit 7 of each byte says whether it is zero; the product gathers the eight bits.
        let zero = !(tags + 0x7f7f_7f7f_7f7f_7f7f) & 0x8080_8080_8080_8080;
        mask |= ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * byte);
    }
    mask
}

/// Frames taken of each 2 MiB block by a block of an order, and the number of these blocks.
#[inline]
fn pageblocks(order: u32) -> (u16, usize) {
    if order < PAGEBLOCK_ORDER {
        (1 << order, 1)
    } else {
        (1 << PAGEBLOCK_ORDER, 1 << (order - PAGEBLOCK_ORDER))
    }
}

#[inline]
pub(crate) fn is_free_tag(tag: u8) -> bool {
    tag == FREE_BODY || tag & FREE_HEAD != 0
}
