//! Victima (Kanellopoulos et al., MICRO 2023): the second-level cache backs up the second-level
//! TLB with blocks of eight translations. docs/designs/victima.md says what is the paper's and
//! what had to be chosen.

mod config;
mod predictor;
mod rate;
#[cfg(test)]
mod tests;

pub use config::VictimaConfig;

use super::counters::counters;
use super::{
    AroundConventional, Conventional, Found, Hit, Mmu, Port, PrefetchWalk, Request, Walks,
};
use crate::config::MachineConfig;
use crate::design::compiled::{Composed, compiled};
use pagelab_addr::{PageId, PageSize, Vpn};
use pagelab_memory::simd::Simd;
use pagelab_memory::{NO_LINE, Replacement};
use pagelab_os::Os;
use pagelab_translation::{ConventionalTlb, Page, PageTable, Radix, Translation, Walk};
use predictor::Predictor;
use rate::Rate;
use std::borrow::Cow;
use std::collections::HashMap;

pub(crate) const DESIGN: Composed = Composed {
    description: "TLB entries in the second-level cache",
    with: &[("radix", compiled::<Victima<Radix>>())],
};

/// Translations of a block, which fill a line.
const BLOCK: u32 = 8;
const BLOCK_SHIFT: u32 = BLOCK.ilog2();

/// Blocks have the numbers of the last lines of 128 GiB, which memory must not have: those of
/// 4 KiB pages from here, those of 2 MiB pages after them. The low bits of a number, which choose
/// its set, are those of the virtual page number in units of a block.
const FIRST_BLOCK: u32 = 0x7000_0000;
const FIRST_LARGE_BLOCK: u32 = FIRST_BLOCK + (1 << (30 - BLOCK_SHIFT));
const MAX_MEMORY_BYTES: u64 = 112 << 30;

/// The block that the translation of a page of a size may be in.
fn block(page: PageId, size: PageSize) -> Option<u32> {
    let number = page.0 >> size.order() >> BLOCK_SHIFT;
    match size {
        PageSize::Base4K => Some(FIRST_BLOCK + number),
        PageSize::Large2M => Some(FIRST_LARGE_BLOCK + number),
        PageSize::Huge1G => None,
    }
}

/// The place of a page's translation in its block, as a bit.
fn place(page: PageId, size: PageSize) -> u8 {
    1 << (page.0 >> size.order() & (BLOCK - 1))
}

/// A conventional TLB and a page table, with blocks of translations in the second-level cache
/// between them.
#[derive(Debug)]
pub struct Victima<P> {
    config: VictimaConfig,
    walked: Conventional<P, ConventionalTlb>,
    /// Predictor by the counters of page-table entries.
    predictor: Predictor,
    cores: Vec<PerCore>,
    l1_cycles: u32,
    l2_cycles: u32,
    /// A walk that was begun while the cache was looked into and that ends sooner.
    sooner: Option<Walk>,
    counts: Counts,
}

#[derive(Debug)]
struct PerCore {
    /// Blocks that were put into the cache: a bit for each translation that was there then. Those
    /// that the cache has dropped since are still listed.
    blocks: HashMap<u32, u8>,
    tlb_misses: Rate,
    cache_misses: Rate,
}

counters! {
    /// Translations that a block had.
    block_hits,
    walks_sooner_than_blocks,
    /// With those made anew, as in the next.
    blocks_inserted_on_misses,
    blocks_inserted_on_evictions,
    blocks_invalidated,
    /// Answers of the predictor.
    pages_predicted_costly,
    pages_predicted_cheap,
    pages_not_predicted,
}

impl<P: PageTable> Victima<P> {
    /// True if blocks are ever made.
    fn makes_blocks(&self) -> bool {
        self.config.insert_on_miss || self.config.insert_on_eviction
    }

    /// Looks at the rates of misses, and has the cache favour blocks while the TLB misses often.
    fn measure(&mut self, request: &Request, port: &mut Port) {
        let core = &mut self.cores[request.core];
        let misses = self.walked.counters(request.core).l2_misses;
        core.tlb_misses.at(request.instructions, misses);
        core.cache_misses.at(request.instructions, port.l2_misses());
        if self.config.tlb_aware {
            let favours = core.tlb_misses.high();
            port.favour(if favours { FIRST_BLOCK } else { NO_LINE });
        }
    }

    /// Begins a walk for a page whose block the cache has: whether it ends before the cache
    /// answers, as one may whose entries are in the first level. If not, it is given up before any
    /// of its reads has come back.
    fn begin(&mut self, core: usize, page: Page, port: &Port) -> bool {
        let mut walk = Walk::new();
        self.walked.table.walk(core, page, &mut walk);
        let cycles = (port.first_level_reads(&walk))
            .map(|reads| walk.cycles() + reads * self.l1_cycles)
            .filter(|&cycles| cycles < self.l2_cycles);
        self.sooner = cycles.map(|_| walk);
        self.sooner.is_some()
    }

    /// True if translations of a page are worth a line of the cache.
    fn worth(&mut self, core: usize, page: PageId, size: PageSize) -> bool {
        if !self.config.predictor || self.cores[core].cache_misses.high() {
            self.counts.pages_not_predicted += 1;
            return true;
        }
        let costly = self.predictor.costly(page, size);
        self.counts.pages_predicted_costly += u64::from(costly);
        self.counts.pages_predicted_cheap += u64::from(!costly);
        costly
    }

    /// Makes a block of the line in which a walk has found a page's entry.
    fn insert(&mut self, page: Page, size: PageSize, line: Option<u32>, port: &mut Port) {
        let Some(block) = block(page.id, size) else {
            return;
        };
        let mut has = 0;
        let first = page.id.0 >> size.order() & !(BLOCK - 1);
        for number in first..first + BLOCK {
            let id = PageId(number << size.order());
            let vpn = Vpn(page.vpn.0 + u64::from(id.0) - u64::from(page.id.0));
            let found = self.walked.table.found(Page { id, vpn, ..page });
            if found.is_some_and(|found| found.size == size) {
                has |= place(id, size);
            }
        }
        if !port.holds(block) {
            port.transform(line, block);
        }
        self.cores[port.core].blocks.insert(block, has);
    }

    /// Enters a translation into the TLB of a core; walks for what leaves its second level, if
    /// that is worth it.
    fn fill<S: Simd>(
        &mut self,
        page: PageId,
        translation: Translation,
        port: &mut Port,
        walks: &mut Walks,
    ) {
        let core = port.core;
        let evicted = self.walked.tlbs[core].fill_page::<S>(page, translation);
        let Some((id, size)) = evicted.filter(|_| self.config.insert_on_eviction) else {
            return;
        };
        let Some(block) = block(id, size) else {
            return;
        };
        if port.holds(block) || !self.worth(core, id, size) {
            return;
        }
        let page = port.page(id);
        let found = self.walked.table.walk(core, page, &mut walks.behind);
        let reads = port.read_all(&walks.behind);
        walks.ahead.push(PrefetchWalk {
            page: None,
            reads: walks.behind.reads().len() as u16,
            walk: walks.behind.cycles(),
        });
        if found.is_some() {
            self.insert(page, size, reads.last, port);
            self.counts.blocks_inserted_on_evictions += 1;
        }
    }
}

impl<P: PageTable> AroundConventional for Victima<P> {
    type Table = P;

    fn walked(&self) -> &Conventional<P, ConventionalTlb> {
        &self.walked
    }

    fn walked_mut(&mut self) -> &mut Conventional<P, ConventionalTlb> {
        &mut self.walked
    }

    fn lookup_behind<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Hit> {
        walks.behind.clear();
        if let Some(hit) = self.walked.lookup_behind::<S>(request, port, walks) {
            return Some(hit);
        }
        if !self.makes_blocks() {
            return None;
        }
        self.measure(request, port);
        let page = request.page;
        for size in [PageSize::Base4K, PageSize::Large2M] {
            let block = block(page.id, size)?;
            let has = self.cores[request.core].blocks.get(&block);
            if has.is_none_or(|has| has & place(page.id, size) == 0) || !port.holds(block) {
                continue;
            }
            if self.config.parallel && self.begin(request.core, page, port) {
                self.counts.walks_sooner_than_blocks += 1;
                return None;
            }
            port.look(block);
            let found = self.walked.table.found(page)?;
            if request.store && !found.writable {
                return None;
            }
            self.counts.block_hits += 1;
            self.fill::<S>(page.id, found, port, walks);
            return Some(Hit {
                pfn: found.pfn,
                cached: true,
            });
        }
        None
    }

    fn walk<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Found> {
        let Request { core, page, .. } = *request;
        let found = match self.sooner.take() {
            Some(begun) => {
                walks.asked = begun;
                self.walked.table.found(page)
            }
            None => self.walked.table.walk(core, page, &mut walks.asked),
        };
        if self.makes_blocks() && !self.config.parallel {
            // The walker waits until the cache has said no.
            walks.asked.spend(self.l2_cycles);
        }
        let reads = port.read_all(&walks.asked);
        let found = found.filter(|found| found.writable || !request.store)?;
        let size = found.size;
        self.predictor.walked(page.id, size, reads.memory);
        let mut cached_shift = 0;
        if self.config.insert_on_miss
            && block(page.id, size).is_some()
            && self.worth(core, page.id, size)
        {
            self.insert(page, size, reads.last, port);
            self.counts.blocks_inserted_on_misses += 1;
            cached_shift = (size.order() + BLOCK_SHIFT) as u8;
        }
        self.fill::<S>(page.id, found, port, walks);
        Some(Found {
            pfn: found.pfn,
            shift: size.order() as u8,
            cached_shift,
        })
    }

    fn forget(&mut self, core: usize, first: Page, pages: u32, port: &mut Port) {
        if core == 0 {
            self.predictor.forget(first.id, pages);
        }
        let blocks = &mut self.cores[core].blocks;
        if blocks.is_empty() {
            return;
        }
        let last = PageId(first.id.0 + pages - 1);
        let of = |size| block(first.id, size).zip(block(last, size));
        let ranges = [of(PageSize::Base4K), of(PageSize::Large2M)].map(Option::unwrap_or_default);
        let mut drop = |block: u32| self.counts.blocks_invalidated += u64::from(port.remove(block));
        if pages <= BLOCK {
            for block in ranges.into_iter().flat_map(|(first, last)| first..=last) {
                if blocks.remove(&block).is_some() {
                    drop(block);
                }
            }
            return;
        }
        blocks.retain(|&block, _| {
            let stale = ranges
                .iter()
                .any(|&(first, last)| (first..=last).contains(&block));
            if stale {
                drop(block);
            }
            !stale
        });
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        self.counts.named()
    }

    /// Its second-level cache knows translations from data, and has SRRIP for that.
    fn machine(config: &MachineConfig) -> Result<Cow<'_, MachineConfig>, &'static str> {
        let victima = &config.victima;
        victima.check()?;
        if config.memory.memory_bytes > MAX_MEMORY_BYTES {
            return Err("memory.memory_bytes is more than 112 GiB");
        }
        if config.tlb.l1_4k.coalesce.max(config.tlb.l2_4k.coalesce) > 1 {
            return Err("TLB entries cover a page each, without `coalesce`");
        }
        let makes_blocks = victima.insert_on_miss || victima.insert_on_eviction;
        if !(makes_blocks && victima.tlb_aware) {
            return Ok(Cow::Borrowed(config));
        }
        let mut machine = config.clone();
        machine.caches.l2.replacement = Replacement::Srrip;
        Ok(Cow::Owned(machine))
    }

    fn around(walked: Conventional<P, ConventionalTlb>, config: &MachineConfig, _: &Os) -> Self {
        let victima = config.victima;
        let core = || PerCore {
            blocks: HashMap::new(),
            tlb_misses: Rate::new(victima.window, victima.tlb_mpki),
            cache_misses: Rate::new(victima.window, victima.cache_mpki),
        };
        Victima {
            config: victima,
            walked,
            predictor: Predictor::new(victima),
            cores: (0..config.cores).map(|_| core()).collect(),
            l1_cycles: config.caches.l1.cycles,
            l2_cycles: config.caches.l2.cycles,
            sooner: None,
            counts: Counts::default(),
        }
    }
}
