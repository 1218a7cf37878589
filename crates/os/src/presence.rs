use pagelab_addr::{Asid, PageId, PageSize, Vpn};
use pagelab_translation::Page;
use std::collections::BTreeMap;
use std::ops::Range;

/// log2 of the base pages in a 1 GiB stretch.
const STRETCH_SHIFT: u32 = 18;
const REGIONS: usize = 512;

/// Which pages of a 1 GiB stretch are mapped: a bit for each.
#[derive(Clone, Debug)]
struct Stretch {
    /// 4 KiB pages of each 2 MiB region.
    base: [[u64; 8]; REGIONS],
    /// Regions mapped by 2 MiB pages.
    large: [u64; 8],
    /// The stretch is mapped by one 1 GiB page.
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
    /// By stretch number (see [`PageId`]).
    stretches: Vec<Option<Box<Stretch>>>,
    /// Numbers of the stretches that hold something, by address.
    numbers: BTreeMap<(Asid, u64), u32>,
}

impl Presence {
    /// The size of the page mapped around a page.
    #[inline]
    pub(crate) fn size_at(&self, id: PageId) -> Option<PageSize> {
        let stretch = self.stretch(id)?;
        let (region, page) = place(id);
        if bit(&stretch.base[region], page) {
            Some(PageSize::Base4K)
        } else if bit(&stretch.large, region) {
            Some(PageSize::Large2M)
        } else {
            stretch.huge.then_some(PageSize::Huge1G)
        }
    }

    /// Whether nothing is mapped in the aligned range of `size` around a page.
    #[inline]
    pub(crate) fn is_empty(&self, id: PageId, size: PageSize) -> bool {
        let Some(stretch) = self.stretch(id) else {
            return true;
        };
        let (region, page) = place(id);
        match size {
            PageSize::Base4K => !bit(&stretch.base[region], page),
            PageSize::Large2M => {
                !stretch.huge && !bit(&stretch.large, region) && stretch.base[region] == [0; 8]
            }
            PageSize::Huge1G => stretch.pages == 0,
        }
    }

    /// Notes that a page is mapped that was not.
    #[inline]
    pub(crate) fn insert(&mut self, page: Page, size: PageSize) {
        let number = (page.id.0 >> STRETCH_SHIFT) as usize;
        if self.stretches.get(number).is_none_or(Option::is_none) {
            self.add_stretch(page);
        }
        let Some(stretch) = &mut self.stretches[number] else {
            return;
        };
        let (region, index) = place(page.id);
        stretch.pages += 1;
        match size {
            PageSize::Base4K => stretch.base[region][index / 64] |= 1 << (index % 64),
            PageSize::Large2M => stretch.large[region / 64] |= 1 << (region % 64),
            PageSize::Huge1G => stretch.huge = true,
        }
    }

    #[cold]
    fn add_stretch(&mut self, page: Page) {
        let number = page.id.0 >> STRETCH_SHIFT;
        if self.stretches.len() <= number as usize {
            self.stretches.resize(number as usize + 1, None);
        }
        self.stretches[number as usize] = Some(Box::new(Stretch {
            base: [[0; 8]; REGIONS],
            large: [0; 8],
            huge: false,
            pages: 0,
        }));
        self.numbers
            .insert((page.asid, page.vpn.0 >> STRETCH_SHIFT), number);
    }

    /// Notes that a page of a size is mapped no more.
    #[inline]
    pub(crate) fn remove(&mut self, id: PageId, size: PageSize) {
        let (region, index) = place(id);
        let number = (id.0 >> STRETCH_SHIFT) as usize;
        let Some(Some(stretch)) = self.stretches.get_mut(number) else {
            return;
        };
        stretch.pages -= 1;
        match size {
            PageSize::Base4K => stretch.base[region][index / 64] &= !(1 << (index % 64)),
            PageSize::Large2M => stretch.large[region / 64] &= !(1 << (region % 64)),
            PageSize::Huge1G => stretch.huge = false,
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
            self.stretches[number as usize] = None;
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
        let keys = (asid, pages.start >> STRETCH_SHIFT)..=(asid, last >> STRETCH_SHIFT);
        self.numbers.range(keys).find_map(|(&(_, gib), &number)| {
            let start = gib << STRETCH_SHIFT;
            let from = pages.start.saturating_sub(start);
            let to = (pages.end - start).min(1 << STRETCH_SHIFT);
            let first = Page {
                id: PageId(number << STRETCH_SHIFT),
                asid,
                vpn: Vpn(start),
            };
            let stretch = self.stretches[number as usize].as_deref()?;
            stretch.next(first, from as usize..to as usize)
        })
    }

    fn stretch(&self, id: PageId) -> Option<&Stretch> {
        self.stretches
            .get((id.0 >> STRETCH_SHIFT) as usize)?
            .as_deref()
    }
}

impl Stretch {
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

/// The 2 MiB region of a page in its stretch, and the page's place in the region.
#[inline]
fn place(id: PageId) -> (usize, usize) {
    (id.region() % REGIONS, id.index_in_region())
}

#[inline]
fn bit(bits: &[u64; 8], index: usize) -> bool {
    bits[index / 64] >> (index % 64) & 1 != 0
}
