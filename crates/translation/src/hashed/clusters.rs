//! Clusters of eight neighbouring pages of a size: what a line of a hashed page
//! table holds (Talluri, Hill and Khalidi, SOSP 1995; Yaniv and Tsafrir, SIGMETRICS 2016).
//!
//! Clusters of a size are numbered densely. 64 neighbouring ones, aligned, are a *group*, and
//! have neighbouring numbers: a group of clusters of 4 KiB pages is a 2 MiB region, of 2 MiB
//! pages a 1 GiB region, of 1 GiB pages 512 GiB.

use crate::page_map::{GIB_ORDER, gib};
use crate::{Page, PageMap};
use pagelab_addr::{Asid, PageId, PageSize};
use std::collections::HashMap;

/// log2 of the entries in a cluster.
pub(crate) const CLUSTER_SHIFT: u32 = 3;
/// log2 of the clusters in a group.
pub(crate) const GROUP_SHIFT: u32 = 6;
/// log2 of the pages of a size in a group.
const GROUP_PAGES_SHIFT: u32 = CLUSTER_SHIFT + GROUP_SHIFT;

/// The numbers of the clusters of all address spaces. Those of smaller pages than 1 GiB follow
/// from the pages' own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters {
    /// By 1 GiB region: its cluster of 1 GiB pages, plus one; 0 when nothing was ever mapped there.
    huge: Vec<u32>,
    /// Groups of clusters of 1 GiB pages: their address space and address in 512 GiB.
    huge_groups: Vec<(Asid, u64)>,
    huge_numbers: HashMap<(Asid, u64), u32>,
}

impl Clusters {
    /// The cluster that the entry of a page that is to be mapped belongs to.
    #[inline]
    pub(crate) fn of(&mut self, page: Page, size: PageSize) -> u32 {
        if !matches!(self.huge.get(gib(page.id)), Some(1..)) {
            self.know_gib(page);
        }
        self.number(page.id, size)
    }

    #[cold]
    fn know_gib(&mut self, page: Page) {
        let index = gib(page.id);
        if self.huge.len() <= index {
            self.huge.resize(index + 1, 0);
        }
        let number = page.vpn.0 >> GIB_ORDER;
        let key = (page.asid, number >> GROUP_PAGES_SHIFT);
        let groups = &mut self.huge_groups;
        let group = *self.huge_numbers.entry(key).or_insert_with(|| {
            groups.push(key);
            groups.len() as u32 - 1
        });
        let in_group = (number >> CLUSTER_SHIFT) as u32 & ((1 << GROUP_SHIFT) - 1);
        self.huge[index] = ((group << GROUP_SHIFT) | in_group) + 1;
    }

    /// Forgets 1 GiB regions in which nothing is mapped any more: their numbers become those of others.
    pub(crate) fn forget(&mut self, gib: u32) {
        if let Some(known) = self.huge.get_mut(gib as usize) {
            *known = 0;
        }
    }

    /// The cluster of the page of a size around a page whose 1 GiB region something was mapped in.
    #[inline]
    fn number(&self, id: PageId, size: PageSize) -> u32 {
        match size {
            PageSize::Base4K => id.0 >> CLUSTER_SHIFT,
            PageSize::Large2M => (id.region() as u32) >> CLUSTER_SHIFT,
            PageSize::Huge1G => self.huge[gib(id)] - 1,
        }
    }

    /// The cluster of the page of a size around a page, if anything was ever mapped near it.
    #[inline]
    pub(crate) fn find(&self, id: PageId, size: PageSize) -> Option<u32> {
        let known = *self.huge.get(gib(id))?;
        (known != 0).then(|| self.number(id, size))
    }

    /// The clusters with what is mapped in them.
    #[inline]
    pub(crate) fn with<'a>(&'a self, mapped: &'a PageMap) -> MappedClusters<'a> {
        MappedClusters {
            clusters: self,
            mapped,
        }
    }

    /// The tag of the cluster around a page number.
    #[inline]
    pub(crate) fn tag_of(vpn: u64, size: PageSize) -> u64 {
        vpn >> (size.order() + CLUSTER_SHIFT)
    }
}

/// Clusters, and what is mapped in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedClusters<'a> {
    clusters: &'a Clusters,
    mapped: &'a PageMap,
}

impl MappedClusters<'_> {
    /// Address space and tag of a cluster: the page number, in pages of its size, by eight.
    pub(crate) fn tag(&self, size: PageSize, cluster: u32) -> (Asid, u64) {
        let (shift, (asid, high)) = match size {
            PageSize::Huge1G => {
                let group = (cluster >> GROUP_SHIFT) as usize;
                (GROUP_SHIFT, self.clusters.huge_groups[group])
            }
            _ => {
                let shift = GIB_ORDER - size.order() - CLUSTER_SHIFT;
                (shift, self.mapped.address(cluster >> shift))
            }
        };
        (
            asid,
            high << shift | u64::from(cluster & ((1 << shift) - 1)),
        )
    }

    /// Entries present in a cluster.
    pub(crate) fn present(&self, size: PageSize, cluster: u32) -> u32 {
        let first = match size {
            PageSize::Base4K => {
                return self.mapped.base_pages(PageId(cluster << CLUSTER_SHIFT));
            }
            PageSize::Large2M => cluster << (CLUSTER_SHIFT + size.order()),
            PageSize::Huge1G => return self.present_huge(cluster),
        };
        let ids = (0..1 << CLUSTER_SHIFT).map(|n| PageId(first + (n << size.order())));
        ids.filter(|&id| self.mapped.get(id, size).is_present())
            .count() as u32
    }

    /// Neighbouring 1 GiB regions have no neighbouring numbers.
    fn present_huge(&self, cluster: u32) -> u32 {
        let (asid, tag) = self.tag(PageSize::Huge1G, cluster);
        let first = tag << CLUSTER_SHIFT;
        let numbers = first..first + (1 << CLUSTER_SHIFT);
        let ids = numbers.filter_map(|number| self.mapped.gib_at(asid, number));
        ids.filter(|&id| self.mapped.get(id, PageSize::Huge1G).is_present())
            .count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_addr::{PageDirectory, Vpn};

    #[test]
    fn a_clusters_tag_is_its_address_and_its_group_is_aligned() {
        let mut directory = PageDirectory::new();
        let (mut clusters, mut mapped) = (Clusters::default(), PageMap::default());
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
                mapped.prepare(page, size);
                let cluster = clusters.of(page, size);
                assert_eq!(clusters.find(id, size), Some(cluster));
                let tag = vpn.0 / u64::from(size.base_pages()) / 8;
                let clusters = clusters.with(&mapped);
                assert_eq!(clusters.tag(size, cluster), (Asid(asid), tag));
                assert_eq!(Clusters::tag_of(vpn.0, size), tag);
                assert_eq!(u64::from(cluster % 64), tag % 64);
            }
        }
        assert_eq!(clusters.find(PageId(1 << 29), PageSize::Huge1G), None);
    }
}
