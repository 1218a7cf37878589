//! What missed, by the instruction that made the access and by the kind of memory.
//!
//! Kept only for sources that say which instructions make their accesses; others pay for one
//! branch a chunk and one a walk.

use crate::chunk::{Episode, part};
use crate::machine::Machine;
use pagelab_addr::{Asid, VirtAddr};
use pagelab_events::{Batch, CodeTable, NO_SITE};
use pagelab_os::Mapping;
use pagelab_translation::{PageTable, Tlb};

/// What the accesses of an instruction, or to a kind of memory, came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Accesses.
    pub accesses: u64,
    /// First-level TLB misses.
    pub l1_tlb_misses: u64,
    /// Second-level TLB misses.
    pub l2_tlb_misses: u64,
    /// Page walks.
    pub walks: u64,
    /// Cycles from a walker's start on each of them to its end.
    pub walk_cycles: u64,
    /// Page faults.
    pub faults: u64,
    /// Slots in these faults.
    pub(crate) fault_slots: u64,
    /// Cycles in these faults.
    pub fault_cycles: u64,
}

impl Tally {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Tally) {
        self.accesses += other.accesses;
        self.l1_tlb_misses += other.l1_tlb_misses;
        self.l2_tlb_misses += other.l2_tlb_misses;
        self.walks += other.walks;
        self.walk_cycles += other.walk_cycles;
        self.faults += other.faults;
        self.fault_slots += other.fault_slots;
        self.fault_cycles += other.fault_cycles;
    }

    /// Whether translation cost anything.
    pub fn missed(&self) -> bool {
        self.l1_tlb_misses + self.walks + self.faults > 0
    }
}

/// What one program's accesses came to.
#[derive(Clone, Debug, Default)]
pub struct ByCode {
    /// Its code.
    pub code: CodeTable,
    /// By site; sites past the end came to nothing.
    pub sites: Vec<Tally>,
    /// What instructions came to of which nothing is known.
    pub unknown: Tally,
    /// By kind of memory, in the order of [`Mapping::ALL`]; accesses are not counted.
    pub mappings: [Tally; Mapping::ALL.len()],
}

impl ByCode {
    fn site(&mut self, site: u32) -> &mut Tally {
        if site == NO_SITE {
            return &mut self.unknown;
        }
        let site = site as usize;
        if self.sites.len() <= site {
            self.sites.resize(site + 1, Tally::default());
        }
        &mut self.sites[site]
    }
}

/// Whom a walk or fault is charged to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Payer {
    site: u32,
    program: u16,
    mapping: u8,
}

/// All programs' tallies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    programs: Vec<ByCode>,
    /// Whether what is counted is measured: not where it only warms the machine up.
    measures: bool,
}

impl Tallies {
    fn program(&mut self, program: usize) -> &mut ByCode {
        if self.programs.len() <= program {
            self.programs.resize(program + 1, ByCode::default());
        }
        &mut self.programs[program]
    }

    /// A walk has ended that took so many cycles.
    #[cold]
    pub(crate) fn walked(&mut self, payer: Payer, cycles: u64) {
        if !self.measures {
            return;
        }
        let program = self.program(usize::from(payer.program));
        program.mappings[usize::from(payer.mapping)].walks += 1;
        program.mappings[usize::from(payer.mapping)].walk_cycles += cycles;
        let tally = program.site(payer.site);
        tally.walks += 1;
        tally.walk_cycles += cycles;
    }

    /// The programs' tallies, with times in cycles.
    pub(crate) fn finish(self, slots_per_cycle: u64) -> Vec<ByCode> {
        let mut programs = self.programs;
        for program in &mut programs {
            let all = program.sites.iter_mut().chain(&mut program.mappings);
            for tally in all.chain([&mut program.unknown]) {
                tally.fault_cycles = tally.fault_slots / slots_per_cycle;
            }
        }
        programs
    }
}

impl<P: PageTable, T: Tlb> Machine<P, T> {
    /// From now on counts by instruction and kind of memory.
    pub fn count_by_code(&mut self) {
        self.timing.by_code = Some(Box::default());
    }

    /// Takes in what a batch says of the code.
    pub(crate) fn define_code(&mut self, batch: &Batch) {
        let program = self.program();
        let Some(tallies) = &mut self.timing.by_code else {
            return;
        };
        for definition in &batch.definitions {
            // A table of a source that could be read takes its definitions.
            let _ = tallies.program(program).code.define(definition.clone());
        }
    }

    /// Charges what translating a chunk came to, and notes who is to pay for its walks.
    #[cold]
    #[inline(never)]
    pub(crate) fn charge(&mut self, asid: Asid, addr: &[u64], sites: &[u32]) {
        let number = self.program();
        let measures = self.measures();
        let Some(mut tallies) = self.timing.by_code.take() else {
            return;
        };
        tallies.measures = measures;
        let charged = tallies.program(number);
        if !measures {
            // Its walks will have ended before anything is measured.
            self.timing.by_code = Some(tallies);
            return;
        }
        let mut episodes = self.chunk.episodes.as_mut_slice().iter_mut();
        let mut next = 0;
        for &bits in self.chunk.parts.as_slice() {
            next += usize::from(bits & part::REST == 0);
            let access = next - 1;
            let site = sites.get(access).copied().unwrap_or(NO_SITE);
            if bits & part::REST == 0 {
                charged.site(site).accesses += 1;
            }
            if bits & (part::SECOND_TLB | part::SLOW) == 0 {
                continue;
            }
            let mapping = self.os.mapping(asid, VirtAddr(addr[access]).vpn()) as usize;
            let mut tally = Tally {
                l1_tlb_misses: u64::from(bits & part::SECOND_TLB != 0),
                ..Tally::default()
            };
            if bits & part::SLOW != 0 {
                tally.l2_tlb_misses = u64::from(!T::FREE);
                for episode in &mut episodes {
                    episode.payer = Payer {
                        site,
                        program: number as u16,
                        mapping: mapping as u8,
                    };
                    let Episode {
                        faulted,
                        fault,
                        migration,
                        ..
                    } = *episode;
                    if !faulted {
                        break;
                    }
                    tally.faults += 1;
                    tally.fault_slots += fault + migration;
                }
            }
            charged.site(site).add(&tally);
            charged.mappings[mapping].add(&tally);
        }
        self.timing.by_code = Some(tallies);
    }
}
