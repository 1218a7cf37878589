use pagelab_addr::{Asid, PageId, PageSize, Pfn};
use pagelab_translation::{Frames, MapError, Page, PageTable, Translation, Walk, Work};
use std::collections::{BTreeMap, HashMap};

/// Where the page table takes its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Nowhere.
    None,
    /// Wherever the buddy allocator says, one frame for each 2 MiB region.
    Anywhere,
    /// At a hashed frame, from which data are moved away.
    Hashed,
    /// The same, from the frame on that is about to be mapped.
    Hostile,
}

/// A page table that is a map, and the contents of the frames behind it: a number for each.
///
/// It knows how contents come about: a frame mapped for the first time is zero, one that
/// takes another's place in an entry is its copy, a displaced one takes its contents along.
#[derive(Clone, Debug)]
pub struct MapTable {
    placement: Placement,
    entries: HashMap<(PageId, PageSize), Translation>,
    /// Table frames by 2 MiB region, apart for 4 KiB and for larger pages.
    pub tables: BTreeMap<(Asid, u64, bool), Pfn>,
    pub contents: HashMap<Pfn, u64>,
    /// So many more calls of `map` succeed; then one fails.
    pub maps_left: u64,
}

impl MapTable {
    pub fn new(placement: Placement) -> Self {
        MapTable {
            placement,
            entries: HashMap::new(),
            tables: BTreeMap::new(),
            contents: HashMap::new(),
            maps_left: u64::MAX,
        }
    }

    pub fn entries(&self) -> impl Iterator<Item = (PageId, Translation)> + '_ {
        self.entries
            .iter()
            .map(|(&(id, _), &translation)| (id, translation))
    }

    fn place_table<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        Translation { pfn, size, .. }: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let key = (page.asid, page.vpn.0 >> 9, size == PageSize::Base4K);
        if self.placement == Placement::None || self.tables.contains_key(&key) {
            return Ok(());
        }
        let pfn = match self.placement {
            Placement::Hashed => self
                .place_from(hash(key), frames, work)
                .ok_or(MapError::NoPlace),
            Placement::Hostile => {
                let start = u64::from(pfn.0);
                self.place_from(start, frames, work)
                    .ok_or(MapError::NoPlace)
            }
            _ => frames.allocate_table(0).ok_or(MapError::OutOfFrames),
        }?;
        self.contents.remove(&pfn);
        self.tables.insert(key, pfn);
        work.table_frames += 1;
        Ok(())
    }

    fn place_from<F: Frames>(
        &mut self,
        start: u64,
        frames: &mut F,
        work: &mut Work,
    ) -> Option<Pfn> {
        for step in 0..256 {
            let pfn = Pfn(((start + step * 577) % u64::from(frames.count())) as u32);
            if frames.claim_table(pfn) {
                return Some(pfn);
            }
            let Some(displaced) = frames.displace(pfn) else {
                continue;
            };
            for &owner in &displaced.owners {
                let entry = self.entries.get_mut(&(owner, displaced.size)).unwrap();
                assert_eq!(entry.pfn, displaced.from);
                entry.pfn = displaced.to;
            }
            for offset in 0..displaced.size.base_pages() {
                let contents = self.contents.remove(&Pfn(displaced.from.0 + offset));
                self.contents
                    .insert(Pfn(displaced.to.0 + offset), contents.unwrap_or(0));
            }
            work.displaced.push(displaced);
            return Some(pfn);
        }
        None
    }
}

fn hash((asid, region, small): (Asid, u64, bool)) -> u64 {
    // Fibonacci hashing: the odd number nearest to 2^64 divided by the golden ratio.
    let key = region ^ (u64::from(asid.0) << 40) ^ (u64::from(small) << 60);
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

fn first(id: PageId, size: PageSize) -> PageId {
    PageId(id.0 & !(size.base_pages() - 1))
}

impl PageTable for MapTable {
    fn release<F: Frames>(&mut self, frames: &mut F, start: Page, pages: u64) {
        assert!(start.vpn.0.is_multiple_of(512) && pages.is_multiple_of(512));
        let from = (start.asid, start.vpn.0 >> 9, false);
        // As many as share the stretch of the first: their numbers follow from its own.
        let numbered = pages.min((1 << 18) - (start.vpn.0 & 0x3ffff)) as u32;
        let released = start.id.0..start.id.0 + numbered;
        for (id, _) in self.entries.keys() {
            assert!(!released.contains(&id.0), "{id:?} is released and mapped");
        }
        let to = (start.asid, (start.vpn.0 + pages) >> 9, false);
        let gone: Vec<_> = self
            .tables
            .range(from..to)
            .map(|(&key, &pfn)| (key, pfn))
            .collect();
        for (key, pfn) in gone {
            frames.free_table(pfn, 0);
            self.tables.remove(&key);
        }
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
            return Err(MapError::NoPlace);
        }
        self.maps_left -= 1;
        for size in PageSize::ALL {
            assert!(
                !self.entries.contains_key(&(first(page.id, size), size)),
                "{page:?}"
            );
        }
        assert!(
            page.vpn
                .0
                .is_multiple_of(u64::from(translation.size.base_pages()))
        );
        assert!(
            translation
                .pfn
                .0
                .is_multiple_of(translation.size.base_pages())
        );
        self.place_table(frames, page, translation, work)?;
        self.entries
            .insert((page.id, translation.size), translation);
        Ok(())
    }

    fn unmap<F: Frames>(
        &mut self,
        _: &mut F,
        page: Page,
        size: PageSize,
        _: &mut Work,
    ) -> Option<Translation> {
        self.entries.remove(&(page.id, size))
    }

    fn update(&mut self, page: Page, translation: Translation) -> bool {
        let Some(entry) = self.entries.get_mut(&(page.id, translation.size)) else {
            return false;
        };
        let old = std::mem::replace(entry, translation);
        if old.pfn != translation.pfn
            && let Some(&contents) = self.contents.get(&old.pfn)
        {
            self.contents.insert(translation.pfn, contents);
        }
        true
    }

    fn lookup(&self, page: Page) -> Option<Translation> {
        PageSize::ALL.into_iter().find_map(|size| {
            let start = first(page.id, size);
            let entry = self.entries.get(&(start, size))?;
            Some(Translation {
                pfn: Pfn(entry.pfn.0 + (page.id.0 - start.0)),
                ..*entry
            })
        })
    }

    fn walk(&mut self, _: usize, page: Page, _: &mut Walk) -> Option<Translation> {
        self.lookup(page)
    }

    fn prefetch(&self, _: Page) {}

    fn table_bytes(&self) -> u64 {
        self.tables.len() as u64 * 4096
    }
}
