//! A guest's accesses by where they are in its memory.
//!
//! Its kernel reaches a page by the direct map and a program the same page by an address of its own: for a cache
//! they are one. So all is in one address space here, whose pages are the guest's memory in its order.

use crate::spaces::Spaces;
use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Backing, Batch, Control, Protection};

/// Address of the guest's first page: in the half of programs, above what those of a guest have.
const BASE: u64 = 0x1000_0000_0000;
/// Beginning of the direct map, and its length, of four levels of page tables without KASLR
/// (Documentation/arch/x86/x86_64/mm.rst).
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
const DIRECT_BYTES: u64 = 64 << 40;

/// The guest's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Physical {
    bytes: u64,
}

impl Physical {
    /// Memory of so many bytes, and the event by which all of it is there.
    pub(crate) fn new(bytes: u64) -> (Physical, Control) {
        (Physical { bytes }, map(BASE, bytes))
    }

    /// Puts the accesses of a batch from number `start` on, made in a space, where their pages are.
    pub(crate) fn place(self, spaces: &Spaces, space: u32, start: usize, batch: &mut Batch) {
        // Most accesses are to the page of one shortly before.
        let mut last = [(u64::MAX, 0); 4];
        for addr in &mut batch.addr[start..] {
            let page = *addr / PAGE_BYTES;
            let recent = &mut last[page as usize % 4];
            if recent.0 != page {
                let addr = page * PAGE_BYTES;
                let found = spaces.physical(space, addr).or_else(|| direct(addr));
                let found = found.filter(|&paddr| paddr < self.bytes);
                *recent = (page, found.map_or(addr, |paddr| BASE + paddr));
            }
            *addr = recent.1 + *addr % PAGE_BYTES;
        }
    }
}

/// Place of an address of the direct map, whose walk may have come before the recording.
fn direct(addr: u64) -> Option<u64> {
    addr.checked_sub(DIRECT_MAP)
        .filter(|&paddr| paddr < DIRECT_BYTES)
}

/// The event by which pages appear.
pub(crate) fn map(addr: u64, len: u64) -> Control {
    Control::Map {
        addr,
        len,
        prot: Protection(Protection::READ | Protection::WRITE | Protection::EXEC),
        backing: Backing::Anonymous,
        populate: true,
    }
}
