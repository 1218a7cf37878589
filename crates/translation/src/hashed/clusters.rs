//! The mappings in clusters of eight neighbouring pages of a size: what a line of a hashed page
//! table holds (Talluri, Hill and Khalidi, SOSP 1995; Yaniv and Tsafrir, SIGMETRICS 2016).
//!
//! Clusters of a size are numbered densely. 64 neighbouring ones, aligned, are a *group*, and
//! have neighbouring numbers: a group of clusters of 4 KiB pages is a 2 MiB region, of 2 MiB
//! pages a 1 GiB region, of 1 GiB pages 512 GiB.

use crate::leaf::{GIB_ORDER, NO_SLOT, PageMap, Pte, gib};
use crate::{Displaced, Page, Translation};
use pagelab_addr::{Asid, PageId, PageSize, Pfn};
use std::collections::HashMap;

/// log2 of the entries in a cluster.
pub(crate) const CLUSTER_SHIFT: u32 = 3;
/// log2 of the clusters in a group.
pub(crate) const GROUP_SHIFT: u32 = 6;
/// log2 of the pages of a size in a group.
const GROUP_PAGES_SHIFT: u32 = CLUSTER_SHIFT + GROUP_SHIFT;

/// The mappings of all address spaces, and the numbers of their clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters {
    map: PageMap,
    gibs: Vec<Gib>,
    /// Groups of clusters of 1 GiB pages: their address space and address in 512 GiB.
    huge_groups: Vec<(Asid, u64)>,
    huge_numbers: HashMap<(Asid, u64), u32>,
    /// Entries present in each cluster of 1 GiB pages.
    huge_present: Vec<u8>,
}

/// 1 GiB.
#[derive(Clone, Copy, Debug, Default)]
struct Gib {
    asid: Asid,
    /// Address, in GiB.
    number: u64,
    /// Its cluster of 1 GiB pages, plus one; 0 when nothing was ever mapped here.
    huge_cluster: u32,
}

impl Clusters {
    /// Makes room for a page to be mapped, and says which cluster its entry belongs to.
    ///
    /// # Panics
    /// When a page of any size is mapped where a page of `size` is to be: the caller unmaps first.
    pub(crate) fn prepare(&mut self, page: Page, size: PageSize) -> u32 {
        self.map.prepare(page, size);
        self.know_gib(page);
        if size != PageSize::Base4K {
            for offset in (0..size.base_pages()).step_by(512) {
                self.map.remove_empty_page(PageId(page.id.0 + offset));
            }
        } else if self.map.region(page.id).slot == NO_SLOT {
            self.map.add_page(page.id, Pfn(0));
        }
        self.number(page.id, size)
    }

    fn know_gib(&mut self, page: Page) {
        let index = gib(page.id);
        if self.gibs.len() <= index {
            self.gibs.resize(index + 1, Gib::default());
        }
        if self.gibs[index].huge_cluster != 0 {
            return;
        }
        let number = page.vpn.0 >> GIB_ORDER;
        let key = (page.asid, number >> GROUP_PAGES_SHIFT);
        let groups = &mut self.huge_groups;
        let group = *self.huge_numbers.entry(key).or_insert_with(|| {
            groups.push(key);
            groups.len() as u32 - 1
        });
        self.huge_present.resize(groups.len() << GROUP_SHIFT, 0);
        let in_group = (number >> CLUSTER_SHIFT) as u32 & ((1 << GROUP_SHIFT) - 1);
        self.gibs[index] = Gib {
            asid: page.asid,
            number,
            huge_cluster: ((group << GROUP_SHIFT) | in_group) + 1,
        };
    }

    /// The cluster of the page of a size around a page whose 1 GiB region something was mapped in.
    #[inline]
    fn number(&self, id: PageId, size: PageSize) -> u32 {
        match size {
            PageSize::Base4K => id.0 >> CLUSTER_SHIFT,
            PageSize::Large2M => (id.region() as u32) >> CLUSTER_SHIFT,
            PageSize::Huge1G => self.gibs[gib(id)].huge_cluster - 1,
        }
    }

    /// The cluster of the page of a size around a page, if anything was ever mapped near it.
    #[inline]
    pub(crate) fn find(&self, id: PageId, size: PageSize) -> Option<u32> {
        let known = self.gibs.get(gib(id))?;
        (known.huge_cluster != 0).then(|| self.number(id, size))
    }

    /// Address space and tag of a cluster: the page number, in pages of its size, by eight.
    pub(crate) fn tag(&self, size: PageSize, cluster: u32) -> (Asid, u64) {
        let in_gib = GIB_ORDER - size.order();
        let (shift, asid, high) = match size {
            PageSize::Huge1G => {
                let (asid, number) = self.huge_groups[(cluster >> GROUP_SHIFT) as usize];
                (GROUP_SHIFT, asid, number)
            }
            _ => {
                let shift = in_gib - CLUSTER_SHIFT;
                let known = &self.gibs[(cluster >> shift) as usize];
                (shift, known.asid, known.number)
            }
        };
        (
            asid,
            high << shift | u64::from(cluster & ((1 << shift) - 1)),
        )
    }

    /// The tag of the cluster around a page number.
    #[inline]
    pub(crate) fn tag_of(vpn: u64, size: PageSize) -> u64 {
        vpn >> (size.order() + CLUSTER_SHIFT)
    }

    /// Entries present in a cluster.
    pub(crate) fn present(&self, size: PageSize, cluster: u32) -> u32 {
        let first = match size {
            PageSize::Base4K => cluster << CLUSTER_SHIFT,
            PageSize::Large2M => cluster << (CLUSTER_SHIFT + size.order()),
            PageSize::Huge1G => return u32::from(self.huge_present[cluster as usize]),
        };
        let ids = (0..1 << CLUSTER_SHIFT).map(|n| PageId(first + (n << size.order())));
        ids.filter(|&id| self.map.get(id, size).is_present())
            .count() as u32
    }

    /// Enters a page that [`Clusters::prepare`] made room for.
    pub(crate) fn set(&mut self, page: Page, translation: Translation) {
        let pte = Pte::new(translation.pfn, translation.writable);
        self.map.set(page.id, translation.size, pte);
        if translation.size == PageSize::Huge1G {
            let cluster = self.number(page.id, translation.size);
            self.huge_present[cluster as usize] += 1;
        }
    }

    /// Takes a mapped page of a size out; `None` when it is not mapped so.
    pub(crate) fn remove(&mut self, page: Page, size: PageSize) -> Option<Translation> {
        let old = self.map.get(page.id, size).translate(page.vpn.0, size)?;
        self.map.set(page.id, size, Pte::ABSENT);
        if size == PageSize::Huge1G {
            let cluster = self.number(page.id, size);
            self.huge_present[cluster as usize] -= 1;
        }
        Some(old)
    }

    pub(crate) fn update(&mut self, page: Page, to: Translation) -> bool {
        self.map.update(page.id, to)
    }

    #[inline]
    pub(crate) fn lookup(&self, id: PageId) -> Option<Translation> {
        self.map.lookup(id)
    }

    #[inline]
    pub(crate) fn host_prefetch(&self, id: PageId) {
        self.map.host_prefetch(id);
    }

    /// Forgets the host's memory for a range whose pages are unmapped.
    pub(crate) fn release(&mut self, first: Page, pages: u64) {
        for region in self.map.regions_in(first, pages) {
            self.map.remove_empty_page(region.id);
        }
    }

    /// Lets the entries of moved pages point to where those are now, and says where a frame is
    /// that is about to be mapped. Owners that are not mapped (yet) are the caller's.
    pub(crate) fn follow(
        &mut self,
        moved: &[Displaced],
        mut translation: Translation,
    ) -> Translation {
        for displaced in moved {
            for &owner in &displaced.owners {
                let old = self
                    .map
                    .get(owner, displaced.size)
                    .translate(0, displaced.size);
                if let Some(old) = old.filter(|old| old.pfn == displaced.from) {
                    let pfn = displaced.to;
                    self.map.update(owner, Translation { pfn, ..old });
                }
            }
            if (displaced.size, displaced.from) == (translation.size, translation.pfn) {
                translation.pfn = displaced.to;
            }
        }
        translation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_addr::{PageDirectory, Vpn};

    #[test]
    fn a_clusters_tag_is_its_address_and_its_group_is_aligned() {
        let mut directory = PageDirectory::new();
        let mut clusters = Clusters::default();
        for (asid, vpn) in [
            (0, 0u64),
            (1, 5),
            (1, 0xfff_ffff_f123),
            (2, 77 << 27 | 3 << 18),
        ] {
            for size in PageSize::ALL {
                let vpn = Vpn(vpn).align_down(size);
                let id = directory.page(Asid(asid), vpn).unwrap();
                let page = Page {
                    id,
                    asid: Asid(asid),
                    vpn,
                };
                let cluster = clusters.prepare(page, size);
                assert_eq!(clusters.find(id, size), Some(cluster));
                let tag = vpn.0 / u64::from(size.base_pages()) / 8;
                assert_eq!(clusters.tag(size, cluster), (Asid(asid), tag));
                assert_eq!(Clusters::tag_of(vpn.0, size), tag);
                assert_eq!(u64::from(cluster % 64), tag % 64);
            }
        }
        assert_eq!(clusters.find(PageId(1 << 29), PageSize::Huge1G), None);
    }
}
