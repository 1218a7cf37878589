//! khugepaged: pages of 2 MiB that a thread of the kernel makes of smaller ones (mm/khugepaged.c, Linux 6.12).
//!
//! It wakes every `scan_sleep_ms`, looks at the next `pages_to_scan` pages of all address spaces in turn, and
//! collapses a region of 2 MiB that few enough empty and shared pages stand in the way of. What a program has is
//! taken as accessed since it was mapped: nothing clears accessed bits. Not modelled: files, swap entries, orders
//! below 2 MiB (Linux 7.2), and the time for which a fault waits for it (mmap_lock).

use crate::collapse::{Collapse, Limits};
use crate::config::{OsConfig, require};
use crate::fault::may_be_huge;
use crate::system::Call;
use crate::vma::Vma;
use crate::{OsConfigError, OsError};
use pagelab_addr::{Asid, PageSize, Vpn};
use pagelab_translation::PageTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pages of a region of 2 MiB.
const REGION: u64 = PageSize::Large2M.base_pages() as u64;

/// Settings of khugepaged, by their names in /sys/kernel/mm/transparent_hugepage/khugepaged/.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KhugepagedConfig {
    /// Pages that it looks at before it sleeps.
    pub pages_to_scan: u32,
    /// Its sleep, in milliseconds.
    pub scan_sleep_ms: f64,
    /// Its sleep where no block of 2 MiB was free, in milliseconds.
    pub alloc_sleep_ms: f64,
    /// Pages of a region that may be empty, or of zeros that nobody has written: 0 to 511.
    pub max_ptes_none: u32,
    /// Pages of a region that other address spaces may have, too: 0 to 511.
    pub max_ptes_shared: u32,
}

impl Default for KhugepagedConfig {
    fn default() -> Self {
        KhugepagedConfig {
            pages_to_scan: 4096,
            scan_sleep_ms: 10_000.0,
            alloc_sleep_ms: 60_000.0,
            max_ptes_none: 511,
            max_ptes_shared: 256,
        }
    }
}

impl KhugepagedConfig {
    pub(crate) fn validate(&self, os: &OsConfig) -> Result<(), OsConfigError> {
        let sleeps = [self.scan_sleep_ms, self.alloc_sleep_ms];
        let key = "khugepaged";
        require(
            sleeps.iter().all(|ms| ms.is_finite() && *ms > 0.0),
            key,
            format!("sleeps of {sleeps:?} ms are not above 0"),
        )?;
        require(
            self.max_ptes_none.max(self.max_ptes_shared) < REGION as u32 && self.pages_to_scan > 0,
            key,
            "max_ptes_none and max_ptes_shared are 0 to 511, pages_to_scan is above 0".to_owned(),
        )?;
        require(
            os.manager.is_default(),
            key,
            "only the manager linux goes with it".to_owned(),
        )
    }
}

/// Work of khugepaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KhugepagedStatistics {
    /// Times that it woke.
    pub scans: u64,
    /// Times that it has looked at all memory (`full_scans`).
    pub full_scans: u64,
    /// Pages of 2 MiB that it made (`pages_collapsed`).
    pub collapsed: u64,
    /// Regions left as they were: too many pages were empty.
    pub too_empty: u64,
    /// Regions left as they were: too many pages are others', too.
    pub too_shared: u64,
    /// Regions left as they were: no block was free.
    pub no_free_block: u64,
    /// Base pages that it copied.
    pub pages_copied: u64,
    /// Base pages that it filled with zeros where there was nothing.
    pub pages_zeroed: u64,
}

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

    /// Looks at some pages (`khugepaged_do_scan`).
    pub(crate) fn scan<T: PageTable>(&mut self, call: &mut Call<'_, T>) -> Result<(), OsError> {
        self.starved = false;
        call.khugepaged().scans += 1;
        let mut left = u64::from(self.config.pages_to_scan);
        // From the beginning it goes through once, from elsewhere until it is at its end for the second time.
        let mut ends = u32::from(self.next == (0, 0));
        while left > 0 {
            let (space, from) = self.next;
            if space >= call.spaces.len() {
                call.khugepaged().full_scans += 1;
                self.next = (0, 0);
                ends += 1;
                if ends == 2 {
                    break;
                }
                continue;
            }
            let Some((vma, region)) = call.next_region(space, from) else {
                self.next = (space + 1, 0);
                left -= 1;
                continue;
            };
            left = left.saturating_sub(REGION);
            self.next = (space, region + REGION);
            let first = call.mapper.page(Asid(space as u16), Vpn(region))?;
            debug_assert!(vma.covers(region..region + REGION));
            let limits = Limits {
                none: self.config.max_ptes_none,
                shared: self.config.max_ptes_shared,
            };
            let outcome = call.mapper.collapse(first, limits)?;
            if call.note(outcome) {
                self.starved = true;
                break;
            }
        }
        Ok(())
    }
}

impl<T: PageTable> Call<'_, T> {
    fn khugepaged(&mut self) -> &mut KhugepagedStatistics {
        let statistics = &mut self.mapper.statistics.khugepaged;
        statistics.get_or_insert_default()
    }

    /// The first region at or behind a page that a page of 2 MiB may back, and its VMA.
    fn next_region(&mut self, space: usize, from: u64) -> Option<(Vma, u64)> {
        let policy = self.config.page_policy;
        let space = self.spaces[space].as_ref()?;
        space.vmas.within(from..u64::MAX).find_map(|vma| {
            let region = vma.start.max(from).next_multiple_of(REGION);
            let fits = region + REGION <= vma.end;
            (fits && may_be_huge(&space.seen(vma), policy)).then_some((vma, region))
        })
    }

    /// Counts what came of a region. True if no block was free.
    fn note(&mut self, outcome: Collapse) -> bool {
        if let Collapse::Made { .. } = outcome {
            // The program's processor drops its translations at once (`pmdp_collapse_flush`).
            self.mapper.effects.shootdowns += 1;
        }
        let counts = self.khugepaged();
        match outcome {
            Collapse::Made { copied } => {
                counts.collapsed += 1;
                counts.pages_copied += copied;
                counts.pages_zeroed += REGION - copied;
            }
            Collapse::TooEmpty => counts.too_empty += 1,
            Collapse::TooShared => counts.too_shared += 1,
            Collapse::NoFreeBlock => counts.no_free_block += 1,
            Collapse::Huge | Collapse::ReadOnly => {}
        }
        outcome == Collapse::NoFreeBlock
    }
}
