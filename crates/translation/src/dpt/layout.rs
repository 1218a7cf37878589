//! Virtual addresses that stand for recorded ones, and the places in dense arrays of what belongs
//! to them.
//!
//! A recorded program's addresses are given, so CVA and PTP cannot hand it others. They give a
//! 2 MiB region an *effective* address instead, which replaces the recorded one wherever DPT
//! hashes or indexes. It comes from the process's *area*, 1 TiB from 2^55 on that no recorded
//! address may use: a 1 GiB region recorded at or above 2^55 as a whole gets an address behind it.
//! Regions and 1 GiB regions are numbered densely; those that stand for themselves first
//! belong to the recorded 1 GiB region.

use super::dmt::{Dmt, GROUP_SHIFT};
use pagelab_addr::{Asid, PageId, PageSize, Pfn};
use std::collections::{BTreeMap, HashMap};

use crate::page_map::GIB_ORDER;

/// Regions in a 1 GiB region, and entries in a page of them.
const REGIONS: usize = 512;
const REGION_SHIFT: u32 = 9;
/// The first 1 GiB region, by address, that is not a program's.
const AREA_START: u64 = 1 << (55 - 30);
/// Gibs of an area.
const AREA_GIBS: u64 = 1 << 10;
/// Half of an area may be pooled, so that the other half is left for CVA.
pub(super) const POOL_LIMIT_MIB: u64 = AREA_GIBS << 9;

/// A page of PTEs: none, or one that exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct PtePage {
    /// Frame in which it lies.
    pub(super) frame: Pfn,
    /// Its entries in use.
    pub(super) used: u16,
    /// The table of exceptions has it.
    pub(super) elsewhere: bool,
}

impl PtePage {
    pub(super) const NONE: PtePage = PtePage {
        frame: Pfn(u32::MAX),
        used: 0,
        elsewhere: false,
    };

    #[inline]
    pub(super) fn exists(self) -> bool {
        self.frame != Self::NONE.frame
    }

    /// True if it exists and no entry of it is in use.
    pub(super) fn is_empty(self) -> bool {
        self.exists() && self.used == 0
    }
}

/// 64 neighbouring tags, which share an entry of the metadata table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// The tags without their low bits.
    pub(super) number: u64,
    /// Hash that places it in the table.
    pub(super) hash: u32,
}

/// Pages of PTEs for one page size, by place, and groups of them, by dense number.
#[derive(Clone, Debug, Default)]
struct Sheet {
    pages: Vec<PtePage>,
    groups: Vec<Group>,
}

/// 1 GiB of effective addresses.
#[derive(Clone, Copy, Debug)]
struct Gib {
    asid: Asid,
    /// Address, in GiB.
    number: u64,
    large_group: u32,
    huge_place: u32,
    huge_group: u32,
    /// Number of its 1 GiB region in its process's area.
    in_area: Option<u32>,
    /// The first page of the recorded 1 GiB region, once something was said of its pages.
    page: Option<PageId>,
}

/// A page of PTEs of one size around an effective region, named in every way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) size: PageSize,
    pub(super) asid: Asid,
    /// Tag that is hashed: the page number without the bits that choose an entry.
    pub(super) tag: u64,
    /// Index of the page in the array of pages.
    place: usize,
    /// Dense number of the tag's group.
    pub(super) group: u32,
}

/// Addresses of a process that replace recorded ones.
#[derive(Clone, Debug, Default)]
struct Area {
    gibs: Vec<u32>,
    /// By region of the area.
    taken: Vec<bool>,
    /// First region of the area that CVA may use; the pool is below.
    floor: u32,
    next: u32,
    /// Gibs recorded inside or above the area, moved behind it.
    moved_gibs: u64,
}

/// Numbers of all address spaces. See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    first_pid: u32,
    /// Keys of processes that are not their ids.
    keys: HashMap<Asid, u64>,
    /// Recorded 1 GiB regions by address.
    recorded: BTreeMap<(Asid, u64), u32>,
    /// By the page directory's 1 GiB region number: the recorded 1 GiB region, shifted to its first region.
    links: Vec<u32>,
    /// By region: the one that stands for it.
    effective: Vec<u32>,
    gibs: Vec<Gib>,
    sheets: [Sheet; 3],
    /// Dense numbers of places and groups that cover more than a 1 GiB region.
    numbers: HashMap<(Numbered, Asid, u64), u32>,
    areas: Vec<Area>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Numbered {
    LargeGroup,
    HugePlace,
    HugeGroup,
}

const UNLINKED: u32 = u32::MAX;

/// The seed of the hash: the process's key, and the page size, so that pages of PTEs of different
/// sizes do not meet where their tags happen to be equal.
pub(super) fn seed(key: u64, size: PageSize) -> u64 {
    key ^ u64::from(size.order()) << 32
}

impl Layout {
    pub(super) fn new(first_pid: u32) -> Self {
        Layout {
            first_pid,
            ..Layout::default()
        }
    }

    /// The seed of the hash for a process.
    pub(super) fn seed(&self, asid: Asid, size: PageSize) -> u64 {
        let pid = u64::from(self.first_pid) + u64::from(asid.0);
        seed(self.keys.get(&asid).copied().unwrap_or(pid), size)
    }

    /// Gives a process another key than its id.
    pub(super) fn set_key(&mut self, asid: Asid, key: u64) {
        self.keys.insert(asid, key);
    }

    /// The effective region of a page; `None` while nothing was said of the page's 1 GiB region.
    #[inline]
    pub(super) fn region(&self, id: PageId) -> Option<u32> {
        let first = *self.links.get((id.0 >> GIB_ORDER) as usize)?;
        if first == UNLINKED {
            return None;
        }
        let region = first as usize + (id.region() & (REGIONS - 1));
        Some(self.effective[region])
    }

    /// Ties a 1 GiB region of the page directory to the 1 GiB region at its address.
    #[cold]
    pub(super) fn link(&mut self, id: PageId, asid: Asid, vpn: u64) -> u32 {
        let first = self.gib_at(asid, vpn >> GIB_ORDER) << REGION_SHIFT;
        let gib = (id.0 >> GIB_ORDER) as usize;
        if self.links.len() <= gib {
            self.links.resize(gib + 1, UNLINKED);
        }
        self.links[gib] = first;
        let page = PageId((gib as u32) << GIB_ORDER);
        self.gibs[(first >> REGION_SHIFT) as usize].page = Some(page);
        self.effective[first as usize + (id.region() & (REGIONS - 1))]
    }

    /// Unties all 1 GiB regions of an address space: their numbers become those of others.
    pub(super) fn unlink(&mut self, asid: Asid) {
        for &gib in self
            .recorded
            .range((asid, 0)..=(asid, u64::MAX))
            .map(|(_, gib)| gib)
        {
            if let Some(page) = self.gibs[gib as usize].page.take() {
                self.links[(page.0 >> GIB_ORDER) as usize] = UNLINKED;
            }
        }
    }

    fn gib_at(&mut self, asid: Asid, number: u64) -> u32 {
        if let Some(&gib) = self.recorded.get(&(asid, number)) {
            return gib;
        }
        let mut at = number;
        if number >= AREA_START {
            let area = self.area(asid);
            at = AREA_START + AREA_GIBS + area.moved_gibs;
            area.moved_gibs += 1;
        }
        let gib = self.add_gib(asid, at, None);
        self.recorded.insert((asid, number), gib);
        gib
    }

    fn area(&mut self, asid: Asid) -> &mut Area {
        let index = usize::from(asid.0);
        if self.areas.len() <= index {
            self.areas.resize(index + 1, Area::default());
        }
        &mut self.areas[index]
    }

    fn add_gib(&mut self, asid: Asid, number: u64, in_area: Option<u32>) -> u32 {
        let gib = self.gibs.len() as u32;
        let first = gib << REGION_SHIFT;
        self.effective.extend(first..first + REGIONS as u32);
        let base = &mut self.sheets[0];
        base.pages.resize(base.pages.len() + REGIONS, PtePage::NONE);
        for group in 0..(REGIONS as u64) >> GROUP_SHIFT {
            let group = (number << (REGION_SHIFT - GROUP_SHIFT)) + group;
            self.add_group(asid, PageSize::Base4K, group);
        }
        self.sheets[1].pages.push(PtePage::NONE);
        let half_tib = number >> REGION_SHIFT;
        let large_group = number >> GROUP_SHIFT;
        let huge_group = half_tib >> GROUP_SHIFT;
        let large_group = self.number(Numbered::LargeGroup, asid, large_group);
        let huge_place = self.number(Numbered::HugePlace, asid, half_tib);
        let huge_group = self.number(Numbered::HugeGroup, asid, huge_group);
        self.gibs.push(Gib {
            asid,
            number,
            large_group,
            huge_place,
            huge_group,
            in_area,
            page: None,
        });
        gib
    }

    fn number(&mut self, what: Numbered, asid: Asid, of: u64) -> u32 {
        if let Some(&number) = self.numbers.get(&(what, asid, of)) {
            return number;
        }
        let number = match what {
            Numbered::LargeGroup => self.add_group(asid, PageSize::Large2M, of),
            Numbered::HugeGroup => self.add_group(asid, PageSize::Huge1G, of),
            Numbered::HugePlace => {
                let pages = &mut self.sheets[2].pages;
                pages.push(PtePage::NONE);
                pages.len() as u32 - 1
            }
        };
        self.numbers.insert((what, asid, of), number);
        number
    }

    fn add_group(&mut self, asid: Asid, size: PageSize, number: u64) -> u32 {
        let hash = Dmt::hash(number, self.seed(asid, size));
        let groups = &mut self.sheets[size as usize].groups;
        groups.push(Group { number, hash });
        groups.len() as u32 - 1
    }

    /// The page of PTEs that serves an effective region's pages of a size.
    #[inline]
    pub(super) fn spot(&self, size: PageSize, region: u32) -> Spot {
        let gib = &self.gibs[(region >> REGION_SHIFT) as usize];
        let (tag, place, group) = match size {
            PageSize::Base4K => (
                gib.number << REGION_SHIFT | u64::from(region) & (REGIONS as u64 - 1),
                region,
                region >> GROUP_SHIFT,
            ),
            PageSize::Large2M => (gib.number, region >> REGION_SHIFT, gib.large_group),
            PageSize::Huge1G => (gib.number >> REGION_SHIFT, gib.huge_place, gib.huge_group),
        };
        Spot {
            size,
            asid: gib.asid,
            tag,
            place: place as usize,
            group,
        }
    }

    /// Index of the entry of that page that serves the base page that ends in `vpn`'s low bits.
    #[inline]
    pub(super) fn index(&self, size: PageSize, region: u32, vpn: u64) -> usize {
        let index = match size {
            PageSize::Base4K => vpn,
            PageSize::Large2M => u64::from(region),
            PageSize::Huge1G => self.gibs[(region >> REGION_SHIFT) as usize].number,
        };
        index as usize & (REGIONS - 1)
    }

    #[inline]
    pub(super) fn page(&self, spot: Spot) -> PtePage {
        self.sheets[spot.size as usize].pages[spot.place]
    }

    /// The page of 4 KiB PTEs of an effective region: `page(spot(Base4K, region))`.
    #[inline]
    pub(super) fn base_page(&self, region: u32) -> PtePage {
        self.sheets[0].pages[region as usize]
    }

    #[inline]
    pub(super) fn page_mut(&mut self, spot: Spot) -> &mut PtePage {
        &mut self.sheets[spot.size as usize].pages[spot.place]
    }

    /// The first page of a recorded region, once something was said of its 1 GiB region's pages.
    pub(super) fn first_page(&self, recorded: u32) -> Option<PageId> {
        let first = self.gibs[(recorded >> REGION_SHIFT) as usize].page?;
        let region = recorded & (REGIONS as u32 - 1);
        Some(PageId(first.0 + (region << REGION_SHIFT)))
    }

    #[inline]
    pub(super) fn group(&self, size: PageSize, group: u32) -> Group {
        self.sheets[size as usize].groups[group as usize]
    }

    /// Makes room for every recorded region of a range; returns them, by number, in the order of
    /// addresses.
    pub(super) fn make_regions(&mut self, asid: Asid, vpn: u64, pages: u64) -> Vec<u32> {
        let Some(last) = last_page(vpn, pages) else {
            return Vec::new();
        };
        for number in vpn >> GIB_ORDER..=last >> GIB_ORDER {
            self.gib_at(asid, number);
        }
        self.regions_in(asid, vpn, pages)
    }

    /// The recorded regions of a range, by number, in the order of addresses; those of which
    /// nothing was said are left out.
    pub(super) fn regions_in(&self, asid: Asid, vpn: u64, pages: u64) -> Vec<u32> {
        let Some(last) = last_page(vpn, pages) else {
            return Vec::new();
        };
        let numbers = (asid, vpn >> GIB_ORDER)..=(asid, last >> GIB_ORDER);
        let of_gib = |(&(_, number), &gib): (&(Asid, u64), &u32)| {
            let start = number << GIB_ORDER;
            let from = vpn.saturating_sub(start) >> REGION_SHIFT;
            let to = ((last - start) >> REGION_SHIFT).min(REGIONS as u64 - 1);
            let first = gib << REGION_SHIFT;
            first + from as u32..=first + to as u32
        };
        self.recorded.range(numbers).flat_map(of_gib).collect()
    }

    /// Region that stands for a recorded one.
    pub(super) fn effective(&self, recorded: u32) -> u32 {
        self.effective[recorded as usize]
    }

    /// Lets a region of the area stand for a recorded one.
    pub(super) fn relocate(&mut self, recorded: u32, to: u32) {
        self.move_home(recorded);
        self.effective[recorded as usize] = to;
        self.set_taken(to, true);
    }

    /// Lets a recorded region stand for itself again.
    pub(super) fn move_home(&mut self, recorded: u32) {
        let old = std::mem::replace(&mut self.effective[recorded as usize], recorded);
        if old != recorded {
            self.set_taken(old, false);
        }
    }

    fn set_taken(&mut self, region: u32, taken: bool) {
        let Gib { asid, in_area, .. } = self.gibs[(region >> REGION_SHIFT) as usize];
        let gib = in_area.expect("only regions of an area stand for others") as usize;
        let region = gib * REGIONS + (region as usize & (REGIONS - 1));
        self.areas[usize::from(asid.0)].taken[region] = taken;
    }

    /// The first `count` regions of a process's area, for its pool: CVA then leaves them alone.
    pub(super) fn pool_regions(&mut self, asid: Asid, count: u32) -> Vec<u32> {
        self.area(asid).floor = count;
        (0..count).map(|n| self.area_region(asid, n)).collect()
    }

    /// `count` neighbouring regions of a process's pool that stand for nothing.
    pub(super) fn free_in_pool(&mut self, asid: Asid, count: u32) -> Option<Vec<u32>> {
        let floor = self.area(asid).floor;
        let first = self.free_run(asid, 0..floor, count)?;
        let regions = first..first + count;
        Some(regions.map(|n| self.area_region(asid, n)).collect())
    }

    /// The next `count` neighbouring regions of a process's area that stand for nothing.
    pub(super) fn next_in_area(&mut self, asid: Asid, count: u32) -> Option<Vec<u32>> {
        let end = (AREA_GIBS as u32) << REGION_SHIFT;
        let Area { floor, next, .. } = *self.area(asid);
        let first = self
            .free_run(asid, next.max(floor)..end, count)
            .or_else(|| self.free_run(asid, floor..end, count))?;
        self.area(asid).next = first + count;
        let regions = first..first + count;
        Some(regions.map(|n| self.area_region(asid, n)).collect())
    }

    fn free_run(&self, asid: Asid, within: std::ops::Range<u32>, count: u32) -> Option<u32> {
        let taken = &self.areas[usize::from(asid.0)].taken;
        let mut first = within.start;
        for region in within.clone() {
            if first + count > within.end {
                return None;
            }
            if region == first + count {
                break;
            }
            if taken.get(region as usize).copied().unwrap_or(false) {
                first = region + 1;
            }
        }
        (first + count <= within.end).then_some(first)
    }

    fn area_region(&mut self, asid: Asid, region: u32) -> u32 {
        let gib = (region >> REGION_SHIFT) as usize;
        while self.area(asid).gibs.len() <= gib {
            let n = self.area(asid).gibs.len() as u32;
            let added = self.add_gib(asid, AREA_START + u64::from(n), Some(n));
            let area = self.area(asid);
            area.gibs.push(added);
            area.taken.resize(area.taken.len() + REGIONS, false);
        }
        let gib = self.area(asid).gibs[gib];
        (gib << REGION_SHIFT) + (region & (REGIONS as u32 - 1))
    }

    /// True if a page of PTEs belongs to the pool.
    pub(super) fn is_pooled(&self, spot: Spot) -> bool {
        if spot.size != PageSize::Base4K {
            return false;
        }
        let Gib { asid, in_area, .. } = self.gibs[spot.place >> REGION_SHIFT];
        in_area.is_some_and(|gib| {
            let region = (gib as usize * REGIONS) + (spot.place & (REGIONS - 1));
            region < self.areas[usize::from(asid.0)].floor as usize
        })
    }

    /// Gives up a process's pool.
    pub(super) fn drop_pool(&mut self, asid: Asid) {
        self.area(asid).floor = 0;
    }
}

#[cfg(test)]
impl Layout {
    /// All pages of PTEs that exist, named in every way.
    pub(super) fn all_pages(&self) -> Vec<(Spot, PtePage)> {
        let regions = 0..(self.gibs.len() << REGION_SHIFT) as u32;
        let base = regions.map(|region| (PageSize::Base4K, region));
        let gibs = (0..self.gibs.len() as u32).map(|n| n << REGION_SHIFT);
        let larger = gibs.flat_map(|r| [(PageSize::Large2M, r), (PageSize::Huge1G, r)]);
        let used = base.filter(|&(_, region)| self.base_page(region).exists());
        let spots = used.chain(larger).map(|(size, r)| self.spot(size, r));
        let pages = spots.map(|spot| (spot, self.page(spot)));
        pages.filter(|(_, page)| page.exists()).collect()
    }
}

/// The last page of a range that is not empty.
fn last_page(vpn: u64, pages: u64) -> Option<u64> {
    Some(vpn.saturating_add(pages.checked_sub(1)?))
}
