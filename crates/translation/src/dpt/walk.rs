//! The walk: metadata from the caches or the tables, then the entry (DPT paper, section VII).

use super::dmt::{GROUP_SHIFT, Probes};
use super::layout::{PtePage, Spot};
use super::{Distributed, Process};
use crate::{Page, Walk};
use pagelab_addr::{PageSize, PhysAddr};

/// log2 of the size of an entry.
const ENTRY_SHIFT: u32 = 3;
const BASE: usize = PageSize::Base4K as usize;

impl Process {
    /// True if the process has metadata tables for pages larger than 4 KiB.
    #[inline]
    fn has_larger(&self) -> bool {
        let [_, large, huge] = &self.dmts;
        large.is_some() || huge.is_some()
    }
}

impl Distributed {
    #[inline]
    pub(super) fn walk_page(&mut self, core: usize, page: Page, walk: &mut Walk) {
        walk.spend(self.cache_cycles);
        let region = self.region(page);
        let Some(process) = self.processes.get(usize::from(page.asid.0)) else {
            return;
        };
        let pte_page = self.layout.base_page(region);
        if !pte_page.exists() || process.has_larger() {
            self.walk_sizes(core, page, region, walk);
            return;
        }
        // Most pages are small, and most processes have no others: one cache, one table.
        let number = region >> GROUP_SHIFT;
        let group = self.layout.group(PageSize::Base4K, number);
        let cache = &mut self.caches[core][BASE];
        let hit = cache.get(group.number, number);
        walk.count_cache(hit);
        if !hit {
            cache.insert(group.number, number);
            walk.spend(self.config.hash_cycles);
            if let Some(dmt) = &process.dmts[BASE] {
                let probes = dmt.probes(group.number, group.hash);
                self.read_metadata(&[probes], walk);
            }
        }
        if pte_page.elsewhere {
            self.read_exception(self.layout.spot(PageSize::Base4K, region), walk);
        }
        self.read_entry(PageSize::Base4K, pte_page, region, page, walk);
    }

    /// Looks up where a page of PTEs is that is in none of its places, one read after the other.
    #[cold]
    fn read_exception(&self, spot: Spot, walk: &mut Walk) {
        let process = &self.processes[usize::from(spot.asid.0)];
        let exceptions = process.exceptions.as_ref().expect("it is one");
        for read in exceptions.reads(self.named(spot)) {
            walk.read(read);
            walk.next_step();
        }
        walk.metadata_ends();
    }

    /// A walk that looks at the metadata of all page sizes that the process uses.
    #[inline(never)]
    fn walk_sizes(&mut self, core: usize, page: Page, region: u32, walk: &mut Walk) {
        let process = &self.processes[usize::from(page.asid.0)];
        let mut missed = [Probes::default(); 3];
        let mut tables = 0;
        // The page of PTEs that counts, and whether the caches alone tell which.
        let mut leaf: Option<Spot> = None;
        let mut told = false;
        for size in PageSize::ALL {
            let Some(dmt) = &process.dmts[size as usize] else {
                continue;
            };
            let spot = self.layout.spot(size, region);
            let group = self.layout.group(size, spot.group);
            let cache = &mut self.caches[core][size as usize];
            let hit = cache.get(group.number, spot.group);
            walk.count_cache(hit);
            if !hit && !told {
                cache.insert(group.number, spot.group);
                missed[tables] = dmt.probes(group.number, group.hash);
                tables += 1;
            }
            if self.layout.page(spot).exists() {
                leaf = leaf.or(Some(spot));
                told |= hit;
            }
        }
        if tables > 0 {
            walk.spend(self.config.hash_cycles);
            self.read_metadata(&missed[..tables], walk);
        }
        if let Some(spot) = leaf {
            let pte_page = self.layout.page(spot);
            if pte_page.elsewhere {
                self.read_exception(spot, walk);
            }
            self.read_entry(spot.size, pte_page, region, page, walk);
        }
    }

    /// Reads metadata tables side by side, each entry after entry.
    #[inline]
    fn read_metadata(&mut self, tables: &[Probes], walk: &mut Walk) {
        let longest = tables.iter().map(|probes| probes.count).max();
        for number in 0..longest.unwrap_or(0) {
            for probes in tables {
                if number < probes.count {
                    walk.read(probes.address(number));
                }
            }
            walk.next_step();
        }
        walk.metadata_ends();
        for probes in tables {
            self.counters.dmt_searches += 1;
            self.counters.dmt_probes += probes.count as u64;
        }
    }

    /// Hashes, and reads the entry.
    #[inline]
    fn read_entry(
        &self,
        size: PageSize,
        PtePage { frame, .. }: PtePage,
        region: u32,
        page: Page,
        walk: &mut Walk,
    ) {
        let index = self.layout.index(size, region, page.vpn.0);
        walk.spend(self.config.hash_cycles);
        let offset = (index as u64) << ENTRY_SHIFT;
        walk.read(PhysAddr(frame.address().0 + offset));
    }
}
