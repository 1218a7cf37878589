use super::shadow::first;
use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};
use pagelab_translation::{Frames, MapError, Page, PageTable, Run, Translation, Walk, Work};
use std::collections::{BTreeMap, HashMap};

/// Place where the page table takes its frames.
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
    /// Nowhere, but where a page is unmapped, the next one's frame for a moment: a table that shrinks into it.
    Shrinking,
}

/// A page table that is a map, and takes frames as if it were a real one.
#[derive(Clone, Debug)]
pub struct MapTable {
    placement: Placement,
    entries: HashMap<(PageId, PageSize), Translation>,
    /// Mapped pages, by address.
    pages: BTreeMap<(Asid, u64), (PageId, PageSize)>,
    /// Table frames by 2 MiB region, apart for 4 KiB and for larger pages.
    tables: BTreeMap<(Asid, u64, bool), Pfn>,
}

impl MapTable {
    pub fn new(placement: Placement) -> Self {
        MapTable {
            placement,
            entries: HashMap::new(),
            pages: BTreeMap::new(),
            tables: BTreeMap::new(),
        }
    }

    fn place_table<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        Translation { pfn, size, .. }: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let key = (page.asid, page.vpn.0 >> 9, size == PageSize::Base4K);
        if matches!(self.placement, Placement::None | Placement::Shrinking)
            || self.tables.contains_key(&key)
        {
            return Ok(());
        }
        let start = match self.placement {
            Placement::Hashed => hash(key),
            _ => u64::from(pfn.0),
        };
        let taken = match self.placement {
            Placement::Anywhere => frames.allocate_table(0).ok_or(MapError::OutOfFrames),
            _ => self
                .place_from(start, frames, work)
                .ok_or(MapError::NoPlace),
        };
        self.tables.insert(key, taken?);
        work.table_frames += 1;
        Ok(())
    }

    /// Moves the next page of 4 KiB of an address space.
    fn shrink<F: Frames>(&mut self, frames: &mut F, page: Page, work: &mut Work) {
        let mut behind = self.pages.range((page.asid, page.vpn.0)..);
        let Some((_, next)) = behind.next() else {
            return;
        };
        if let Some(displaced) = frames.displace(self.entries[next].pfn) {
            for &owner in &displaced.owners {
                let entry = self.entries.get_mut(&(owner, displaced.size));
                entry.unwrap().pfn = displaced.to;
            }
            frames.free_table(displaced.from, 0);
            work.displaced.push(displaced);
        }
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
            if let Some(displaced) = frames.displace(pfn) {
                for &owner in &displaced.owners {
                    let entry = self.entries.get_mut(&(owner, displaced.size));
                    entry.unwrap().pfn = displaced.to;
                }
                work.displaced.push(displaced);
                return Some(pfn);
            }
        }
        None
    }
}

fn hash((asid, region, small): (Asid, u64, bool)) -> u64 {
    // Fibonacci hashing: the odd number nearest to 2^64 divided by the golden ratio.
    let key = region ^ (u64::from(asid.0) << 40) ^ (u64::from(small) << 60);
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

impl PageTable for MapTable {
    fn release<F: Frames>(&mut self, frames: &mut F, start: Page, pages: u64) {
        let from = (start.asid, start.vpn.0 >> 9, false);
        let to = (start.asid, (start.vpn.0 + pages) >> 9, false);
        let released = self.tables.range(from..to);
        for (key, pfn) in released.map(|(&key, &pfn)| (key, pfn)).collect::<Vec<_>>() {
            frames.free_table(pfn, 0);
            self.tables.remove(&key);
        }
    }

    fn end<F: Frames>(&mut self, _: &mut F, asid: Asid) {
        let first = (asid, 0, false);
        let left = self.tables.range(first..).next();
        assert!(
            left.is_none_or(|(key, _)| key.0 != asid),
            "{asid:?} has ended"
        );
    }

    fn map<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        translation: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        self.place_table(frames, page, translation, work)?;
        let size = translation.size;
        self.entries.insert((page.id, size), translation);
        self.pages.insert((page.asid, page.vpn.0), (page.id, size));
        Ok(())
    }

    fn unmap<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Option<Translation> {
        let old = self.entries.remove(&(page.id, size))?;
        self.pages.remove(&(page.asid, page.vpn.0));
        if self.placement == Placement::Shrinking {
            self.shrink(frames, page, work);
        }
        Some(old)
    }

    fn update(&mut self, page: Page, translation: Translation) -> bool {
        let entry = self.entries.get_mut(&(page.id, translation.size));
        entry.map(|entry| *entry = translation).is_some()
    }

    fn lookup(&self, page: Page) -> Option<Translation> {
        PageSize::ALL.into_iter().find_map(|size| {
            let start = first(page.id, size);
            let entry = self.entries.get(&(start, size))?;
            let pfn = Pfn(entry.pfn.0 + (page.id.0 - start.0));
            Some(Translation { pfn, ..*entry })
        })
    }

    fn next_mapped(&self, asid: Asid, pages: std::ops::Range<u64>) -> Option<Run> {
        // A larger page begins at most 1 GiB before.
        let from = pages.start.saturating_sub(1 << 18);
        let near = self.pages.range((asid, from)..(asid, pages.end));
        let inside = near
            .filter(|&(&(_, vpn), &(_, size))| vpn + u64::from(size.base_pages()) > pages.start);
        let mut inside = inside
            .map(|(&(_, vpn), &(id, size))| (vpn, id, size))
            .peekable();
        let &(vpn, id, size) = inside.peek()?;
        let index = if size == PageSize::Base4K {
            vpn % 512
        } else {
            0
        };
        let first = Page {
            id: PageId(id.0 - index as u32),
            asid,
            vpn: Vpn(vpn - index),
        };
        let region = inside.take_while(|&(other, _, _)| other - first.vpn.0 < 512);
        let numbers = region.map(|(other, _, _)| (other - first.vpn.0) as usize);
        Some(Run::of(first, size, numbers))
    }

    fn is_unmapped(&self, page: Page, size: PageSize) -> bool {
        let first = page.vpn.align_down(size).0;
        let end = first + u64::from(size.base_pages());
        self.next_mapped(page.asid, first..end).is_none()
    }

    fn walk(&mut self, _: usize, page: Page, _: &mut Walk) -> Option<Translation> {
        self.lookup(page)
    }

    fn host_prefetch(&self, _: Page) {}

    fn table_bytes(&self) -> u64 {
        self.tables.len() as u64 * 4096
    }
}
