//! Where pages are: the entries behind every page table, packed and indexed by dense numbers so
//! that a look-up is a few array reads. The organisations differ in where these entries lie in
//! *simulated* memory; that they keep beside.

use crate::{Page, Translation};
use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};
use pagelab_memory::host_prefetch;
use std::collections::BTreeMap;

/// A page-table entry in four bytes. Frames must lie in the first [`Pte::MAX_FRAMES`] (8 TiB).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pte(u32);

impl Pte {
    /// Maps nothing.
    pub(crate) const ABSENT: Pte = Pte(0);
    /// Frames that an entry can name.
    pub(crate) const MAX_FRAMES: u32 = (1 << 31) - 1;

    /// # Panics
    /// When the frame lies beyond [`Pte::MAX_FRAMES`].
    pub(crate) fn new(pfn: Pfn, writable: bool) -> Pte {
        assert!(
            pfn.0 < Self::MAX_FRAMES,
            "a page-table entry names frames of the first 8 TiB only"
        );
        Pte((pfn.0 + 1) << 1 | u32::from(writable))
    }

    #[inline]
    pub(crate) fn is_present(self) -> bool {
        self.0 != 0
    }

    /// Translates the page whose number ends in `vpn`'s low bits.
    #[inline]
    pub(crate) fn translate(self, vpn: u64, size: PageSize) -> Option<Translation> {
        if !self.is_present() {
            return None;
        }
        let offset = vpn as u32 & (size.base_pages() - 1);
        Some(Translation {
            pfn: Pfn((self.0 >> 1) - 1 + offset),
            size,
            writable: self.0 & 1 != 0,
        })
    }
}

/// No page of entries.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Entries of a page: a 4 KiB page of 8-byte entries on the simulated machine.
pub(crate) const ENTRIES: usize = 512;

/// Pages of entries, by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct PtePages {
    entries: Vec<[Pte; ENTRIES]>,
    present: Vec<u16>,
    free: Vec<u32>,
}

impl PtePages {
    /// An empty page.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push([Pte::ABSENT; ENTRIES]);
            self.present.push(0);
            (self.entries.len() - 1) as u32
        })
    }

    /// Gives an empty page back.
    pub(crate) fn give_back(&mut self, slot: u32) {
        assert!(self.is_empty(slot), "a page of entries still maps pages");
        self.free.push(slot);
    }

    pub(crate) fn is_empty(&self, slot: u32) -> bool {
        self.present[slot as usize] == 0
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32, index: usize) -> Pte {
        self.entries[slot as usize][index & (ENTRIES - 1)]
    }

    /// Writes an entry; returns what it was.
    pub(crate) fn set(&mut self, slot: u32, index: usize, pte: Pte) -> Pte {
        let old = std::mem::replace(&mut self.entries[slot as usize][index & (ENTRIES - 1)], pte);
        let present = &mut self.present[slot as usize];
        *present += u16::from(pte.is_present());
        *present -= u16::from(old.is_present());
        old
    }

    #[inline]
    pub(crate) fn host_prefetch(&self, slot: u32, index: usize) {
        host_prefetch(&self.entries[slot as usize][index & (ENTRIES - 1)]);
    }
}

/// A 2 MiB region: at most one of the two is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// The page of 4 KiB entries.
    pub(crate) slot: u32,
    /// Where that page lies in simulated memory, for organisations that have such pages.
    pub(crate) frame: Pfn,
    /// The region's mapping as one 2 MiB page.
    pub(crate) large: Pte,
}

const EMPTY_REGION: Region = Region {
    slot: NO_SLOT,
    frame: Pfn(0),
    large: Pte::ABSENT,
};

/// The mappings of all address spaces, by [`PageId`].
#[derive(Clone, Debug, Default)]
pub(crate) struct PageMap {
    regions: Vec<Region>,
    huge: Vec<Pte>,
    pages: PtePages,
    /// Whether there is room for the pages of a 1 GiB region.
    has_room: Vec<bool>,
    /// The 1 GiB regions that have room, by address: to find those of a range.
    gibs: BTreeMap<(Asid, u64), PageId>,
}

impl PageMap {
    /// Makes room for a page to be mapped.
    ///
    /// # Panics
    /// When a page of any size is mapped where a page of `size` is to be: the caller unmaps first.
    #[inline]
    pub(crate) fn prepare(&mut self, page: Page, size: PageSize) {
        if !matches!(self.has_room.get(gib(page.id)), Some(true)) {
            self.make_room(page);
        }
        let taken = match size {
            PageSize::Base4K => self.lookup(page.id).is_some(),
            _ => self.overlaps(page.id, size),
        };
        assert!(!taken, "{page:?} is mapped already, at least in part");
    }

    #[cold]
    fn make_room(&mut self, page: Page) {
        let gibs = gib(page.id) + 1;
        if gibs > self.huge.len() {
            self.huge.resize(gibs, Pte::ABSENT);
            self.regions.resize(gibs * ENTRIES, EMPTY_REGION);
            self.has_room.resize(gibs, false);
        }
        self.has_room[gibs - 1] = true;
        let first = PageId((gib(page.id) as u32) << GIB_ORDER);
        self.gibs
            .insert((page.asid, page.vpn.0 >> GIB_ORDER), first);
    }

    /// The first page of each 2 MiB region that a range reaches, but for 1 GiB regions without room,
    /// in the order of addresses.
    pub(crate) fn regions_in(&self, first: Page, pages: u64) -> Vec<Page> {
        if pages == 0 {
            return Vec::new();
        }
        let last = first.vpn.0.saturating_add(pages - 1);
        let keys = (first.asid, first.vpn.0 >> GIB_ORDER)..=(first.asid, last >> GIB_ORDER);
        let of_gib = |(&(asid, number), &id): (&(Asid, u64), &PageId)| {
            let start = number << GIB_ORDER;
            let from = first.vpn.0.saturating_sub(start) as u32 & !(ENTRIES as u32 - 1);
            let to = (last - start).min((1 << GIB_ORDER) - 1) as u32;
            (from..=to).step_by(ENTRIES).map(move |offset| Page {
                id: PageId(id.0 + offset),
                asid,
                vpn: Vpn(start + u64::from(offset)),
            })
        };
        self.gibs.range(keys).flat_map(of_gib).collect()
    }

    /// The region of a page; an empty one where nothing was ever mapped.
    #[inline]
    pub(crate) fn region(&self, id: PageId) -> Region {
        *self.regions.get(id.region()).unwrap_or(&EMPTY_REGION)
    }

    /// The mapping of the 1 GiB region around a page as one page.
    #[inline]
    pub(crate) fn huge(&self, id: PageId) -> Pte {
        *self.huge.get(gib(id)).unwrap_or(&Pte::ABSENT)
    }

    #[inline]
    pub(crate) fn lookup(&self, id: PageId) -> Option<Translation> {
        let region = self.region(id);
        if region.slot != NO_SLOT {
            let pte = self.pages.get(region.slot, id.index_in_region());
            return pte.translate(u64::from(id.0), PageSize::Base4K);
        }
        region
            .large
            .translate(u64::from(id.0), PageSize::Large2M)
            .or_else(|| self.huge(id).translate(u64::from(id.0), PageSize::Huge1G))
    }

    /// The 4 KiB entry of a page whose region has a page of them.
    #[inline]
    pub(crate) fn page_entry(&self, region: Region, id: PageId) -> Pte {
        self.pages.get(region.slot, id.index_in_region())
    }

    /// The entry of a page of a size; absent where nothing of that size is mapped.
    pub(crate) fn get(&self, id: PageId, size: PageSize) -> Pte {
        let region = self.region(id);
        match size {
            PageSize::Base4K if region.slot == NO_SLOT => Pte::ABSENT,
            PageSize::Base4K => self.pages.get(region.slot, id.index_in_region()),
            PageSize::Large2M => region.large,
            PageSize::Huge1G => self.huge(id),
        }
    }

    /// Whether anything is mapped where a page larger than 4 KiB is to be.
    fn overlaps(&self, id: PageId, size: PageSize) -> bool {
        let mut regions = (0..size.base_pages()).step_by(ENTRIES);
        self.huge(id).is_present()
            || regions.any(|offset| {
                let region = self.region(PageId(id.0 + offset));
                let pages = region.slot != NO_SLOT && !self.pages.is_empty(region.slot);
                pages || region.large.is_present()
            })
    }

    /// Writes the entry of a page of a size, for which there is room; returns what it was.
    pub(crate) fn set(&mut self, id: PageId, size: PageSize, pte: Pte) -> Pte {
        let region = &mut self.regions[id.region()];
        match size {
            PageSize::Base4K => self.pages.set(region.slot, id.index_in_region(), pte),
            PageSize::Large2M => std::mem::replace(&mut region.large, pte),
            PageSize::Huge1G => std::mem::replace(&mut self.huge[gib(id)], pte),
        }
    }

    /// Changes the entry of a mapped page; `false` when it is not mapped so.
    pub(crate) fn update(&mut self, id: PageId, to: Translation) -> bool {
        let present = self.get(id, to.size).is_present();
        if present {
            self.set(id, to.size, Pte::new(to.pfn, to.writable));
        }
        present
    }

    /// Gives a region an empty page of 4 KiB entries, at `frame` of simulated memory.
    pub(crate) fn add_page(&mut self, id: PageId, frame: Pfn) {
        let region = &mut self.regions[id.region()];
        region.slot = self.pages.take();
        region.frame = frame;
    }

    /// Takes a region's page of 4 KiB entries away if there is one and it is empty; returns
    /// where it lay.
    pub(crate) fn remove_empty_page(&mut self, id: PageId) -> Option<Pfn> {
        let region = self.regions.get_mut(id.region())?;
        if region.slot == NO_SLOT || !self.pages.is_empty(region.slot) {
            return None;
        }
        self.pages.give_back(region.slot);
        region.slot = NO_SLOT;
        Some(region.frame)
    }

    #[inline]
    pub(crate) fn host_prefetch(&self, id: PageId) {
        let region = self.region(id);
        if region.slot != NO_SLOT {
            self.pages.host_prefetch(region.slot, id.index_in_region());
        }
    }
}

/// The 1 GiB region of a page, numbered densely.
#[inline]
pub(crate) fn gib(id: PageId) -> usize {
    (id.0 >> GIB_ORDER) as usize
}

/// log2 of the base pages of 1 GiB.
pub(crate) const GIB_ORDER: u32 = PageSize::Huge1G.order();
