//! Redundant memory mappings: beside a page table, a table of the ranges that are contiguous in
//! virtual and in physical memory. See docs/designs/range.md.

mod runs;
mod table_frames;

pub use runs::Range;

use crate::page_table::as_inside;
use crate::{Frames, MapError, Page, PageTable, Translation, Walk, Work};
use pagelab_addr::{Asid, PAGE_BYTES, PageId, PageSize, Pfn, Vpn};
use runs::Runs;
use serde::Serialize;
use table_frames::TableFrames;

/// A page table with a range table beside it, which has every maximal run of two pages and more
/// that one permission allows.
#[derive(Clone, Debug)]
pub struct Ranged<P> {
    pages: P,
    runs: Runs,
    frames: TableFrames,
    /// By number of the 1 GiB region, where it is: to find the pages of displaced data.
    gibs: Vec<Option<(Asid, u64)>>,
    walks: u64,
}

/// The range table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RangeCounters {
    /// Ranges, single pages among them.
    pub ranges: u64,
    /// The most that there ever were.
    pub peak_ranges: u64,
    /// Pages in them now.
    pub pages: u64,
    /// Walks of the range table.
    pub walks: u64,
    /// Bytes of the range table.
    pub table_bytes: u64,
}

const GIB_ORDER: u32 = PageSize::Huge1G.order();

impl<P: PageTable> Ranged<P> {
    /// A page table in which nothing is mapped, with an empty range table.
    pub fn new(pages: P) -> Self {
        Ranged {
            pages,
            runs: Runs::default(),
            frames: TableFrames::default(),
            gibs: Vec::new(),
            walks: 0,
        }
    }

    /// The page table.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The range table.
    pub fn counters(&self) -> RangeCounters {
        RangeCounters {
            ranges: self.runs.len() as u64,
            peak_ranges: self.runs.peak(),
            pages: self.runs.pages(),
            walks: self.walks,
            table_bytes: self.frames.count() * PAGE_BYTES,
        }
    }

    fn enter(&mut self, page: Page, translation: Translation) {
        let gib = (page.id.0 >> GIB_ORDER) as usize;
        if self.gibs.len() <= gib {
            self.gibs.resize(gib + 1, None);
        }
        self.gibs[gib] = Some((page.asid, page.vpn.0 >> GIB_ORDER));
        self.runs.insert(Range {
            asid: page.asid,
            first: page.vpn,
            pages: u64::from(translation.size.base_pages()),
            pfn: translation.pfn,
            writable: translation.writable,
        });
    }

    /// Enters the new places of pages of data that the page table has moved.
    fn follow(&mut self, work: &Work, before: usize) {
        for displaced in &work.displaced[before..] {
            let pages = u64::from(displaced.size.base_pages());
            for &owner in &displaced.owners {
                let Some(page) = self.named(owner) else {
                    continue;
                };
                // The very page that is being mapped may be among them, and is in no run yet.
                if let Some(found) = self.pages.lookup(page)
                    && self.runs.find(page.asid, page.vpn.0).is_some()
                {
                    self.runs.remove(page.asid, page.vpn.0, pages);
                    self.enter(page, found);
                }
            }
        }
    }

    fn named(&self, id: PageId) -> Option<Page> {
        let number = (id.0 >> GIB_ORDER) as usize;
        let (asid, gib) = (*self.gibs.get(number)?)?;
        let low = u64::from(id.0) & ((1 << GIB_ORDER) - 1);
        let vpn = Vpn(gib << GIB_ORDER | low);
        Some(Page { id, asid, vpn })
    }
}

impl<P: PageTable> PageTable for Ranged<P> {
    fn reserve<F: Frames>(
        &mut self,
        frames: &mut F,
        first: Page,
        pages: u64,
        size: PageSize,
        work: &mut Work,
    ) {
        let before = work.displaced.len();
        self.pages.reserve(frames, first, pages, size, work);
        self.follow(work, before);
    }

    as_inside!(pages);

    fn map<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        translation: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let before = work.displaced.len();
        let mapped = self.pages.map(frames, page, translation, work);
        self.follow(work, before);
        mapped?;
        if let Some(found) = self.pages.lookup(page) {
            self.enter(page, found);
        }
        self.frames.fit(frames, self.runs.len(), work);
        Ok(())
    }

    fn unmap<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Option<Translation> {
        let old = self.pages.unmap(frames, page, size, work)?;
        let pages = u64::from(size.base_pages());
        self.runs.remove(page.asid, page.vpn.0, pages);
        self.frames.fit(frames, self.runs.len(), work);
        Some(old)
    }

    fn update(&mut self, page: Page, translation: Translation) -> bool {
        let updated = self.pages.update(page, translation);
        if updated {
            let pages = u64::from(translation.size.base_pages());
            let first = page.vpn.align_down(translation.size);
            self.runs.remove(page.asid, first.0, pages);
            let id = PageId(page.id.0 & !(translation.size.base_pages() - 1));
            let pfn = Pfn(translation.pfn.0 & !(translation.size.base_pages() - 1));
            let first = Page {
                id,
                vpn: first,
                ..page
            };
            self.enter(first, Translation { pfn, ..translation });
        }
        updated
    }

    /// A walk of the page table, while one of the range table goes on beside it that nothing
    /// waits for.
    #[inline]
    fn walk(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Translation> {
        let found = self.pages.walk(core, page, walk)?;
        if let Some(range) = self.range(page) {
            self.runs.remember(page.id, range);
            self.walks += 1;
            for addr in self.frames.path(range.first.0) {
                walk.read_in_background(addr);
            }
        }
        Some(found)
    }

    #[inline]
    fn range(&self, page: Page) -> Option<Range> {
        let range = self.runs.find_near(page)?;
        (range.pages > 1).then_some(range)
    }

    #[inline]
    fn host_prefetch(&self, page: Page) {
        self.pages.host_prefetch(page);
        self.runs.host_prefetch(page.id);
    }

    #[inline]
    fn host_prefetch_behind(&self, page: Page) {
        self.pages.host_prefetch_behind(page);
    }

    fn table_bytes(&self) -> u64 {
        self.pages.table_bytes() + self.frames.count() * PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{self, FakeFrames};
    use crate::{Dpt, DptConfig, Radix, RadixConfig};

    /// Every range is mapped as it says.
    fn agrees<P: PageTable>(table: &Ranged<P>, _: &FakeFrames) {
        for range in table.runs.iter() {
            for offset in [0, range.pages / 2, range.pages - 1] {
                let vpn = range.first.0 + offset;
                let gib = Some((range.asid, vpn >> GIB_ORDER));
                let number = table.gibs.iter().position(|&s| s == gib).unwrap();
                let low = (vpn & ((1 << GIB_ORDER) - 1)) as u32;
                let page = Page {
                    id: PageId((number as u32) << GIB_ORDER | low),
                    asid: range.asid,
                    vpn: Vpn(vpn),
                };
                let found = table
                    .pages
                    .lookup(page)
                    .expect("a range has only mapped pages");
                assert_eq!(u64::from(found.pfn.0), u64::from(range.pfn.0) + offset);
                assert_eq!(found.writable, range.writable);
            }
        }
    }

    #[test]
    fn conforms_over_radix_and_has_what_is_mapped() {
        let new = |cores| Ranged::new(Radix::new(&RadixConfig::default(), cores).unwrap());
        conformance::run_with(48, new, agrees);
    }

    #[test]
    fn follows_pages_that_dpt_displaces() {
        let config = DptConfig {
            max_soa_step: 0,
            max_cva_count: 0,
            ..DptConfig::default()
        };
        let new = |cores| Ranged::new(Dpt::new(&config, cores).unwrap());
        conformance::run_with(48, new, agrees);
    }
}
