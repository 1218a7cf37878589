//! Mapped pages: the entries behind every page table, packed and indexed by dense numbers so that a
//! look-up is a few array reads. Where these entries lie in *simulated* memory is the
//! organisations' affair.

use crate::{Page, Translation};
use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};
use pagelab_memory::host_prefetch;
use std::collections::BTreeMap;
use std::ops::Range;

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
const NO_SLOT: u32 = u32::MAX;

/// 4 KiB pages in a 2 MiB region, and 2 MiB regions in a 1 GiB region.
const ENTRIES: usize = 512;

/// A bit for each of 512 entries that is present.
type Bits = [u64; ENTRIES / 64];

/// The entries of 2 MiB regions in which 4 KiB pages are mapped, by slot.
#[derive(Clone, Debug, Default)]
struct Slots {
    entries: Vec<[Pte; ENTRIES]>,
    present: Vec<Bits>,
    free: Vec<u32>,
}

impl Slots {
    /// An empty one.
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push([Pte::ABSENT; ENTRIES]);
            self.present.push([0; ENTRIES / 64]);
            (self.entries.len() - 1) as u32
        })
    }

    #[inline]
    fn get(&self, slot: u32, index: usize) -> Pte {
        self.entries[slot as usize][index & (ENTRIES - 1)]
    }

    #[inline]
    fn write(&mut self, slot: u32, index: usize, pte: Pte) {
        self.entries[slot as usize][index & (ENTRIES - 1)] = pte;
    }

    #[inline]
    fn enter(&mut self, slot: u32, index: usize, pte: Pte) {
        self.write(slot, index, pte);
        let index = index & (ENTRIES - 1);
        self.present[slot as usize][index / 64] |= 1 << (index % 64);
    }

    /// True if no entry is left.
    fn remove(&mut self, slot: u32, index: usize) -> bool {
        self.write(slot, index, Pte::ABSENT);
        let index = index & (ENTRIES - 1);
        let present = &mut self.present[slot as usize];
        present[index / 64] &= !(1 << (index % 64));
        present[index / 64] == 0 && *present == [0; ENTRIES / 64]
    }
}

/// A 2 MiB region: at most one of the two is in use.
#[derive(Clone, Copy, Debug)]
struct Region {
    /// The entries of its 4 KiB pages, if some are mapped.
    slot: u32,
    /// The region's mapping as one 2 MiB page.
    large: Pte,
}

impl Region {
    const EMPTY: Region = Region {
        slot: NO_SLOT,
        large: Pte::ABSENT,
    };

    fn is_empty(self) -> bool {
        self.slot == NO_SLOT && !self.large.is_present()
    }
}

/// A 1 GiB region in which something was mapped once.
#[derive(Clone, Copy, Debug)]
struct Gib {
    asid: Asid,
    /// Its address, in GiB.
    number: u64,
    /// Its mapping as one page.
    huge: Pte,
    /// Its 2 MiB regions that are not empty.
    used: u32,
}

/// The mappings of all address spaces, by [`PageId`].
#[derive(Clone, Debug, Default)]
pub struct PageMap {
    regions: Vec<Region>,
    gibs: Vec<Option<Gib>>,
    slots: Slots,
    /// The numbers of the 1 GiB regions, by address: to find those of a range.
    numbers: BTreeMap<(Asid, u64), u32>,
}

impl PageMap {
    /// Makes room for a page to be mapped.
    ///
    /// # Panics
    /// When a page of any size is mapped where a page of `size` is to be: the caller unmaps first.
    #[inline]
    pub(crate) fn prepare(&mut self, page: Page, size: PageSize) {
        // Most pages are small and beside others.
        let unmapped = match self.small(page.id) {
            Some(slot) if size == PageSize::Base4K => {
                !self.slots.get(slot, page.id.index_in_region()).is_present()
            }
            _ => self.prepare_anew(page, size),
        };
        assert!(unmapped, "{page:?} is mapped already, at least in part");
    }

    #[cold]
    fn prepare_anew(&mut self, page: Page, size: PageSize) -> bool {
        if !matches!(self.gibs.get(gib(page.id)), Some(Some(_))) {
            self.make_room(page);
        }
        self.is_unmapped(page.id, size)
    }

    /// The slot of a page's region, if 4 KiB pages are mapped in it.
    #[inline]
    fn small(&self, id: PageId) -> Option<u32> {
        let slot = self.regions.get(id.region())?.slot;
        (slot != NO_SLOT).then_some(slot)
    }

    fn make_room(&mut self, page: Page) {
        let gibs = gib(page.id) + 1;
        if gibs > self.gibs.len() {
            self.gibs.resize(gibs, None);
            self.regions.resize(gibs * ENTRIES, Region::EMPTY);
        }
        let number = page.vpn.0 >> GIB_ORDER;
        self.gibs[gibs - 1] = Some(Gib {
            asid: page.asid,
            number,
            huge: Pte::ABSENT,
            used: 0,
        });
        self.numbers.insert((page.asid, number), gibs as u32 - 1);
    }

    /// The numbers of the 1 GiB regions of an address space in which something was mapped.
    pub(crate) fn gibs_of(&self, asid: Asid) -> impl Iterator<Item = (u64, u32)> + '_ {
        let keys = (asid, 0)..=(asid, u64::MAX);
        let gibs = self.numbers.range(keys);
        gibs.map(|(&(_, address), &number)| (address, number))
    }

    /// Forgets an address space in which nothing is mapped any more.
    pub(crate) fn forget(&mut self, asid: Asid) {
        let gibs: Vec<(u64, u32)> = self.gibs_of(asid).collect();
        for (address, number) in gibs {
            self.numbers.remove(&(asid, address));
            let gib = self.gibs[number as usize].take();
            debug_assert!(gib.is_none_or(|gib| gib.used == 0 && !gib.huge.is_present()));
        }
    }

    /// The first page of each 2 MiB region that a range reaches, but for 1 GiB regions in which
    /// nothing was ever mapped, in the order of addresses.
    pub(crate) fn regions_in(&self, first: Page, pages: u64) -> Vec<Page> {
        if pages == 0 {
            return Vec::new();
        }
        let last = first.vpn.0.saturating_add(pages - 1);
        let keys = (first.asid, first.vpn.0 >> GIB_ORDER)..=(first.asid, last >> GIB_ORDER);
        let of_gib = |(&(asid, number), &gib): (&(Asid, u64), &u32)| {
            let start = number << GIB_ORDER;
            let from = first.vpn.0.saturating_sub(start) as u32 & !(ENTRIES as u32 - 1);
            let to = (last - start).min((1 << GIB_ORDER) - 1) as u32;
            (from..=to).step_by(ENTRIES).map(move |offset| Page {
                id: PageId((gib << GIB_ORDER) + offset),
                asid,
                vpn: Vpn(start + u64::from(offset)),
            })
        };
        self.numbers.range(keys).flat_map(of_gib).collect()
    }

    /// Address space and address, in GiB, of a 1 GiB region in which something was mapped.
    #[inline]
    pub(crate) fn address(&self, number: u32) -> (Asid, u64) {
        match self.gibs.get(number as usize) {
            Some(Some(gib)) => (gib.asid, gib.number),
            _ => unreachable!("nothing was ever mapped in 1 GiB region {number}"),
        }
    }

    /// The first page of the 1 GiB region at an address, if something was mapped there.
    pub(crate) fn gib_at(&self, asid: Asid, number: u64) -> Option<PageId> {
        let gib = self.numbers.get(&(asid, number))?;
        Some(PageId(gib << GIB_ORDER))
    }

    /// Number of the aligned eight 4 KiB pages from one on that are mapped.
    #[inline]
    pub(crate) fn base_pages(&self, first: PageId) -> u32 {
        let slot = self.region(first).slot;
        if slot == NO_SLOT {
            return 0;
        }
        let index = first.index_in_region();
        let word = self.slots.present[slot as usize][index / 64];
        (word >> (index % 64) & 0xff).count_ones()
    }

    /// Place of a page.
    #[inline]
    pub fn lookup(&self, id: PageId) -> Option<Translation> {
        let vpn = u64::from(id.0);
        let region = *self.regions.get(id.region())?;
        if region.slot != NO_SLOT {
            let pte = self.slots.get(region.slot, id.index_in_region());
            return pte.translate(vpn, PageSize::Base4K);
        }
        region
            .large
            .translate(vpn, PageSize::Large2M)
            .or_else(|| self.huge(id).translate(vpn, PageSize::Huge1G))
    }

    /// The mapping of the 1 GiB region around a page as one page.
    #[inline]
    fn huge(&self, id: PageId) -> Pte {
        match self.gibs.get(gib(id)) {
            Some(Some(gib)) => gib.huge,
            _ => Pte::ABSENT,
        }
    }

    fn region(&self, id: PageId) -> Region {
        *self.regions.get(id.region()).unwrap_or(&Region::EMPTY)
    }

    /// The entry of a page of a size; absent where nothing of that size is mapped.
    pub(crate) fn get(&self, id: PageId, size: PageSize) -> Pte {
        let region = self.region(id);
        match size {
            PageSize::Base4K if region.slot == NO_SLOT => Pte::ABSENT,
            PageSize::Base4K => self.slots.get(region.slot, id.index_in_region()),
            PageSize::Large2M => region.large,
            PageSize::Huge1G => self.huge(id),
        }
    }

    /// True if nothing is mapped, of any size, in the aligned range of a size around a page.
    #[inline]
    pub fn is_unmapped(&self, id: PageId, size: PageSize) -> bool {
        match size {
            PageSize::Base4K => self.lookup(id).is_none(),
            PageSize::Large2M => self.region(id).is_empty() && !self.huge(id).is_present(),
            PageSize::Huge1G => match self.gibs.get(gib(id)) {
                Some(Some(gib)) => gib.used == 0 && !gib.huge.is_present(),
                _ => true,
            },
        }
    }

    /// True if 4 KiB pages are mapped in the 2 MiB region around a page.
    #[inline]
    pub(crate) fn has_base_pages(&self, id: PageId) -> bool {
        self.region(id).slot != NO_SLOT
    }

    /// Enters a page of a size, for which [`PageMap::prepare`] made room.
    #[inline]
    pub(crate) fn enter(&mut self, id: PageId, size: PageSize, pte: Pte) {
        match self.small(id) {
            Some(slot) if size == PageSize::Base4K => {
                self.slots.enter(slot, id.index_in_region(), pte);
            }
            _ => self.enter_first(id, size, pte),
        }
    }

    #[cold]
    fn enter_first(&mut self, id: PageId, size: PageSize, pte: Pte) {
        let region = &mut self.regions[id.region()];
        let Some(gib) = &mut self.gibs[gib(id)] else {
            unreachable!("there is no room for {id:?}");
        };
        match size {
            PageSize::Base4K => {
                region.slot = self.slots.take();
                self.slots.enter(region.slot, id.index_in_region(), pte);
            }
            PageSize::Large2M => region.large = pte,
            PageSize::Huge1G => {
                gib.huge = pte;
                return;
            }
        }
        gib.used += 1;
    }

    /// Takes a page of a size out; its entry as it was, absent where nothing of that size is mapped.
    pub(crate) fn remove(&mut self, id: PageId, size: PageSize) -> Pte {
        let old = self.get(id, size);
        if !old.is_present() {
            return old;
        }
        let region = &mut self.regions[id.region()];
        let empty = match size {
            PageSize::Base4K => {
                let empty = self.slots.remove(region.slot, id.index_in_region());
                if empty {
                    self.slots.free.push(region.slot);
                    region.slot = NO_SLOT;
                }
                empty
            }
            PageSize::Large2M => {
                region.large = Pte::ABSENT;
                true
            }
            PageSize::Huge1G => false,
        };
        if size == PageSize::Base4K && !empty {
            return old;
        }
        if let Some(gib) = &mut self.gibs[gib(id)] {
            gib.used -= u32::from(empty);
            if size == PageSize::Huge1G {
                gib.huge = Pte::ABSENT;
            }
        }
        old
    }

    /// Changes the entry of a mapped page; `false` when it is not mapped so.
    pub(crate) fn update(&mut self, id: PageId, to: Translation) -> bool {
        let present = self.get(id, to.size).is_present();
        if present {
            let pte = Pte::new(to.pfn, to.writable);
            let region = &mut self.regions[id.region()];
            match to.size {
                PageSize::Base4K => self.slots.write(region.slot, id.index_in_region(), pte),
                PageSize::Large2M => region.large = pte,
                PageSize::Huge1G => {
                    if let Some(gib) = &mut self.gibs[gib(id)] {
                        gib.huge = pte;
                    }
                }
            }
        }
        present
    }

    /// The first mapped pages of an address space in a range. A page that reaches out of the range
    /// counts as inside.
    pub fn next(&self, asid: Asid, pages: Range<u64>) -> Option<Run> {
        if pages.is_empty() {
            return None;
        }
        let last = pages.end - 1;
        let keys = (asid, pages.start >> GIB_ORDER)..=(asid, last >> GIB_ORDER);
        self.numbers.range(keys).find_map(|(&(_, number), &gib)| {
            let start = number << GIB_ORDER;
            let from = pages.start.saturating_sub(start);
            let to = (pages.end - start).min(1 << GIB_ORDER);
            let first = Page {
                id: PageId(gib << GIB_ORDER),
                asid,
                vpn: Vpn(start),
            };
            self.next_in_gib(first, from as usize..to as usize)
        })
    }

    /// The same in a 1 GiB region, of which the first page is given.
    fn next_in_gib(&self, first: Page, pages: Range<usize>) -> Option<Run> {
        let gib = self.gibs[gib(first.id)]?;
        let alone = |offset, size| Run::of(offset_by(first, offset), size, [0]);
        if gib.huge.is_present() {
            return Some(alone(0, PageSize::Huge1G));
        }
        if gib.used == 0 {
            return None;
        }
        let regions = pages.start / ENTRIES..pages.end.div_ceil(ENTRIES);
        let kept = &self.regions[first.id.region()..][regions.clone()];
        regions.zip(kept).find_map(|(number, region)| {
            let start = number * ENTRIES;
            if region.large.is_present() {
                return Some(alone(start, PageSize::Large2M));
            }
            if region.slot == NO_SLOT {
                return None;
            }
            let inside = pages.start.max(start) - start..pages.end.min(start + ENTRIES) - start;
            let bits = masked(&self.slots.present[region.slot as usize], inside);
            (bits != [0; ENTRIES / 64]).then_some(Run {
                first: offset_by(first, start),
                size: PageSize::Base4K,
                bits,
            })
        })
    }

    #[inline]
    pub(crate) fn host_prefetch(&self, id: PageId) {
        let region = self.region(id);
        if region.slot != NO_SLOT {
            host_prefetch(&self.slots.entries[region.slot as usize][id.index_in_region()]);
        }
    }
}

/// Mapped pages of one 2 MiB region, or one larger page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first page of the region (or of the 1 GiB page).
    pub first: Page,
    /// Their size.
    pub size: PageSize,
    /// Bits of the region's 4 KiB pages; for a larger page only bit 0 is set.
    bits: Bits,
}

impl Run {
    /// Pages of a size, by their numbers from the first page of a 2 MiB region on; of a larger page
    /// only number 0.
    pub fn of(first: Page, size: PageSize, numbers: impl IntoIterator<Item = usize>) -> Run {
        let mut bits = [0; ENTRIES / 64];
        for number in numbers {
            bits[number / 64] |= 1 << (number % 64);
        }
        Run { first, size, bits }
    }

    /// The pages, each named by its first base page, ascending.
    pub fn pages(self) -> impl Iterator<Item = Page> {
        let words = self.bits.into_iter().enumerate();
        let bits = words.flat_map(|(word, bits)| Ones(bits).map(move |bit| word * 64 + bit));
        bits.map(move |bit| offset_by(self.first, bit))
    }

    /// One past the last page that it stands for.
    pub fn end(&self) -> u64 {
        self.first.vpn.0 + u64::from(self.size.base_pages()).max(ENTRIES as u64)
    }
}

/// The places of the bits that are set, ascending.
struct Ones(u64);

impl Iterator for Ones {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(place)
    }
}

/// The bits of a range.
fn masked(bits: &Bits, range: Range<usize>) -> Bits {
    std::array::from_fn(|word| {
        let low = range.start.saturating_sub(word * 64).min(64) as u32;
        let high = range.end.saturating_sub(word * 64).min(64) as u32;
        let below = |end: u32| u64::MAX.checked_shr(64 - end).unwrap_or(0);
        bits[word] & below(high) & !below(low)
    })
}

fn offset_by(page: Page, pages: usize) -> Page {
    Page {
        id: PageId(page.id.0 + pages as u32),
        asid: page.asid,
        vpn: Vpn(page.vpn.0 + pages as u64),
    }
}

/// The 1 GiB region of a page, numbered densely.
#[inline]
pub(crate) fn gib(id: PageId) -> usize {
    (id.0 >> GIB_ORDER) as usize
}

/// log2 of the base pages of 1 GiB.
pub(crate) const GIB_ORDER: u32 = PageSize::Huge1G.order();
