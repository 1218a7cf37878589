//! Emptying blocks.

use crate::frames::buddy::{PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};
use crate::frames::frame_table::FrameTable;
use crate::frames::tag;
use crate::pages::mapper::Mapper;
use crate::spaces::vma::Vma;
use pagelab_addr::{PageSize, Pfn};
use pagelab_translation::PageTable;

/// Attempts in a row of which all but one are left out after so many failures: 2^6 (`COMPACT_MAX_DEFER_SHIFT`).
const MOST_DEFERRED: u32 = 6;
/// Pages whose translations are dropped at once (`COMPACT_CLUSTER_MAX`).
const BATCH: u64 = 32;
/// Free frames below which it is not tried (`compact_gap`).
const GAP: u32 = 2 << PAGEBLOCK_ORDER;

impl FrameTable {
    /// The next block that can be emptied, by its first frame: some of it is in use, and only by pages of 4 KiB
    /// that may move.
    fn next_to_empty(&mut self) -> Option<Pfn> {
        let end = self.buddy.count() - self.compaction.taken;
        loop {
            let first = Pfn(self.compaction.migrate * PAGEBLOCK_FRAMES);
            if first.0 + PAGEBLOCK_FRAMES > end {
                return None;
            }
            self.compaction.migrate += 1;
            let used = self.buddy.used_in_pageblock(first);
            if used > 0
                && !self.buddy.is_in_region(first)
                && self.frames_of(first).all(|pfn| self.moves(pfn))
            {
                return Some(first);
            }
        }
    }

    fn frames_of(&self, first: Pfn) -> impl Iterator<Item = Pfn> + use<> {
        (first.0..first.0 + PAGEBLOCK_FRAMES).map(Pfn)
    }

    pub(crate) fn moves(&self, pfn: Pfn) -> bool {
        let movable = [tag::PREALLOCATED, tag::data(PageSize::Base4K)];
        self.buddy.is_free(pfn) || movable.contains(&self.buddy.tag(pfn)) && !self.is_pinned(pfn)
    }

    /// A free frame above a block, from the end of memory downwards, taken for a page of this use. Blocks that are
    /// free as a whole stay so, and those for pages that cannot be moved are for these (`suitable_migration_target`).
    fn take_above(&mut self, block: Pfn, tag: u8) -> Option<Pfn> {
        let count = self.buddy.count();
        loop {
            let pfn = Pfn((count - self.compaction.taken).checked_sub(1)?);
            if pfn.0 < block.0 + PAGEBLOCK_FRAMES {
                return None;
            }
            if self.buddy.used_in_pageblock(pfn) == 0 || self.buddy.is_for_unmovable(pfn) {
                self.compaction.taken += pfn.0 % PAGEBLOCK_FRAMES + 1;
                continue;
            }
            self.compaction.taken += 1;
            if self.buddy.is_free(pfn) && self.buddy.claim(pfn, tag) {
                return Some(pfn);
            }
        }
    }

    /// True if it may be tried now (`compaction_deferred`, `__compaction_suitable`).
    fn may_compact(&mut self) -> bool {
        if self.placer.is_some() || self.buddy.nodes() > 1 || self.buddy.free_frames() < GAP {
            return false;
        }
        let compaction = &mut self.compaction;
        compaction.considered += 1;
        compaction.considered >= 1 << compaction.failures
    }

    fn note_compaction(&mut self, made: bool) {
        let compaction = &mut self.compaction;
        compaction.considered = 0;
        if made {
            compaction.failures = 0;
        } else {
            compaction.failures = MOST_DEFERRED.min(compaction.failures + 1);
            (compaction.migrate, compaction.taken) = (0, 0);
        }
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Makes a free block for a large page of a VMA, if it is worth waiting for.
    pub(crate) fn makes_block(&mut self, vma: &Vma, size: PageSize) -> bool {
        if size != PageSize::Large2M {
            return false;
        }
        let defrag = self.frames.compaction.defrag;
        if defrag.waits(vma) {
            return self.compact();
        }
        self.frames.want_block();
        false
    }

    /// Makes a free block of 2 MiB, if that can be (`__alloc_pages_direct_compact`).
    #[cold]
    pub(crate) fn compact(&mut self) -> bool {
        let Some((made, moved)) = self.compact_once() else {
            return false;
        };
        let counts = self.statistics.compaction.get_or_insert_default();
        counts.stalls += 1;
        counts.made += u64::from(made);
        counts.pages_moved += moved;
        made
    }

    /// Tries to empty a block, unless that failed often. Whether it did, and pages moved.
    pub(super) fn compact_once(&mut self) -> Option<(bool, u64)> {
        if !self.frames.may_compact() {
            return None;
        }
        let mut moved = 0;
        let block = self.frames.next_to_empty();
        let made = block.is_some_and(|block| self.empty_block(block, &mut moved));
        self.frames.note_compaction(made);
        self.effects.pages_compacted += moved;
        self.effects.shootdowns += moved.div_ceil(BATCH);
        Some((made, moved))
    }

    /// Moves all pages of a block; whether there was room for them.
    fn empty_block(&mut self, block: Pfn, moved: &mut u64) -> bool {
        for from in self.frames.frames_of(block) {
            if self.frames.buddy.is_free(from) {
                continue;
            }
            let tag = self.frames.buddy.tag(from);
            let Some(to) = self.frames.take_above(block, tag) else {
                return false;
            };
            if tag == tag::PREALLOCATED {
                self.frames.buddy.free(from, 0);
            } else {
                self.frames.relocate(from, to, PageSize::Base4K);
                self.retarget(to, PageSize::Base4K);
            }
            *moved += 1;
        }
        true
    }
}
