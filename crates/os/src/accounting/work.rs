//! Work of accounting: atomic operations on page structures, and cache lines of these that are touched.
//!
//! After include/linux/rmap.h, mm/rmap.c and mm/memory.c: Linux 6.12 for `per_page`, 7.2 for `mm_owner`, this
//! project's patches for `foliomap`. References, mapping counts and PG_anon_exclusive are counted. Locks of folios
//! and lists, page tables, the LRU lists and the allocator are not: they are the same under all schemes.

use super::{Accounting, foliomap};
use pagelab_addr::{Asid, PageSize};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::AddAssign;

const LARGE: u32 = PageSize::Large2M.order();

/// Accounting of one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AccountingWork {
    /// Base pages that were mapped, copied by fork or unmapped.
    pub pages: u64,
    /// Atomic operations on page structures.
    pub atomics: u64,
    /// Cache lines of page structures, of 64 bytes: each once a batch.
    pub lines: u64,
}

impl AddAssign for AccountingWork {
    fn add_assign(&mut self, other: Self) {
        self.pages += other.pages;
        self.atomics += other.atomics;
        self.lines += other.lines;
    }
}

impl AccountingWork {
    fn new(pages: u32, atomics: u32, lines: u32) -> Self {
        AccountingWork {
            pages: pages.into(),
            atomics: atomics.into(),
            lines: lines.into(),
        }
    }

    /// Work of as many operations.
    pub(crate) fn times(self, count: u64) -> Self {
        AccountingWork {
            pages: self.pages * count,
            atomics: self.atomics * count,
            lines: self.lines * count,
        }
    }
}

/// Accounting by kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AccountingStatistics {
    /// Faults and populating: pages that are new, mapped from files, copied and kept.
    pub fault: AccountingWork,
    /// Entries that fork copied.
    pub fork: AccountingWork,
    /// Entries removed by munmap(), MADV_DONTNEED, exec and exit.
    pub unmap: AccountingWork,
    /// Entries of 2 MiB replaced by smaller ones.
    pub split: AccountingWork,
}

/// Consecutive entries of one folio, or one entry: what the kernel accounts at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    /// A page by itself.
    Small,
    /// A folio of 2 MiB by one entry.
    Entire,
    /// Pages of a folio from one on, by entries of 4 KiB.
    Part { order: u32, first: u32, pages: u32 },
}

impl Accounting {
    /// True if each page has a count of its mappings (CONFIG_PAGE_MAPCOUNT).
    fn counts_pages(self) -> bool {
        self != Accounting::FolioMap
    }

    /// Pages 0 to 3 of a folio whose structures an update touches, as bits: references are in the first, counts and
    /// owners in the second, a part of the aggregator in the third and fourth.
    fn structures(self, order: u32, mm: Option<Asid>) -> u32 {
        match self {
            Accounting::FolioMap => 0b11 | foliomap::tail_structures(order, mm),
            _ => 0b11,
        }
    }

    /// Lines of an update: the structures of some pages, and those of the folio.
    fn lines(self, order: u32, first: u32, pages: u32, mm: Option<Asid>) -> u32 {
        let structures = self.structures(order, mm);
        let beside = |page: &u32| structures >> page & 1 == 1 && page.wrapping_sub(first) >= pages;
        pages + (0..4).filter(beside).count() as u32
    }

    /// A new anonymous page of 2 MiB (`folio_add_new_anon_rmap`). Smaller ones, of 4 KiB or in a folio, have
    /// PG_anon_exclusive set one by one.
    pub(crate) fn new_entire(self) -> AccountingWork {
        let lines = self.structures(LARGE, None).count_ones();
        AccountingWork::new(1 << LARGE, 1, lines)
    }

    /// Fork copies entries, of which `exclusive` ones have PG_anon_exclusive cleared
    /// (`__folio_try_dup_anon_rmap`).
    pub(crate) fn fork(self, batch: Batch, exclusive: u32, mm: Asid) -> AccountingWork {
        match batch {
            Batch::Small => AccountingWork::new(1, exclusive + 2, 1),
            Batch::Entire => {
                let lines = self.structures(LARGE, Some(mm)).count_ones();
                AccountingWork::new(1 << LARGE, exclusive + 3, lines)
            }
            Batch::Part {
                order,
                first,
                pages,
            } => {
                let counts = if self.counts_pages() { pages } else { 0 };
                let lines = self.lines(order, first, pages, Some(mm));
                AccountingWork::new(pages, exclusive + counts + 2, lines)
            }
        }
    }

    /// Entries are removed, of which `last` ones were the last of their kind for their pages
    /// (`__folio_remove_rmap`).
    pub(crate) fn unmap(self, batch: Batch, last: u32, mm: Asid) -> AccountingWork {
        // Mapped pages are counted, too (`_nr_pages_mapped`).
        let mapped = u32::from(self.counts_pages() && last > 0);
        match batch {
            Batch::Small => AccountingWork::new(1, 2, 1),
            Batch::Entire => {
                let lines = self.structures(LARGE, Some(mm)).count_ones();
                AccountingWork::new(1 << LARGE, 3 + mapped, lines)
            }
            Batch::Part {
                order,
                first,
                pages,
            } => {
                let (counts, touched) = if self.counts_pages() {
                    (pages, pages)
                } else {
                    (0, 1)
                };
                let lines = self.lines(order, first, touched, Some(mm));
                AccountingWork::new(pages, counts + 2 + mapped, lines)
            }
        }
    }

    /// A store copies a page, and leaves the old one (`wp_page_copy`).
    pub(crate) fn copy(self, batch: Batch, last: u32, mm: Asid) -> AccountingWork {
        // The old page has a reference more while it is copied.
        let mut work = AccountingWork::new(0, 3, 1);
        work += self.unmap(batch, last, mm);
        work
    }

    /// A store keeps a page (`wp_can_reuse_anon_folio`).
    pub(crate) fn reuse(self, batch: Batch) -> AccountingWork {
        match batch {
            Batch::Small => AccountingWork::new(1, 1, 1),
            Batch::Entire => AccountingWork::new(1 << LARGE, 1, 1),
            Batch::Part { order, first, .. } => {
                // Slots are locked while they are read, an aggregator has a sequence number.
                let locks = u32::from(self == Accounting::MmOwner);
                AccountingWork::new(1, 1 + locks, self.lines(order, first, 1, None))
            }
        }
    }

    /// Entries of 4 KiB replace one of 2 MiB, the first to do so or the last (`__split_huge_pmd_locked`).
    pub(crate) fn split(
        self,
        exclusive: bool,
        first: bool,
        last: bool,
        mm: Asid,
    ) -> AccountingWork {
        let pages = 1 << LARGE;
        let counts = if self.counts_pages() {
            pages + u32::from(first) + u32::from(last)
        } else {
            0
        };
        // References, the folio's count for the new entries and the old one, that of entire mappings.
        let atomics = 4 + counts + if exclusive { pages } else { 0 };
        let lines = if self.counts_pages() || exclusive {
            pages
        } else {
            self.structures(LARGE, Some(mm)).count_ones()
        };
        AccountingWork::new(pages, atomics, lines)
    }
}
