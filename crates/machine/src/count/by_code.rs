//! Misses by the instruction that made the access and by the kind of memory.
//!
//! Kept only for sources that say which instructions make their accesses; others pay for one
//! branch a chunk and one a walk.

use crate::count::allocations::{Allocations, AtSite, of};
use crate::count::by_program::of_program;
use crate::count::ranges::Ranges;
use crate::count::tally::Tally;
use crate::machine::payer::Payer;
use pagelab_addr::Asid;
use pagelab_events::{CodeTable, Definition, NO_SITE, Range};
use pagelab_os::Mapping;
use std::collections::HashMap;

/// Tallies of one program's accesses.
#[derive(Clone, Debug, Default)]
pub struct ByCode {
    /// Its code.
    pub code: CodeTable,
    /// By site; sites past the end came to nothing.
    pub sites: Vec<Tally>,
    /// Tally of unknown instructions.
    pub unknown: Tally,
    /// By memory that [`ByCode::memory`] names; accesses are not counted, and what is past the end
    /// came to nothing.
    pub mappings: Vec<Tally>,
    /// By allocation site, one more than its number; the first is of memory that no allocator has given. Empty where
    /// calls of allocators are not told.
    pub allocations: Vec<AtSite>,
    files: MappedFiles,
}

/// Kinds of memory that a file may be.
const FILES: [Mapping; 3] = [
    Mapping::PrivateFile,
    Mapping::SharedFile,
    // memfd_create(2) and the like.
    Mapping::SharedAnonymous,
];

/// Files and where they are mapped, as far as a source says.
#[derive(Clone, Debug, Default)]
struct MappedFiles {
    paths: Vec<String>,
    numbers: HashMap<String, usize>,
    /// By address space, numbers of files.
    ranges: HashMap<u16, Ranges<usize>>,
}

impl MappedFiles {
    fn add(&mut self, path: &str, ranges: &[Range]) {
        let file = *(self.numbers.entry(path.to_owned())).or_insert(self.paths.len());
        if file == self.paths.len() {
            self.paths.push(path.to_owned());
        }
        for range in ranges {
            let end = range.addr.saturating_add(range.len);
            let space = self.ranges.entry(range.process as u16).or_default();
            space.insert(range.addr, end, file);
        }
    }

    fn at(&self, asid: Asid, addr: u64) -> Option<usize> {
        let (_, file) = self.ranges.get(&asid.0)?.at(addr)?;
        Some(file)
    }
}

impl ByCode {
    /// Takes in what a source says of the code.
    pub(crate) fn define(&mut self, definition: &Definition) {
        if let Definition::Mapping { path, ranges } = definition {
            self.files.add(path, ranges);
            return;
        }
        // A table of a source that could be read takes its definitions.
        let _ = self.code.define(definition.clone());
    }

    /// Says times in cycles.
    pub(crate) fn in_cycles(&mut self, slots_per_cycle: u64) {
        let allocations = self.allocations.iter_mut().map(|at| &mut at.tally);
        let all = self
            .sites
            .iter_mut()
            .chain(&mut self.mappings)
            .chain(allocations);
        for tally in all.chain([&mut self.unknown]) {
            tally.fault_cycles = tally.fault_slots / slots_per_cycle;
        }
    }

    /// Subject of a tally of [`ByCode::mappings`]: a kind of memory, and the file that it is, if it has a name. The
    /// kinds without a name come first, in the order of [`Mapping::ALL`].
    pub fn memory(&self, number: usize) -> (Mapping, Option<&str>) {
        match number.checked_sub(Mapping::ALL.len()) {
            None => (Mapping::ALL[number], None),
            Some(named) => {
                let path = &self.files.paths[named / FILES.len()];
                (FILES[named % FILES.len()], Some(path))
            }
        }
    }

    /// Number of the tally of memory of a kind at an address.
    pub(crate) fn number(&self, kind: Mapping, asid: Asid, addr: u64) -> u16 {
        let named = FILES
            .iter()
            .position(|&file| file == kind)
            .and_then(|kind| {
                let file = self.files.at(asid, addr)?;
                u16::try_from(Mapping::ALL.len() + FILES.len() * file + kind).ok()
            });
        named.unwrap_or(kind as u16)
    }

    pub(crate) fn mapping(&mut self, number: u16) -> &mut Tally {
        let number = usize::from(number);
        if self.mappings.len() <= number {
            self.mappings.resize(number + 1, Tally::default());
        }
        &mut self.mappings[number]
    }

    pub(crate) fn site(&mut self, site: u32) -> &mut Tally {
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

/// All programs' tallies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    programs: Vec<ByCode>,
    /// False while accesses only warm the machine up.
    pub(crate) measures: bool,
    /// Memory that they have given, from the first call on.
    pub(crate) allocations: Option<Box<Allocations>>,
}

impl Tallies {
    pub(crate) fn program(&mut self, program: usize) -> &mut ByCode {
        of_program(&mut self.programs, program)
    }

    /// The first call of an allocator comes, of this thread: all before was of memory that none has given.
    pub(crate) fn begin_allocations(&mut self, (process, thread): (u32, u32)) {
        let mut allocations = Box::<Allocations>::default();
        allocations.switch(process, thread);
        self.allocations = Some(allocations);
        for program in &mut self.programs {
            let elsewhere = of(&mut program.allocations, 0);
            (program.mappings.iter()).for_each(|tally| elsewhere.tally.add(tally));
        }
    }

    /// A walk has ended that took so many cycles.
    #[cold]
    pub(crate) fn walked(&mut self, payer: Payer, cycles: u64) {
        if !self.measures {
            return;
        }
        let by_allocation = self.allocations.is_some();
        let program = self.program(usize::from(payer.program));
        let mapping = program.mapping(payer.mapping);
        mapping.walks += 1;
        mapping.walk_cycles += cycles;
        if by_allocation {
            let allocation = &mut of(&mut program.allocations, payer.allocation).tally;
            allocation.walks += 1;
            allocation.walk_cycles += cycles;
        }
        let tally = program.site(payer.site);
        tally.walks += 1;
        tally.walk_cycles += cycles;
    }

    /// The programs' tallies, with times in cycles.
    pub(crate) fn finish(self, slots_per_cycle: u64) -> Vec<ByCode> {
        let mut programs = self.programs;
        for program in &mut programs {
            program.in_cycles(slots_per_cycle);
        }
        programs
    }
}
