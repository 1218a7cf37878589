//! Common parts of the hashed page tables: clusters of eight entries in a line, and contiguous
//! simulated memory for a table.

mod block;
mod clusters;

pub(crate) use block::Block;
pub use block::ContiguityCounters;
pub(crate) use clusters::{Clusters, MappedClusters};
