//! State of kswapd, and the free memory by which it works.

use super::config::ReclaimConfig;
use pagelab_addr::{PAGE_BYTES, PAGE_SHIFT};

/// Free frames at which something is done (`__setup_per_zone_wmarks` in mm/page_alloc.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watermarks {
    /// Kept for page tables and the kernel.
    pub(super) min: u32,
    pub(super) low: u32,
    pub(super) high: u32,
}

impl Watermarks {
    pub(super) fn new(memory_bytes: u64, config: &ReclaimConfig) -> Self {
        let kilobytes = config.min_free_kbytes.map_or_else(
            // `calculate_min_free_kbytes`
            || (16 * (memory_bytes >> 10)).isqrt().clamp(128, 262_144),
            u64::from,
        );
        let pages = |pages: u64| u32::try_from(pages).unwrap_or(u32::MAX);
        let min = kilobytes >> (PAGE_SHIFT - 10);
        let share = memory_bytes / PAGE_BYTES * u64::from(config.watermark_scale_factor) / 10_000;
        let step = (min / 4).max(share);
        Watermarks {
            min: pages(min),
            low: pages(min + step),
            high: pages(min + 2 * step),
        }
    }
}

/// The thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kswapd {
    pub(super) awake: bool,
    /// Times in a row that it found nothing to take (`kswapd_failures`).
    pub(super) failures: u32,
}
