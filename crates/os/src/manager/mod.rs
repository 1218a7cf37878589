//! Memory managers: which pages a program gets, and when they move.
//!
//! A manager is a file of this folder that implements [`Manager`]; [`ManagerConfig`], [`MANAGERS`]
//! and [`build`] have a line for it. `alloc`, `free`, `added` and `removing` are the kernel's, too (`struct
//! mfs_ops` in `linux/modules/mfs/mfs.h`), so that a policy keeps its shape there.

mod bandwidth;
mod basic;
mod contiguous;
mod linux;
mod tiered;

use crate::OsConfigError;
use crate::frames::buddy::Buddy;
use crate::frames::tag;
use pagelab_addr::{PageSize, Pfn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

pub use tiered::{TierStatistics, TieredConfig};

/// A manager's name and description.
type About = (&'static str, &'static str);

/// The managers: name, description.
pub const MANAGERS: &[About] = &[
    linux::ABOUT,
    basic::ABOUT,
    contiguous::ABOUT,
    bandwidth::ABOUT,
    tiered::ABOUT,
];

/// A memory manager and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum ManagerConfig {
    /// First touch.
    #[default]
    Linux,
    /// Pages of 4 KiB from a list filled at boot.
    Basic {
        /// Memory of the list: an amount (`512MiB`), or a share of what is free (`50%`).
        #[serde(default = "basic::default_size")]
        size: String,
    },
    /// Pieces that are as long as possible, given when a mapping is made.
    Contiguous,
    /// Weighted interleaving.
    #[serde(alias = "interleave")]
    Bandwidth {
        /// Pages of a round that each node gives, by node: `3:2`.
        weights: String,
    },
    /// Hot and cold pages in a near and a far node.
    Tiered(TieredConfig),
}

impl ManagerConfig {
    /// True for the manager that a machine has when none is named.
    pub fn is_default(&self) -> bool {
        *self == ManagerConfig::default()
    }

    /// True if pages may be of folios, or are of 4 KiB whatever the policy says.
    pub(crate) fn takes_folios(&self) -> bool {
        match self {
            ManagerConfig::Linux | ManagerConfig::Basic { .. } | ManagerConfig::Contiguous => true,
            ManagerConfig::Bandwidth { .. } | ManagerConfig::Tiered(_) => false,
        }
    }
}

/// Pages that a program's memory lacks, and what the manager gave (`struct mfs_run`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// In: how many are missing from the wanted page on, not above [`Manager::max_pages`] or 2^`order`. Out: how
    /// many were given, in a row.
    pub(crate) nr: u32,
    /// Order of the pages given.
    pub(crate) order: u32,
}

/// A manager at work. It is told of pages of data alone, not of page tables.
pub(crate) trait Manager: Debug + Send {
    /// Another at the same point.
    fn boxed(&self) -> Box<dyn Manager>;

    /// True if only private anonymous memory that programs have mapped is from it, as from a memory file system. What
    /// else they have comes from the first node.
    fn is_file_system(&self) -> bool {
        false
    }

    /// True if a memory file system has pages above 4 KiB.
    fn has_large_pages(&self) -> bool {
        false
    }

    /// Pages of 4 KiB that [`Manager::alloc`] can give at once.
    fn max_pages(&self) -> u32 {
        1
    }

    /// True if memory is given when a mapping is made (`FS_MEMORY_EAGER`).
    fn is_eager(&self) -> bool {
        false
    }

    /// Gives pages in a row, by the first: at least the wanted one. `None` if there are none.
    fn alloc(&mut self, memory: &mut Buddy, run: &mut Run) -> Option<Pfn>;

    /// Takes back pages that no program has.
    #[inline]
    fn free(&mut self, memory: &mut Buddy, head: Pfn, order: u32) {
        memory.free(head, order);
    }

    /// Frames that it has and no program.
    fn set_aside(&self) -> u32 {
        0
    }

    /// A new page of a size is in a frame.
    fn added(&mut self, _pfn: Pfn, _size: PageSize) {}

    /// A page has moved to another frame.
    fn moved(&mut self, _from: Pfn, _to: Pfn) {}

    /// A page is about to be freed.
    fn removing(&mut self, _pfn: Pfn) {}

    /// A page walk has set the accessed bit of the page in a frame.
    fn accessed(&mut self, _pfn: Pfn) {}

    /// Time between two ticks, in nanoseconds; `None` for a manager that moves nothing.
    fn interval_ns(&self) -> Option<f64> {
        None
    }

    /// An interval is over: [`Manager::next_move`] is asked next, until it has none.
    fn tick(&mut self) {}

    /// The next page of 4 KiB to move, and the node it goes to, which has a free frame.
    fn next_move(&mut self, _memory: &Buddy) -> Option<(Pfn, usize)> {
        None
    }

    /// Pieces given, by the order of the smallest block that would have them.
    fn pieces(&self) -> &[u64] {
        &[]
    }

    /// Pages of 4 KiB that each node gave, where the manager chooses nodes by weight.
    fn placed(&self) -> &[u64] {
        &[]
    }

    /// Counts of a manager of tiers.
    fn tiers(&self) -> Option<TierStatistics> {
        None
    }
}

impl Clone for Box<dyn Manager> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

/// Takes a page of an order from a node, or from the next where that has none.
fn take(memory: &mut Buddy, node: usize, order: u32) -> Option<Pfn> {
    memory.allocate_from(node, order, tag::data_of(order))
}

/// The manager of a memory in which nodes begin at these frames.
pub(crate) fn build(
    config: &ManagerConfig,
    starts: &[u32],
    memory: &mut Buddy,
) -> Result<Box<dyn Manager>, OsConfigError> {
    Ok(match config {
        ManagerConfig::Linux => Box::new(linux::Linux),
        ManagerConfig::Basic { size } => Box::new(basic::Basic::new(size, memory)?),
        ManagerConfig::Contiguous => Box::new(contiguous::Contiguous::default()),
        ManagerConfig::Bandwidth { weights } => {
            Box::new(bandwidth::Bandwidth::new(weights, starts.len())?)
        }
        ManagerConfig::Tiered(config) => {
            Box::new(tiered::Tiered::new(config, starts, memory.count())?)
        }
    })
}
