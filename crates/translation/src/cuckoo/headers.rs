//! Contents of cuckoo walk tables (CWT): headers of the clusters, and the tables that have an entry
//! for groups of them.
//!
//! A *header* stands for a cluster of pages of some size: which way of its table it is in, and
//! whether smaller pages are mapped in the cluster's range. An entry of a walk table is a line of
//! 64 headers, those of a group.

use crate::hashed::Clusters;
use pagelab_addr::{PageId, PageSize};

/// A header in a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header(u8);

/// Headers of a group.
pub(super) type Group = [Header; GROUP];
pub(super) const GROUP: usize = 64;
/// log2 of the same.
pub(super) const GROUP_SHIFT: u32 = 6;

/// The most ways that a header can tell apart.
pub(super) const MAX_WAYS: usize = 8;

const NO_WAY: u8 = 0x0f;

impl Header {
    /// Nothing is mapped.
    pub(super) const EMPTY: Header = Header(NO_WAY);

    /// The way that the cluster is in.
    #[inline]
    pub(super) fn way(self) -> Option<usize> {
        let way = self.0 & 0x0f;
        (way != NO_WAY).then_some(usize::from(way))
    }

    /// True if pages of a smaller size are mapped in the cluster's range.
    #[inline]
    pub(super) fn has(self, size: PageSize) -> bool {
        self.0 & flag(size) != 0
    }

    fn set_way(&mut self, way: Option<usize>) {
        self.0 = self.0 & 0xf0 | way.map_or(NO_WAY, |way| way as u8);
    }

    fn set(&mut self, size: PageSize, has: bool) {
        self.0 = self.0 & !flag(size) | if has { flag(size) } else { 0 };
    }
}

fn flag(size: PageSize) -> u8 {
    0x10 << size as u8
}

/// All headers, by page size and number of cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers {
    headers: [Vec<Header>; 3],
    /// Clusters of smaller pages in the range of a cluster: by its size, by theirs, by number.
    smaller: [[Vec<u32>; 2]; 3],
    /// Clusters with an entry in a table, of each size and the smaller ones, by group.
    in_group: [Vec<u32>; 3],
    /// Changes so far.
    pub(super) updates: u64,
}

impl Headers {
    #[inline]
    pub(super) fn get(&self, size: PageSize, cluster: u32) -> Header {
        let header = self.headers[size as usize].get(cluster as usize);
        *header.unwrap_or(&Header::EMPTY)
    }

    /// The headers of a group as they are now.
    #[inline]
    pub(super) fn group(&self, size: PageSize, group: u32) -> Group {
        let headers = self.headers[size as usize].as_chunks::<GROUP>().0;
        *headers
            .get(group as usize)
            .unwrap_or(&[Header::EMPTY; GROUP])
    }

    #[inline]
    pub(super) fn host_prefetch(&self, cluster: u32) {
        if let Some(header) = self.headers[0].get(cluster as usize) {
            pagelab_memory::host_prefetch(header);
        }
    }

    fn make_room(&mut self, size: PageSize, cluster: u32) {
        let groups = (cluster as usize >> GROUP_SHIFT) + 1;
        if self.in_group[size as usize].len() < groups {
            self.in_group[size as usize].resize(groups, 0);
            self.headers[size as usize].resize(groups * GROUP, Header::EMPTY);
            for counts in &mut self.smaller[size as usize] {
                counts.resize(groups * GROUP, 0);
            }
        }
    }

    /// True if a walk table of a size has an entry for the group of a cluster.
    pub(super) fn has_group(&self, size: PageSize, cluster: u32) -> bool {
        let count = self.in_group[size as usize].get((cluster >> GROUP_SHIFT) as usize);
        count.is_some_and(|&count| count > 0)
    }

    /// A cluster has moved to a way.
    pub(super) fn place(&mut self, size: PageSize, cluster: u32, way: usize) {
        self.make_room(size, cluster);
        self.headers[size as usize][cluster as usize].set_way(Some(way));
        self.updates += 1;
    }

    /// A cluster of which nothing was mapped has an entry now.
    pub(super) fn enter(&mut self, clusters: &Clusters, size: PageSize, cluster: u32) {
        for (larger, around) in around(clusters, size, cluster) {
            self.make_room(larger, around);
            self.in_group[larger as usize][(around >> GROUP_SHIFT) as usize] += 1;
            if larger == size {
                continue;
            }
            let count = &mut self.smaller[larger as usize][size as usize][around as usize];
            *count += 1;
            if *count == 1 {
                self.headers[larger as usize][around as usize].set(size, true);
                self.updates += 1;
            }
        }
    }

    /// A cluster of which nothing is mapped any more has no entry now.
    pub(super) fn leave(&mut self, clusters: &Clusters, size: PageSize, cluster: u32) {
        for (larger, around) in around(clusters, size, cluster) {
            self.in_group[larger as usize][(around >> GROUP_SHIFT) as usize] -= 1;
            if larger == size {
                self.headers[larger as usize][around as usize].set_way(None);
                self.updates += 1;
                continue;
            }
            let count = &mut self.smaller[larger as usize][size as usize][around as usize];
            *count -= 1;
            if *count == 0 {
                self.headers[larger as usize][around as usize].set(size, false);
                self.updates += 1;
            }
        }
    }
}

/// The cluster itself and those of larger pages around it.
pub(super) fn around(
    clusters: &Clusters,
    size: PageSize,
    cluster: u32,
) -> impl Iterator<Item = (PageSize, u32)> {
    let id = match size {
        PageSize::Huge1G => None,
        _ => Some(PageId(cluster << (3 + size.order()))),
    };
    PageSize::ALL.into_iter().filter_map(move |larger| {
        if larger == size {
            return Some((size, cluster));
        }
        let around = clusters.find(id?, larger)?;
        (larger > size).then_some((larger, around))
    })
}
