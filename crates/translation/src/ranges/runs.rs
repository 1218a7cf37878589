use crate::Page;
use pagelab_addr::{Asid, PageId, Pfn, Vpn};
use pagelab_memory::host_prefetch;
use std::collections::BTreeMap;

/// Pages that follow each other in virtual and in physical memory, with one permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The address space.
    pub asid: Asid,
    /// The first page.
    pub first: Vpn,
    /// Base pages.
    pub pages: u64,
    /// The first page's frame.
    pub pfn: Pfn,
    /// Stores may go through.
    pub writable: bool,
}

impl Range {
    fn end(&self) -> u64 {
        self.first.0 + self.pages
    }

    /// The part of it from a page on.
    fn from(self, vpn: u64) -> Range {
        let skipped = vpn - self.first.0;
        Range {
            first: Vpn(vpn),
            pages: self.pages - skipped,
            pfn: Pfn(self.pfn.0 + skipped as u32),
            ..self
        }
    }

    /// True if another one begins where this ends, in both memories.
    fn goes_on_in(&self, next: &Range) -> bool {
        self.end() == next.first.0
            && u64::from(self.pfn.0) + self.pages == u64::from(next.pfn.0)
            && (self.asid, self.writable) == (next.asid, next.writable)
    }
}

/// The maximal runs of mapped pages, by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    runs: BTreeMap<(Asid, u64), Range>,
    pages: u64,
    peak: u64,
    /// Changes so far.
    changes: u64,
    /// The run that was found last in each 2 MiB region, by number of the region, and `changes`
    /// then: walks find most runs here and not in the tree.
    recent: Vec<(u64, Option<Range>)>,
}

impl Runs {
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Range> {
        self.runs.values()
    }

    /// The last run that begins at or below a page.
    fn at_or_below(&self, asid: Asid, vpn: u64) -> Option<Range> {
        let mut below = self.runs.range((asid, 0)..=(asid, vpn));
        below.next_back().map(|(_, &run)| run)
    }

    /// The run around a page.
    #[inline]
    pub(super) fn find(&self, asid: Asid, vpn: u64) -> Option<Range> {
        self.at_or_below(asid, vpn).filter(|run| vpn < run.end())
    }

    /// The same, first where [`Runs::remember`] has put the last one nearby.
    #[inline]
    pub(super) fn find_near(&self, page: Page) -> Option<Range> {
        match self.recent.get(page.id.region()) {
            Some(&(changes, Some(run)))
                if changes == self.changes && page.vpn.0.wrapping_sub(run.first.0) < run.pages =>
            {
                Some(run)
            }
            _ => self.find(page.asid, page.vpn.0),
        }
    }

    /// Keeps the run around a page at hand.
    #[inline]
    pub(super) fn remember(&mut self, id: PageId, run: Range) {
        if self.recent.len() <= id.region() {
            self.recent.resize(id.region() + 1, (0, None));
        }
        self.recent[id.region()] = (self.changes, Some(run));
    }

    /// Hints to the host that [`Runs::find_near`] will soon be called.
    #[inline]
    pub(super) fn host_prefetch(&self, id: PageId) {
        if let Some(recent) = self.recent.get(id.region()) {
            host_prefetch(recent);
        }
    }

    /// Adds pages that no run has.
    pub(super) fn insert(&mut self, new: Range) {
        self.changes += 1;
        let mut run = new;
        self.pages += new.pages;
        if let Some(before) = self.at_or_below(new.asid, new.first.0)
            && before.goes_on_in(&run)
        {
            run = Range {
                pages: before.pages + run.pages,
                ..before
            };
        }
        if let Some(&after) = self.runs.get(&(new.asid, new.end()))
            && run.goes_on_in(&after)
        {
            self.runs.remove(&(new.asid, new.end()));
            run.pages += after.pages;
        }
        self.runs.insert((run.asid, run.first.0), run);
        self.peak = self.peak.max(self.runs.len() as u64);
    }

    /// Takes pages out of the run that has all of them.
    pub(super) fn remove(&mut self, asid: Asid, first: u64, pages: u64) {
        self.changes += 1;
        let mut left = first;
        while left < first + pages {
            let Some(run) = self.find(asid, left) else {
                unreachable!("page {left:#x} of {asid:?} is in no run");
            };
            let end = run.end().min(first + pages);
            self.runs.remove(&(asid, run.first.0));
            if run.first.0 < left {
                let kept = left - run.first.0;
                let before = Range { pages: kept, ..run };
                self.runs.insert((asid, run.first.0), before);
            }
            if end < run.end() {
                self.runs.insert((asid, end), run.from(end));
            }
            self.pages -= end - left;
            left = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Runs are what is left when neighbours in a map of pages are put together.
        #[test]
        fn equal_the_maximal_runs_of_a_map(
            steps in proptest::collection::vec(
                (0u16..2, 0u64..60, 0u32..4, any::<bool>(), any::<bool>()), 1..200,
            )
        ) {
            let mut runs = Runs::default();
            let mut map = BTreeMap::new();
            for (asid, vpn, shift, writable, add) in steps {
                let asid = Asid(asid);
                // Frames that mostly follow pages.
                let pfn = Pfn(100 + vpn as u32 + 1000 * (shift / 3));
                let present = map.contains_key(&(asid, vpn));
                if add && !present {
                    map.insert((asid, vpn), (pfn, writable));
                    runs.insert(Range { asid, first: Vpn(vpn), pages: 1, pfn, writable });
                } else if present {
                    map.remove(&(asid, vpn));
                    runs.remove(asid, vpn, 1);
                }
                let mut expected: Vec<Range> = Vec::new();
                for (&(asid, vpn), &(pfn, writable)) in &map {
                    let page = Range { asid, first: Vpn(vpn), pages: 1, pfn, writable };
                    match expected.last_mut() {
                        Some(last) if last.goes_on_in(&page) => last.pages += 1,
                        _ => expected.push(page),
                    }
                }
                prop_assert_eq!(runs.iter().copied().collect::<Vec<_>>(), expected);
                prop_assert_eq!(runs.pages(), map.len() as u64);
            }
        }
    }
}
