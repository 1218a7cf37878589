//! Addresses of a program's memory.

use pagelab_addr::PageSize;

/// The bottom of the usual mmap area of x86-64 Linux.
pub(crate) const BASE: u64 = 0x7000_0000_0000;

/// Memory that a program has allocated before its kernel starts.
///
/// Each allocation is a mapping of its own, as malloc makes them from 128 KiB up (M_MMAP_THRESHOLD
/// in mallopt(3)), on a 2 MiB boundary as Linux places large anonymous mappings since 6.7
/// (`thp_get_unmapped_area`). Between two there is a hole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    mappings: Vec<Mapping>,
}

/// A mapping: its first byte and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) addr: u64,
    pub(crate) len: u64,
}

impl Memory {
    /// Allocates `bytes` (one page if there are none) and returns the address of the first.
    pub(crate) fn allocate(&mut self, bytes: u64) -> u64 {
        let page = PageSize::Base4K.bytes();
        let large = PageSize::Large2M.bytes();
        let addr = self.mappings.last().map_or(BASE, |last| {
            (last.addr + last.len + page).next_multiple_of(large)
        });
        let len = bytes.max(1).next_multiple_of(page);
        self.mappings.push(Mapping { addr, len });
        addr
    }

    pub(crate) fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }
}
