use super::config::FetchConfig;
use super::counts::FetchCounts;
use crate::caches::served::Served;
use crate::error::BuildError;
use pagelab_addr::{Asid, DirectoryFull, LINE_SHIFT, PAGE_SHIFT, PageId, Pfn};
use pagelab_memory::HintedSets;

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
    tlb: HintedSets,
    /// Physical lines; 1 for one that was fetched ahead and not used since.
    cache: HintedSets,
}

const NONE: u64 = u64::MAX;

/// Result of a look for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    AtHand,
    /// It is not, or may not have come yet.
    Missing,
}

/// State of a line in the instruction cache.
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
        Ok(FrontEnd {
            asid: Asid(0),
            line: NONE,
            page: NONE,
            named: PageId(0),
            frame: 0,
            tlb: HintedSets::new(tlb_sets, tlb.ways, tlb.replacement, seed),
            cache: HintedSets::new(cache_sets, l1.ways, l1.replacement, seed.wrapping_add(1)),
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

    /// Fetches a line if it is the last one, or in the page of that and found at once; others may be
    /// at hand, too.
    #[inline(always)]
    pub(crate) fn has(&mut self, line: u64, counts: &mut FetchCounts) -> bool {
        line == self.line
            || line >> LINES_SHIFT == self.page
                && self.cache.get_hinted(self.physical(line)) == Some(0)
                && self.fetched(line, counts)
    }

    /// A line was found.
    #[inline(always)]
    fn fetched(&mut self, line: u64, counts: &mut FetchCounts) -> bool {
        counts.served[Served::L1 as usize] += 1;
        self.line = line;
        true
    }

    /// Fetches a line if it is there. What is missing is not counted, and may be looked for again.
    #[inline(always)]
    pub(crate) fn look(
        &mut self,
        line: u64,
        counts: &mut FetchCounts,
        name: impl FnOnce(u64) -> Result<PageId, DirectoryFull>,
    ) -> Result<Lookup, DirectoryFull> {
        if line == self.line {
            return Ok(Lookup::AtHand);
        }
        if line >> LINES_SHIFT != self.page {
            let page = name(line << LINE_SHIFT)?;
            let Some(pfn) = self.tlb.get(page.0).map(Pfn) else {
                return Ok(Lookup::Missing);
            };
            counts.tlb_lookups += 1;
            self.translated(line, page, pfn);
        }
        if self.cache.get(self.physical(line)) != Some(0) {
            return Ok(Lookup::Missing);
        }
        self.fetched(line, counts);
        Ok(Lookup::AtHand)
    }

    /// Looks a page up in the TLB.
    pub(crate) fn find_page(&mut self, page: PageId) -> Option<Pfn> {
        self.tlb.get(page.0).map(Pfn)
    }

    /// True if the page of a line is that of the fetch before.
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
        self.tlb.insert(page.0, pfn.0);
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
        match self.cache.get(physical) {
            Some(0) => Held::Used,
            Some(_) => {
                self.cache.set_value(physical, 0);
                Held::Ahead
            }
            None => {
                self.cache.insert(physical, 0);
                Held::Missing
            }
        }
    }

    /// Fetches a physical line ahead; whether it was missing.
    pub(crate) fn fetch_ahead(&mut self, physical: u32) -> bool {
        let missing = self.cache.peek(physical).is_none();
        if missing {
            self.cache.insert(physical, 1);
        }
        missing
    }

    /// Drops the translations of so many pages from a first one on, but for the line fetched last: code may have
    /// been followed past what makes them stale.
    pub(crate) fn forget(&mut self, first: u32, pages: u32) {
        if (first..first + pages).contains(&self.named.0) {
            self.forget_last();
        }
        if pages == 1 {
            self.tlb.remove(first);
        } else {
            self.tlb
                .forget(|page| (first..first + pages).contains(&page));
        }
    }
}
