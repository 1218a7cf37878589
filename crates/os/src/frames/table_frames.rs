//! Frames for page tables: taken from the allocator, claimed one in particular, freed of data by moving them.

use crate::frames::buddy::PAGEBLOCK_FRAMES;
use crate::frames::frame_table::{FrameTable, data_size};
use crate::frames::tag;
use crate::placement::Place;
use pagelab_addr::{PageSize, Pfn};
use pagelab_translation::{Displaced, FrameUse, Frames};

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
                // An unmapped part of a folio goes nowhere by itself.
                Some(size) if self.is_pinned(pfn) || self.is_unmapped_part(pfn) => {
                    FrameUse::Unmovable(size)
                }
                Some(size) => FrameUse::Movable(size),
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
        let mut pfn = self.buddy.allocate(order, tag::TABLE);
        if pfn.is_none() && self.shrink() {
            pfn = self.buddy.allocate(order, tag::TABLE);
        }
        self.count_tables(pfn.map_or(0, |_| 1 << order));
        pfn
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
        self.part_with_folio(pfn);
        let from = Pfn(pfn.0 & !(size.base_pages() - 1));
        let old_tag = self.buddy.tag(pfn);
        let owners = match old_tag {
            tag::PREALLOCATED => Vec::new(),
            _ => self.owners(from),
        };
        let place = match (&mut self.placer, owners.first()) {
            (Some(placer), Some(&owner)) => placer.displace(&mut self.buddy, owner, size),
            _ => Place::Anywhere,
        };
        let to = match place {
            Place::At(head) => head,
            Place::Full => return None,
            Place::Anywhere => {
                let node = self.buddy.node_of(from);
                self.buddy.allocate_from(node, size.order(), old_tag)?
            }
        };
        if old_tag != tag::PREALLOCATED {
            self.move_words(from, to);
            self.manager_mut().moved(from, to);
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
        self.buddy.note_use();
        self.table_frames -= 1 << order;
    }
}
