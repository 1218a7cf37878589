//! Tallies of instructions and kinds of memory, against the run's own totals and against streams
//! whose misses are known.

use crate::common::{BASE, small_machine};
use pagelab_events::{
    Access, Backing, Batch, CodeBlock, Control, Definition, NO_SITE, Op, Protection, Range, Source,
    SourceError, Unit, WarmUp, WarmedUp,
};
use pagelab_machine::{ByCode, Design, Mapping, RunResult, Tally, simulate, simulate_programs};
use std::ops::ControlFlow;

/// Batches as they are, with code.
pub(crate) struct Coded(pub(crate) std::vec::IntoIter<Batch>);

impl Source for Coded {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let next = self.0.next();
        let more = next.is_some();
        *batch = next.unwrap_or_default();
        Ok(more)
    }

    fn has_code(&self) -> bool {
        true
    }
}

const SITES: u32 = 5;
const STACK: u64 = BASE + (1 << 32);

pub(crate) fn map(addr: u64, len: u64, backing: Backing) -> Control {
    Control::Map {
        addr,
        len,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing,
        populate: false,
    }
}

/// Site 0 always touches one page of the stack, site 1 the next page of 16 MiB each time, site 2
/// pages in no order, site 3 across the end of a page, and one access in sixteen is of no known
/// instruction. Dependences put some accesses aside.
pub(crate) fn stream(accesses: u64, seed: u64) -> Coded {
    let mut random = seed;
    let mut batches = Vec::new();
    let mut all = (0..accesses).peekable();
    while all.peek().is_some() {
        let mut batch = Batch::default();
        batch.push_control(Control::Thread { thread: 0 });
        if batches.is_empty() {
            batch.push_control(map(BASE, 32 << 20, Backing::Anonymous));
            batch.push_control(map(STACK, 1 << 20, Backing::Stack));
            batch.definitions.push(Definition::Block(CodeBlock {
                pc: 0x1000,
                lengths: vec![1; SITES as usize].into(),
                bytes: vec![0x90; SITES as usize].into(),
                ..CodeBlock::default()
            }));
        }
        for number in all.by_ref().take(1000) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let page = (random >> 40) % 4096 * 4096;
            let (site, addr) = match number % 16 {
                15 => (NO_SITE, BASE + (16 << 20) + page),
                n => match n % 5 {
                    0 | 4 => (0, STACK + 8 * (number % 64)),
                    1 => (1, BASE + number * 4096 % (16 << 20)),
                    2 => (2, BASE + (16 << 20) + page),
                    _ => (3, BASE + page + 4092),
                },
            };
            batch.site.push(site);
            batch.push(Access {
                addr,
                op: if number % 7 == 0 {
                    Op::store(8)
                } else {
                    Op::load(8)
                },
                gap: (number % 4) as u32,
                dep: (number % 3) as u32,
            });
        }
        batches.push(batch);
    }
    Coded(batches.into_iter())
}

fn sum<'a>(tallies: impl IntoIterator<Item = &'a Tally>) -> Tally {
    let mut total = Tally::default();
    tallies.into_iter().for_each(|tally| total.add(tally));
    total
}

/// All tables of all programs add up to what the run counts.
pub(crate) fn adds_up(run: &RunResult, whole: bool) {
    let programs = run.by_code.iter();
    let sites = sum(programs
        .clone()
        .flat_map(|p| p.sites.iter().chain([&p.unknown])));
    let mappings = sum(programs.clone().flat_map(|program| &program.mappings));
    let allocations = sum(programs.flat_map(|p| p.allocations.iter().map(|at| &at.tally)));
    for (total, what) in [
        (sites, "sites"),
        (mappings, "mappings"),
        (allocations, "allocations"),
    ] {
        // Without calls of allocators there is no such table.
        if what == "allocations" && run.by_code.iter().all(|p| p.allocations.is_empty()) {
            continue;
        }
        let design = &run.design;
        let counted = (total.l1_tlb_misses, total.l2_tlb_misses, total.walks);
        let expected = (run.tlb.l1_misses, run.tlb.l2_misses, run.walks.count);
        assert_eq!(counted, expected, "{design}, {what}");
        assert_eq!(
            total.walk_cycles,
            run.walks.latency.sum(),
            "{design}, {what}"
        );
        if whole {
            assert_eq!(total.faults, run.os.faults, "{design}, {what}");
        }
    }
    assert_eq!(sites.accesses, run.accesses);
}

pub(crate) fn go_on(_: pagelab_machine::Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn what_instructions_came_to_adds_up_to_what_the_run_counts_in_every_design() {
    let config = small_machine();
    for design in Design::all() {
        let run = simulate(&config, &design.name(), &mut stream(20_000, 1), &mut go_on).unwrap();
        assert!(run.complete, "{design:?}: {:?}", run.stopped);
        adds_up(&run, true);
    }
}

#[test]
fn what_warms_the_machine_up_is_charged_to_nobody() {
    let config = small_machine();
    for unit in [Unit::Accesses, Unit::Instructions] {
        let warm_up = WarmUp {
            length: 5_001,
            unit,
        };
        let mut source = WarmedUp::new(stream(20_000, 2), warm_up);
        let run = simulate(&config, "radix", &mut source, &mut go_on).unwrap();
        assert!(run.warm_up_accesses > 0);
        adds_up(&run, false);
    }
}

#[test]
fn programs_at_once_have_tables_of_their_own() {
    let config = small_machine();
    let (mut one, mut other) = (stream(9_000, 3), stream(4_000, 4));
    let sources: &mut [&mut dyn Source] = &mut [&mut one, &mut other];
    let run = simulate_programs(&config, "radix", sources, &mut go_on).unwrap();
    adds_up(&run, true);
    let of = |program: &ByCode| sum(program.sites.iter().chain([&program.unknown]));
    for (program, core) in run.by_code.iter().zip(&run.per_core) {
        let total = of(program);
        assert_eq!(total.accesses, core.accesses);
        assert_eq!(total.l1_tlb_misses, core.l1_tlb_misses);
        assert_eq!(total.l2_tlb_misses, core.l2_tlb_misses);
        assert_eq!(program.code.sites(), SITES);
    }
}

#[test]
fn the_instruction_that_misses_is_charged() {
    let run = simulate(
        &small_machine(),
        "radix",
        &mut stream(20_000, 5),
        &mut go_on,
    )
    .unwrap();
    let [program] = &run.by_code[..] else {
        panic!("one program has run");
    };
    // A new page each time, of more than the TLB holds: unless site 3 has just been there, each
    // misses both levels, walks, and the first time faults.
    let walker = program.sites[1];
    assert!(walker.l1_tlb_misses * 100 > walker.accesses * 98);
    assert!(walker.l2_tlb_misses * 100 > walker.accesses * 98);
    assert!(walker.walks >= walker.l2_tlb_misses, "{walker:?}");
    assert!(walker.faults > 100, "{walker:?}");
    // The same page each time: a fault, and few misses.
    let stay = program.sites[0];
    assert_eq!(stay.faults, 1);
    assert!(stay.l2_tlb_misses * 10 < stay.accesses, "{stay:?}");
    // Two pages each time.
    let across = program.sites[3];
    assert!(across.l1_tlb_misses > across.accesses * 3 / 2, "{across:?}");
    let kind = |kind: Mapping| of_memory(program, kind, None);
    let mut of_stack = kind(Mapping::Stack);
    of_stack.accesses = stay.accesses;
    assert_eq!(of_stack, stay);
    assert_eq!(kind(Mapping::Heap), Tally::default());
}

fn of_memory(program: &ByCode, kind: Mapping, name: Option<&str>) -> Tally {
    let all = program.mappings.iter().enumerate();
    let mut named = all.filter(|&(number, _)| program.memory(number) == (kind, name));
    named
        .next()
        .map_or_else(Tally::default, |(_, &tally)| tally)
}

/// Three files are mapped one after the other, and over one another; site 0 reads a page of each, site 1
/// a page of anonymous memory where a file had been mapped.
#[test]
fn memory_has_the_name_of_the_file_that_is_mapped_there() {
    let range = |process, addr, len| Range { process, addr, len };
    let mapping = |path: &str, ranges: &[Range]| Definition::Mapping {
        path: path.to_owned(),
        ranges: ranges.into(),
    };
    let batch = |process| {
        let mut batch = Batch {
            process,
            ..Batch::default()
        };
        batch.push_control(Control::Thread { thread: 0 });
        batch.push_control(map(BASE, 64 << 12, Backing::PrivateFile));
        batch.push_control(map(STACK, 64 << 12, Backing::Anonymous));
        for page in 0..64 {
            for (site, base) in [(0, BASE), (1, STACK)] {
                batch.site.push(site);
                batch.push(Access {
                    addr: base + (page << 12),
                    op: Op::load(8),
                    ..Access::default()
                });
            }
        }
        batch
    };
    let mut first = batch(0);
    first.push_control(Control::Fork { child: 1 });
    let mut second = batch(1);
    second
        .controls
        .retain(|(_, control)| matches!(control, Control::Thread { .. }));
    first.definitions = vec![
        Definition::Block(CodeBlock {
            lengths: [1, 1].into(),
            ..CodeBlock::default()
        }),
        // All, of which the second takes the middle, and the first again half of that.
        mapping("/a", &[range(0, BASE, 64 << 12), range(0, STACK, 64 << 12)]),
        mapping("/b", &[range(0, BASE + (16 << 12), 32 << 12)]),
        mapping("/a", &[range(0, BASE + (32 << 12), 16 << 12)]),
        // Addresses of another process, and some that no machine has.
        mapping(
            "/c",
            &[range(1, BASE, 8 << 12), range(0, u64::MAX - 1, u64::MAX)],
        ),
        mapping("/d", &[range(0, BASE, 0)]),
    ];
    let batches = vec![first, second];
    let run = |programs: usize| {
        let mut sources: Vec<_> = (0..programs)
            .map(|_| Coded(batches.clone().into_iter()))
            .collect();
        let sources: &mut [&mut dyn Source] = &mut sources
            .iter_mut()
            .map(|s| s as &mut dyn Source)
            .collect::<Vec<_>>();
        simulate_programs(&small_machine(), "radix", sources, &mut go_on).unwrap()
    };
    for programs in 1..3 {
        let found = run(programs);
        adds_up(&found, true);
        for program in &found.by_code {
            let misses = |kind, name| of_memory(program, kind, name).l1_tlb_misses;
            let files =
                ["/a", "/b", "/c", "/d"].map(|path| misses(Mapping::PrivateFile, Some(path)));
            assert_eq!(files, [48, 16, 8, 0], "{programs}");
            // Memory in no range that was said: the rest of the child's.
            assert_eq!(misses(Mapping::PrivateFile, None), 56);
            assert_eq!(misses(Mapping::Anonymous, None), 2 * 64);
        }
    }
}

#[test]
fn a_source_without_code_is_charged_to_nobody() {
    struct Plain(Coded);
    impl Source for Plain {
        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            self.0.next_batch(batch)
        }
    }
    let plain = simulate(
        &small_machine(),
        "radix",
        &mut Plain(stream(9_000, 6)),
        &mut go_on,
    );
    let plain = plain.unwrap();
    assert!(plain.by_code.is_empty());
    let coded = simulate(&small_machine(), "radix", &mut stream(9_000, 6), &mut go_on).unwrap();
    let json = |run: &RunResult| serde_json::to_string(run).unwrap();
    assert_eq!(json(&plain), json(&coded));
}
