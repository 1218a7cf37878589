//! The memory that pieces begin with, against that of a machine that has simulated all before.

use super::intervals::Intervals;
use super::recent::{Line, Past, Space, Used};
use super::state::{Leader, MemoryState, Warmth};
use super::survey;
use super::survey::Joint;
use crate::config::MachineConfig;
use crate::machine::Machine;
use crate::mmu::{ConfiguredMmu, ConfiguredTable, Conventional, Mmu};
use pagelab_addr::{Asid, PageDirectory, Vpn};
use pagelab_events::{
    Access, Backing, Batch, Control, Divisible, Interval, Op, Protection, Source, SourceError,
};
use pagelab_os::Os;
use pagelab_translation::{ConventionalTlb, Dpt, Ecpt, Page, Radix};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};

const BASE: u64 = 0x7000_0000_0000;
const PAGES: u64 = 600;

/// Batches in memory, to be read from any place.
struct Held(Vec<Batch>);

struct Reading<'a>(std::slice::Iter<'a, Batch>);

impl Source for Reading<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let next = self.0.next();
        *batch = next.cloned().unwrap_or_default();
        Ok(next.is_some())
    }
}

impl Divisible for Held {
    fn accesses(&self) -> u64 {
        self.0.iter().map(|batch| batch.len() as u64).sum()
    }

    fn interval(
        &self,
        from: u64,
        to: Option<u64>,
    ) -> Result<Box<dyn Source + Send + '_>, SourceError> {
        let source = Reading(self.0.iter());
        Ok(Box::new(Interval::new(
            source,
            from,
            to.map(|to| to - from),
        )))
    }
}

/// The uses seen of an interval, against the last use of each byte's line, found one by one.
fn check_lines(accesses: &[(u64, u16)], tail: u64) {
    let mut batch = Batch::default();
    for &(offset, size) in accesses {
        batch.push(Access {
            addr: BASE + offset,
            op: Op::load(size),
            gap: 0,
            dep: 0,
        });
    }
    let stream = Held(vec![batch]);
    let length = accesses.len() as u64 / 2;
    let intervals = Intervals {
        count: 2,
        length,
        accesses: accesses.len() as u64,
        tail,
    };
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let seen = survey::look(&stream, intervals, 0, &stop, &done);
    let first = &accesses[..length as usize];
    let parts = first.split_at((length - tail.min(length)) as usize);
    for (part, lines) in [parts.0, parts.1].into_iter().zip(&seen.lines) {
        let mut last = HashMap::new();
        for (number, &(offset, size)) in part.iter().enumerate() {
            for byte in offset..offset + u64::from(size) {
                last.insert((BASE + byte) >> 6, number);
            }
        }
        assert_eq!(lines.lines.len(), last.len());
        let order = lines.lines.iter().map(|line| last[&(line.addr() >> 6)]);
        assert!(order.is_sorted());
    }
}

/// One event of a process: (process, kind, page, pages).
type Step = (u32, u32, u64, u64);

/// Loads, stores, and calls that take pages away, protect, share or copy them.
fn batches(steps: &[Step]) -> Vec<Batch> {
    let mut batches = vec![Batch::default()];
    batches[0].push_control(Control::Map {
        addr: BASE,
        len: PAGES << 12,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing: Backing::Anonymous,
        populate: false,
    });
    let mut forked = false;
    for &(process, kind, page, pages) in steps {
        let process = if forked { process } else { 0 };
        if batches.last().is_none_or(|last| last.process != process) {
            batches.push(Batch {
                process,
                ..Batch::default()
            });
            let last = batches.len() - 1;
            batches[last].push_control(Control::Thread { thread: 0 });
        }
        let last = batches.len() - 1;
        let batch = &mut batches[last];
        let (addr, len) = (BASE + (page << 12), pages << 12);
        let both = Protection(Protection::READ | Protection::WRITE);
        batch.push_control(match kind {
            0 => Control::Unmap { addr, len },
            1 => Control::Map {
                addr,
                len,
                prot: both,
                backing: Backing::Anonymous,
                populate: page % 2 == 0,
            },
            2 => Control::Protect {
                addr,
                len,
                prot: Protection(Protection::READ),
            },
            3 => Control::Protect {
                addr,
                len,
                prot: both,
            },
            4 if !forked => {
                forked = true;
                Control::Fork { child: 1 }
            }
            _ => {
                batch.push(Access {
                    // Some reach over the end of a page.
                    addr: addr + if pages > 20 { 4092 } else { 8 * pages },
                    op: if kind % 2 == 0 {
                        Op::store(8)
                    } else {
                        Op::load(8)
                    },
                    gap: 3,
                    dep: 0,
                });
                continue;
            }
        });
    }
    batches
}

/// Compares a leader with a machine at some places of a stream, frame by frame and page by page.
fn check<P: ConfiguredTable>(config: &MachineConfig, stream: &Held, at: &[u64]) {
    let os = || Os::new(config.memory.clone(), config.seed).unwrap();
    let accesses = stream.accesses();
    let intervals = Intervals::of(accesses, Some(4));
    let mut joint = Joint::new(intervals);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    for interval in 0..intervals.count {
        joint.add(
            interval,
            survey::look(stream, intervals, interval, &stop, &done),
        );
    }
    let survey = joint.survey;
    let memory = MemoryState {
        os: os(),
        table: P::build(config).unwrap(),
        directory: PageDirectory::new(),
    };
    // A line of each page as it was at each of the places.
    let mut past = Vec::new();
    for (&until, process) in at.iter().flat_map(|at| [(at, 0), (at, 1)]) {
        past.extend((0..PAGES).filter_map(|number| {
            let line = (BASE + (number << 12) + 192) >> 6;
            let line = Line::new(Space::data(process), line, false)?;
            Some(Used { line, until })
        }));
    }
    let mut frames = Vec::new();
    let past: Past = past.into_iter().map(|used| (used, 0)).collect();
    let mut leader = Leader::new(memory, config, past.lines.iter());
    for &at in at {
        let state = leader.at(at, &survey.events, false).unwrap();
        let table = P::build(config).unwrap();
        let os = os();
        let mmu = Conventional::<P, ConventionalTlb>::over(table, config, &os).unwrap();
        let mut machine = Machine::new(config, os, mmu, |_| Value::Null).unwrap();
        let mut source = stream.interval(0, Some(at)).unwrap();
        let mut batch = Batch::default();
        while at > 0 && source.next_batch(&mut batch).unwrap() {
            machine.run(&batch).unwrap();
        }
        // All of frames, lists of free blocks, reverse map and address spaces.
        assert_eq!(format!("{:?}", state.os), format!("{:?}", machine.os));
        for (process, number) in (0..2).flat_map(|of| (0..PAGES + 40).map(move |n| (of, n))) {
            let (asid, vpn) = (Asid(process), Vpn((BASE >> 12) + number));
            let found = |directory: &PageDirectory, table: &P| {
                let id = directory.clone().page(asid, vpn).unwrap();
                table.lookup(Page { id, asid, vpn })
            };
            let expected = found(&machine.directory, machine.mmu.table());
            assert_eq!(found(&state.directory, &state.table), expected);
            if number < PAGES {
                let frame = expected.map(|found| found.pfn.0 * 64 + 3);
                frames.extend(frame.map(Warmth::Frame));
            }
        }
        assert_eq!(state.table.table_bytes(), machine.mmu.table().table_bytes());
    }
    assert_eq!(leader.warmth(&past, accesses), frames);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn all_lines_of_an_access_are_seen(
        accesses in proptest::collection::vec((0u64..4000, prop_oneof![1u16..=64, 65u16..=600]), 2..400),
        tail in 0u64..300,
    ) {
        check_lines(&accesses, tail);
    }

    #[test]
    fn memory_is_exact(
        steps in proptest::collection::vec((0u32..2, 0u32..60, 0..PAGES, 1u64..40), 50..600),
        zero_page: bool,
        huge: bool,
    ) {
        let policy = if huge { "thp" } else { "base" };
        let changes = [
            "memory.memory_bytes=256MiB".to_owned(),
            format!("memory.zero_page={zero_page}"),
            format!("memory.page_policy={policy}"),
        ];
        let config = MachineConfig::load("dpt-paper", &changes).unwrap();
        let stream = Held(batches(&steps));
        let accesses = stream.accesses();
        let at = [0, 1, accesses / 3, accesses / 2, accesses];
        check::<Radix>(&config, &stream, &at);
        check::<Dpt>(&config, &stream, &at);
        check::<Ecpt>(&config, &stream, &at);
    }
}
