use super::config::FetchConfig;
use super::counts::FetchCounts;
use crate::error::BuildError;
use crate::served::Served;
use pagelab_addr::{
    Asid, DirectoryFull, LINE_SHIFT, PAGE_SHIFT, PageDirectory, PageId, PageSize, Pfn,
};
use pagelab_memory::simd::Simd;
use pagelab_memory::{LruSets, Modulo};
use pagelab_os::Effects;

/// log2 of the lines of a page.
pub(crate) const LINES_SHIFT: u32 = PAGE_SHIFT - LINE_SHIFT;

/// A core's first level for instructions.
#[derive(Clone, Debug)]
pub(crate) struct FrontEnd {
    asid: Asid,
    /// The virtual line fetched last, and its page with the first line of its frame; `NONE` if
    /// nothing is known to be there.
    line: u64,
    page: u64,
    /// The name of that page.
    named: PageId,
    frame: u32,
    /// Frames of pages.
    tlb: LruSets,
    tlb_sets: Modulo,
    /// Physical lines; 1 for one that was fetched ahead and not used since.
    cache: LruSets,
    cache_sets: Modulo,
}

const NONE: u64 = u64::MAX;

/// Whether a line is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    AtHand,
    /// It is not, or may not have come yet.
    Missing,
}

/// What the instruction cache has of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Used,
    /// It was fetched ahead.
    Ahead,
    Missing,
}

impl FrontEnd {
    pub(crate) fn new(config: &FetchConfig, seed: u64) -> Result<Self, BuildError> {
        let (tlb_sets, cache_sets) = config.sets()?;
        let (tlb, l1) = (&config.tlb, &config.l1);
        let store = |sets: u32, ways: u32, replacement, seed| {
            let mut store = LruSets::replaced_by(sets as usize, ways as usize, replacement);
            store.seed(seed);
            store
        };
        Ok(FrontEnd {
            asid: Asid(0),
            line: NONE,
            page: NONE,
            named: PageId(0),
            frame: 0,
            tlb: store(tlb_sets, tlb.ways, tlb.replacement, seed),
            tlb_sets: Modulo::new(tlb_sets),
            cache: store(cache_sets, l1.ways, l1.replacement, seed.wrapping_add(1)),
            cache_sets: Modulo::new(cache_sets),
        })
    }

    /// A thread of an address space runs here.
    #[inline(always)]
    pub(crate) fn enter(&mut self, asid: Asid) {
        if self.asid != asid {
            self.asid = asid;
            self.forget_last();
        }
    }

    fn forget_last(&mut self) {
        self.line = NONE;
        self.page = NONE;
    }

    /// Fetches a line if it is there. What is missing is not counted, and may be looked for again.
    #[inline(always)]
    pub(crate) fn look<S: Simd>(
        &mut self,
        line: u64,
        counts: &mut FetchCounts,
        name: impl FnOnce(u64) -> Result<PageId, DirectoryFull>,
    ) -> Result<Look, DirectoryFull> {
        if line == self.line {
            return Ok(Look::AtHand);
        }
        if line >> LINES_SHIFT != self.page {
            let page = name(line << LINE_SHIFT)?;
            let set = self.tlb_sets.of(page.0);
            let Some(pfn) = self.tlb.get_at::<S>(set, page.0).map(Pfn) else {
                return Ok(Look::Missing);
            };
            counts.tlb_lookups += 1;
            self.translated(line, page, pfn);
        }
        let physical = self.physical(line);
        let set = self.cache_sets.of(physical);
        if self.cache.newest(set, physical) != Some(0)
            && self.cache.get_at::<S>(set, physical) != Some(0)
        {
            return Ok(Look::Missing);
        }
        counts.served[Served::L1 as usize] += 1;
        self.line = line;
        Ok(Look::AtHand)
    }

    /// Looks a page up in the TLB.
    pub(crate) fn find_page(&mut self, page: PageId) -> Option<Pfn> {
        self.tlb.get(self.tlb_sets.of(page.0), page.0).map(Pfn)
    }

    /// Whether the page of a line is that of the fetch before.
    pub(crate) fn has_page(&self, line: u64) -> bool {
        line >> LINES_SHIFT == self.page
    }

    /// The page of a line is in this frame.
    pub(crate) fn translated(&mut self, line: u64, page: PageId, pfn: Pfn) {
        self.page = line >> LINES_SHIFT;
        self.named = page;
        self.frame = pfn.0 << LINES_SHIFT;
    }

    /// Enters a translation into the TLB.
    pub(crate) fn fill_tlb(&mut self, page: PageId, pfn: Pfn) {
        self.tlb.insert(self.tlb_sets.of(page.0), page.0, pfn.0);
    }

    /// The physical line of one in the page that was translated last.
    #[inline(always)]
    pub(crate) fn physical(&self, line: u64) -> u32 {
        self.frame | line as u32 & ((1 << LINES_SHIFT) - 1)
    }

    /// Fetches a line of the page that was translated last into the cache; says what that had.
    pub(crate) fn fetch(&mut self, line: u64) -> Held {
        self.line = line;
        let physical = self.physical(line);
        let set = self.cache_sets.of(physical);
        match self.cache.get(set, physical) {
            Some(0) => Held::Used,
            Some(_) => {
                self.cache.set_value(set, physical, 0);
                Held::Ahead
            }
            None => {
                self.cache.insert(set, physical, 0);
                Held::Missing
            }
        }
    }

    /// Fetches a physical line ahead; whether it was missing.
    pub(crate) fn fetch_ahead(&mut self, physical: u32) -> bool {
        let set = self.cache_sets.of(physical);
        let missing = self.cache.peek(set, physical).is_none();
        if missing {
            self.cache.insert(set, physical, 1);
        }
        missing
    }

    /// Drops translations. What a fault on data makes stale is none of code's, which may have been
    /// followed past it: the line fetched last stays.
    pub(crate) fn invalidate(&mut self, effects: &Effects, directory: &PageDirectory) {
        for invalidation in &effects.invalidations {
            let first = invalidation.first.0;
            self.forget(first, invalidation.pages);
        }
        for &asid in &effects.flushed {
            for gib in directory.gibs(asid) {
                self.forget(gib.0, PageSize::Huge1G.base_pages());
            }
        }
    }

    fn forget(&mut self, first: u32, pages: u32) {
        if (first..first + pages).contains(&self.named.0) {
            self.forget_last();
        }
        if pages == 1 {
            self.tlb.remove(self.tlb_sets.of(first), first);
        } else {
            self.tlb
                .forget(|page, _| (first..first + pages).contains(&page));
        }
    }
}
