//! kswapd: a thread of the kernel that takes pages before programs have to (`balance_pgdat` in mm/vmscan.c).
//!
//! It wakes where free memory is at the low mark and works until it is above the high one. Below the lowest programs
//! take pages themselves. All zones count as one. A program's limit is none of its business.

use super::Reclaim;
use super::shrink::{BATCH, FIRST_PRIORITY, TRIES};
use crate::ReclaimStatistics;
use crate::frames::frame_table::FrameTable;
use crate::pages::mapper::Mapper;
use pagelab_translation::PageTable;

/// Pages that were written to let them leave.
fn written(counts: &ReclaimStatistics) -> u64 {
    counts.swapped_out + counts.files_written
}

impl FrameTable {
    #[inline]
    pub(crate) fn has_kswapd(&self) -> bool {
        let reclaim = self.reclaim.as_ref();
        reclaim.is_some_and(|reclaim| reclaim.kswapd.is_some())
    }

    /// Wakes kswapd, if it sleeps and free memory is low, unless it is hopeless (`wakeup_kswapd`). Whether it woke.
    pub(crate) fn wake_kswapd(&mut self) -> bool {
        let free = self.buddy.free_frames();
        let Some(reclaim) = &mut self.reclaim else {
            return false;
        };
        let low = reclaim.marks.low;
        let Some(kswapd) = &mut reclaim.kswapd else {
            return false;
        };
        let wakes = !kswapd.awake && free <= low && kswapd.failures < TRIES;
        kswapd.awake |= wakes;
        wakes
    }

    /// Pages up to the high mark, where kswapd is on and no program's limit is what is short.
    pub(super) fn short_of_high(&self, reclaim: &Reclaim) -> Option<u64> {
        let is_global = reclaim.kswapd.is_some() && reclaim.max == u32::MAX;
        let free = self.buddy.free_frames();
        is_global
            .then(|| reclaim.marks.high.checked_sub(free))?
            .map(u64::from)
    }

    pub(crate) fn kswapd_is_awake(&self) -> bool {
        let kswapd = self.reclaim.as_ref().and_then(|reclaim| reclaim.kswapd);
        kswapd.is_some_and(|kswapd| kswapd.awake)
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Takes some pages, and sleeps when enough are free or none was taken (`balance_pgdat`).
    pub(crate) fn kswapd(&mut self) {
        let before = *self.counts();
        let mut taken = 0;
        for priority in (1..=FIRST_PRIORITY).rev() {
            taken += self.shrink_lists(priority, BATCH - taken, true);
            self.shrink_underused(priority);
            if taken >= BATCH {
                break;
            }
        }
        // One interrupt for all (`try_to_unmap_flush`).
        self.effects.shootdowns += u64::from(self.effects.narrowed);
        let counts = self.counts();
        let written = written(counts) - written(&before);
        let own = counts.kswapd.get_or_insert_default();
        own.scanned += counts.scanned - before.scanned;
        own.taken += counts.taken - before.taken;
        own.written += written;
        (counts.scanned, counts.taken) = (before.scanned, before.taken);
        let free = self.frames.buddy.free_frames();
        let Some(reclaim) = &mut self.frames.reclaim else {
            return;
        };
        let goes_on = taken > 0 && free <= reclaim.marks.high;
        if let Some(kswapd) = &mut reclaim.kswapd {
            kswapd.failures = if taken > 0 { 0 } else { kswapd.failures + 1 };
            kswapd.awake = goes_on;
        }
        if !goes_on {
            reclaim.lru.end_reclaim();
        }
    }
}
