//! Revelator (Kanellopoulos et al., 2025): the operating system places pages where hash functions
//! say, so that the processor can fetch what it probably needs while it walks.
//! docs/designs/revelator.md says what is the paper's and what had to be chosen.

mod config;
mod filter;
#[cfg(test)]
mod tests;

pub use config::RevelatorConfig;

use super::{AroundConventional, Conventional, Found, Port, Request, Walks};
use crate::config::MachineConfig;
use crate::design::compiled::{Composed, compiled};
use crate::machine::requests::MOST_EARLY;
use filter::Filter;
use pagelab_addr::{LINE_SHIFT, PAGE_SHIFT, Pfn};
use pagelab_memory::simd::Simd;
use pagelab_os::{Os, Placement};
use pagelab_translation::{ConventionalTlb, Frames, PageTable, Radix, Tiers, Walk};
use std::borrow::Cow;

pub(crate) const DESIGN: Composed = Composed {
    description: "hashed frames, guessed and fetched while the table is walked",
    with: &[("radix", compiled::<Revelator>())],
};

/// The most lines that are fetched by guess for one walk.
const _: () = assert!(2 * Tiers::MAX_FUNCTIONS as usize <= MOST_EARLY);

/// Lines of a frame.
const LINES: u32 = 1 << (PAGE_SHIFT - LINE_SHIFT);
/// log2 of the entries of a line, and the entries of a page of PTEs.
const ENTRIES_SHIFT: u32 = LINE_SHIFT - 3;
const ENTRIES: u64 = 512;

/// A conventional TLB and a radix table whose pages and page tables are placed by hashing, and
/// what guesses by it.
#[derive(Debug)]
pub struct Revelator {
    walked: Conventional<Radix, ConventionalTlb>,
    cycles: u32,
    data: Option<Guesses>,
    entries: Option<Guesses>,
}

/// Guesses of pages of data, or of page tables.
#[derive(Debug)]
struct Guesses {
    tiers: Tiers,
    /// By core.
    filters: Vec<Filter>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Frames that were guessed, and those of them that the walk found.
    guesses: u64,
    right: u64,
    /// Functions that were not guessed by.
    filtered: u64,
    /// Lines that were not near.
    fetched: u64,
}

impl Guesses {
    fn new(tiers: Tiers, config: &MachineConfig) -> Self {
        let filter = Filter::new(&config.revelator);
        Guesses {
            tiers,
            filters: vec![filter; config.cores as usize],
            counts: Counts::default(),
        }
    }

    /// Fetches a line of each frame that the functions name which are worth it.
    fn fetch(&mut self, key: u64, line: u32, cycles: u32, port: &mut Port) {
        let mut guesses = 0;
        for function in self.filters[port.core].worth() {
            let frame = self.tiers.frame(key, function);
            guesses += 1;
            self.counts.fetched += u64::from(port.fetch(frame.0 * LINES + line, cycles));
        }
        self.counts.guesses += guesses;
        self.counts.filtered += u64::from(self.tiers.functions()) - guesses;
    }

    /// The walk has found the frame; whether it was guessed, if something was.
    fn verify(&mut self, core: usize, key: u64, frame: Pfn, guessed: bool) {
        let function = self.tiers.function(key, frame);
        let filter = &mut self.filters[core];
        let right = function.is_some_and(|function| filter.worth().any(|of| of == function));
        self.counts.right += u64::from(guessed && right);
        filter.found(function);
    }
}

/// True if a walk reads something before the entry, so that a guess of it can be sooner.
fn reads_before_the_entry(walk: &Walk) -> bool {
    walk.reads().last().is_some_and(|last| last.step > 0)
}

impl AroundConventional for Revelator {
    type Table = Radix;

    fn walked(&self) -> &Conventional<Radix, ConventionalTlb> {
        &self.walked
    }

    fn walked_mut(&mut self) -> &mut Conventional<Radix, ConventionalTlb> {
        &mut self.walked
    }

    fn walk<S: Simd>(
        &mut self,
        request: &Request,
        port: &mut Port,
        walks: &mut Walks,
    ) -> Option<Found> {
        let Request {
            core, page, line, ..
        } = *request;
        let found = self.walked.table.walk(core, page, &mut walks.asked);
        let of_data = u64::from(page.id.0);
        let of_entry = page.id.region() as u64;
        let long = reads_before_the_entry(&walks.asked);
        if let Some(data) = &mut self.data {
            data.fetch(of_data, line, self.cycles, port);
        }
        if let Some(entries) = self.entries.as_mut().filter(|_| long) {
            let line = (page.vpn.0 % ENTRIES) as u32 >> ENTRIES_SHIFT;
            entries.fetch(of_entry, line, self.cycles, port);
        }
        port.read_all(&walks.asked);
        if let (Some(entries), Some(frame)) =
            (&mut self.entries, self.walked.table.entry_frame(page))
        {
            entries.verify(core, of_entry, frame, long);
        }
        let found = found?;
        if let Some(data) = &mut self.data {
            data.verify(core, of_data, found.pfn, true);
        }
        if request.store && !found.writable {
            return None;
        }
        Some(self.walked.fill::<S>(core, page, found))
    }

    fn own_counters(&self) -> Vec<(&'static str, u64)> {
        let of = |guesses: &Option<Guesses>| {
            let counts = guesses.as_ref().map(|guesses| guesses.counts);
            counts.unwrap_or_default()
        };
        let (data, entries) = (of(&self.data), of(&self.entries));
        vec![
            ("data_guesses", data.guesses),
            ("data_guesses_right", data.right),
            ("data_guesses_wrong", data.guesses - data.right),
            ("data_guesses_filtered", data.filtered),
            ("data_lines_fetched", data.fetched),
            ("entry_guesses", entries.guesses),
            ("entry_guesses_right", entries.right),
            ("entry_guesses_wrong", entries.guesses - entries.right),
            ("entry_guesses_filtered", entries.filtered),
            ("entry_lines_fetched", entries.fetched),
        ]
    }

    fn placement(config: &MachineConfig) -> Placement {
        if config.revelator.data {
            Placement::Tiered {
                functions: config.revelator.functions,
            }
        } else {
            Placement::Buddy
        }
    }

    fn machine(config: &MachineConfig) -> Result<Cow<'_, MachineConfig>, &'static str> {
        config.revelator.check()?;
        Ok(Cow::Borrowed(config))
    }

    fn around(
        mut walked: Conventional<Radix, ConventionalTlb>,
        config: &MachineConfig,
        os: &Os,
    ) -> Self {
        let revelator = config.revelator;
        let data = os.frames().tiers();
        let hashed = data.map_or(os.frames().count(), |data| data.frames().end);
        let entries = Tiers::of_tables(hashed, revelator.functions);
        let entries = entries.filter(|_| revelator.entries);
        if let Some(entries) = entries {
            walked.table.hash_leaves(entries);
        }
        Revelator {
            walked,
            cycles: revelator.cycles,
            data: data.map(|data| Guesses::new(data, config)),
            entries: entries.map(|entries| Guesses::new(entries, config)),
        }
    }
}
