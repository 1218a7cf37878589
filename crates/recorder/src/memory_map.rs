//! Mappings of an address space.

use std::collections::BTreeMap;
use std::ops::Range;

use pagelab_events::{Backing, Control, Protection, Touch, pages};
use pagelab_recorder_wire::word::Behind;

/// Mappings by their first page: the page behind them, and how they are mapped. None overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryMap {
    mapped: BTreeMap<u64, (u64, Mapping)>,
    /// The page behind the heap.
    heap: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    prot: Protection,
    backing: Backing,
}

const HEAP: Mapping = Mapping {
    prot: Protection(Protection::READ | Protection::WRITE),
    backing: Backing::Anonymous,
};

impl Mapping {
    pub(crate) fn shared(self) -> bool {
        matches!(self.backing, Backing::SharedAnonymous | Backing::SharedFile)
    }

    /// The touch of a page behind which there is this now; `None` where the program may not touch it.
    pub(crate) fn touch(self, behind: Behind) -> Option<Touch> {
        let may = |bit| self.prot.0 & bit != 0;
        let writable = may(Protection::WRITE);
        if self.prot.0 == 0 {
            return None;
        }
        // QEMU has read it to translate it.
        if may(Protection::EXEC) && !writable {
            return Some(Touch::Executed);
        }
        let own = behind == Behind::Own || behind == Behind::File && self.shared();
        Some(if own && writable {
            Touch::Present
        } else {
            Touch::Loaded
        })
    }
}

impl MemoryMap {
    pub(crate) fn control(&mut self, control: &Control) {
        match *control {
            Control::Map {
                addr,
                len,
                prot,
                backing,
                ..
            } => self.set(pages(addr, len), Some(Mapping { prot, backing })),
            Control::Unmap { addr, len } => self.set(pages(addr, len), None),
            Control::Protect { addr, len, prot } => {
                let changed: Vec<_> = self.within(pages(addr, len)).collect();
                for (pages, mapping) in changed {
                    self.set(pages, Some(Mapping { prot, ..mapping }));
                }
            }
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => {
                let old = pages(old_addr, old_len);
                let mapping = self.within(old.clone()).next();
                self.set(old, None);
                self.set(
                    pages(new_addr, new_len),
                    mapping.map(|(_, mapping)| mapping),
                );
            }
            Control::Brk { end } => {
                let end = pages(0, end).end;
                let before = self.heap.replace(end).unwrap_or(end);
                if end < before {
                    self.set(end..before, None);
                } else {
                    self.set(before..end, Some(HEAP));
                }
            }
            Control::Exec | Control::Exit { .. } => *self = MemoryMap::default(),
            _ => {}
        }
    }

    /// Mappings within a range of pages.
    pub(crate) fn within(&self, pages: Range<u64>) -> impl Iterator<Item = (Range<u64>, Mapping)> {
        let Range { start, end } = pages;
        let first = self.mapped.range(..=start).next_back();
        let first = first.map_or(start, |(&first, _)| first);
        let mapped = self.mapped.range(first..end.max(first));
        mapped.filter_map(move |(&from, &(to, mapping))| {
            let pages = from.max(start)..to.min(end);
            (!pages.is_empty()).then_some((pages, mapping))
        })
    }

    /// Maps pages, or unmaps them.
    fn set(&mut self, pages: Range<u64>, mapping: Option<Mapping>) {
        if pages.is_empty() {
            return;
        }
        let Range { start, end } = pages;
        let covered = self.mapped.range(..end).rev();
        let covered = covered.take_while(|&(_, &(to, _))| start < to);
        let covered: Vec<_> = covered.map(|(&from, &mapped)| (from, mapped)).collect();
        for (from, (to, mapped)) in covered {
            self.mapped.remove(&from);
            if from < start {
                self.mapped.insert(from, (start, mapped));
            }
            if end < to {
                self.mapped.insert(end, (to, mapped));
            }
        }
        if let Some(mapping) = mapping {
            self.mapped.insert(start, (end, mapping));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_addr::PAGE_SHIFT;
    use proptest::prelude::*;

    const PAGES: u64 = 40;

    /// A control event, and what it does to pages taken one by one.
    type Step = (u8, u64, u64, u64, u8);

    fn event(&(kind, page, pages, to, prot): &Step) -> Control {
        let prot = Protection(prot);
        let [addr, len, new_addr] = [page, pages, to].map(|pages| pages << PAGE_SHIFT);
        match kind {
            0..4 => Control::Map {
                addr,
                len,
                prot,
                backing: Backing::PrivateFile,
                populate: false,
            },
            4 => Control::Unmap { addr, len },
            5 | 6 => Control::Protect { addr, len, prot },
            7 => Control::Brk { end: addr },
            _ => Control::Remap {
                old_addr: addr,
                old_len: len,
                new_addr,
                new_len: len,
            },
        }
    }

    #[derive(Default)]
    struct Twin {
        pages: BTreeMap<u64, Mapping>,
        heap: Option<u64>,
    }

    impl Twin {
        fn step(&mut self, &(kind, page, pages, to, prot): &Step) {
            let range = page..page + pages;
            let prot = Protection(prot);
            match kind {
                0..4 => self.pages.extend(range.map(|page| {
                    let backing = Backing::PrivateFile;
                    (page, Mapping { prot, backing })
                })),
                4 => self.pages.retain(|page, _| !range.contains(page)),
                5 | 6 => {
                    for (_, mapping) in self.pages.range_mut(range) {
                        mapping.prot = prot;
                    }
                }
                7 => {
                    let before = self.heap.replace(page).unwrap_or(page);
                    self.pages.retain(|at, _| !(page..before).contains(at));
                    self.pages.extend((before..page).map(|page| (page, HEAP)));
                }
                _ => {
                    let moved = self.pages.range(range.clone()).next();
                    let moved = moved.map(|(_, &mapping)| mapping);
                    self.pages.retain(|page, _| !range.contains(page));
                    self.pages
                        .retain(|page, _| !(to..to + pages).contains(page));
                    let moved =
                        moved.map(|mapping| (to..to + pages).map(move |page| (page, mapping)));
                    self.pages.extend(moved.into_iter().flatten());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn as_page_by_page(
            steps in proptest::collection::vec((0u8..9, 0..PAGES, 1u64..20, 0..PAGES, 0u8..8), 1..60),
            asked in (0..PAGES, 0..PAGES),
        ) {
            let (mut map, mut twin) = (MemoryMap::default(), Twin::default());
            for step in &steps {
                map.control(&event(step));
                twin.step(step);
            }
            let asked = asked.0.min(asked.1)..asked.0.max(asked.1);
            let found = map.within(asked.clone());
            let found: Vec<_> = found.flat_map(|(pages, mapping)| pages.map(move |page| (page, mapping))).collect();
            let expected: Vec<_> = twin.pages.range(asked).map(|(&page, &mapping)| (page, mapping)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
