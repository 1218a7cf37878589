//! Utopia (Kanellopoulos et al., MICRO 2023): restrictive segments of memory, in which a page can have
//! few frames, beside a flexible one under the page table. docs/designs/utopia.md says what is the
//! paper's and what had to be chosen.

mod caches;
mod config;
mod costly;
#[cfg(test)]
mod tests;

pub use config::UtopiaConfig;

use super::counters::counters;
use super::{AroundConventional, Conventional, Found, Port, Request, Walks};
use crate::caches::served::Served;
use crate::config::MachineConfig;
use crate::design::compiled::{Composed, compiled};
use crate::error::BuildError;
use crate::mmu::ConfiguredTable;
use caches::Lines;
use costly::Costly;
use pagelab_addr::{LINE_SHIFT, PageSize, PhysAddr};
use pagelab_memory::simd::Simd;
use pagelab_os::{Os, Placement};
use pagelab_translation::{ConventionalTlb, Page, PageTable, Radix, Segmented, Translation, Walk};
use std::borrow::Cow;
use std::ops::Range;

pub(crate) const DESIGN: Composed = Composed {
    description: "segments of memory in which a page has few places, beside the page table",
    with: &[("radix", compiled::<Utopia<Radix>>())],
};

/// A conventional TLB, restrictive segments and a page table.
#[derive(Debug)]
pub struct Utopia<P> {
    config: UtopiaConfig,
    walked: Conventional<Segmented<P>, ConventionalTlb>,
    /// There are segments at all.
    segments: bool,
    /// By core: the caches of set filters and of tag arrays.
    filters: Vec<Lines>,
    tags: Vec<Lines>,
    costly: Option<Costly>,
    counts: Counts,
    /// The walk of the segments, where another goes on beside it, and that other one.
    beside: Walk,
    vain: Walk,
    /// Scratch.
    missing: Vec<u32>,
}

counters! {
    segment_hits_4k,
    segment_hits_2m,
    /// Second-level misses that the page table was waited for.
    page_table_walks,
    /// Reads of the page table beside a walk of segments that had the page.
    page_table_reads_in_vain,
    /// Sets that the set filter was asked of, and those that have no pages.
    sets_filtered,
    sets_filtered_out,
    /// Sets whose tags were compared.
    sets_searched,
    /// Lines that the caches of the walker did not have.
    filter_lines_read,
    tag_lines_read,
    pages_found_costly,
}

impl<P: ConfiguredTable> ConfiguredTable for Segmented<P> {
    fn build(config: &MachineConfig) -> Result<Self, BuildError> {
        let segments = config.utopia.segments(&config.memory);
        Ok(Segmented::new(P::build(config)?, segments))
    }

    fn physical_bytes(config: &MachineConfig) -> u64 {
        P::physical_bytes(config)
    }

    fn statistics(&self) -> serde_json::Result<serde_json::Value> {
        self.pages().statistics()
    }
}

impl<P: PageTable> Utopia<P> {
    /// Walks the segments: lists what it reads, and says the size of the page, if one of them has it.
    fn walk_segments(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<PageSize> {
        let UtopiaConfig {
            set_filter,
            cache_cycles,
            ..
        } = self.config;
        let table = &self.walked.table;
        let segments = table.segments();
        let counts = &mut self.counts;
        let line = |byte: u64| (byte >> LINE_SHIFT) as u32;
        if set_filter {
            let filter = &mut self.filters[core];
            for segment in segments.iter() {
                let line = line(segment.filter(segment.set(page.id)).0);
                filter.missing(line..line + 1, &mut self.missing);
                counts.sets_filtered += 1;
            }
            walk.spend(if filter.there() { cache_cycles } else { 0 });
            counts.filter_lines_read += self.missing.len() as u64;
            list(&mut self.missing, walk);
        }
        let tags = &mut self.tags[core];
        let mut found = None;
        let mut searched = 0;
        for segment in segments.iter() {
            let (size, set) = (segment.size(), segment.set(page.id));
            if set_filter && table.held(size, set) == 0 {
                counts.sets_filtered_out += 1;
                continue;
            }
            searched += 1;
            let bytes = segment.tags(set);
            tags.missing(
                line(bytes.start)..line(bytes.end - 1) + 1,
                &mut self.missing,
            );
            if table.has(size, page) {
                found = Some(size);
            }
        }
        if searched > 0 && tags.there() {
            walk.spend(cache_cycles);
        }
        counts.sets_searched += searched;
        counts.tag_lines_read += self.missing.len() as u64;
        list(&mut self.missing, walk);
        found
    }

    /// Walks the segments and then, if they do not have the page, the page table.
    fn walk_in_turn(
        &mut self,
        core: usize,
        page: Page,
        port: &mut Port,
        walk: &mut Walk,
    ) -> (Option<PageSize>, Option<Translation>) {
        let inside = self.walk_segments(core, page, walk);
        let reads = walk.reads().len();
        port.read_all(walk);
        if inside.is_some() {
            return (inside, self.walked.table.found(page));
        }
        let found = self.walked.table.walk(core, page, walk);
        self.read(page, found, reads..walk.reads().len(), port, walk);
        (None, found)
    }

    /// Walks both at a time. What the segments do not have nobody waits for, nor for what has been
    /// read of the page table by then if they have it: as many steps as they took.
    fn walk_both(
        &mut self,
        core: usize,
        page: Page,
        port: &mut Port,
        walk: &mut Walk,
    ) -> (Option<PageSize>, Option<Translation>) {
        let mut beside = std::mem::take(&mut self.beside);
        beside.clear();
        let inside = self.walk_segments(core, page, &mut beside);
        let found = if inside.is_some() {
            std::mem::swap(walk, &mut beside);
            let steps = walk.step();
            if steps > 0 {
                self.vain.clear();
                self.walked.table.walk(core, page, &mut self.vain);
                let begun = self.vain.reads().iter();
                for read in begun.take_while(|read| read.step < steps) {
                    walk.read_in_background(read.addr);
                }
                walk.count_cache_of(&self.vain);
            }
            self.counts.page_table_reads_in_vain += u64::from(walk.background());
            port.read_all(walk);
            self.walked.table.found(page)
        } else {
            let found = self.walked.table.walk(core, page, walk);
            let own = walk.reads().len();
            for read in beside.reads() {
                walk.read_in_background(read.addr);
            }
            self.read(page, found, 0..own, port, walk);
            found
        };
        self.beside = beside;
        (inside, found)
    }

    /// Makes the reads of a walk from the first of those of the page table on, and notes what these
    /// have cost.
    fn read(
        &mut self,
        page: Page,
        found: Option<Translation>,
        own: Range<usize>,
        port: &mut Port,
        walk: &Walk,
    ) {
        let before = port.references();
        port.read_from(walk, own.start);
        self.counts.page_table_walks += 1;
        let (Some(costly), Some(found)) = (&mut self.costly, found) else {
            return;
        };
        let served = port.served_since(before).iter().take(own.len());
        let memory = served.filter(|&&of| of == Served::Dram);
        let segments = self.walked.table.segments();
        if segments.of(found.size).is_some() {
            let became = costly.walked(page, found.size.order(), memory.count() as u32);
            self.counts.pages_found_costly += u64::from(became);
        }
    }
}

/// Lists reads of lines that go out together, if there are any.
fn list(lines: &mut Vec<u32>, walk: &mut Walk) {
    for line in lines.iter() {
        walk.read(PhysAddr(u64::from(*line) << LINE_SHIFT));
    }
    if !lines.is_empty() {
        walk.next_step();
    }
    lines.clear();
}

impl<P: ConfiguredTable> AroundConventional for Utopia<P> {
    type Table = Segmented<P>;

    fn walked(&self) -> &Conventional<Segmented<P>, ConventionalTlb> {
        &self.walked
    }

    fn walked_mut(&mut self) -> &mut Conventional<Segmented<P>, ConventionalTlb> {
        &mut self.walked
    }

    fn walk<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Found> {
        let Request {
            core, page, store, ..
        } = *request;
        let walk = &mut walks.asked;
        let (inside, found) = if !self.segments {
            let found = self.walked.table.walk(core, page, walk);
            port.read_all(walk);
            (None, found)
        } else if self.config.parallel {
            self.walk_both(core, page, port, walk)
        } else {
            self.walk_in_turn(core, page, port, walk)
        };
        match inside {
            Some(PageSize::Base4K) => self.counts.segment_hits_4k += 1,
            Some(_) => self.counts.segment_hits_2m += 1,
            None => {}
        }
        let found = found.filter(|found| found.writable || !store)?;
        Some(self.walked.fill::<S>(core, page, found))
    }

    fn forget(&mut self, core: usize, first: Page, pages: u32, _: &mut Port) {
        // All cores share the page table, and each is told.
        if let Some(costly) = self.costly.as_mut().filter(|_| core == 0) {
            costly.forget(first.id, pages);
        }
    }

    fn costly(&mut self) -> Option<Page> {
        self.costly.as_mut()?.pages.pop()
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        if self.segments {
            self.counts.named()
        } else {
            Vec::new()
        }
    }

    fn placement(config: &MachineConfig) -> Placement {
        let segments = config.utopia.segments(&config.memory);
        if segments.is_empty() {
            return Placement::Buddy;
        }
        Placement::Segmented {
            segments,
            at_faults: config.utopia.at_faults,
            evicting: config.utopia.evict_at_faults,
        }
    }

    fn machine(config: &MachineConfig) -> Result<Cow<'_, MachineConfig>, &'static str> {
        config.utopia.check()?;
        Ok(Cow::Borrowed(config))
    }

    fn around(
        walked: Conventional<Segmented<P>, ConventionalTlb>,
        config: &MachineConfig,
        _: &Os,
    ) -> Self {
        let utopia = config.utopia;
        let segments = !walked.table.segments().is_empty();
        let caches = |kib: u32| {
            let cores = 0..config.cores;
            cores.map(|_| Lines::new(kib, utopia.cache_ways)).collect()
        };
        Utopia {
            config: utopia,
            walked,
            segments,
            filters: caches(utopia.filter_cache_kib),
            tags: caches(utopia.tag_cache_kib),
            costly: (segments && utopia.track).then(|| Costly::new(&utopia)),
            counts: Counts::default(),
            beside: Walk::new(),
            vain: Walk::new(),
            missing: Vec::new(),
        }
    }
}
