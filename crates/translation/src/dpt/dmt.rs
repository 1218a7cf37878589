//! The metadata table of one process and page size (DPT paper, section VII-A).

use super::metadata::Metadata;
use crate::city::city_hash64;
use crate::{Frames, MapError, Work};
use pagelab_addr::{LINE_SHIFT, PAGE_SHIFT, Pfn, PhysAddr};

/// log2 of the metadata in an entry. With its tag, an entry fills one line.
pub(super) const GROUP_SHIFT: u32 = 6;
/// log2 of the entries in a frame.
const ENTRIES_PER_FRAME_SHIFT: u32 = PAGE_SHIFT - LINE_SHIFT;
const NO_GROUP: u64 = u64::MAX;
/// Entries that a search reads at most: none is placed further from its hash.
const MAX_PROBES: usize = 64;

/// An open-addressed table, one line an entry, in contiguous simulated memory.
///
/// Entries are found by the number of their group of 64 tags, by linear probing. An entry whose metadata have all
/// become invalid stays until the table is rebuilt.
#[derive(Clone, Debug)]
pub(super) struct Dmt {
    seed: u64,
    base: Pfn,
    order: u32,
    groups: Vec<u64>,
    metadata: Vec<[Metadata; 1 << GROUP_SHIFT]>,
    used: usize,
}

/// The entries that a search reads: `count` of them from `first` on, around the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probes {
    base: Pfn,
    mask: usize,
    first: usize,
    /// Number of them.
    pub(super) count: usize,
}

impl Probes {
    /// The address of the `number`th entry read.
    #[inline]
    pub(super) fn address(self, number: usize) -> PhysAddr {
        let slot = (self.first + number) & self.mask;
        PhysAddr(self.base.address().0 + ((slot as u64) << LINE_SHIFT))
    }
}

impl Dmt {
    /// A table of `entries` entries, or of as many halves fewer as there is contiguous memory
    /// for, down to one frame; it grows when it fills.
    pub(super) fn new<F: Frames>(
        frames: &mut F,
        entries: u32,
        seed: u64,
        work: &mut Work,
    ) -> Result<Dmt, MapError> {
        let wanted = entries.ilog2() - ENTRIES_PER_FRAME_SHIFT;
        for order in (0..=wanted).rev() {
            if let Some(base) = frames.allocate_table(order) {
                work.table_frames += 1 << order;
                return Ok(Dmt::at(base, order, seed));
            }
        }
        Err(MapError::OutOfFrames)
    }

    fn at(base: Pfn, order: u32, seed: u64) -> Dmt {
        let entries = 1 << (order + ENTRIES_PER_FRAME_SHIFT);
        Dmt {
            seed,
            base,
            order,
            groups: vec![NO_GROUP; entries],
            metadata: vec![[Metadata::INVALID; 1 << GROUP_SHIFT]; entries],
            used: 0,
        }
    }

    /// Gives its memory back.
    pub(super) fn free<F: Frames>(self, frames: &mut F) {
        frames.free_table(self.base, self.order);
    }

    pub(super) fn frames(&self) -> u64 {
        1 << self.order
    }

    /// The hash of a group, which [`Dmt::probes`] takes so that a walk need not hash.
    pub(super) fn hash(group: u64, seed: u64) -> u32 {
        city_hash64(group, seed) as u32
    }

    /// Entries that a search for a group reads: up to its entry, or to the free one or the last one
    /// that shows that there is none.
    #[inline]
    pub(super) fn probes(&self, group: u64, hash: u32) -> Probes {
        let mask = self.groups.len() - 1;
        let limit = self.groups.len().min(MAX_PROBES);
        let first = hash as usize & mask;
        let mut count = 1;
        loop {
            let found = self.groups[(first + count - 1) & mask];
            if found == group || found == NO_GROUP || count == limit {
                break;
            }
            count += 1;
        }
        Probes {
            base: self.base,
            mask,
            first,
            count,
        }
    }

    /// The slot of a group's entry, or of the free one where it would go, or `None` when all
    /// places that it may have are taken.
    fn slot(&self, group: u64) -> Option<usize> {
        let probes = self.probes(group, Self::hash(group, self.seed));
        let slot = (probes.first + probes.count - 1) & probes.mask;
        let found = self.groups[slot];
        (found == group || found == NO_GROUP).then_some(slot)
    }

    #[cfg(test)]
    pub(super) fn get(&self, tag: u64) -> Metadata {
        let group = tag >> GROUP_SHIFT;
        match self.slot(group) {
            Some(slot) if self.groups[slot] == group => self.metadata[slot][index(tag)],
            _ => Metadata::INVALID,
        }
    }

    /// Makes sure that there is an entry for a tag, so that [`Dmt::set`] can write it.
    ///
    /// Grows past three quarters, where a search that fails reads 8.5 entries on average (Knuth,
    /// volume 3, section 6.4). While there is no contiguous memory to grow into, the table goes on
    /// to fill.
    ///
    /// # Errors
    /// When the entry finds no place and the table cannot grow.
    pub(super) fn make_entry<F: Frames>(
        &mut self,
        frames: &mut F,
        tag: u64,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let group = tag >> GROUP_SHIFT;
        if self
            .slot(group)
            .is_some_and(|slot| self.groups[slot] == group)
        {
            return Ok(());
        }
        if (self.used + 1) * 4 > self.groups.len() * 3 || self.slot(group).is_none() {
            self.rebuild(frames, work);
        }
        let slot = self.slot(group).ok_or(MapError::OutOfFrames)?;
        self.groups[slot] = group;
        self.used += 1;
        Ok(())
    }

    /// Writes the metadata of a tag whose group has an entry.
    pub(super) fn set(&mut self, tag: u64, metadata: Metadata) {
        let slot = self.slot(tag >> GROUP_SHIFT);
        let slot = slot.expect("an entry was made before");
        debug_assert_eq!(self.groups[slot], tag >> GROUP_SHIFT);
        self.metadata[slot][index(tag)] = metadata;
    }

    /// Drops the entries without valid metadata and, if that leaves more than half in use, moves
    /// to twice the memory, if there is such. Leaves the table as it is when that would not help.
    fn rebuild<F: Frames>(&mut self, frames: &mut F, work: &mut Work) {
        let valid = |entry: &[Metadata]| entry.iter().any(|&m| m != Metadata::INVALID);
        let live = self.metadata.iter().filter(|entry| valid(*entry)).count();
        let mut new = Dmt::at(self.base, self.order, self.seed);
        let larger = if live * 2 > self.groups.len() {
            frames.allocate_table(self.order + 1)
        } else {
            None
        };
        match larger {
            Some(base) => new = Dmt::at(base, self.order + 1, self.seed),
            None if live == self.used => return,
            None => {}
        }
        for (&group, metadata) in self.groups.iter().zip(&self.metadata) {
            if !valid(metadata) {
                continue;
            }
            let Some(slot) = new.slot(group) else {
                // In another order, entries can crowd more. The old table stays.
                if let Some(base) = larger {
                    frames.free_table(base, self.order + 1);
                }
                return;
            };
            new.groups[slot] = group;
            new.metadata[slot] = *metadata;
            new.used += 1;
        }
        work.entries_migrated += new.used as u64;
        if larger.is_some() {
            work.table_frames += 1 << new.order;
            frames.free_table(self.base, self.order);
        }
        *self = new;
    }
}

fn index(tag: u64) -> usize {
    (tag & ((1 << GROUP_SHIFT) - 1)) as usize
}
