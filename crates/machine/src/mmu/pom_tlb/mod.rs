//! The part-of-memory TLB (Ryoo et al., ISCA 2017): a TLB of many mebibytes in memory, whose sets
//! are lines that the data caches hold. docs/designs/pom-tlb.md says what is the paper's and what
//! had to be chosen.

mod config;
mod sets;
#[cfg(test)]
mod tests;

pub use config::PomTlbConfig;

use super::counters::counters;
use super::{AroundConventional, Conventional, Found, Port, Request, Walks};
use crate::caches::served::Served;
use crate::config::MachineConfig;
use crate::design::compiled::{Composed, compiled};
use crate::mmu::ConfiguredTable;
use pagelab_addr::{LINE_SHIFT, PageSize, PhysAddr};
use pagelab_memory::simd::Simd;
use pagelab_os::Os;
use pagelab_translation::{ConventionalTlb, Nested, Page, PageTable, Radix, Walk};
use sets::Sets;
use std::borrow::Cow;

pub(crate) const DESIGN: Composed = Composed {
    description: "a TLB of many mebibytes in memory, whose lines the data caches hold",
    with: &[
        ("radix", compiled::<PomTlb<Radix>>()),
        ("nested-radix", compiled::<PomTlb<Nested<Radix, Radix>>>()),
    ],
};

/// Its lines begin here, behind all memory that the operating system has.
const FIRST_BYTE: u64 = 126 << 30;
const FIRST_LINE: u32 = (FIRST_BYTE >> LINE_SHIFT) as u32;

/// A conventional TLB and a page table, with a TLB in memory between them.
#[derive(Debug)]
pub struct PomTlb<P> {
    config: PomTlbConfig,
    walked: Conventional<P, ConventionalTlb>,
    /// Pages of 4 KiB and of 2 MiB; none where it has no size.
    parts: Option<[Sets; 2]>,
    /// By core, and there by the low bits of the page's number.
    predictions: Vec<Vec<Prediction>>,
    counts: Counts,
}

/// Expectation for the pages of an entry of the predictors.
#[derive(Clone, Copy, Debug, Default)]
struct Prediction {
    /// That they are of 2 MiB.
    large: bool,
    /// That no cache has their lines.
    far: bool,
}

counters! {
    pom_hits_4k,
    pom_hits_2m,
    /// Second-level misses that read the page table.
    page_table_walks,
    sets_read_in_l2,
    sets_read_in_llc,
    sets_read_in_memory,
    /// Sets among the last that were asked of memory at once; and of those the ones that a cache had.
    sets_read_past_caches,
    sets_read_past_caches_wrongly,
    sets_written,
    sizes_predicted_right,
    sizes_predicted_wrong,
    pom_entries_invalidated,
}

/// The part that has the pages of a size.
fn part(size: PageSize) -> Option<usize> {
    match size {
        PageSize::Base4K => Some(0),
        PageSize::Large2M => Some(1),
        PageSize::Huge1G => None,
    }
}

impl<P: PageTable> PomTlb<P> {
    fn prediction(&mut self, core: usize, page: Page) -> &mut Prediction {
        let predictions = &mut self.predictions[core];
        let at = page.vpn.0 as usize & (predictions.len() - 1);
        &mut predictions[at]
    }

    /// Looks for a page in the set of each size, the predicted one first, and lists the reads;
    /// the part that has it.
    fn probe(&mut self, page: Page, port: &mut Port, walk: &mut Walk) -> Option<usize> {
        let core = port.core;
        let first = usize::from(self.config.size_predictor && self.prediction(core, page).large);
        for part in [first, 1 - first] {
            let sets = &mut self.parts.as_mut()?[part];
            let (line, has) = (sets.line(page), sets.used(page));
            self.read(page, line, port, walk);
            if has {
                return Some(part);
            }
        }
        None
    }

    /// Reads the line of a set.
    fn read(&mut self, page: Page, line: u32, port: &mut Port, walk: &mut Walk) {
        let PomTlbConfig {
            cached,
            bypass_predictor,
            ..
        } = self.config;
        let step = walk.step();
        walk.read(PhysAddr(u64::from(line) << LINE_SHIFT));
        walk.next_step();
        if !cached {
            port.read_memory(line, step);
            self.counts.sets_read_in_memory += 1;
            return;
        }
        let past = bypass_predictor && self.prediction(port.core, page).far;
        let served = port.read_behind_first(line, step, past);
        let near = served != Served::Dram;
        self.prediction(port.core, page).far = !near;
        let counts = &mut self.counts;
        counts.sets_read_past_caches += u64::from(past);
        counts.sets_read_past_caches_wrongly += u64::from(past && near);
        match served {
            _ if past => counts.sets_read_in_memory += 1,
            Served::L2 => counts.sets_read_in_l2 += 1,
            Served::Llc => counts.sets_read_in_llc += 1,
            _ => counts.sets_read_in_memory += 1,
        }
    }

    /// A page's size is known: the predictor learns it.
    fn learn(&mut self, core: usize, page: Page, large: bool) {
        let predicts = self.config.size_predictor;
        let prediction = self.prediction(core, page);
        let right = (predicts && prediction.large) == large;
        prediction.large = large;
        self.counts.sizes_predicted_right += u64::from(right);
        self.counts.sizes_predicted_wrong += u64::from(!right);
    }
}

impl<P: ConfiguredTable> AroundConventional for PomTlb<P> {
    type Table = P;

    fn walked(&self) -> &Conventional<P, ConventionalTlb> {
        &self.walked
    }

    fn walked_mut(&mut self) -> &mut Conventional<P, ConventionalTlb> {
        &mut self.walked
    }

    /// Walks: reads sets before the page table.
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
        if let Some(part) = self.probe(page, port, walk) {
            self.learn(core, page, part == 1);
            let found = self.walked.table.found(page);
            if let Some(found) = found.filter(|found| found.writable || !store) {
                *[&mut self.counts.pom_hits_4k, &mut self.counts.pom_hits_2m][part] += 1;
                return Some(self.walked.fill::<S>(core, page, found));
            }
        }
        let probes = walk.reads().len();
        let found = self.walked.table.walk(core, page, walk);
        port.read_from(walk, probes);
        self.counts.page_table_walks += 1;
        let found = found.filter(|found| found.writable || !store)?;
        if let (Some(parts), Some(part)) = (&mut self.parts, part(found.size)) {
            parts[part].enter(page);
            port.write_past_caches(parts[part].line(page));
            self.counts.sets_written += 1;
            self.learn(core, page, part == 1);
        }
        Some(self.walked.fill::<S>(core, page, found))
    }

    fn forget(&mut self, core: usize, first: Page, pages: u32, _: &mut Port) {
        // All cores share it, and each is told.
        if let Some(parts) = self.parts.as_mut().filter(|_| core == 0) {
            let removed = parts.iter_mut().map(|part| part.remove(first, pages));
            self.counts.pom_entries_invalidated += removed.sum::<u64>();
        }
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        match self.parts {
            Some(_) => self.counts.named(),
            None => Vec::new(),
        }
    }

    fn machine(config: &MachineConfig) -> Result<Cow<'_, MachineConfig>, &'static str> {
        config.pom_tlb.check()?;
        if P::physical_bytes(config) > FIRST_BYTE {
            return Err("physical memory is more than 126 GiB");
        }
        Ok(Cow::Borrowed(config))
    }

    fn around(walked: Conventional<P, ConventionalTlb>, config: &MachineConfig, _: &Os) -> Self {
        let pom = config.pom_tlb;
        let half = pom.kib << (10 - LINE_SHIFT) >> 1;
        let parts = (half > 0).then(|| {
            [
                Sets::new(PageSize::Base4K, pom.neighbours, FIRST_LINE, half),
                Sets::new(PageSize::Large2M, pom.neighbours, FIRST_LINE + half, half),
            ]
        });
        let predictions = vec![Prediction::default(); pom.predictor_entries as usize];
        PomTlb {
            config: pom,
            walked,
            parts,
            predictions: vec![predictions; config.cores as usize],
            counts: Counts::default(),
        }
    }
}
