//! The nodes above the PMD: few, and touched by a walk only when the PUD cache misses.

use pagelab_addr::{Asid, Pfn, PhysAddr};
use std::collections::HashMap;

/// log2 of the size of an entry.
const ENTRY_SHIFT: u32 = 3;

/// Levels are numbered from the PTE pages (0) and the PMD (1) up; these start at the PUD.
pub(super) const PUD: u32 = 2;

/// A node of the PUD level or above.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) frame: Pfn,
    /// Entries in use.
    pub(super) used: u32,
    /// The node whose entry points here; the root names itself.
    pub(super) parent: u32,
}

/// The nodes of all address spaces, by dense number.
#[derive(Clone, Debug, Default)]
pub(super) struct UpperNodes {
    nodes: Vec<Node>,
    free: Vec<u32>,
    numbers: HashMap<(Asid, u32, u64), u32>,
}

impl UpperNodes {
    pub(super) fn get(&self, number: u32) -> Node {
        self.nodes[number as usize]
    }

    /// The node of a level on the way to a page. The root serves its whole address space.
    pub(super) fn find(&self, asid: Asid, level: u32, root: u32, vpn: u64) -> Option<u32> {
        let key = (asid, level, prefix(level, root, vpn));
        self.numbers.get(&key).copied()
    }

    /// Adds a node whose parent exists.
    pub(super) fn add(&mut self, asid: Asid, level: u32, root: u32, vpn: u64, frame: Pfn) -> u32 {
        let number = self.free.pop().unwrap_or(self.nodes.len() as u32);
        let parent = if level == root {
            number
        } else {
            let parent = self.find(asid, level + 1, root, vpn);
            let parent = parent.expect("nodes are added from the root down");
            self.nodes[parent as usize].used += 1;
            parent
        };
        let node = Node {
            frame,
            used: 0,
            parent,
        };
        if number as usize == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[number as usize] = node;
        }
        let key = (asid, level, prefix(level, root, vpn));
        self.numbers.insert(key, number);
        number
    }

    /// Notes an entry of a node that came into use or fell out of it.
    pub(super) fn use_entry(&mut self, number: u32) {
        self.nodes[number as usize].used += 1;
    }

    pub(super) fn drop_entry(&mut self, number: u32) {
        self.nodes[number as usize].used -= 1;
    }

    /// Removes the node of a level on the way to a page if there is one and it is empty.
    pub(super) fn remove_empty(
        &mut self,
        asid: Asid,
        level: u32,
        root: u32,
        vpn: u64,
    ) -> Option<(u32, Node)> {
        let number = self.find(asid, level, root, vpn)?;
        let node = self.get(number);
        if node.used > 0 {
            return None;
        }
        self.numbers
            .remove(&(asid, level, prefix(level, root, vpn)));
        self.free.push(number);
        if node.parent != number {
            self.drop_entry(node.parent);
        }
        Some((number, node))
    }
}

fn prefix(level: u32, root: u32, vpn: u64) -> u64 {
    if level == root {
        0
    } else {
        vpn >> (9 * (level + 1))
    }
}

/// The address of a node's entry on the way to a page.
#[inline]
pub(super) fn entry(frame: Pfn, level: u32, vpn: u64) -> PhysAddr {
    let index = (vpn >> (9 * level)) & 0x1ff;
    PhysAddr(frame.address().0 + (index << ENTRY_SHIFT))
}
