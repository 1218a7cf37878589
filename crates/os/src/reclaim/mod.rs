//! Memory that is short: the pages used least lately leave it, for a swap device or for the files they are of.
//!
//! lru.rs has the lists and decides between them, frames.rs keeps them, shrink.rs takes pages off them, lazy.rs has
//! those that need not be written, and swap.rs brings back what was swapped out. underused.rs takes the zeros of large
//! pages, with split_queue.rs and stores.rs; kswapd.rs does all this aside, by the marks of watermarks.rs.
//! generations.rs and lru_gen.rs have Linux's other lists, and take pages off them.

mod config;
mod frames;
mod generations;
mod kind;
mod kswapd;
mod lazy;
mod lru;
mod lru_gen;
mod shrink;
mod split_queue;
mod stores;
mod swap;
mod underused;
mod watermarks;

pub use config::ReclaimConfig;

use crate::error::require;
use crate::{OsConfig, OsConfigError, Placement};
use lru::Lru;
use pagelab_addr::{Asid, PAGE_SHIFT};
use split_queue::SplitQueue;
use std::collections::{BTreeMap, HashMap};
use watermarks::{Kswapd, Watermarks};

/// Pages that left memory, the lists of those that are in it, and their limit.
#[derive(Clone, Debug)]
pub(crate) struct Reclaim {
    config: ReclaimConfig,
    lru: Lru,
    /// The most frames that programs may have with their page tables.
    max: u32,
    marks: Watermarks,
    kswapd: Option<Kswapd>,
    /// The most pages in the swap device.
    swap: u64,
    /// Pages there, and their ages when they left. One that several address spaces had is there for each.
    swapped: BTreeMap<(Asid, u64), u64>,
    /// Ages of the pages of files that left, by slot.
    dropped: HashMap<u32, u64>,
    /// The same of shared anonymous memory, which is in the swap device (`shmem_writepage`).
    swapped_slots: HashMap<u32, u64>,
    /// Pages of 2 MiB that may be mostly zeros, where that is asked.
    split_queue: Option<SplitQueue>,
}

impl Reclaim {
    /// The lists of a machine whose pages lie anywhere, if pages may leave.
    pub(crate) fn new(os: &OsConfig, placement: Placement) -> Result<Option<Self>, OsConfigError> {
        let Some(config) = os.reclaim else {
            return Ok(None);
        };
        let reason = "the design has pages placed in ways of its own".to_owned();
        require(placement == Placement::Buddy, "reclaim", reason)?;
        let pages = |bytes: Option<u64>| bytes.map_or(u64::MAX, |bytes| bytes >> PAGE_SHIFT);
        Ok(Some(Reclaim {
            lru: Lru::new(os.frames(), config.lru_gen),
            max: u32::try_from(pages(config.max_bytes)).unwrap_or(u32::MAX),
            marks: Watermarks::new(os.memory_bytes, &config),
            kswapd: config.kswapd.then(Kswapd::default),
            swap: pages(config.swap_bytes),
            swapped: BTreeMap::new(),
            dropped: HashMap::new(),
            swapped_slots: HashMap::new(),
            split_queue: SplitQueue::new(os),
            config,
        }))
    }

    /// Room for that many pages in the swap device.
    fn has_swap(&self, pages: u64) -> bool {
        self.in_swap() + pages <= self.swap
    }

    fn in_swap(&self) -> u64 {
        (self.swapped.len() + self.swapped_slots.len()) as u64
    }
}
