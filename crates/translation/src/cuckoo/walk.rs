//! The walk: what the cuckoo walk caches say, then all lines that may have the entry, side by
//! side.

use super::candidates::Candidates;
use super::headers::{GROUP, GROUP_SHIFT};
use super::tables::{CuckooTables, Process};
use crate::city::Unseeded;
use crate::hashed::Clusters;
use crate::{Page, Translation, Walk};
use pagelab_addr::{PageSize, PhysAddr};

/// log2 of the size of an entry.
const ENTRY_SHIFT: u32 = 3;

impl<D> CuckooTables<D> {
    #[inline]
    pub(super) fn walk_page(
        &mut self,
        core: usize,
        page: Page,
        found: Option<Translation>,
        walk: &mut Walk,
    ) {
        walk.spend(self.cycles);
        let Some(process) = self.processes.get(usize::from(page.asid.0)) else {
            return;
        };
        let all = Candidates::of(&process.tables, self.config.tables.ways);
        let mut candidates = all;
        // A bit by page size, as in `candidates`: arrays that small would be written to memory
        // and read back at once.
        let mut hits = 0u32;
        for size in PageSize::ALL.into_iter().rev() {
            let Some(walk_table) = &process.walk_tables[size as usize] else {
                continue;
            };
            if !candidates.up_to(size) {
                continue;
            }
            let tag = Clusters::tag_of(page.vpn.0, size);
            let cluster = self.clusters.find(page.id, size);
            let cache = &mut self.caches[core][size as usize];
            let cached = cluster.and_then(|cluster| {
                let group = cache.get(tag >> GROUP_SHIFT, cluster >> GROUP_SHIFT)?;
                Some(group[cluster as usize & (GROUP - 1)])
            });
            walk.count_cache(cached.is_some());
            let counters = &mut self.counters.walk_caches[size as usize];
            counters.lookups += 1;
            if let Some(header) = cached {
                counters.hits += 1;
                hits |= 1 << size as u32;
                candidates.narrow(size, header);
                continue;
            }
            // The entry is on its way while the tables are searched without it.
            let hash = Unseeded::new(tag >> GROUP_SHIFT);
            for way in 0..walk_table.ways.len() {
                walk.read(walk_table.address(way, hash));
            }
            if let Some(cluster) = cluster
                && self.headers.has_group(size, cluster)
            {
                let group = cluster >> GROUP_SHIFT;
                let headers = self.headers.group(size, group);
                cache.insert(tag >> GROUP_SHIFT, group, &headers);
            }
        }
        walk.metadata_ends();
        self.counters.walks.count(candidates, all);
        read_lines(process, candidates, page, walk);
        let in_reach = found.is_some_and(|found| {
            let cluster = self.clusters.find(page.id, found.size);
            let way = cluster.and_then(|c| self.headers.get(found.size, c).way());
            way.is_some_and(|way| candidates.has(found.size, way))
        });
        if !in_reach && hits != 0 {
            self.counters.searches_repeated += 1;
            self.counters.stale += u64::from(found.is_some());
            self.search_again(core, page, hits, walk);
        }
    }

    /// Searches everywhere, and reads the entries of walk tables anew whose cached copies led
    /// nowhere.
    #[inline(never)]
    fn search_again(&mut self, core: usize, page: Page, hits: u32, walk: &mut Walk) {
        let process = &self.processes[usize::from(page.asid.0)];
        if !walk.reads().is_empty() {
            walk.next_step();
        }
        for size in PageSize::ALL
            .into_iter()
            .filter(|&size| hits & 1 << size as u32 != 0)
        {
            let tag = Clusters::tag_of(page.vpn.0, size) >> GROUP_SHIFT;
            if let Some(walk_table) = &process.walk_tables[size as usize] {
                let hash = Unseeded::new(tag);
                for way in 0..walk_table.ways.len() {
                    walk.read(walk_table.address(way, hash));
                }
            }
            if let Some(cluster) = self.clusters.find(page.id, size) {
                let group = cluster >> GROUP_SHIFT;
                let headers = self.headers.group(size, group);
                if let Some(copy) = self.caches[core][size as usize].get(tag, group) {
                    *copy = headers;
                }
            }
        }
        let all = Candidates::of(&process.tables, self.config.tables.ways);
        read_lines(process, all, page, walk);
    }
}

/// Reads, in one step, the line of each candidate.
#[inline]
fn read_lines(process: &Process, candidates: Candidates, page: Page, walk: &mut Walk) {
    for (size, table) in PageSize::ALL.into_iter().zip(&process.tables) {
        let Some(table) = table else {
            continue;
        };
        let mut ways = candidates.ways(size);
        if ways == 0 {
            continue;
        }
        let hash = Unseeded::new(Clusters::tag_of(page.vpn.0, size));
        let offset = u64::from((page.id.0 >> size.order()) & 7) << ENTRY_SHIFT;
        while ways != 0 {
            let line = table.address(ways.trailing_zeros() as usize, hash);
            walk.read(PhysAddr(line.0 + offset));
            ways &= ways - 1;
        }
    }
}
