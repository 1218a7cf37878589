//! The instruction side: times that can be worked out by hand, and counts against a slow twin.

use crate::common::{BASE, close, machine, run};
use pagelab_events::{
    Access, Batch, CodeBlock, Control, Definition, Flow, Op, Source, SourceError,
};
use pagelab_machine::{Design, MachineConfig, RunResult, SimulateError, simulate};
use std::collections::VecDeque;
use std::ops::ControlFlow;

const CODE: u64 = 0x40_0000;

/// Batches as they are.
struct Coded(VecDeque<Batch>);

impl Source for Coded {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let next = self.0.pop_front();
        let more = next.is_some();
        *batch = next.unwrap_or_default();
        Ok(more)
    }

    fn has_code(&self) -> bool {
        true
    }
}

/// The machine of the known times with an instruction side: Table I of the DPT paper has such a TLB.
fn fetching(overrides: &[&str]) -> MachineConfig {
    let mut all = vec!["fetch={ tlb = { entries = 64, ways = 8 }, l1 = { kib = 32, ways = 8 } }"];
    all.extend(overrides);
    machine(&all)
}

/// So many times through blocks that end in a load of one address: block after block, each at its
/// address. `gap` more instructions are before the load.
fn rounds(at: &[u64], gap: u32, rounds: usize) -> Coded {
    let mut batches = VecDeque::new();
    for round in 0..rounds {
        let mut batch = Batch::default();
        batch.push_control(Control::Thread { thread: 0 });
        batch.flow.push((0, Flow::Thread(0)));
        if round == 0 {
            batch.definitions.extend(at.iter().map(|&pc| {
                Definition::Block(CodeBlock {
                    pc,
                    lengths: [1, 2].into(),
                    accesses: [1].into(),
                    ..CodeBlock::default()
                })
            }));
        }
        for block in 0..at.len() as u32 {
            batch.flow.push((block, Flow::Block(block)));
            batch.site.push(2 * block + 1);
            batch.push(Access {
                addr: BASE,
                op: Op::load(8),
                gap,
                dep: 0,
            });
        }
        batches.push_back(batch);
    }
    Coded(batches)
}

/// Figures that ten later rounds add.
struct Later {
    /// Cycles of a block.
    elapsed: f64,
    fetch: f64,
    /// Misses of a round.
    misses: [u64; 3],
}

fn later(config: &MachineConfig, design: &str, at: &[u64], gap: u32) -> Later {
    let [long, short] = [20, 10].map(|count| run(config, design, &mut rounds(at, gap, count)));
    assert!(long.complete, "{:?}", long.stopped);
    let of = |run: &RunResult| {
        let fetch = run.fetch.unwrap();
        let below = fetch.fetches - fetch.served_by.l1;
        let misses = [fetch.tlb.l1_misses, fetch.tlb.l2_misses, below];
        (run.cycles.elapsed, run.cycles.causes.fetch.unwrap(), misses)
    };
    let (long, short) = (of(&long), of(&short));
    let blocks = 10.0 * at.len() as f64;
    let each: [u64; 3] = std::array::from_fn(|i| (long.2[i] - short.2[i]) / 10);
    assert!((0..3).all(|i| each[i] * 10 == long.2[i] - short.2[i]));
    Later {
        elapsed: (long.0 - short.0) as f64 / blocks,
        fetch: (long.1 - short.1) as f64 / blocks,
        misses: each,
    }
}

/// One line of each of so many pages, spread over the sets of the caches.
fn pages(count: u64) -> Vec<u64> {
    let line = |page: u64| CODE + page * 4096 + (page + page / 64) % 64 * 64;
    (0..count).map(line).collect()
}

#[test]
fn a_loop_over_pages_misses_the_tlb_as_lru_says() {
    let config = fetching(&[]);
    // Eight sets of eight ways.
    for (count, misses) in [
        (1, 0),
        (63, 0),
        (64, 0),
        (65, 9),
        (67, 27),
        (72, 72),
        (100, 100),
    ] {
        let found = later(&config, "radix", &pages(count), 0);
        assert_eq!(found.misses, [misses, 0, 0], "{count} pages");
    }
    let found = later(&config, "ideal", &pages(100), 0);
    assert_eq!(found.misses, [0, 0, 0]);
}

/// Four instructions a cycle: a block's load is dispatched a quarter of one after its line has come.
#[test]
fn a_fetch_that_misses_holds_dispatch_back() {
    // The second-level TLB.
    let found = later(&fetching(&[]), "radix", &pages(72), 0);
    close(found.elapsed, 8.0 + 0.25);
    close(found.fetch, 8.0);
    close(later(&fetching(&[]), "ideal", &pages(72), 0).elapsed, 0.25);
    // A walk: 2 cycles for the walk cache, 4 for an entry in the first-level data cache.
    let small = fetching(&["tlb.l2_4k={ entries = 48, ways = 12 }"]);
    let found = later(&small, "radix", &pages(256), 0);
    assert_eq!(found.misses, [256, 256, 0]);
    close(found.elapsed, 8.0 + 2.0 + 4.0 + 0.25);
    close(found.fetch, 14.0);
    // Lines in turn that only the second-level cache has.
    let lines: Vec<u64> = (0..1024).map(|line| CODE + line * 64).collect();
    let found = later(&fetching(&[]), "radix", &lines, 3);
    assert_eq!(found.misses, [0, 0, 1024]);
    close(found.elapsed, 16.0 + 1.0);
    close(found.fetch, 16.0);
    // And the last-level cache.
    let lines: Vec<u64> = (0..1 << 14).map(|line| CODE + line * 64).collect();
    let found = later(&fetching(&[]), "ideal", &lines, 3);
    close(found.elapsed, 36.0 + 1.0);
    close(found.fetch, 36.0);
}

/// A line takes 16 cycles to run and 16 to come from the second level, so that the next one comes
/// in time; but not that of the next page.
#[test]
fn the_next_line_comes_while_one_runs() {
    let lines: Vec<u64> = (0..1024).map(|line| CODE + line * 64).collect();
    let found = later(&fetching(&["fetch.next_lines=1"]), "radix", &lines, 63);
    close(found.elapsed, (64.0 * 16.0 + 16.0) / 64.0);
    close(found.fetch, 16.0 / 64.0);
    assert_eq!(found.misses[2], 1024 / 64);
    // Half that time: every other line is asked for halfway, the ones between have come meanwhile.
    let found = later(&fetching(&["fetch.next_lines=1"]), "radix", &lines, 31);
    close(found.fetch, (16.0 + 31.0 * 8.0) / 64.0);
}

#[test]
fn pages_of_code_are_mapped_when_they_are_fetched() {
    let mut config = fetching(&[]);
    config.cost.fault_ns = 1000.0;
    let result = run(&config, "radix", &mut rounds(&pages(20), 0, 3));
    // And the page of data.
    assert_eq!(result.os.faults, 21);
    assert_eq!(result.os.file.base, 20);
    assert_eq!(result.cycles.causes.faults, 21 * 2660);
    let fetch = result.fetch.unwrap();
    assert_eq!((fetch.walks, fetch.tlb.l2_misses), (40, 20));
    assert_eq!(result.walks.count, 42);
    let charged: u64 = result.by_code[0].sites.iter().map(|site| site.faults).sum();
    assert_eq!(charged, 21);
    let cycles = result.cycles;
    // The rest is computing: an instruction each, which retire four a cycle. Each other cause is
    // rounded down.
    assert!((15..18).contains(&cycles.compute), "{}", cycles.compute);
    assert_eq!(cycles.total, cycles.elapsed);
}

#[test]
fn free_translation_is_free_for_instructions_as_well() {
    let config = fetching(&["free_clock=true"]);
    let [long, short] =
        [20, 10].map(|count| run(&config, "radix", &mut rounds(&pages(72), 0, count)));
    let saved = long.cycles.causes.recoverable.unwrap() - short.cycles.causes.recoverable.unwrap();
    close(saved as f64 / 720.0, 8.0);
}

#[test]
fn a_source_without_code_takes_the_time_that_it_takes_without() {
    let mut without = rounds(&pages(10), 2, 5);
    without.0.iter_mut().for_each(|batch| {
        batch.flow.clear();
        batch.site.clear();
        batch.definitions.clear();
    });
    let copy = || Coded(without.0.clone());
    let on = run(&fetching(&[]), "radix", &mut copy());
    let off = run(&machine(&[]), "radix", &mut copy());
    assert_eq!(on.fetch.unwrap().fetches, 0);
    assert_eq!(on.cycles.causes.fetch, Some(0));
    assert_eq!(on.cycles.total, off.cycles.total);
    assert!(off.fetch.is_none() && off.cycles.causes.fetch.is_none());
}

/// The first level is the instructions' own, whatever the TLBs and page tables of data are.
#[test]
fn every_design_fetches_the_same_lines() {
    let config = fetching(&["fetch.l1={ kib = 1, ways = 2 }"]);
    let fetched = |design: Design| {
        let result = run(&config, &design.name(), &mut rounds(&pages(100), 2, 4));
        assert!(result.complete, "{}: {:?}", design.name(), result.stopped);
        let fetch = result.fetch.unwrap();
        (fetch.fetches, fetch.served_by.l1)
    };
    for design in Design::all() {
        assert_eq!(fetched(design), (400, 0), "{}", design.name());
    }
}

#[test]
fn none_leaves_a_part_of_a_machine_out() {
    let without = fetching(&["fetch=none"]);
    assert!(without.fetch.is_none());
    let error = MachineConfig::load("dpt-paper", &["caches.l1=none".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
}

#[test]
fn what_does_not_go_with_it_is_refused() {
    let refused = |config: &MachineConfig| {
        let run = simulate(config, "radix", &mut rounds(&pages(2), 0, 1), &mut |_| {
            ControlFlow::Continue(())
        });
        match run {
            Err(SimulateError::Build(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(&fetching(&["fetch.tlb.entries=63"])).contains("63"));
    assert!(refused(&fetching(&["fetch.tlb.coalesce=4"])).contains("coalesce"));
    assert!(refused(&fetching(&["fetch.l1.ways=0"])).contains("sets"));
    assert!(refused(&fetching(&["fetch.next_lines=64"])).contains("next_lines"));
}
