//! Hybrid restrictive and flexible mapping (Kanellopoulos et al., "Utopia", MICRO 2023): beside a
//! page table, which has all pages, the tags of those that are in restrictive segments. See
//! docs/designs/utopia.md.

mod rest_seg;
#[cfg(test)]
mod tests;

pub use rest_seg::{RestSeg, RestSegs};

use crate::page_table::as_inside;
use crate::{Frames, MapError, Page, PageTable, Translation, Walk, Work};
use pagelab_addr::{PageSize, Pfn};

/// No page has this number.
const EMPTY: u32 = u32::MAX;

/// A page table, and the tag arrays and set filters of restrictive segments.
///
/// A page is in a segment if its frame is in its own set there and no other page had that frame
/// before it: of pages that share a frame the first has the tag, and the others are found by the page
/// table alone. So are pages that have moved to another virtual address with their frames.
#[derive(Clone, Debug)]
pub struct Segmented<P> {
    pages: P,
    segments: RestSegs,
    /// Tags of the segments of 4 KiB and of 2 MiB.
    tags: [Option<Tags>; 2],
}

/// The tag array and the set filter of a segment.
#[derive(Clone, Debug)]
struct Tags {
    segment: RestSeg,
    /// By set and way.
    tags: Vec<u32>,
    /// By set: how many there are.
    held: Vec<u8>,
}

impl Tags {
    fn new(segment: RestSeg) -> Self {
        let sets = segment.sets() as usize;
        Tags {
            segment,
            tags: vec![EMPTY; sets * segment.ways() as usize],
            held: vec![0; sets],
        }
    }

    /// The place of a page that is at a frame, if the frame is in its set.
    fn place(&self, page: Page, pfn: Pfn) -> Option<(usize, usize)> {
        let (set, way) = self.segment.place(pfn)?;
        let place = (set * self.segment.ways() + way) as usize;
        (set == self.segment.set(page.id)).then_some((place, set as usize))
    }

    fn enter(&mut self, page: Page, pfn: Pfn) {
        if let Some((place, set)) = self.place(page, pfn)
            && self.tags[place] == EMPTY
        {
            self.tags[place] = self.segment.key(page.id);
            self.held[set] += 1;
        }
    }

    fn remove(&mut self, page: Page, pfn: Pfn) {
        if let Some((place, set)) = self.place(page, pfn)
            && self.tags[place] == self.segment.key(page.id)
        {
            self.tags[place] = EMPTY;
            self.held[set] -= 1;
        }
    }
}

impl<P: PageTable> Segmented<P> {
    /// A page table in which nothing is mapped, beside empty segments.
    pub fn new(pages: P, segments: RestSegs) -> Self {
        let of = |size| segments.of(size).map(Tags::new);
        Segmented {
            pages,
            segments,
            tags: [of(PageSize::Base4K), of(PageSize::Large2M)],
        }
    }

    /// The page table.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The segments.
    pub fn segments(&self) -> RestSegs {
        self.segments
    }

    /// Number of pages that the set filter counts in a set of the segment of a size.
    #[inline]
    pub fn held(&self, size: PageSize, set: u32) -> u32 {
        let tags = self.tags.get(size as usize).and_then(Option::as_ref);
        tags.map_or(0, |tags| u32::from(tags.held[set as usize]))
    }

    /// True if the tag array of a size has a page of that size around this one.
    #[inline]
    pub fn has(&self, size: PageSize, page: Page) -> bool {
        let Some(Some(tags)) = self.tags.get(size as usize) else {
            return false;
        };
        let ways = tags.segment.ways() as usize;
        let first = tags.segment.set(page.id) as usize * ways;
        let key = tags.segment.key(page.id);
        tags.tags[first..first + ways].contains(&key)
    }

    fn tags_of(&mut self, size: PageSize) -> Option<&mut Tags> {
        self.tags.get_mut(size as usize)?.as_mut()
    }

    /// Notes where a page is that lay elsewhere.
    fn moved(&mut self, page: Page, from: Pfn, to: Translation) {
        if let Some(tags) = self.tags_of(to.size)
            && tags.segment.place(from) != tags.segment.place(to.pfn)
        {
            tags.remove(page, from);
            tags.enter(page, to.pfn);
        }
    }
}

impl<P: PageTable> PageTable for Segmented<P> {
    fn reserve<F: Frames>(
        &mut self,
        frames: &mut F,
        first: Page,
        pages: u64,
        size: PageSize,
        work: &mut Work,
    ) {
        self.pages.reserve(frames, first, pages, size, work);
    }

    as_inside!(pages);

    fn map<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        translation: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        self.pages.map(frames, page, translation, work)?;
        if let Some(tags) = self.tags_of(translation.size) {
            tags.enter(page, translation.pfn);
        }
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
        if let Some(tags) = self.tags_of(size) {
            tags.remove(page, old.pfn);
        }
        Some(old)
    }

    fn update(&mut self, page: Page, translation: Translation) -> bool {
        let old = self.pages.lookup(page);
        let updated = self.pages.update(page, translation);
        if let Some(old) = old.filter(|_| updated) {
            self.moved(page, old.pfn, translation);
        }
        updated
    }

    #[inline]
    fn found(&self, page: Page) -> Option<Translation> {
        self.pages.found(page)
    }

    /// A walk of the page table.
    #[inline]
    fn walk(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Translation> {
        self.pages.walk(core, page, walk)
    }

    #[inline]
    fn host_prefetch(&self, page: Page) {
        self.pages.host_prefetch(page);
    }

    #[inline]
    fn host_prefetch_behind(&self, page: Page) {
        self.pages.host_prefetch_behind(page);
    }

    #[inline]
    fn entry_frame(&self, page: Page) -> Option<Pfn> {
        self.pages.entry_frame(page)
    }

    fn table_bytes(&self) -> u64 {
        self.pages.table_bytes()
    }
}
