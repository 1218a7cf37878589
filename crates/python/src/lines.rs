//! Lines of source that missed, from what each instruction came to.

use pagelab_machine::{AtSite, ByCode, Mapping, RunResult, Tally};
use pagelab_symbols::{Origin, SourceText, Symbols};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Lines kept of a program; the others are added up.
const MOST: usize = 1000;
/// Rows of memory of a program, after which files have no name.
const MOST_FILES: usize = 200;
/// Allocation sites of a program that have a row; the others are added up.
const MOST_SITES: usize = 500;

/// A run with the lines that missed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WithLines<'a> {
    #[serde(flatten)]
    run: &'a RunResult,
    /// Lines of source with what missed there, the most expensive first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<Line>,
    /// Kinds of memory, and files, with what missed there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mappings: Vec<MappingRow>,
    /// Allocation sites with what missed in their memory, the most expensive first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allocation_sites: Vec<AllocationRow>,
    /// Files that have changed since the recording: their code has no names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed_files: Vec<String>,
}

/// Subject of a row.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Row {
    /// A line, or what of an origin is known.
    Line,
    /// Code that is in no file, and accesses of unknown instructions.
    Unknown,
    /// All lines that have no row of their own.
    Others,
}

#[derive(Serialize, JsonSchema)]
struct Line {
    /// Number of the program, from 0.
    program: usize,
    #[serde(flatten)]
    origin: Origin,
    /// Text of the line.
    text: Option<String>,
    row: Row,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize, JsonSchema)]
struct MappingRow {
    /// Number of the program, from 0.
    program: usize,
    /// Kind of memory.
    kind: &'static str,
    /// The file that it is.
    name: Option<String>,
    #[serde(flatten)]
    counts: Counts,
}

/// Subject of a row of allocation sites.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Allocated {
    /// Memory that was allocated at a site.
    Site,
    /// Memory that no allocator has given: the stack, files, the program's variables.
    Elsewhere,
    /// All sites that have no row of their own.
    Others,
}

#[derive(Serialize, JsonSchema)]
struct AllocationRow {
    /// Number of the program, from 0.
    program: usize,
    row: Allocated,
    /// Function called: malloc, calloc, realloc, aligned_alloc, operator new or mmap.
    call: Option<&'static str>,
    /// Calls that led there, the allocator's caller first.
    frames: Vec<CallFrame>,
    /// Calls that gave memory.
    allocations: u64,
    /// Bytes that were asked for, over all calls.
    bytes: u64,
    /// The most bytes that were asked for and not yet given back.
    peak_bytes: u64,
    /// The most bytes of pages that first touches of its memory brought in.
    peak_resident_bytes: u64,
    #[serde(flatten)]
    counts: Counts,
}

/// A call on the stack.
#[derive(Serialize, JsonSchema)]
struct CallFrame {
    /// Return address, as an offset in the file; in no file the address.
    offset: u64,
    #[serde(flatten)]
    origin: Origin,
    /// Text of the line.
    text: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Counts {
    /// Accesses.
    accesses: u64,
    /// First-level TLB misses.
    l1_tlb_misses: u64,
    /// Second-level TLB misses.
    l2_tlb_misses: u64,
    /// Page walks.
    walks: u64,
    /// Cycles of these walks.
    walk_cycles: u64,
    /// Page faults.
    faults: u64,
    /// Cycles of these faults.
    fault_cycles: u64,
}

impl Counts {
    fn of(tally: &Tally) -> Self {
        Counts {
            accesses: tally.accesses,
            l1_tlb_misses: tally.l1_tlb_misses,
            l2_tlb_misses: tally.l2_tlb_misses,
            walks: tally.walks,
            walk_cycles: tally.walk_cycles,
            faults: tally.faults,
            fault_cycles: tally.fault_cycles,
        }
    }
}

impl<'a> WithLines<'a> {
    pub(crate) fn of(run: &'a RunResult) -> Self {
        let mut found = WithLines {
            run,
            lines: Vec::new(),
            mappings: Vec::new(),
            allocation_sites: Vec::new(),
            changed_files: Vec::new(),
        };
        for (program, by_code) in run.by_code.iter().enumerate() {
            found.add(program, by_code);
        }
        found
    }

    fn add(&mut self, program: usize, by_code: &ByCode) {
        let mut symbols = Symbols::new(&by_code.code);
        let mut by_origin: BTreeMap<Origin, Tally> = BTreeMap::new();
        // Instructions that never missed are not worth a look into a file.
        let mut rest = Tally::default();
        for (site, tally) in by_code.sites.iter().enumerate() {
            if tally.missed() {
                let origin = symbols.origin(site as u32);
                by_origin.entry(origin).or_default().add(tally);
            } else {
                rest.add(tally);
            }
        }
        by_origin
            .entry(Origin::default())
            .or_default()
            .add(&by_code.unknown);
        let mut text = SourceText::default();
        self.add_allocations(program, by_code, &mut symbols, &mut text);
        self.changed_files
            .extend(symbols.changed().map(str::to_owned));
        let mut all: Vec<_> = by_origin.into_iter().collect();
        all.sort_by_key(|(_, tally)| Reverse(cost(tally)));
        let left = all.split_off(all.len().min(MOST));
        left.iter().for_each(|(_, tally)| rest.add(tally));
        for (origin, tally) in all {
            if tally == Tally::default() {
                continue;
            }
            let row = if origin == Origin::default() {
                Row::Unknown
            } else {
                Row::Line
            };
            let place = origin.file.as_deref().zip(origin.line);
            self.lines.push(Line {
                program,
                text: place.and_then(|(file, line)| shown(&mut text, file, line)),
                origin,
                row,
                counts: Counts::of(&tally),
            });
        }
        if rest != Tally::default() {
            self.lines.push(Line {
                program,
                origin: Origin::default(),
                text: None,
                row: Row::Others,
                counts: Counts::of(&rest),
            });
        }
        self.add_memory(program, by_code);
    }

    fn add_allocations(
        &mut self,
        program: usize,
        by_code: &ByCode,
        symbols: &mut Symbols<'_>,
        text: &mut SourceText,
    ) {
        // Without calls of allocators there is nothing but what is elsewhere.
        let [elsewhere, sites @ ..] = by_code.allocations.as_slice() else {
            return;
        };
        if sites.is_empty() {
            return;
        }
        let mut add = |row, call, frames, at: &AtSite| {
            self.allocation_sites.push(AllocationRow {
                program,
                row,
                call,
                frames,
                allocations: at.allocations,
                bytes: at.bytes,
                peak_bytes: at.peak_bytes,
                peak_resident_bytes: at.peak_resident_bytes,
                counts: Counts::of(&at.tally),
            });
        };
        let numbered = by_code.code.allocation_sites().iter().zip(sites);
        let mut all: Vec<_> = numbered
            .filter(|(_, at)| **at != AtSite::default())
            .collect();
        all.sort_by_key(|(_, at)| Reverse((cost(&at.tally), at.peak_resident_bytes)));
        let left = all.split_off(all.len().min(MOST_SITES));
        for (site, at) in all {
            let frames = site.frames.iter().map(|&frame| {
                let origin = symbols.caller(frame);
                let place = origin.file.as_deref().zip(origin.line);
                CallFrame {
                    offset: frame.offset,
                    text: place.and_then(|(file, line)| shown(text, file, line)),
                    origin,
                }
            });
            add(
                Allocated::Site,
                Some(site.call.name()),
                frames.collect(),
                at,
            );
        }
        if !left.is_empty() {
            let mut rest = AtSite::default();
            left.iter().for_each(|(_, at)| rest.add(at));
            add(Allocated::Others, None, Vec::new(), &rest);
        }
        add(Allocated::Elsewhere, None, Vec::new(), elsewhere);
    }

    fn add_memory(&mut self, program: usize, by_code: &ByCode) {
        let mut all: Vec<_> = (by_code.mappings.iter().enumerate())
            .map(|(number, tally)| (by_code.memory(number), *tally))
            .filter(|(_, tally)| tally.missed())
            .collect();
        all.sort_by_key(|(_, tally)| Reverse(cost(tally)));
        // The other files are what the kind is.
        let mut kept: Vec<((Mapping, Option<&str>), Tally)> = Vec::new();
        for ((kind, name), tally) in all {
            let name = name.filter(|_| kept.len() < MOST_FILES);
            match kept.iter_mut().find(|(memory, _)| *memory == (kind, name)) {
                Some((_, sum)) => sum.add(&tally),
                None => kept.push(((kind, name), tally)),
            }
        }
        for ((kind, name), tally) in kept {
            self.mappings.push(MappingRow {
                program,
                kind: kind.name(),
                name: name.map(str::to_owned),
                counts: Counts::of(&tally),
            });
        }
    }
}

/// A line of source, not at any length.
fn shown(text: &mut SourceText, file: &str, line: u32) -> Option<String> {
    let line = text.line(file, line)?;
    Some(line.chars().take(200).collect())
}

/// Order of rows, the most expensive first.
fn cost(tally: &Tally) -> (u64, u64) {
    (tally.walk_cycles + tally.fault_cycles, tally.l1_tlb_misses)
}
