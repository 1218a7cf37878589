use super::regions::Regions;
use pagelab_addr::{PAGE_SHIFT, Vpn};
use pagelab_events::{Advice, Control};
const GIB_SHIFT: u32 = 30;
const PAGES: usize = 1 << (GIB_SHIFT - PAGE_SHIFT);

/// Which pages have been loaded from and stored to since a page fault of theirs was last possible.
///
/// A page that has been touched stays mapped, and one that was written stays writable, until a
/// control event of its process says otherwise: the simulated kernel reclaims nothing. Events that
/// would be hard to follow page by page make all pages of a process untouched; that costs a
/// look at the page table for each of them, and no more.
#[derive(Default)]
pub(super) struct Touched {
    numbers: Regions,
    gibs: Vec<Gib>,
    /// Numbers of regions of processes that have ended.
    free: Vec<usize>,
}

/// The pages of 1 GiB of an address space: two bits each.
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
    /// Touches a page; says whether that may be a page fault.
    #[inline]
    pub(super) fn touch(&mut self, process: u32, vpn: Vpn, store: bool) -> bool {
        let name = (process, vpn.0 >> (GIB_SHIFT - PAGE_SHIFT));
        let number = match self.numbers.number(name) {
            Some(number) => number,
            None => self.add(name),
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

    #[cold]
    fn add(&mut self, name: (u32, u64)) -> usize {
        let number = self.free.pop().unwrap_or(self.gibs.len());
        if number == self.gibs.len() {
            self.gibs.push(Gib::default());
        } else {
            self.gibs[number] = Gib::default();
        }
        self.numbers.add(name, number);
        number
    }

    /// Takes in what a control event of a process makes of its pages.
    pub(super) fn control(&mut self, process: u32, control: &Control) {
        match *control {
            Control::Map { addr, len, .. }
            | Control::Unmap { addr, len }
            | Control::Protect { addr, len, .. }
            | Control::Advise {
                addr,
                len,
                advice: Advice::DontNeed | Advice::Free,
            } => self.forget(process, addr, len),
            Control::Fork { child } => {
                self.forget_all(process);
                self.forget_all(child);
            }
            Control::Exec | Control::Exit { .. } => {
                let gone = self.numbers.remove(process);
                self.free.extend(gone);
            }
            Control::Remap { .. } | Control::Brk { .. } | Control::Advise { .. } => {
                self.forget_all(process);
            }
            Control::Thread { .. }
            | Control::ThreadStart { .. }
            | Control::ThreadEnd { .. }
            | Control::Skipped { .. } => {}
        }
    }

    fn forget_all(&mut self, process: u32) {
        for (&(of, _), &number) in &self.numbers.numbers {
            if of == process {
                self.gibs[number] = Gib::default();
            }
        }
    }

    fn forget(&mut self, process: u32, addr: u64, len: u64) {
        let end = addr.saturating_add(len);
        for (&(of, gib), &number) in &self.numbers.numbers {
            let start = gib << GIB_SHIFT;
            let from = addr.max(start);
            let to = end.min(start.saturating_add(1 << GIB_SHIFT));
            if of != process || from >= to {
                continue;
            }
            let Gib { loaded, stored } = &mut self.gibs[number];
            let first = ((from - start) >> PAGE_SHIFT) as usize;
            let last = ((to - start - 1) >> PAGE_SHIFT) as usize;
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

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_events::Protection;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        /// Against a set of pages.
        #[test]
        fn as_a_set(
            steps in proptest::collection::vec((0u32..2, 0u64..200, 1u64..150, 0u32..13), 1..200),
        ) {
            let mut touched = Touched::default();
            let mut set: HashSet<(u32, u64, bool)> = HashSet::new();
            // Across the border of two 1 GiB regions.
            let base = (1 << 18) - 100;
            for (process, page, pages, kind) in steps {
                let page = base + page;
                let (addr, len) = (page << PAGE_SHIFT, pages << PAGE_SHIFT);
                match kind {
                    0 => touched.control(process, &Control::Unmap { addr, len }),
                    1 => touched.control(process, &Control::Protect {
                        addr, len, prot: Protection(Protection::READ),
                    }),
                    2 => touched.control(process, &Control::Brk { end: addr }),
                    12 => touched.control(process, &Control::Exit { status: 0 }),
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
                    of != process || kind < 2 && !(page..page + pages).contains(&number)
                });
            }
        }
    }
}
