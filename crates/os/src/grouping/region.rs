//! A region of their own for pages that cannot be moved, at the bottom of memory: Contiguitas (Zhao et al., ISCA 2023).
//!
//! Pages that can be moved lie above it. The region grows by the pageblock above, whose pages are moved away, and gives
//! its last pageblock back once that is free. When to do so is a choice of ours; hardware that moves pages in use is
//! not modelled.

use super::{MOVABLE, UNMOVABLE, type_of};
use crate::frames::buddy::{Buddy, PAGEBLOCK_FRAMES};
use crate::frames::frame_table::FrameTable;
use crate::frames::tag;
use crate::pages::mapper::Mapper;
use pagelab_addr::{PageSize, Pfn};
use pagelab_translation::PageTable;

/// Free frames of the region below which it grows; with twice as many in the rest it gives its last pageblock back.
const LOW: u32 = PAGEBLOCK_FRAMES / 8;
/// Pages whose translations are dropped at once, as in compaction.
const BATCH: u64 = 32;

/// Has blocks of the largest order that have pages that cannot be moved change places with those at the bottom.
pub(crate) fn gather(tags: &mut [u8], max_order: u32) {
    let length = 1 << max_order;
    let mut bottom = 0;
    for start in (0..tags.len()).step_by(length) {
        let end = tags.len().min(start + length);
        if end - start == length && tags[start..end].contains(&tag::UNMOVABLE) {
            let (below, above) = tags.split_at_mut(start);
            if bottom < start {
                below[bottom..bottom + length].swap_with_slice(&mut above[..length]);
            }
            bottom += length;
        }
    }
}

impl Buddy {
    /// Takes a block for a use of pages from the region or from above it. Where there is none the region grows into
    /// pageblocks that are free, and at the last a frame of the other side will do.
    pub(super) fn allocate_by_region(&mut self, order: u32, tag: u8) -> Option<Pfn> {
        let migrate_type = type_of(tag);
        if migrate_type == UNMOVABLE {
            self.note_use();
        }
        loop {
            let found = self.smallest_of_zones(order, migrate_type, tag);
            if found.is_some() {
                return found;
            }
            if migrate_type == MOVABLE || !self.grow_into_free() {
                break;
            }
        }
        if migrate_type == MOVABLE && order > 0 {
            return None;
        }
        let found = self.smallest_of_zones(order, 1 - migrate_type, tag);
        self.note(|counts| counts.stolen += u64::from(found.is_some()));
        found
    }

    /// The smallest block of a type: the region is filled from below.
    fn smallest_of_zones(&mut self, order: u32, migrate_type: usize, tag: u8) -> Option<Pfn> {
        let zones = self.zones.len();
        (0..zones).find_map(|place| {
            let zone = match migrate_type {
                UNMOVABLE => place,
                _ => zones - 1 - place,
            };
            self.smallest(zone, order, migrate_type, tag)
        })
    }

    /// Notes that pages of the region come or go.
    pub(crate) fn note_use(&mut self) {
        if let Some(types) = &mut self.pageblocks {
            types.used = true;
        }
    }

    /// First frame above the region.
    pub(super) fn region_end(&self) -> u32 {
        let blocks = self.pageblocks.as_ref().map_or(0, |types| types.region);
        blocks as u32 * PAGEBLOCK_FRAMES
    }

    /// True if a frame lies in the region.
    pub(crate) fn is_in_region(&self, pfn: Pfn) -> bool {
        pfn.0 < self.region_end()
    }

    /// Gives the region the pageblock above it.
    pub(super) fn grow_region(&mut self) {
        let block = self.region_end();
        self.move_pageblock(self.zone_of(block), block, UNMOVABLE);
        if let Some(types) = &mut self.pageblocks {
            types.region += 1;
        }
    }

    fn grow_into_free(&mut self) -> bool {
        let block = self.region_end();
        let grows =
            block + PAGEBLOCK_FRAMES <= self.count() && self.used_in_pageblock(Pfn(block)) == 0;
        if grows {
            self.grow_region();
            self.note(|counts| counts.claimed += 1);
        }
        grows
    }

    /// Free frames of the region.
    fn free_in_region(&self) -> u32 {
        let blocks = (0..self.region_end()).step_by(PAGEBLOCK_FRAMES as usize);
        blocks
            .map(|block| PAGEBLOCK_FRAMES - self.used_in_pageblock(Pfn(block)))
            .sum()
    }

    /// Gives pageblocks at the end of the region back that it can do without.
    fn shrink_region(&mut self) {
        while let Some(last) = self.region_end().checked_sub(PAGEBLOCK_FRAMES) {
            let is_free = self.used_in_pageblock(Pfn(last)) == 0;
            if !is_free || self.free_in_region() - PAGEBLOCK_FRAMES < 2 * LOW {
                return;
            }
            if let Some(types) = &mut self.pageblocks {
                types.region -= 1;
            }
            self.move_pageblock(self.zone_of(last), last, MOVABLE);
            self.note(|counts| counts.claimed += 1);
        }
    }

    /// True if pages of the region came or went since this was asked last.
    fn take_region_use(&mut self) -> bool {
        let types = self.pageblocks.as_mut();
        types.is_some_and(|types| std::mem::take(&mut types.used))
    }
}

impl FrameTable {
    /// Pages, by their first frames, that have to leave the pageblock above the region so that it may grow: none where
    /// that cannot be.
    fn above_region(&self) -> Option<Vec<(Pfn, PageSize)>> {
        let buddy = &self.buddy;
        let block = buddy.region_end();
        if block + PAGEBLOCK_FRAMES > buddy.count() {
            return None;
        }
        let used = buddy.used_in_pageblock(Pfn(block));
        let room = buddy.free_frames() - buddy.free_in_region() - (PAGEBLOCK_FRAMES - used);
        if buddy.tag(Pfn(block)) == tag::data(PageSize::Large2M) {
            let stays = self.is_pinned(Pfn(block)) || self.is_zeros(Pfn(block));
            return (!stays).then(|| vec![(Pfn(block), PageSize::Large2M)]);
        }
        let mut frames = (block..block + PAGEBLOCK_FRAMES).map(Pfn);
        let pages = frames.clone().filter(|&pfn| !buddy.is_free(pfn));
        let pages = pages.map(|pfn| (pfn, PageSize::Base4K)).collect();
        (used <= room && frames.all(|pfn| self.moves(pfn))).then_some(pages)
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Has the region for pages that cannot be moved grow or shrink, if some of these came or went.
    pub(crate) fn resize_region(&mut self) {
        if !self.frames.buddy.take_region_use() {
            return;
        }
        if self.frames.buddy.free_in_region() >= LOW {
            self.frames.buddy.shrink_region();
        } else if let Some(pages) = self.frames.above_region() {
            self.move_off(&pages);
        }
    }

    /// Moves all pages of the pageblock above the region away, and has the region grow by it.
    fn move_off(&mut self, pages: &[(Pfn, PageSize)]) {
        // So that no page is moved to where it is.
        self.frames.buddy.grow_region();
        let mut moved = 0;
        for &(from, size) in pages {
            let tag = self.frames.buddy.tag(from);
            let Some(to) = self.frames.buddy.allocate(size.order(), tag) else {
                break;
            };
            if tag == tag::PREALLOCATED {
                self.frames.buddy.free(from, 0);
            } else {
                self.frames.relocate(from, to, size);
                self.retarget(to, size);
            }
            moved += u64::from(size.base_pages());
        }
        self.effects.pages_compacted += moved;
        self.effects.shootdowns += moved.div_ceil(BATCH);
        self.frames.buddy.note(|counts| {
            counts.claimed += 1;
            counts.pages_moved += moved;
        });
    }
}
