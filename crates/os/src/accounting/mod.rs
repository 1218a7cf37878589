//! Accounting schemes: knowledge of who maps a large folio, by which a store after `fork()` keeps or copies its
//! page.
//!
//! A scheme is a file of this folder. All mappings of a folio by entries of any size are counted beside it
//! (`folio_large_mapcount`).

pub(crate) mod accounted;
mod foliomap;
mod mm_owner;
mod work;

use foliomap::Aggregator;
use mm_owner::Slots;
use pagelab_addr::Asid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use work::Batch;
pub use work::{AccountingStatistics, AccountingWork};

/// Accounting scheme of large folios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Accounting {
    /// A count for each page, as Linux until 6.14: who maps a folio is not known.
    PerPage,
    /// Two owners for each folio, as Linux from 6.15 on (`_mm_id`).
    #[default]
    MmOwner,
    /// An aggregator for each folio: exact (Hildenbrand et al., USENIX ATC 2024).
    #[serde(rename = "foliomap")]
    FolioMap,
}

impl Accounting {
    /// True unless it is the default.
    pub fn is_default(&self) -> bool {
        *self == Accounting::default()
    }
}

/// The scheme's state of one folio.
#[derive(Clone, Debug)]
pub(crate) enum Sharing {
    PerPage,
    MmOwner(Slots),
    FolioMap(Aggregator),
}

impl Sharing {
    /// State for a folio of 2^`order` pages that nobody maps.
    pub(crate) fn new(scheme: Accounting, order: u32) -> Self {
        match scheme {
            Accounting::PerPage => Sharing::PerPage,
            Accounting::MmOwner => Sharing::MmOwner(Slots::default()),
            Accounting::FolioMap => Sharing::FolioMap(Aggregator::new(order)),
        }
    }

    /// An address space has made `count` mappings: all together are `total` now.
    pub(crate) fn add(&mut self, mm: Asid, count: u32, total: u32) {
        match self {
            Sharing::PerPage => {}
            Sharing::MmOwner(slots) => slots.add(mm, count, total),
            Sharing::FolioMap(aggregator) => aggregator.add(mm, count),
        }
    }

    /// An address space has removed `count` mappings: all together are `total` now.
    pub(crate) fn remove(&mut self, mm: Asid, count: u32, total: u32) {
        match self {
            Sharing::PerPage => {}
            Sharing::MmOwner(slots) => slots.remove(mm, count, total),
            Sharing::FolioMap(aggregator) => aggregator.remove(mm, count),
        }
    }

    /// True if a store of an address space may keep its page of the folio, which has `total` mappings
    /// (`wp_can_reuse_anon_folio` in mm/memory.c).
    pub(crate) fn may_reuse(&self, mm: Asid, total: u32) -> bool {
        match self {
            // Linux 6.12 copies whatever it knows: "give back a large folio a bit sooner".
            Sharing::PerPage => false,
            // Linux copies the last page of a folio to be rid of the others.
            Sharing::MmOwner(slots) => total > 1 && !slots.maybe_shared(),
            Sharing::FolioMap(aggregator) => aggregator.is_exclusive(mm, total),
        }
    }

    /// True if other address spaces may have a part of the folio, which has `total` mappings; `None` where only
    /// pages are counted.
    pub(crate) fn maybe_shared(&self, mm: Asid, total: u32) -> Option<bool> {
        match self {
            Sharing::PerPage => None,
            Sharing::MmOwner(slots) => Some(slots.maybe_shared()),
            Sharing::FolioMap(aggregator) => Some(!aggregator.is_exclusive(mm, total)),
        }
    }
}
