//! Pages of 2 MiB that wait to be looked at (`struct deferred_split` in include/linux/mmzone.h).

use super::stores::Stores;
use crate::OsConfig;
use crate::frames::frame_lists::FrameLists;
use pagelab_addr::{PageSize, Pfn};

const ORDER: u32 = PageSize::Large2M.order();
/// Looks of one scan (`SHRINK_BATCH`).
pub(super) const BATCH: u64 = 128;
/// The queue among its lists.
const QUEUE: usize = 0;

/// The queue, and what is known of contents.
#[derive(Clone, Debug)]
pub(crate) struct SplitQueue {
    /// Most pages of zeros in a page that stays (`khugepaged_max_ptes_none`).
    pub(super) max_zeros: u32,
    /// Pages of 2 MiB by their numbers, the next one to look at at the bottom (`split_queue`).
    queue: FrameLists,
    /// Looks that earlier scans were too short for (`nr_deferred`).
    deferred: u64,
    pub(super) stores: Stores,
}

/// Number of a page of 2 MiB.
fn number(head: Pfn) -> Pfn {
    Pfn(head.0 >> ORDER)
}

impl SplitQueue {
    pub(super) fn new(os: &OsConfig) -> Option<Self> {
        let khugepaged = os.khugepaged?;
        let is_on = os.reclaim.is_some_and(|reclaim| reclaim.shrink_underused);
        is_on.then(|| SplitQueue {
            max_zeros: khugepaged.max_ptes_none,
            queue: FrameLists::new(1, os.frames() >> ORDER),
            deferred: 0,
            stores: Stores::default(),
        })
    }

    /// Adds a page, as the last one.
    pub(super) fn add(&mut self, head: Pfn) {
        self.queue.move_to(number(head), QUEUE);
    }

    /// Takes a page of 2^`order` off; whether it was there.
    pub(super) fn remove(&mut self, head: Pfn, order: u32) -> bool {
        order == ORDER && self.queue.remove(number(head)).is_some()
    }

    /// Notes that a page has moved.
    pub(super) fn moved(&mut self, from: Pfn, to: Pfn) {
        if self.remove(from, ORDER) {
            self.add(to);
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.queue.length(QUEUE)
    }

    /// The next pages, so many.
    pub(super) fn next(&self, pages: u64) -> Vec<Pfn> {
        let next = self.queue.upwards(QUEUE).take(pages as usize);
        next.map(|number| Pfn(number.0 << ORDER)).collect()
    }

    /// Looks that are due at a priority, and those of them to begin with (`do_shrink_slab` in mm/shrinker.c).
    pub(super) fn looks(&mut self, priority: u32) -> (u64, u64) {
        // Twice the share: pages have `DEFAULT_SEEKS`, 2, of 4.
        let new = (self.length() >> priority) * 2;
        let before = std::mem::take(&mut self.deferred);
        let now = (before >> priority) + new;
        (before + new, now.min(2 * self.length()))
    }

    /// Puts off looks that a scan was too short for.
    pub(super) fn defer(&mut self, looks: u64, most: u64) {
        self.deferred = looks.min(most);
    }
}
