//! Page faults: of private memory, of files and shared memory, and of memory file systems.

pub(crate) mod fault;
mod memory_file;
mod page_cache;
