use crate::buddy::{Buddy, PAGEBLOCK_FRAMES};
use crate::hashed::{Hashed, Places};
use crate::manager::Manager;
use crate::rmap::{NO_OWNER, Owner, OwnerLists};
use crate::segments::Segments;
use crate::shared_memory::{ObjectId, SharedMemory};
use crate::tag;
use crate::{HashedStatistics, SegmentStatistics};
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_translation::{Displaced, FrameUse, Frames, Iceberg, Tiers};

/// The mapping count shares its word with this flag: the block is held by a slot of an object.
const IN_SLOT: u32 = 1 << 31;

/// The frame table: what each frame is used for and, for data, which pages map it.
///
/// The first frame of each block of data keeps two words: its owners (see rmap.rs) and how
/// many pages map it.
#[derive(Clone, Debug)]
pub struct FrameTable {
    buddy: Buddy,
    owners: OwnerLists,
    pub(crate) shared: SharedMemory,
    placing: Placing,
    manager: Box<dyn Manager>,
    /// Blocks of zeros, of 4 KiB and of 2 MiB, for memory that was only read. Nobody keeps a list of
    /// who maps them.
    zeros: [Option<Pfn>; 2],
    /// The block that is being mapped: like a locked folio it stays where it is.
    pinned: Option<(Pfn, u32)>,
    data_frames: u32,
    peak_data_frames: u32,
    table_frames: u32,
    peak_table_frames: u32,
    preallocated_frames: u32,
}

/// Placement of pages of data.
#[derive(Clone, Debug)]
pub(crate) enum Placing {
    /// In any free frame that the memory manager likes.
    Anywhere,
    /// Pages of 4 KiB in frames to which they are hashed.
    Hashed(Hashed),
    /// In restrictive segments, as far as there is room.
    Segmented(Box<Segments>),
}

impl FrameTable {
    pub(crate) fn new(buddy: Buddy, placing: Placing, manager: Box<dyn Manager>) -> Self {
        let restricted = match &placing {
            Placing::Segmented(segments) => segments.frames(),
            _ => 0,
        };
        FrameTable {
            preallocated_frames: buddy.count() - buddy.free_frames() - restricted,
            buddy,
            owners: OwnerLists::new(),
            shared: SharedMemory::default(),
            placing,
            manager,
            zeros: [None; 2],
            pinned: None,
            data_frames: 0,
            peak_data_frames: 0,
            table_frames: 0,
            peak_table_frames: 0,
        }
    }

    /// The free frames behind it.
    pub fn buddy(&self) -> &Buddy {
        &self.buddy
    }

    fn hashed(&self) -> Option<&Hashed> {
        match &self.placing {
            Placing::Hashed(hashed) => Some(hashed),
            _ => None,
        }
    }

    fn segments(&self) -> Option<&Segments> {
        match &self.placing {
            Placing::Segmented(segments) => Some(segments),
            _ => None,
        }
    }

    fn segments_mut(&mut self) -> Option<(&mut Segments, &mut Buddy)> {
        match &mut self.placing {
            Placing::Segmented(segments) => Some((segments, &mut self.buddy)),
            _ => None,
        }
    }

    /// Hash of pages to buckets of frames, where there is one.
    pub fn iceberg(&self) -> Option<Iceberg> {
        match self.hashed()?.places {
            Places::Iceberg(iceberg) => Some(iceberg),
            Places::Tiers(_) => None,
        }
    }

    /// Hashes of pages to frames by several functions, where there are such.
    pub fn tiers(&self) -> Option<Tiers> {
        match self.hashed()?.places {
            Places::Iceberg(_) => None,
            Places::Tiers(tiers) => Some(tiers),
        }
    }

    pub(crate) fn hashed_statistics(&self) -> Option<HashedStatistics> {
        self.hashed().map(|hashed| hashed.statistics)
    }

    pub(crate) fn segment_statistics(&self) -> Option<SegmentStatistics> {
        self.segments().map(Segments::statistics)
    }

    /// Frames that hold data of the simulated processes.
    pub fn data_frames(&self) -> u32 {
        self.data_frames
    }

    /// The most that [`FrameTable::data_frames`] ever was.
    pub fn peak_data_frames(&self) -> u32 {
        self.peak_data_frames
    }

    /// The same by node.
    pub fn data_frames_by_node(&self) -> Vec<u32> {
        let mut frames = vec![0; self.buddy.nodes()];
        for pfn in (0..self.buddy.count()).map(Pfn) {
            if data_size(self.buddy.tag(pfn)).is_some() {
                frames[self.buddy.node_of(pfn)] += 1;
            }
        }
        frames
    }

    /// Frames that hold page tables.
    pub fn table_frames(&self) -> u32 {
        self.table_frames
    }

    /// The most that [`FrameTable::table_frames`] ever was, within operations, too: where a table is
    /// rehashed there are the old and the new one.
    pub fn peak_table_frames(&self) -> u32 {
        self.peak_table_frames
    }

    fn count_tables(&mut self, frames: u32) {
        self.table_frames += frames;
        self.peak_table_frames = self.peak_table_frames.max(self.table_frames);
    }

    /// Frames that were in use before the programs started.
    pub fn preallocated_frames(&self) -> u32 {
        self.preallocated_frames
    }

    /// True if a frame was in use before the programs started (or has taken over from one that was,
    /// which a page table wanted).
    pub fn is_preallocated(&self, pfn: Pfn) -> bool {
        matches!(self.buddy.tag(pfn), tag::PREALLOCATED | tag::UNMOVABLE)
    }

    /// True if a frame is one of a restrictive segment that nothing is in.
    pub fn is_restricted(&self, pfn: Pfn) -> bool {
        self.buddy.tag(pfn) == tag::RESTRICTED
    }

    /// The block of zeros of a size, from the first time that it is wanted; it belongs to the kernel.
    /// There is none of 1 GiB.
    pub(crate) fn zeros(&mut self, size: PageSize) -> Option<Pfn> {
        let of_size = *self.zeros.get(size as usize)?;
        if of_size.is_none() {
            let pfn = self.buddy.allocate(size.order(), tag::UNMOVABLE)?;
            *self.buddy.words_mut(pfn) = [NO_OWNER, 0];
            self.preallocated_frames += size.base_pages();
            self.zeros[size as usize] = Some(pfn);
        }
        self.zeros[size as usize]
    }

    /// True if a block of zeros starts at a frame.
    #[inline]
    pub fn is_zeros(&self, head: Pfn) -> bool {
        self.zeros.contains(&Some(head))
    }

    /// The pages that map the block of data around a frame: of each the first base page.
    pub fn owners(&self, pfn: Pfn) -> Vec<PageId> {
        let Some((head, _)) = self.data_block(pfn) else {
            return Vec::new();
        };
        let pages = self.owners.iter(self.buddy.words(head)[0]);
        pages
            .filter_map(|owner| match owner {
                Owner::Page(id) => Some(id),
                Owner::Slot(_) => None,
            })
            .collect()
    }

    /// The slot of a file or of shared memory that holds the frame, whether or not a page maps it.
    pub fn slot(&self, pfn: Pfn) -> Option<u32> {
        let (head, _) = self.data_block(pfn)?;
        let [owners, count] = self.buddy.words(head);
        if count & IN_SLOT == 0 {
            return None;
        }
        self.owners.iter(owners).find_map(|owner| match owner {
            Owner::Slot(slot) => Some(slot),
            Owner::Page(_) => None,
        })
    }

    /// Number of pages that map the block of data that starts at a frame.
    pub fn map_count(&self, head: Pfn) -> u32 {
        self.buddy.words(head)[1] & !IN_SLOT
    }

    /// True if one page maps the block that starts at a frame, and no object has it.
    pub(crate) fn is_exclusive(&self, head: Pfn) -> bool {
        self.buddy.words(head)[1] == 1
    }

    /// True if an object has the block that starts at a frame.
    pub(crate) fn is_in_slot(&self, head: Pfn) -> bool {
        self.buddy.words(head)[1] & IN_SLOT != 0
    }

    /// The block of the simulated processes' data around a frame.
    fn data_block(&self, pfn: Pfn) -> Option<(Pfn, PageSize)> {
        let size = data_size(self.buddy.tag(pfn))?;
        Some((Pfn(pfn.0 & !(size.base_pages() - 1)), size))
    }

    /// Takes frames for a page of data that nothing maps yet, and pins them.
    #[inline]
    pub(crate) fn allocate_data(&mut self, page: PageId, size: PageSize) -> Option<Pfn> {
        let placed = match &mut self.placing {
            Placing::Hashed(hashed) if size == PageSize::Base4K => {
                Some(hashed.allocate(&mut self.buddy, page)?)
            }
            Placing::Segmented(segments) => segments.place(&mut self.buddy, page, size),
            _ => None,
        };
        let head = match placed {
            Some(head) => head,
            None => {
                let node = self.manager.alloc(&self.buddy, size);
                self.buddy
                    .allocate_from(node, size.order(), tag::data(size))?
            }
        };
        self.manager.added(head, size);
        *self.buddy.words_mut(head) = [NO_OWNER, 0];
        self.data_frames += size.base_pages();
        self.peak_data_frames = self.peak_data_frames.max(self.data_frames);
        self.pinned = Some((head, size.base_pages()));
        Some(head)
    }

    /// Takes 2^`order` contiguous frames for as many 4 KiB pages of data that nothing maps yet,
    /// and pins them.
    pub(crate) fn allocate_block(&mut self, order: u32) -> Option<Pfn> {
        let head = self.buddy.allocate(order, tag::data(PageSize::Base4K))?;
        let frames = 1 << order;
        for offset in 0..frames {
            *self.buddy.words_mut(Pfn(head.0 + offset)) = [NO_OWNER, 0];
        }
        self.data_frames += frames;
        self.peak_data_frames = self.peak_data_frames.max(self.data_frames);
        self.pinned = Some((head, frames));
        Some(head)
    }

    /// Keeps a block of data where it is until [`FrameTable::unpin`].
    pub(crate) fn pin(&mut self, head: Pfn, size: PageSize) {
        self.pinned = Some((head, size.base_pages()));
    }

    pub(crate) fn unpin(&mut self) {
        self.pinned = None;
    }

    /// Notes that a page maps a block.
    #[inline]
    pub(crate) fn add_page(&mut self, head: Pfn, page: PageId) {
        if self.is_zeros(head) {
            return;
        }
        let [word, count] = self.buddy.words(head);
        *self.buddy.words_mut(head) = [self.owners.add(word, Owner::Page(page)), count + 1];
    }

    /// Notes that a page maps a block no more, and frees it when nothing else holds it. Returns
    /// the number of frames freed.
    #[inline]
    pub(crate) fn remove_page(&mut self, head: Pfn, size: PageSize, page: PageId) -> u32 {
        if self.is_zeros(head) {
            return 0;
        }
        let [word, count] = self.buddy.words(head);
        *self.buddy.words_mut(head) = [self.owners.remove(word, Owner::Page(page)), count - 1];
        self.free_unheld(head, size)
    }

    /// Notes that a block is mapped by another page instead of this one.
    pub(crate) fn replace_page(&mut self, head: Pfn, old: PageId, new: PageId) {
        if self.is_zeros(head) {
            return;
        }
        let [word, count] = self.buddy.words(head);
        let word = self.owners.remove(word, Owner::Page(old));
        *self.buddy.words_mut(head) = [self.owners.add(word, Owner::Page(new)), count];
    }

    /// Puts a block of one frame into a slot of an object.
    pub(crate) fn put_in_slot(&mut self, pfn: Pfn, slot: u32) {
        let [word, count] = self.buddy.words(pfn);
        *self.buddy.words_mut(pfn) = [self.owners.add(word, Owner::Slot(slot)), count | IN_SLOT];
        self.shared.set_frame(slot, pfn);
    }

    /// Says that VMAs show so many pages less of an object. Returns the number of frames freed.
    pub(crate) fn hide(&mut self, object: ObjectId, pages: u64) -> u32 {
        let mut held = Vec::new();
        self.shared
            .hide(object, pages, |pfn, slot| held.push((pfn, slot)));
        held.into_iter()
            .map(|(pfn, slot)| {
                let [word, count] = self.buddy.words(pfn);
                let word = self.owners.remove(word, Owner::Slot(slot));
                *self.buddy.words_mut(pfn) = [word, count & !IN_SLOT];
                self.free_unheld(pfn, PageSize::Base4K)
            })
            .sum()
    }

    /// Frees a block that nothing holds. Returns the number of frames freed.
    #[inline]
    pub(crate) fn free_unheld(&mut self, head: Pfn, size: PageSize) -> u32 {
        if self.buddy.words(head)[1] != 0 {
            return 0;
        }
        self.manager.removing(head);
        self.free_block(head, size.order());
        self.data_frames -= size.base_pages();
        size.base_pages()
    }

    /// Makes 512 blocks of the size `small` out of one, each mapped by the pages at its place
    /// in the pages that mapped the large one.
    pub(crate) fn split(&mut self, head: Pfn, size: PageSize, small: PageSize) {
        let owners = self.owners(head);
        let mut word = self.buddy.words(head)[0];
        for &owner in &owners {
            word = self.owners.remove(word, Owner::Page(owner));
        }
        debug_assert_eq!(word, NO_OWNER);
        self.buddy.set_tag(head, size.order(), tag::data(small));
        for offset in (0..size.base_pages()).step_by(small.base_pages() as usize) {
            let mut word = NO_OWNER;
            for &owner in owners.iter().rev() {
                word = self.owners.add(word, Owner::Page(PageId(owner.0 + offset)));
            }
            *self.buddy.words_mut(Pfn(head.0 + offset)) = [word, owners.len() as u32];
        }
    }

    /// Moves a page of 4 KiB, but for its entries in page tables, to another frame of this very
    /// node: that frame, unless none is free.
    pub(crate) fn move_to_node(&mut self, from: Pfn, node: usize) -> Option<Pfn> {
        if self.buddy.free_frames_of(node) == 0 {
            return None;
        }
        let tag = self.buddy.tag(from);
        let to = self.buddy.allocate_from(node, 0, tag)?;
        self.relocate(from, to, PageSize::Base4K);
        Some(to)
    }

    pub(crate) fn manager(&self) -> &dyn Manager {
        &*self.manager
    }

    pub(crate) fn manager_mut(&mut self) -> &mut dyn Manager {
        &mut *self.manager
    }

    /// The next page that the manager moves, and the node it goes to.
    pub(crate) fn next_move(&mut self) -> Option<(Pfn, usize)> {
        self.manager.next_move(&self.buddy)
    }

    #[inline]
    fn free_block(&mut self, head: Pfn, order: u32) {
        let in_segment = match &mut self.placing {
            Placing::Segmented(segments) => segments.release(&mut self.buddy, head, order),
            _ => false,
        };
        if !in_segment {
            self.buddy.free(head, order);
        }
    }

    /// True if page walks have to say which pages they found.
    pub(crate) fn tells_accesses(&self) -> bool {
        self.segments().is_some()
    }

    /// A page walk has found a page in a frame.
    #[inline]
    pub(crate) fn accessed(&mut self, pfn: Pfn) {
        self.manager.accessed(pfn);
        if let Placing::Segmented(segments) = &mut self.placing {
            segments.accessed(pfn);
        }
    }

    /// True if a page that is first touched pushes another out of a full set.
    #[inline]
    pub(crate) fn evicts_at_faults(&self) -> bool {
        self.segments().is_some_and(Segments::evicts_at_faults)
    }

    /// The page, by its first frame, that has to leave the set of a page for it.
    pub(crate) fn victim(&mut self, page: PageId, size: PageSize) -> Option<Pfn> {
        let pinned = self.pinned;
        let (segments, buddy) = self.segments_mut()?;
        segments.victim(buddy, page, size, |head| is_pinned(pinned, head))
    }

    /// Moves the page that has to leave the set of this page to the flexible segment, but for its
    /// entries in page tables: where it is then. `None` if none has to, or if there is no room.
    pub(crate) fn move_out(&mut self, victim: Pfn, size: PageSize) -> Option<Pfn> {
        let (segments, buddy) = self.segments_mut()?;
        let to = buddy.allocate(size.order(), tag::data(size))?;
        segments.note_eviction(size);
        self.relocate(victim, to, size);
        Some(to)
    }

    /// True if a page in a block could be in a set of its own and is not.
    pub(crate) fn may_move_in(&self, head: Pfn, page: PageId, size: PageSize) -> bool {
        self.segments().is_some_and(|segments| {
            self.buddy.tag(head) == tag::data(size) && !segments.in_set(head, page, size)
        })
    }

    /// Moves a block into the set of a page, but for its entries in page tables: where it is then.
    /// `None` if no way is free.
    pub(crate) fn move_in(&mut self, from: Pfn, page: PageId, size: PageSize) -> Option<Pfn> {
        let (segments, buddy) = self.segments_mut()?;
        let to = segments.take(buddy, page, size)?;
        self.relocate(from, to, size);
        Some(to)
    }

    pub(crate) fn note_move(&mut self, size: PageSize, moved: bool) {
        if let Some((segments, _)) = self.segments_mut() {
            segments.note_move(size, moved);
        }
    }

    fn relocate(&mut self, from: Pfn, to: Pfn, size: PageSize) {
        self.move_words(from, to);
        self.free_block(from, size.order());
        self.manager.moved(from, to);
    }

    fn is_pinned(&self, pfn: Pfn) -> bool {
        is_pinned(self.pinned, pfn)
    }

    /// Moves the words of a block of data, and what points back to it.
    fn move_words(&mut self, from: Pfn, to: Pfn) {
        let words = self.buddy.words(from);
        *self.buddy.words_mut(to) = words;
        if words[1] & IN_SLOT == 0 {
            return;
        }
        for owner in self.owners.iter(words[0]) {
            if let Owner::Slot(slot) = owner {
                self.shared.set_frame(slot, to);
            }
        }
    }
}

fn is_pinned(pinned: Option<(Pfn, u32)>, pfn: Pfn) -> bool {
    pinned.is_some_and(|(head, frames)| pfn.0.wrapping_sub(head.0) < frames)
}

fn data_size(tag: u8) -> Option<PageSize> {
    PageSize::ALL
        .into_iter()
        .find(|&size| tag::data(size) == tag)
}

impl Frames for FrameTable {
    fn count(&self) -> u32 {
        self.buddy.count()
    }

    fn usage(&self, pfn: Pfn) -> FrameUse {
        match self.buddy.tag(pfn) {
            0 => FrameUse::Free,
            tag::PREALLOCATED => FrameUse::Movable(PageSize::Base4K),
            tag::UNMOVABLE | tag::RESTRICTED => FrameUse::Unmovable(PageSize::Base4K),
            tag::TABLE => FrameUse::PageTable,
            data => match data_size(data) {
                Some(size) if !self.is_pinned(pfn) => FrameUse::Movable(size),
                Some(size) => FrameUse::Unmovable(size),
                None => unreachable!("frame {} has the tag {data}", pfn.0),
            },
        }
    }

    fn in_fragmented_block(&self, pfn: Pfn) -> bool {
        let used = self.buddy.used_in_pageblock(pfn);
        used != 0
            && (used != PAGEBLOCK_FRAMES
                || !matches!(
                    data_size(self.buddy.tag(pfn)),
                    Some(PageSize::Large2M | PageSize::Huge1G)
                ))
    }

    fn allocate_table(&mut self, order: u32) -> Option<Pfn> {
        let pfn = self.buddy.allocate(order, tag::TABLE)?;
        self.count_tables(1 << order);
        Some(pfn)
    }

    fn claim_table(&mut self, pfn: Pfn) -> bool {
        let claimed = self.buddy.claim(pfn, tag::TABLE);
        self.count_tables(u32::from(claimed));
        claimed
    }

    fn displace(&mut self, pfn: Pfn) -> Option<Displaced> {
        let FrameUse::Movable(size) = self.usage(pfn) else {
            return None;
        };
        let from = Pfn(pfn.0 & !(size.base_pages() - 1));
        let old_tag = self.buddy.tag(pfn);
        let owners = match old_tag {
            tag::PREALLOCATED => Vec::new(),
            _ => self.owners(from),
        };
        let to = match (&mut self.placing, owners.first()) {
            (Placing::Hashed(hashed), Some(&owner)) if size == PageSize::Base4K => {
                hashed.allocate(&mut self.buddy, owner)?
            }
            _ => {
                let node = self.buddy.node_of(from);
                self.buddy.allocate_from(node, size.order(), old_tag)?
            }
        };
        if old_tag != tag::PREALLOCATED {
            self.move_words(from, to);
            self.manager.moved(from, to);
        }
        if size == PageSize::Base4K {
            self.buddy.set_tag(pfn, 0, tag::TABLE);
        } else {
            self.buddy.free(from, size.order());
            let claimed = self.buddy.claim(pfn, tag::TABLE);
            debug_assert!(claimed);
        }
        self.count_tables(1);
        Some(Displaced {
            owners,
            size,
            from,
            to,
        })
    }

    fn free_table(&mut self, pfn: Pfn, order: u32) {
        debug_assert_eq!(self.buddy.tag(pfn), tag::TABLE);
        self.buddy.free(pfn, order);
        self.table_frames -= 1 << order;
    }
}
