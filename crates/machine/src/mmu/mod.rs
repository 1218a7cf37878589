//! Designs: how the accesses of a core find their frames.
//!
//! [`Mmu`] is the seam between a design and the machine. [`Conventional`] composes TLBs and a page
//! table, whose walks the machine takes through the caches afterwards, hundreds of accesses at a
//! time. A design whose translations depend on what the caches hold says so and has a [`Port`] to
//! them.

mod around_conventional;
mod configured;
mod contract;
mod conventional;
mod counters;
#[cfg(test)]
mod lists;
pub(crate) mod pom_tlb;
mod port;
pub(crate) mod revelator;
#[cfg(test)]
mod small;
#[cfg(test)]
mod stage;
mod tlb_prefetch;
pub(crate) mod utopia;
pub(crate) mod victima;
mod walks;

pub(crate) use around_conventional::AroundConventional;
pub(crate) use configured::{ConfiguredMmu, ConfiguredTable, ConfiguredTlb};
pub use contract::{Found, Hit, Mmu, Request};
pub use conventional::Conventional;
pub use port::{CachePort, Port};
pub use tlb_prefetch::TlbPrefetchConfig;
pub use walks::{PrefetchWalk, Walks};
