//! Memory managers: which node of memory a page of data comes from, and when it moves.
//!
//! A manager is a file of this folder that implements [`Manager`]; [`ManagerConfig`], [`MANAGERS`]
//! and [`build`] have a line for it. `alloc`, `added` and `removing` are the kernel's, too (`struct
//! mfs_ops` in `linux/modules/mfs/mfs.h`), so that a policy keeps its shape there.

mod interleave;
mod linux;
mod tiered;

use crate::OsConfigError;
use crate::buddy::Buddy;
use pagelab_addr::{PageSize, Pfn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

pub use tiered::{TierStatistics, TieredConfig};

/// A manager's name and description.
type About = (&'static str, &'static str);

/// The managers: name, description.
pub const MANAGERS: &[About] = &[linux::ABOUT, interleave::ABOUT, tiered::ABOUT];

/// A memory manager and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum ManagerConfig {
    /// First touch.
    #[default]
    Linux,
    /// Weighted interleaving.
    Interleave {
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
}

/// A manager at work. It is told of pages of data alone, not of page tables.
pub(crate) trait Manager: Debug + Send {
    /// Another at the same point.
    fn boxed(&self) -> Box<dyn Manager>;

    /// The node that the next page of a size is to come from. Where that has none, the next node
    /// gives it.
    fn alloc(&mut self, memory: &Buddy, size: PageSize) -> usize;

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

/// The manager of memory with so many frames in which nodes begin at these.
pub(crate) fn build(
    config: &ManagerConfig,
    starts: &[u32],
    frames: u32,
) -> Result<Box<dyn Manager>, OsConfigError> {
    Ok(match config {
        ManagerConfig::Linux => Box::new(linux::Linux),
        ManagerConfig::Interleave { weights } => {
            Box::new(interleave::Interleave::new(weights, starts.len())?)
        }
        ManagerConfig::Tiered(config) => Box::new(tiered::Tiered::new(config, starts, frames)?),
    })
}
