use crate::page_map::Pte;
use crate::{Displaced, Frames, MapError, Page, PageMap, PageTable, Run, Translation, Walk, Work};
use pagelab_addr::{Asid, PageSize, Pfn};
use std::ops::Range;

/// A design of a page table: the places of its entries in simulated memory, and how a walk reads
/// them. It does not know where pages are: that is in the [`PageMap`] beside it, of which an
/// operation is told.
///
/// One object has the tables of all address spaces and the walk caches of all cores.
pub trait Organisation {
    /// See [`PageTable::reserve`]. Data that were moved are in `work`.
    fn reserve<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        first: Page,
        pages: u64,
        size: PageSize,
        work: &mut Work,
    ) {
        let _ = (frames, mapped, first, pages, size, work);
    }

    /// See [`PageTable::release`].
    fn release<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, first: Page, pages: u64);

    /// See [`PageTable::end`].
    fn end<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, asid: Asid) {
        let _ = (frames, mapped, asid);
    }

    /// Makes a place for the entry of a page of a size and writes it. Nothing is mapped there, of
    /// any size. Data that were moved are in `work`.
    ///
    /// # Errors
    /// [`MapError`]; everything is then as it was, but for moves recorded in `work`.
    fn enter<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Result<(), MapError>;

    /// Clears the entry of a page of a size, which is not mapped any more.
    fn leave(&mut self, mapped: &PageMap, page: Page, size: PageSize, work: &mut Work);

    /// Says in `walk` what a walk of core `core`'s hardware reads and waits for. `found` is where
    /// the page is: what the walk will have found.
    fn walk(&mut self, core: usize, page: Page, found: Option<Translation>, walk: &mut Walk);

    /// Hints to the host that `walk` will soon be called for this page.
    #[inline]
    fn host_prefetch(&self, page: Page) {
        let _ = page;
    }

    /// See [`PageTable::entry_frame`].
    #[inline]
    fn entry_frame(&self, page: Page) -> Option<Pfn> {
        let _ = page;
        None
    }

    /// Physical memory that the tables take, in bytes.
    fn table_bytes(&self) -> u64;
}

/// A page table: what is mapped, and an organisation of the entries.
#[derive(Clone, Debug)]
pub struct Paged<O> {
    mapped: PageMap,
    pub(crate) organisation: O,
}

impl<O> Paged<O> {
    /// A page table in which nothing is mapped.
    pub fn over(organisation: O) -> Self {
        Paged {
            mapped: PageMap::default(),
            organisation,
        }
    }

    /// Lets the entries of pages that were moved after the first `before` of `work` point to where
    /// those are now, and says where a frame is that is about to be mapped. Owners that are not
    /// mapped (yet) are the caller's.
    #[inline]
    fn follow(&mut self, work: &Work, before: usize, translation: Translation) -> Translation {
        if work.displaced.len() == before {
            return translation;
        }
        self.follow_all(&work.displaced[before..], translation)
    }

    #[cold]
    fn follow_all(&mut self, moved: &[Displaced], mut translation: Translation) -> Translation {
        for displaced in moved {
            let size = displaced.size;
            for &owner in &displaced.owners {
                let old = self.mapped.get(owner, size).translate(0, size);
                if let Some(old) = old.filter(|old| old.pfn == displaced.from) {
                    let pfn = displaced.to;
                    self.mapped.update(owner, Translation { pfn, ..old });
                }
            }
            if (size, displaced.from) == (translation.size, translation.pfn) {
                translation.pfn = displaced.to;
            }
        }
        translation
    }
}

impl<O: Organisation> PageTable for Paged<O> {
    fn reserve<F: Frames>(
        &mut self,
        frames: &mut F,
        first: Page,
        pages: u64,
        size: PageSize,
        work: &mut Work,
    ) {
        let before = work.displaced.len();
        self.organisation
            .reserve(frames, &self.mapped, first, pages, size, work);
        let nothing = Translation {
            pfn: Pfn(u32::MAX),
            size,
            writable: false,
        };
        self.follow(work, before, nothing);
    }

    fn release<F: Frames>(&mut self, frames: &mut F, first: Page, pages: u64) {
        self.organisation
            .release(frames, &self.mapped, first, pages);
    }

    fn end<F: Frames>(&mut self, frames: &mut F, asid: Asid) {
        self.organisation.end(frames, &self.mapped, asid);
        self.mapped.forget(asid);
    }

    fn map<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        translation: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let size = translation.size;
        self.mapped.prepare(page, size);
        let before = work.displaced.len();
        let entered = self
            .organisation
            .enter(frames, &self.mapped, page, size, work);
        // A frame that was moved may be the very one that is to be mapped.
        let Translation { pfn, writable, .. } = self.follow(work, before, translation);
        entered?;
        self.mapped.enter(page.id, size, Pte::new(pfn, writable));
        Ok(())
    }

    fn unmap<F: Frames>(
        &mut self,
        _: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Option<Translation> {
        let old = self.mapped.remove(page.id, size);
        let old = old.translate(page.vpn.0, size)?;
        self.organisation.leave(&self.mapped, page, size, work);
        Some(old)
    }

    fn update(&mut self, page: Page, translation: Translation) -> bool {
        self.mapped.update(page.id, translation)
    }

    #[inline]
    fn lookup(&self, page: Page) -> Option<Translation> {
        self.mapped.lookup(page.id)
    }

    fn next_mapped(&self, asid: Asid, pages: Range<u64>) -> Option<Run> {
        self.mapped.next(asid, pages)
    }

    #[inline]
    fn is_unmapped(&self, page: Page, size: PageSize) -> bool {
        self.mapped.is_unmapped(page.id, size)
    }

    #[inline]
    fn walk(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Translation> {
        let found = self.mapped.lookup(page.id);
        self.organisation.walk(core, page, found, walk);
        found
    }

    #[inline]
    fn host_prefetch(&self, page: Page) {
        self.mapped.host_prefetch(page.id);
        self.organisation.host_prefetch(page);
    }

    #[inline]
    fn entry_frame(&self, page: Page) -> Option<Pfn> {
        self.organisation.entry_frame(page)
    }

    fn table_bytes(&self) -> u64 {
        self.organisation.table_bytes()
    }
}
