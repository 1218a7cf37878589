//! Which lines of source missed, from what each instruction came to.

use pagelab_machine::{ByCode, Mapping, RunResult, Tally};
use pagelab_symbols::{Origin, SourceText, Symbols};
use serde::Serialize;
use std::collections::BTreeMap;

/// Lines kept of a program; the others are added up.
const MOST: usize = 1000;

/// A run with the lines that missed.
#[derive(Serialize)]
pub(crate) struct WithLines<'a> {
    #[serde(flatten)]
    run: &'a RunResult,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mappings: Vec<MappingRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed_files: Vec<String>,
}

/// What a row stands for.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Row {
    /// A line, or what of an origin is known.
    Line,
    /// Code that is in no file, and accesses of unknown instructions.
    Unknown,
    /// All lines that have no row of their own.
    Others,
}

#[derive(Serialize)]
struct Line {
    program: usize,
    #[serde(flatten)]
    origin: Origin,
    /// What stands there.
    text: Option<String>,
    row: Row,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize)]
struct MappingRow {
    program: usize,
    kind: &'static str,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize)]
struct Counts {
    accesses: u64,
    l1_tlb_misses: u64,
    l2_tlb_misses: u64,
    walks: u64,
    walk_cycles: u64,
    faults: u64,
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
        self.changed_files
            .extend(symbols.changed().map(str::to_owned));
        let mut all: Vec<_> = by_origin.into_iter().collect();
        let cost = |tally: &Tally| (tally.walk_cycles + tally.fault_cycles, tally.l1_tlb_misses);
        all.sort_by_key(|(_, tally)| std::cmp::Reverse(cost(tally)));
        let left = all.split_off(all.len().min(MOST));
        left.iter().for_each(|(_, tally)| rest.add(tally));
        let mut text = SourceText::default();
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
                text: place
                    .and_then(|(file, line)| text.line(file, line))
                    .map(|line| line.chars().take(200).collect()),
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
        for (kind, tally) in Mapping::ALL.into_iter().zip(&by_code.mappings) {
            if tally.missed() {
                self.mappings.push(MappingRow {
                    program,
                    kind: kind.name(),
                    counts: Counts::of(tally),
                });
            }
        }
    }
}
