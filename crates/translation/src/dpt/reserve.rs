//! DPT when virtual memory is allocated: it places the pages of PTEs, if need be by choosing other
//! addresses (CVA, DPT paper, section V-B) or from the pool (PTP, section VI-B).

use super::layout::Spot;
use super::{Distributed, placement};
use crate::{Frames, Page, PageMap, Work};
use pagelab_addr::{Asid, PAGE_SHIFT, PageSize};

const MIB_SHIFT: u32 = 20;
/// log2 of the 2 MiB regions in a MiB, negated.
const REGIONS_PER_MIB_SHIFT: u32 = 1;

impl Distributed {
    pub(super) fn reserve_range<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        first: Page,
        pages: u64,
        size: PageSize,
        work: &mut Work,
    ) {
        let asid = first.asid;
        if self.config.ptp_mib > 0 {
            self.make_pool(frames, asid, work);
            if size == PageSize::Base4K && self.take_from_pool(mapped, first, pages, work) {
                return;
            }
        }
        let mib = pages
            .saturating_mul(1 << PAGE_SHIFT)
            .div_ceil(1 << MIB_SHIFT);
        // A 1 GiB page needs a 1 GiB region of its own, which the area does not give.
        if self.config.max_cva_count == 0
            || mib > self.config.max_cva_mib
            || size == PageSize::Huge1G
        {
            return;
        }
        let regions = self.movable_regions(mapped, first, pages);
        let effective: Vec<u32> = regions.iter().map(|&r| self.layout.effective(r)).collect();
        let missing = self.missing_pages(size, &effective);
        if missing.is_empty() || self.place_all(frames, &missing, work) {
            return;
        }
        self.counters.cva_searches += 1;
        for _ in 0..self.config.max_cva_count {
            let Some(others) = self.layout.next_in_area(asid, regions.len() as u32) else {
                break;
            };
            self.counters.cva_attempts += 1;
            let missing = self.missing_pages(size, &others);
            if self.place_all(frames, &missing, work) {
                for (&recorded, &other) in regions.iter().zip(&others) {
                    self.layout.relocate(recorded, other);
                }
                self.counters.cva_successes += 1;
                self.counters.cva_regions += regions.len() as u64;
                work.relocated += regions.len() as u64;
                return;
            }
        }
        for spot in missing {
            // A page that finds no place now is placed, or fails, when the memory is touched.
            let _ = self.place(frames, spot, work);
        }
    }

    /// The recorded regions of a range that have no page of PTEs of their own and nothing mapped,
    /// so that their addresses may still be chosen.
    fn movable_regions(&mut self, mapped: &PageMap, first: Page, pages: u64) -> Vec<u32> {
        let (asid, vpn) = (first.asid, first.vpn.0);
        let mut regions = self.layout.make_regions(asid, vpn, pages);
        regions.retain(|&recorded| {
            let region = self.layout.effective(recorded);
            region == recorded
                && !self.layout.base_page(region).exists()
                && !self.is_present(mapped, PageSize::Large2M, recorded)
                && !self.is_present(mapped, PageSize::Huge1G, recorded)
        });
        regions
    }

    /// The pages of PTEs that pages of a size in these regions need and that do not exist.
    fn missing_pages(&self, size: PageSize, regions: &[u32]) -> Vec<Spot> {
        let mut spots: Vec<Spot> = regions
            .iter()
            .map(|&region| self.layout.spot(size, region))
            .filter(|&spot| !self.layout.page(spot).exists())
            .collect();
        spots.dedup();
        spots
    }

    /// Places all of these pages of PTEs by the hash, SOA and FAP alone, or none of them.
    fn place_all<F: Frames>(&mut self, frames: &mut F, spots: &[Spot], work: &mut Work) -> bool {
        let mut taken = Vec::with_capacity(spots.len());
        for &spot in spots {
            // The metadata's entry first: its table may take the frame that a search finds.
            let found = self.make_entry(frames, spot, work).is_ok().then(|| {
                let hashed = (spot.tag, self.seed(spot));
                placement::search(&self.config, frames, hashed, &mut self.counters, work)
            });
            let Some(Ok(reachable)) = found else {
                for (_, reachable) in taken {
                    self.unclaim(frames, reachable);
                }
                return false;
            };
            self.claim(frames, reachable);
            taken.push((spot, reachable));
        }
        for (spot, reachable) in taken {
            self.add_page(spot, reachable, work);
        }
        true
    }

    /// Places the pages of PTEs of a process's pool, the first time.
    fn make_pool<F: Frames>(&mut self, frames: &mut F, asid: Asid, work: &mut Work) {
        if !self.process(asid).pool.is_empty() {
            return;
        }
        let count = (self.config.ptp_mib >> REGIONS_PER_MIB_SHIFT) as u32;
        let regions = self.layout.pool_regions(asid, count);
        for &region in &regions {
            let spot = self.layout.spot(PageSize::Base4K, region);
            let placed = self.place_by_hash(frames, spot, work);
            self.counters.ptp_pages += u64::from(placed == Ok(true));
        }
        self.process(asid).pool = regions;
    }

    /// Serves an allocation from the pool, if it has room.
    fn take_from_pool(
        &mut self,
        mapped: &PageMap,
        first: Page,
        pages: u64,
        work: &mut Work,
    ) -> bool {
        let asid = first.asid;
        if pages >> (21 - PAGE_SHIFT) > self.process(asid).pool.len() as u64 {
            return false;
        }
        let regions = self.movable_regions(mapped, first, pages);
        let count = regions.len() as u32;
        let Some(pooled) = self.layout.free_in_pool(asid, count) else {
            return false;
        };
        for (&recorded, &region) in regions.iter().zip(&pooled) {
            self.layout.relocate(recorded, region);
        }
        self.process(asid).pool_in_use += count;
        self.counters.ptp_regions += u64::from(count);
        work.relocated += u64::from(count);
        true
    }
}
