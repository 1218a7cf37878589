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
        self.pageblocks = Some(PageblockTypes::new(blocks as usize));
        for block in (0..self.count()).step_by(PAGEBLOCK_FRAMES as usize) {
            let end = self.count().min(block + PAGEBLOCK_FRAMES);
            let tags = &self.tags[block as usize..end as usize];
            if tags.contains(&tag::UNMOVABLE) {
                self.move_pageblock(self.zone_of(block), block, UNMOVABLE);
            }
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

    /// Sets the type of all pageblocks of a larger block (`change_pageblock_range`).
    pub(crate) fn set_type(&mut self, pfn: u32, order: u32, migrate_type: usize) {
        if let Some(types) = &mut self.pageblocks {
            let blocks = 1 << (order - PAGEBLOCK_ORDER);
            types.set((pfn >> PAGEBLOCK_ORDER) as usize, blocks, migrate_type);
        }
    }

    /// Sets the type of a pageblock and moves its free blocks to the lists of that type (`__move_freepages_block`).
    pub(super) fn move_pageblock(&mut self, zone: usize, block: u32, migrate_type: usize) {
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
            self.link(zone, pfn, order);
        }
    }

    pub(super) fn count_claimed(&mut self, blocks: u64) {
        if let Some(types) = &mut self.pageblocks {
            types.claimed += blocks;
        }
    }

    pub(super) fn count_stolen(&mut self, allocations: u64) {
        if let Some(types) = &mut self.pageblocks {
            types.stolen += allocations;
        }
    }
}
