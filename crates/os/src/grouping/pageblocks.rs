//! Migrate types of pageblocks, and their free blocks in the lists of these types.

use super::{Grouping, GroupingStatistics, MOVABLE, PageblockTypes, UNMOVABLE};
use crate::frames::buddy::{Buddy, FREE_HEAD, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};
use crate::frames::tag;
use pagelab_addr::Pfn;

impl Buddy {
    /// Keeps pages that cannot be moved apart from now on: pageblocks that have one are theirs.
    pub fn group(&mut self, grouping: Grouping) {
        if grouping == Grouping::Off {
            return;
        }
        assert!(self.max_order >= PAGEBLOCK_ORDER);
        let blocks = self.count().div_ceil(PAGEBLOCK_FRAMES);
        self.pageblocks = Some(PageblockTypes::new(grouping, blocks as usize));
        let has_unmovable = |buddy: &Buddy, block: u32| {
            let end = buddy.count().min(block + PAGEBLOCK_FRAMES);
            buddy.tags[block as usize..end as usize].contains(&tag::UNMOVABLE)
        };
        let blocks = (0..self.count()).step_by(PAGEBLOCK_FRAMES as usize);
        if grouping == Grouping::Region {
            let last = blocks.rev().find(|&block| has_unmovable(self, block));
            while last.is_some_and(|last| self.region_end() <= last) {
                self.grow_region();
            }
            return;
        }
        for block in blocks {
            if has_unmovable(self, block) {
                self.move_pageblock(self.zone_of(block), block, UNMOVABLE);
            }
        }
    }

    /// Takes a block for a use of pages, by the migrate type of these.
    pub(crate) fn allocate_by_type(&mut self, node: usize, order: u32, tag: u8) -> Option<Pfn> {
        match &self.pageblocks {
            Some(types) if types.grouping == Grouping::Region => {
                self.allocate_by_region(order, tag)
            }
            _ => self.allocate_by_mobility(node, order, tag),
        }
    }

    /// Pageblocks by migrate type, where they have one.
    pub fn grouping(&self) -> Option<GroupingStatistics> {
        self.pageblocks.as_ref().map(PageblockTypes::statistics)
    }

    /// True if a pageblock is for pages that cannot be moved.
    pub fn is_for_unmovable(&self, pfn: Pfn) -> bool {
        self.type_at(pfn.0) == UNMOVABLE
    }

    /// Migrate type of the pageblock around a frame.
    #[inline]
    pub(crate) fn type_at(&self, pfn: u32) -> usize {
        match &self.pageblocks {
            Some(types) => types.of((pfn >> PAGEBLOCK_ORDER) as usize),
            None => MOVABLE,
        }
    }

    /// True if two free blocks may not be one.
    #[inline]
    pub(crate) fn are_apart(&self, pfn: u32, buddy: u32) -> bool {
        let block = |pfn: u32| (pfn >> PAGEBLOCK_ORDER) as usize;
        let types = self.pageblocks.as_ref();
        types.is_some_and(|types| types.are_apart(block(pfn), block(buddy)))
    }

    /// Sets the type of all pageblocks of a larger block (`change_pageblock_range`).
    pub(crate) fn set_type(&mut self, pfn: u32, order: u32, migrate_type: usize) {
        if let Some(types) = &mut self.pageblocks {
            let blocks = 1 << (order - PAGEBLOCK_ORDER);
            types.set((pfn >> PAGEBLOCK_ORDER) as usize, blocks, migrate_type);
        }
    }

    /// Sets the type of a pageblock and moves its free blocks to the lists of that type (`__move_freepages_block`).
    pub(super) fn move_pageblock(&mut self, zone: usize, block: u32, migrate_type: usize) {
        self.part_pageblock(zone, block);
        let end = self.count().min(block + PAGEBLOCK_FRAMES);
        let free: Vec<(u32, u32)> = (block..end)
            .filter_map(|pfn| {
                let tag = self.tags[pfn as usize];
                (tag & FREE_HEAD != 0).then_some((pfn, u32::from(tag & !FREE_HEAD)))
            })
            .collect();
        for &(pfn, order) in &free {
            self.unlink(zone, pfn, order);
        }
        self.set_type(block, PAGEBLOCK_ORDER, migrate_type);
        for (pfn, order) in free {
            self.merge(zone, pfn, order);
        }
    }

    /// Parts the free block of more than 2 MiB around a pageblock, if it lies in one.
    fn part_pageblock(&mut self, zone: usize, block: u32) {
        for order in PAGEBLOCK_ORDER + 1..=self.max_order {
            let mut head = block & !((1 << order) - 1);
            if self.tags[head as usize] != FREE_HEAD | order as u8 {
                continue;
            }
            self.unlink(zone, head, order);
            for half in (PAGEBLOCK_ORDER..order).rev() {
                let upper = head + (1 << half);
                let (rest, part) = if block >= upper {
                    (head, upper)
                } else {
                    (upper, head)
                };
                self.link(zone, rest, half);
                head = part;
            }
            self.link(zone, head, PAGEBLOCK_ORDER);
            return;
        }
    }

    /// Counts a change of migrate types, where there are any.
    pub(super) fn note(&mut self, add: impl FnOnce(&mut GroupingStatistics)) {
        if let Some(types) = &mut self.pageblocks {
            add(&mut types.counts);
        }
    }
}
