//! khugepaged: pages of 2 MiB that a thread of the kernel makes of smaller ones (mm/khugepaged.c, Linux 6.12).
//!
//! It wakes every `scan_sleep_ms`, looks at the next `pages_to_scan` pages of all address spaces in turn, and
//! collapses a region of 2 MiB that few enough empty and shared pages stand in the way of. What a program has is
//! taken as accessed since it was mapped: nothing clears accessed bits. Not modelled: files, swap entries, and the time
//! for which a fault waits for it (mmap_lock).

mod config;
mod mthp;
mod scan;

pub use config::KhugepagedConfig;

/// The thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Khugepaged {
    config: KhugepagedConfig,
    /// Address space and page where it goes on.
    next: (usize, u64),
    /// It found no free block the last time.
    starved: bool,
}

impl Khugepaged {
    pub(crate) fn new(config: KhugepagedConfig) -> Self {
        Khugepaged {
            config,
            next: (0, 0),
            starved: false,
        }
    }

    /// Time until it wakes, in nanoseconds.
    pub(crate) fn sleep_ns(&self) -> f64 {
        let ms = if self.starved {
            self.config.alloc_sleep_ms
        } else {
            self.config.scan_sleep_ms
        };
        ms * 1e6
    }
}
