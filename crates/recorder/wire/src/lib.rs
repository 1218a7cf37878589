//! Common parts of the QEMU plugin and the recorder.
//!
//! - [`region`]: the memory both map, a ring for each recorded thread;
//! - [`word`]: what is written into the rings;
//! - [`allocation`]: how the preloaded library tells of allocations;
//! - [`block`]: which accesses a translated block makes, computed on both sides from its bytes,
//!   so that the plugin reports only the addresses that the recorder cannot work out;
//! - [`life`]: whether the recorder lives;
//! - [`elf`]: which programs can be recorded, on both sides for those that are started later;
//! - [`option`]: how QEMU is told of the plugin;
//! - [`syscall`]: which system calls are of interest, and what they do to memory.

pub mod allocation;
pub mod block;
pub mod elf;
mod headers;
pub mod life;
pub mod option;
pub mod region;
pub mod syscall;
pub mod word;
