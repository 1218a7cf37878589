//! The nodes of a flattened page table: what exists, and where it lies.

use crate::{Frames, Page};
use pagelab_addr::{PAGE_BYTES, Pfn, PhysAddr};
use serde::Serialize;
use std::collections::BTreeMap;

/// log2 of the size of an entry.
const ENTRY_SHIFT: u32 = 3;
/// log2 of the entries of a node that stands for one level.
const LEVEL_BITS: u32 = 9;
/// The order of a node that stands for two.
const FLAT_ORDER: u32 = 9;

/// Two levels of the tree that may be one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// One node of 2^18 entries, 2 MiB.
    Flat(Pfn),
    /// The upper of two nodes of 512 entries, 4 KiB each.
    Split(Pfn),
}

impl Node {
    /// Takes memory for a node: flat if wanted and possible.
    pub(super) fn allocate<F: Frames>(frames: &mut F, flat: bool) -> Option<Node> {
        let block = flat.then(|| frames.allocate_table(FLAT_ORDER)).flatten();
        match block {
            Some(frame) => Some(Node::Flat(frame)),
            None => frames.allocate_table(0).map(Node::Split),
        }
    }

    pub(super) fn free<F: Frames>(self, frames: &mut F) {
        match self {
            Node::Flat(frame) => frames.free_table(frame, FLAT_ORDER),
            Node::Split(frame) => frames.free_table(frame, 0),
        }
    }

    pub(super) fn is_flat(self) -> bool {
        matches!(self, Node::Flat(_))
    }

    pub(super) fn frames(self) -> u64 {
        if self.is_flat() { 1 << FLAT_ORDER } else { 1 }
    }

    /// The address of its entry for a number, of which the low 9 or 18 bits count: for a split
    /// node those of the upper level.
    #[inline]
    pub(super) fn entry(self, number: u64) -> PhysAddr {
        let (frame, index) = match self {
            Node::Flat(frame) => (frame, number & ((1 << (2 * LEVEL_BITS)) - 1)),
            Node::Split(frame) => (frame, (number >> LEVEL_BITS) & ((1 << LEVEL_BITS) - 1)),
        };
        entry(frame, index)
    }
}

/// The address of an entry of a node of 4 KiB, of whose number the low 9 bits count.
#[inline]
pub(super) fn small_entry(frame: Pfn, number: u64) -> PhysAddr {
    entry(frame, number & ((1 << LEVEL_BITS) - 1))
}

#[inline]
fn entry(frame: Pfn, index: u64) -> PhysAddr {
    PhysAddr(frame.address().0 + (index << ENTRY_SHIFT))
}

/// The upper two levels of one address space.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) node: Node,
    /// Entries in use of a flat node.
    pub(super) used: u32,
    /// PUD nodes by address in 512 GiB, where the root is split.
    pub(super) puds: BTreeMap<u64, Pud>,
    /// A page of the 1 GiB region whose flat node fell empty last. The node is there still, and may
    /// be in use again.
    pub(super) spare: Option<Page>,
}

/// A PUD node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pud {
    pub(super) frame: Pfn,
    /// Entries in use.
    pub(super) used: u32,
}

/// The lower two levels of one 1 GiB region.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leaf {
    pub(super) node: Option<Node>,
    /// Pages of PTEs and 2 MiB pages of a split node, pages of a flat one.
    pub(super) used: u32,
}

/// Nodes in use and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlattenedCounters {
    /// Nodes of 2 MiB now.
    pub flat_nodes: u64,
    /// Nodes of 4 KiB now.
    pub small_nodes: u64,
    /// Nodes of 2 MiB ever allocated.
    pub flat_nodes_allocated: u64,
    /// Nodes of 4 KiB ever allocated.
    pub small_nodes_allocated: u64,
    /// Roots that should have been flat, but no 2 MiB block was free.
    pub upper_fallbacks: u64,
    /// Nodes above 4 KiB pages for which the same holds.
    pub lower_fallbacks: u64,
}

impl FlattenedCounters {
    pub(super) fn add(&mut self, node: Node) {
        if node.is_flat() {
            self.flat_nodes += 1;
            self.flat_nodes_allocated += 1;
        } else {
            self.small_nodes += 1;
            self.small_nodes_allocated += 1;
        }
    }

    pub(super) fn drop(&mut self, node: Node) {
        if node.is_flat() {
            self.flat_nodes -= 1;
        } else {
            self.small_nodes -= 1;
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.flat_nodes << FLAT_ORDER) * PAGE_BYTES + self.small_nodes * PAGE_BYTES
    }
}
