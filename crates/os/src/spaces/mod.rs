//! Address spaces: VMAs, shared memory behind them, and what is mapped where, for reports.

pub(crate) mod address_space;
pub(crate) mod mapping;
pub(crate) mod memory_map;
pub(crate) mod shared_memory;
pub(crate) mod vma;
