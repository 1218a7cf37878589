//! The graph that the GraphBIG kernels run on, and its property-graph layout in memory.

mod generate;
mod layout;
#[cfg(test)]
pub(crate) mod reference;

pub(crate) use generate::Graph;
pub(crate) use layout::{Layout, PARAMETERS, Properties, chunk};
