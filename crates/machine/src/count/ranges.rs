//! Parts of an address space that something is known of.

use std::collections::BTreeMap;

/// Values of ranges of addresses; none overlap.
#[derive(Clone, Debug)]
pub(crate) struct Ranges<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Ranges(BTreeMap::new())
    }
}

impl<T: Copy> Ranges<T> {
    /// Says something of a range, in place of what was said before.
    pub(crate) fn insert(&mut self, start: u64, end: u64, value: T) {
        self.cut(start, end);
        if start < end {
            self.0.insert(start, (end, value));
        }
    }

    /// Takes all out that lies in a range: the parts, from the highest down.
    pub(crate) fn cut(&mut self, start: u64, end: u64) -> Vec<(u64, u64, T)> {
        let below = self.0.range(..end).rev();
        let covered = below.take_while(|(_, (until, _))| start < *until);
        let covered: Vec<_> = covered
            .map(|(&at, &(until, value))| (at, until, value))
            .collect();
        for &(at, until, value) in &covered {
            self.0.remove(&at);
            if at < start {
                self.0.insert(at, (start, value));
            }
            if end < until {
                self.0.insert(end, (until, value));
            }
        }
        let inside = |&(at, until, value): &(u64, u64, T)| (at.max(start), until.min(end), value);
        covered.iter().map(inside).collect()
    }

    /// The range that an address is in: its start and value.
    pub(crate) fn at(&self, address: u64) -> Option<(u64, T)> {
        let (&start, &(end, value)) = self.0.range(..=address).next_back()?;
        (address < end).then_some((start, value))
    }

    /// The first range that begins at an address or up to so many bytes behind it.
    pub(crate) fn behind(&self, address: u64, bytes: u64) -> Option<T> {
        let (_, &(_, value)) = self
            .0
            .range(address..=address.saturating_add(bytes))
            .next()?;
        Some(value)
    }
}
