//! Frames that the kernel has filled in faults, whose lines it leaves in the caches
//! (`caches.filled_pages`), used or not.

use crate::config::{FilledPages, MachineConfig};
use crate::machine::filled_frames;
use pagelab_addr::{PAGE_BYTES, Pfn};
use pagelab_os::Effects;
use pagelab_translation::{Page, PageTable};
use std::collections::VecDeque;

/// Frames that were filled last, twice as many as caches hold.
pub(super) struct Fills {
    last: VecDeque<(u64, Pfn)>,
    most: usize,
}

impl Fills {
    /// None where what is filled goes to memory.
    pub(super) fn of(config: &MachineConfig) -> Self {
        let caches = &config.caches;
        let bytes = match caches.filled_pages {
            FilledPages::Memory => 0,
            FilledPages::L2 | FilledPages::Llc => {
                (u64::from(caches.l2.kib) + u64::from(caches.llc.kib)) << 10
            }
        };
        Fills {
            last: VecDeque::new(),
            most: (2 * bytes / PAGE_BYTES) as usize,
        }
    }

    /// Takes in the last fault, on a page, after so many accesses.
    pub(super) fn note(
        &mut self,
        after: u64,
        page: Page,
        table: &impl PageTable,
        effects: &Effects,
    ) {
        if self.most == 0 {
            return;
        }
        let frames = filled_frames(effects, page, table, self.most as u64);
        self.last.extend(frames.map(|pfn| (after, pfn)));
        let over = self.last.len().saturating_sub(self.most);
        self.last.drain(..over);
    }

    /// In the order in which they were filled, each with how many accesses were before that.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(u64, Pfn)> {
        self.last.iter()
    }
}
