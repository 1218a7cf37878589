use pagelab_addr::{Asid, PageId, PageSize, Vpn};
use pagelab_translation::Page;
use std::collections::BTreeMap;
use std::ops::Range;

/// log2 of the base pages in a 1 GiB region.
const GIB_ORDER: u32 = 18;
const REGIONS: usize = 512;

/// Which pages of a 1 GiB region are mapped: a bit for each.
#[derive(Clone, Debug)]
struct Gib {
    /// 4 KiB pages of each 2 MiB region.
    base: [[u64; 8]; REGIONS],
    /// Regions mapped by 2 MiB pages.
    large: [u64; 8],
    /// The 1 GiB region is mapped by one 1 GiB page.
    huge: bool,
    /// Pages mapped, of any size.
    pages: u32,
}

/// Mapped pages of one 2 MiB region, or one larger page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first page of the region (or of the 1 GiB page).
    pub(crate) first: Page,
    /// Their size.
    pub(crate) size: PageSize,
    /// Which of the region's 4 KiB pages; for a larger page only bit 0 is set.
    bits: [u64; 8],
}

impl Run {
    /// The pages, each named by its first base page, ascending.
    pub(crate) fn pages(self) -> impl Iterator<Item = Page> {
        let Page { id, asid, vpn } = self.first;
        Bits(self.bits).map(move |bit| Page {
            id: PageId(id.0 + bit),
            asid,
            vpn: Vpn(vpn.0 + u64::from(bit)),
        })
    }

    /// One past the last page that it stands for.
    pub(crate) fn end(&self) -> u64 {
        self.first.vpn.0 + u64::from(self.size.base_pages()).max(512)
    }
}

struct Bits([u64; 8]);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let word = self.0.iter().position(|&word| word != 0)?;
        let bit = self.0[word].trailing_zeros();
        self.0[word] &= self.0[word] - 1;
        Some(word as u32 * 64 + bit)
    }
}

/// Which pages are mapped, in all address spaces: what lets unmapping, fork and exit go over
/// the mapped pages of a range without asking the page table about each page in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    /// By 1 GiB region number (see [`PageId`]).
    gibs: Vec<Option<Box<Gib>>>,
    /// Numbers of the 1 GiB regions that hold something, by address.
    numbers: BTreeMap<(Asid, u64), u32>,
}

impl Presence {
    /// The size of the page mapped around a page.
    #[inline]
    pub(crate) fn size_at(&self, id: PageId) -> Option<PageSize> {
        let gib = self.gib(id)?;
        let (region, page) = place(id);
        if bit(&gib.base[region], page) {
            Some(PageSize::Base4K)
        } else if bit(&gib.large, region) {
            Some(PageSize::Large2M)
        } else {
            gib.huge.then_some(PageSize::Huge1G)
        }
    }

    /// Whether nothing is mapped in the aligned range of `size` around a page.
    #[inline]
    pub(crate) fn is_empty(&self, id: PageId, size: PageSize) -> bool {
        let Some(gib) = self.gib(id) else {
            return true;
        };
        let (region, page) = place(id);
        match size {
            PageSize::Base4K => !bit(&gib.base[region], page),
            PageSize::Large2M => {
                !gib.huge && !bit(&gib.large, region) && gib.base[region] == [0; 8]
            }
            PageSize::Huge1G => gib.pages == 0,
        }
    }

    /// Notes that a page is mapped that was not.
    #[inline]
    pub(crate) fn insert(&mut self, page: Page, size: PageSize) {
        let number = (page.id.0 >> GIB_ORDER) as usize;
        if self.gibs.get(number).is_none_or(Option::is_none) {
            self.add_gib(page);
        }
        let Some(gib) = &mut self.gibs[number] else {
            return;
        };
        let (region, index) = place(page.id);
        gib.pages += 1;
        match size {
            PageSize::Base4K => gib.base[region][index / 64] |= 1 << (index % 64),
            PageSize::Large2M => gib.large[region / 64] |= 1 << (region % 64),
            PageSize::Huge1G => gib.huge = true,
        }
    }

    #[cold]
    fn add_gib(&mut self, page: Page) {
        let number = page.id.0 >> GIB_ORDER;
        if self.gibs.len() <= number as usize {
            self.gibs.resize(number as usize + 1, None);
        }
        self.gibs[number as usize] = Some(Box::new(Gib {
            base: [[0; 8]; REGIONS],
            large: [0; 8],
            huge: false,
            pages: 0,
        }));
        self.numbers
            .insert((page.asid, page.vpn.0 >> GIB_ORDER), number);
    }

    /// Notes that a page of a size is mapped no more.
    #[inline]
    pub(crate) fn remove(&mut self, id: PageId, size: PageSize) {
        let (region, index) = place(id);
        let number = (id.0 >> GIB_ORDER) as usize;
        let Some(Some(gib)) = self.gibs.get_mut(number) else {
            return;
        };
        gib.pages -= 1;
        match size {
            PageSize::Base4K => gib.base[region][index / 64] &= !(1 << (index % 64)),
            PageSize::Large2M => gib.large[region / 64] &= !(1 << (region % 64)),
            PageSize::Huge1G => gib.huge = false,
        }
    }

    /// Drops what is kept for an address space in which nothing is mapped any more.
    pub(crate) fn forget(&mut self, asid: Asid) {
        let of_space = (asid, 0)..=(asid, u64::MAX);
        let gone: Vec<_> = self
            .numbers
            .range(of_space)
            .map(|(&key, &n)| (key, n))
            .collect();
        for (key, number) in gone {
            self.gibs[number as usize] = None;
            self.numbers.remove(&key);
        }
    }

    /// The first mapped pages of an address space in a range. A page that reaches out of the range
    /// counts as inside.
    pub(crate) fn next(&self, asid: Asid, pages: Range<u64>) -> Option<Run> {
        if pages.is_empty() {
            return None;
        }
        let last = pages.end - 1;
        let keys = (asid, pages.start >> GIB_ORDER)..=(asid, last >> GIB_ORDER);
        self.numbers.range(keys).find_map(|(&(_, gib), &number)| {
            let start = gib << GIB_ORDER;
            let from = pages.start.saturating_sub(start);
            let to = (pages.end - start).min(1 << GIB_ORDER);
            let first = Page {
                id: PageId(number << GIB_ORDER),
                asid,
                vpn: Vpn(start),
            };
            let gib = self.gibs[number as usize].as_deref()?;
            gib.next(first, from as usize..to as usize)
        })
    }

    fn gib(&self, id: PageId) -> Option<&Gib> {
        self.gibs.get((id.0 >> GIB_ORDER) as usize)?.as_deref()
    }
}

impl Gib {
    fn next(&self, first: Page, pages: Range<usize>) -> Option<Run> {
        let alone = |offset: usize, size| Run {
            first: offset_by(first, offset),
            size,
            bits: [1, 0, 0, 0, 0, 0, 0, 0],
        };
        if self.pages == 0 {
            return None;
        }
        if self.huge {
            return Some(alone(0, PageSize::Huge1G));
        }
        (pages.start / 512..pages.end.div_ceil(512)).find_map(|region| {
            if bit(&self.large, region) {
                return Some(alone(region * 512, PageSize::Large2M));
            }
            let start = region * 512;
            let inside = pages.start.max(start) - start..pages.end.min(start + 512) - start;
            let bits = masked(&self.base[region], inside);
            (bits != [0; 8]).then_some(Run {
                first: offset_by(first, start),
                size: PageSize::Base4K,
                bits,
            })
        })
    }
}

/// The bits of a range.
fn masked(bits: &[u64; 8], range: Range<usize>) -> [u64; 8] {
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

/// The 2 MiB region of a page in its 1 GiB region, and the page's place in the region.
#[inline]
fn place(id: PageId) -> (usize, usize) {
    (id.region() % REGIONS, id.index_in_region())
}

#[inline]
fn bit(bits: &[u64; 8], index: usize) -> bool {
    bits[index / 64] >> (index % 64) & 1 != 0
}
