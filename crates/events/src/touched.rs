use crate::{Advice, Control, Regions, Touch};
use pagelab_addr::{PAGE_BYTES, PAGE_SHIFT, Vpn};
use std::collections::HashMap;
use std::ops::Range;

const GIB_SHIFT: u32 = 30;
const PAGES: usize = 1 << (GIB_SHIFT - PAGE_SHIFT);

/// Nothing is known of more: of a stream of addresses from everywhere, which no machine takes either.
const MOST_GIBS: usize = 1 << 13;

/// Pages that have been loaded from and stored to since a page fault of theirs was last possible.
///
/// A page that has been touched stays mapped, and one that was written stays writable, until a
/// control event of its process says otherwise: the simulated kernel reclaims nothing.
#[derive(Debug, Default)]
pub struct Touched {
    regions: Regions,
    gibs: Vec<Gib>,
    /// Numbers of regions of address spaces that have ended.
    free: Vec<usize>,
    /// The page behind each heap, once that has been said.
    heaps: HashMap<u32, u64>,
    /// Pages are there that were there before a fork, whoever may write to them.
    presence: bool,
}

/// The pages of 1 GiB of an address space: two bits each.
#[derive(Clone, Debug)]
struct Gib {
    loaded: Box<[u64; PAGES / 64]>,
    stored: Box<[u64; PAGES / 64]>,
}

impl Default for Gib {
    fn default() -> Self {
        Gib {
            loaded: Box::new([0; PAGES / 64]),
            stored: Box::new([0; PAGES / 64]),
        }
    }
}

impl Touched {
    /// Pages that are there, rather than those that were accessed: a forked child has its parent's.
    pub fn presence() -> Self {
        Touched {
            presence: true,
            ..Touched::default()
        }
    }

    /// Touches a page; says whether that may be a page fault.
    #[inline]
    pub fn touch(&mut self, process: u32, vpn: Vpn, store: bool) -> bool {
        let Some(number) = self.number(process, vpn.0 >> (GIB_SHIFT - PAGE_SHIFT)) else {
            return false;
        };
        let Gib { loaded, stored } = &mut self.gibs[number];
        let page = vpn.0 as usize % PAGES;
        let bit = 1 << (page % 64);
        let word = page / 64;
        let known = if store { &stored[word] } else { &loaded[word] } & bit != 0;
        if known {
            return false;
        }
        loaded[word] |= bit;
        if store {
            stored[word] |= bit;
        }
        true
    }

    #[inline]
    fn number(&mut self, process: u32, gib: u64) -> Option<usize> {
        let known = self.regions.number((process, gib));
        known.or_else(|| self.add(process, gib))
    }

    #[cold]
    fn add(&mut self, process: u32, gib: u64) -> Option<usize> {
        let number = self.free.pop().unwrap_or(self.gibs.len());
        if number == MOST_GIBS {
            return None;
        }
        if number == self.gibs.len() {
            self.gibs.push(Gib::default());
        } else {
            self.gibs[number] = Gib::default();
        }
        self.regions.add((process, gib), number);
        Some(number)
    }

    /// Takes in what a control event of a process makes of its pages.
    pub fn control(&mut self, process: u32, control: &Control) {
        match *control {
            Control::Map { addr, len, .. }
            | Control::Unmap { addr, len }
            | Control::Advise {
                addr,
                len,
                advice: Advice::DontNeed | Advice::Free,
            } => self.forget(process, pages(addr, len)),
            // A page that is there stays there.
            Control::Protect { addr, len, .. } if !self.presence => {
                self.forget(process, pages(addr, len));
            }
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => {
                self.forget(process, pages(old_addr, old_len));
                self.forget(process, pages(new_addr, new_len));
            }
            Control::Brk { end } => {
                let end = end.div_ceil(PAGE_BYTES);
                let before = self.heaps.insert(process, end).unwrap_or(end);
                self.forget(process, end.min(before)..end.max(before));
            }
            Control::Fork { child } => self.fork(process, child),
            Control::Exec | Control::Exit { .. } => {
                self.heaps.remove(&process);
                self.free.extend(self.regions.remove(process));
            }
            Control::Protect { .. }
            | Control::Advise { .. }
            | Control::Thread { .. }
            | Control::ThreadStart { .. }
            | Control::ThreadEnd { .. }
            | Control::HugePages { .. }
            | Control::Touched { .. }
            | Control::Allocating { .. }
            | Control::Allocated { .. }
            | Control::Freed { .. }
            | Control::Skipped { .. } => {}
        }
    }

    fn fork(&mut self, process: u32, child: u32) {
        if let Some(&end) = self.heaps.get(&process) {
            self.heaps.insert(child, end);
        }
        self.forget(child, 0..u64::MAX);
        if !self.presence {
            // Stores find pages that they have to copy.
            self.forget(process, 0..u64::MAX);
            return;
        }
        let of_parent = self.regions.iter().filter(|((of, _), _)| *of == process);
        let of_parent: Vec<_> = of_parent.collect();
        for ((_, gib), number) in of_parent {
            let copy = self.gibs[number].clone();
            if let Some(number) = self.number(child, gib) {
                self.gibs[number] = copy;
            }
        }
    }

    fn forget(&mut self, process: u32, pages: Range<u64>) {
        for ((of, gib), number) in self.regions.iter() {
            let start = gib << (GIB_SHIFT - PAGE_SHIFT);
            let from = pages.start.max(start);
            let to = pages.end.min(start + PAGES as u64);
            if of != process || from >= to {
                continue;
            }
            let Gib { loaded, stored } = &mut self.gibs[number];
            let first = (from - start) as usize;
            let last = (to - start - 1) as usize;
            for word in first / 64..=last / 64 {
                let low = first.saturating_sub(word * 64);
                let high = (last - word * 64).min(63);
                let mask = u64::MAX << low & u64::MAX >> (63 - high);
                loaded[word] &= !mask;
                stored[word] &= !mask;
            }
        }
    }
}

/// Says that a page was touched, before access number `at`: with the event before, if that speaks of
/// the page below.
pub fn say_touched(controls: &mut Vec<(u32, Control)>, at: u32, page: Vpn, touch: Touch) {
    let start = page.address().0;
    if let Some((
        before,
        Control::Touched {
            addr,
            len,
            touch: how,
        },
    )) = controls.last_mut()
        && (*before, *how) == (at, touch)
        && *len > 0
        && addr.wrapping_add(*len) == start
    {
        *len += PAGE_BYTES;
        return;
    }
    let control = Control::Touched {
        addr: start,
        len: PAGE_BYTES,
        touch,
    };
    controls.push((at, control));
}

/// The pages that a range of bytes touches.
pub fn pages(addr: u64, len: u64) -> Range<u64> {
    addr / PAGE_BYTES..addr.saturating_add(len).div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protection;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const STORE: bool = true;
    const LOAD: bool = false;

    /// A page that is there is there for a forked child, too; stores of either find pages to copy.
    #[test]
    fn a_fork_leaves_what_is_there_and_copies_what_is_stored_to() {
        let fork = Control::Fork { child: 1 };
        for (mut touched, anew) in [(Touched::default(), true), (Touched::presence(), false)] {
            assert!(touched.touch(0, Vpn(7), STORE));
            touched.control(0, &fork);
            for process in 0..2 {
                assert_eq!(touched.touch(process, Vpn(7), STORE), anew);
                assert!(!touched.touch(process, Vpn(7), LOAD));
            }
            touched.control(1, &Control::Exec);
            assert!(touched.touch(1, Vpn(7), STORE));
            assert!(!touched.touch(0, Vpn(7), STORE));
        }
    }

    proptest! {
        /// Against a set of pages.
        #[test]
        fn as_a_set(
            steps in proptest::collection::vec((0u32..2, 0u64..200, 1u64..150, 0u32..13), 1..200),
        ) {
            let mut touched = Touched::default();
            let mut set: HashSet<(u32, u64, bool)> = HashSet::new();
            let mut heaps = [None; 2];
            // Across the border of two 1 GiB regions.
            let base = (1 << 18) - 100;
            for (process, page, pages, kind) in steps {
                let page = base + page;
                let (addr, len) = (page << PAGE_SHIFT, pages << PAGE_SHIFT);
                let mut gone = page..page + pages;
                match kind {
                    0 => touched.control(process, &Control::Unmap { addr, len }),
                    1 => touched.control(process, &Control::Protect {
                        addr, len, prot: Protection(Protection::READ),
                    }),
                    2 => {
                        touched.control(process, &Control::Brk { end: addr });
                        let before = heaps[process as usize].replace(page).unwrap_or(page);
                        gone = page.min(before)..page.max(before);
                    }
                    12 => {
                        touched.control(process, &Control::Exit { status: 0 });
                        heaps[process as usize] = None;
                        gone = 0..u64::MAX;
                    }
                    _ => {
                        let store = kind % 2 == 0;
                        let fresh = !set.contains(&(process, page, store));
                        prop_assert_eq!(touched.touch(process, Vpn(page), store), fresh);
                        set.insert((process, page, false));
                        if store {
                            set.insert((process, page, true));
                        }
                        continue;
                    }
                }
                set.retain(|&(of, number, _)| {
                    of != process || !gone.contains(&number)
                });
            }
        }
    }
}
