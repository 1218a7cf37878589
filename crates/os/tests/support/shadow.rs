use pagelab_addr::{Asid, PageId, PageSize, Pfn};
use pagelab_translation::{
    Displaced, Frames, MapError, Page, PageTable, Range, Run, Translation, Walk, Work,
};
use std::collections::{HashMap, HashSet};

/// A page table with a plain map beside it, and the contents of the frames: a number for each.
///
/// It knows how contents come about: a frame mapped for the first time is zero, one that
/// takes another's place in an entry is its copy, a displaced one takes its contents along.
#[derive(Clone, Debug)]
pub struct Shadow<T> {
    pub table: T,
    entries: HashMap<(PageId, PageSize), Translation>,
    pub contents: HashMap<Pfn, u64>,
    /// So many more calls of `map` succeed; then one fails with this.
    pub maps_left: u64,
    /// While pages are collapsed: the contents of those that were taken out.
    pub collapsing: Option<HashMap<PageId, u64>>,
    pub failure: MapError,
    /// While an event takes memory and gives other memory at once: frames of 4 KiB pages that nothing maps since then.
    pub renewed: Option<HashSet<Pfn>>,
    /// Contents of pages that were taken out, where pages may leave memory.
    pub left: Option<HashMap<PageId, u64>>,
}

impl<T> Shadow<T> {
    pub fn new(table: T) -> Self {
        Shadow {
            table,
            entries: HashMap::new(),
            contents: HashMap::new(),
            maps_left: u64::MAX,
            collapsing: None,
            failure: MapError::NoPlace,
            renewed: None,
            left: None,
        }
    }

    pub fn entries(&self) -> impl Iterator<Item = (PageId, Translation)> + '_ {
        let entries = self.entries.iter();
        entries.map(|(&(id, _), &translation)| (id, translation))
    }

    fn displace(&mut self, displaced: &[Displaced]) {
        for Displaced {
            owners,
            size,
            from,
            to,
        } in displaced
        {
            for &owner in owners {
                let entry = self.entries.get_mut(&(owner, *size)).unwrap();
                assert_eq!(entry.pfn, *from);
                entry.pfn = *to;
            }
            for offset in 0..size.base_pages() {
                let contents = self.contents.remove(&Pfn(from.0 + offset));
                self.contents
                    .insert(Pfn(to.0 + offset), contents.unwrap_or(0));
            }
        }
    }

    /// Gives a frame that nothing maps the contents with which its page has left.
    fn come_back(&mut self, page: Page, to: Translation) {
        let Some(left) = &mut self.left else {
            return;
        };
        if self.collapsing.is_some() || self.entries.values().any(|entry| entry.pfn == to.pfn) {
            return;
        }
        for offset in 0..to.size.base_pages() {
            let contents = left.remove(&PageId(page.id.0 + offset)).unwrap_or(0);
            self.contents.insert(Pfn(to.pfn.0 + offset), contents);
        }
    }

    fn expected(&self, page: Page) -> Option<Translation> {
        PageSize::ALL.into_iter().find_map(|size| {
            let start = first(page.id, size);
            let entry = self.entries.get(&(start, size))?;
            let pfn = Pfn(entry.pfn.0 + (page.id.0 - start.0));
            Some(Translation { pfn, ..*entry })
        })
    }
}

impl<T: PageTable> Shadow<T> {
    /// The frame of a mapped page.
    pub fn lookup_pfn(&self, page: Page) -> Pfn {
        self.lookup(page).expect("a mapped page").pfn
    }
}

pub fn first(id: PageId, size: PageSize) -> PageId {
    PageId(id.0 & !(size.base_pages() - 1))
}

impl<T: PageTable> PageTable for Shadow<T> {
    fn reserve<F: Frames>(
        &mut self,
        frames: &mut F,
        first: Page,
        pages: u64,
        size: PageSize,
        work: &mut Work,
    ) {
        let before = work.displaced.len();
        self.table.reserve(frames, first, pages, size, work);
        self.displace(&work.displaced[before..]);
    }

    fn release<F: Frames>(&mut self, frames: &mut F, start: Page, pages: u64) {
        assert!(start.vpn.0.is_multiple_of(512) && pages.is_multiple_of(512));
        // As many as share the 1 GiB region of the first: their numbers follow from its own.
        let numbered = pages.min((1 << 18) - (start.vpn.0 & 0x3ffff)) as u32;
        let released = start.id.0..start.id.0 + numbered;
        for (id, _) in self.entries.keys() {
            assert!(!released.contains(&id.0), "{id:?} is released and mapped");
        }
        self.table.release(frames, start, pages);
    }

    fn end<F: Frames>(&mut self, frames: &mut F, asid: Asid) {
        self.table.end(frames, asid);
    }

    fn map<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        translation: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        if self.maps_left == 0 {
            self.maps_left = u64::MAX;
            return Err(self.failure);
        }
        self.maps_left -= 1;
        assert_eq!(self.expected(page), None);
        let size = translation.size;
        assert!(page.vpn.0.is_multiple_of(u64::from(size.base_pages())));
        assert!(translation.pfn.0.is_multiple_of(size.base_pages()));
        let before = work.displaced.len();
        let mapped = self.table.map(frames, page, translation, work);
        self.displace(&work.displaced[before..]);
        mapped?;
        if let Some(taken_out) = &self.collapsing {
            for offset in 0..size.base_pages() {
                let contents = taken_out.get(&PageId(page.id.0 + offset));
                let pfn = Pfn(translation.pfn.0 + offset);
                self.contents.insert(pfn, contents.copied().unwrap_or(0));
            }
        }
        if self
            .renewed
            .as_mut()
            .is_some_and(|free| free.remove(&translation.pfn))
        {
            self.contents.remove(&translation.pfn);
        }
        self.come_back(page, translation);
        self.entries.insert((page.id, size), translation);
        Ok(())
    }

    fn unmap<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Option<Translation> {
        let before = work.displaced.len();
        let found = self.table.unmap(frames, page, size, work);
        assert_eq!(found, self.entries.remove(&(page.id, size)));
        self.displace(&work.displaced[before..]);
        // A larger page is perhaps only split.
        if let (Some(free), Some(found)) = (&mut self.renewed, found)
            && size == PageSize::Base4K
            && !self.entries.values().any(|entry| entry.pfn == found.pfn)
        {
            free.insert(found.pfn);
        }
        for (kept, found) in [&mut self.collapsing, &mut self.left]
            .into_iter()
            .zip([found; 2])
        {
            let (Some(taken_out), Some(found)) = (kept, found) else {
                continue;
            };
            for offset in 0..size.base_pages() {
                let contents = self.contents.get(&Pfn(found.pfn.0 + offset));
                taken_out.insert(PageId(page.id.0 + offset), contents.copied().unwrap_or(0));
            }
        }
        found
    }

    fn update(&mut self, page: Page, translation: Translation) -> bool {
        let entry = self.entries.get_mut(&(page.id, translation.size)).unwrap();
        let old = std::mem::replace(entry, translation);
        if old.pfn != translation.pfn {
            // Pages that nothing maps any more may be others' before this call ends.
            let mut pages = self.entries.values();
            let stays = pages.any(|entry| entry.pfn == old.pfn);
            for offset in 0..translation.size.base_pages() {
                let from = Pfn(old.pfn.0 + offset);
                let contents = self.contents.get(&from).copied().unwrap_or(0);
                if !stays {
                    self.contents.remove(&from);
                }
                self.contents
                    .insert(Pfn(translation.pfn.0 + offset), contents);
            }
        }
        self.table.update(page, translation)
    }

    fn lookup(&self, page: Page) -> Option<Translation> {
        let found = self.table.lookup(page);
        assert_eq!(found, self.expected(page), "{page:?}");
        found
    }

    fn next_mapped(&self, asid: Asid, pages: std::ops::Range<u64>) -> Option<Run> {
        let run = self.table.next_mapped(asid, pages)?;
        for page in run.pages() {
            let mapped = self.entries.contains_key(&(page.id, run.size));
            assert!(mapped, "{page:?} is not mapped");
        }
        Some(run)
    }

    fn is_unmapped(&self, page: Page, size: PageSize) -> bool {
        let unmapped = self.table.is_unmapped(page, size);
        let start = first(page.id, size).0;
        let inside = start..start + size.base_pages();
        let mapped = self.entries.keys().any(|(id, _)| inside.contains(&id.0));
        let around = self.expected(page).is_some();
        assert_eq!(unmapped, !mapped && !around, "{size:?} around {page:?}");
        unmapped
    }

    fn walk(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Translation> {
        self.table.walk(core, page, walk)
    }

    fn range(&self, page: Page) -> Option<Range> {
        self.table.range(page)
    }

    fn host_prefetch(&self, page: Page) {
        self.table.host_prefetch(page);
    }

    fn table_bytes(&self) -> u64 {
        self.table.table_bytes()
    }
}
