//! Lines fetched ahead of instructions' strides: against the whole history of their loads, in batches
//! of any length under every design, and times worked out by hand.

use crate::common::{BASE, close, machine, map, run, small_machine};
use pagelab_events::{Access, Batch, Control, NO_SITE, Op, Source, SourceError};
use pagelab_machine::{Design, MachineConfig, RunResult};
use pagelab_memory::{PrefetchConfig, StridesConfig};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// An access by an instruction.
#[derive(Clone, Copy, Debug)]
struct Step {
    site: u32,
    offset: u64,
    store: bool,
    dep: u32,
}

const PAGES: u64 = 512;

/// Steps in batches of a length.
struct Steps<'a> {
    steps: &'a [Step],
    at: usize,
    length: usize,
}

impl<'a> Steps<'a> {
    fn new(steps: &'a [Step], length: usize) -> Self {
        Steps {
            steps,
            at: 0,
            length,
        }
    }
}

impl Source for Steps<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.at == self.steps.len() {
            return Ok(false);
        }
        batch.push_control(Control::Thread { thread: 0 });
        if self.at == 0
            && let crate::common::Event::Control(control) = map(BASE, PAGES * 4096)
        {
            batch.push_control(control);
        }
        for step in self.steps[self.at..].iter().take(self.length) {
            batch.push(Access {
                addr: BASE + step.offset,
                op: if step.store {
                    Op::store(4)
                } else {
                    Op::load(4)
                },
                gap: 2,
                dep: step.dep,
            });
            batch.site.push(step.site);
        }
        self.at += batch.len();
        Ok(true)
    }
}

/// Instructions that go through memory in steps of one length for a while, several at a time.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let stride = prop_oneof![-300i64..300, -5000i64..5000, Just(0i64), Just(8), Just(-64)];
    let site = prop_oneof![5 => 0..6u32, 1 => Just(NO_SITE)];
    let run = (site, any::<bool>(), 0..PAGES * 4096, stride, 1..60usize);
    proptest::collection::vec(proptest::collection::vec(run, 1..4), 1..20).prop_map(|groups| {
        let mut steps = Vec::new();
        for group in groups {
            let longest = group.iter().map(|run| run.4).max().unwrap_or(0);
            for number in 0..longest {
                for &(site, store, from, stride, length) in &group {
                    let offset = from as i64 + stride * number as i64;
                    if number < length && (0..(PAGES * 4096) as i64).contains(&offset) {
                        steps.push(Step {
                            site,
                            // No access is of two lines.
                            offset: offset as u64 & !3,
                            store: store && number % 3 == 0,
                            dep: (number % 4) as u32,
                        });
                    }
                }
            }
        }
        steps
    })
}

fn with(config: StridesConfig, mut machine: MachineConfig) -> MachineConfig {
    machine.caches.prefetch = Some(PrefetchConfig {
        strides: Some(config),
        ..PrefetchConfig::NONE
    });
    machine
}

fn strides() -> impl Strategy<Value = StridesConfig> {
    (1u32..9, 1u32..6000, any::<bool>()).prop_map(|(ahead, longest, crosses_pages)| StridesConfig {
        // More than there are, and none in another's place.
        instructions: 4096,
        ahead,
        longest,
        crosses_pages,
    })
}

fn fetched(run: &RunResult) -> u64 {
    run.caches.prefetches.map_or(0, |served| served.total())
}

/// Number of lines that are fetched, from all that instructions have loaded.
fn expected(config: StridesConfig, steps: &[Step]) -> u64 {
    let mut history: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    let mut mapped = BTreeSet::new();
    let mut count = 0;
    for step in steps {
        let here = (BASE + step.offset) as i64;
        mapped.insert(here >> 12);
        if step.store || step.site == NO_SITE {
            continue;
        }
        let loads = history.entry(step.site).or_default();
        if loads.last() == Some(&here) {
            continue;
        }
        loads.push(here);
        let &[.., first, second, third] = &loads[..] else {
            continue;
        };
        let stride = third - second;
        if stride != second - first || stride.abs() > i64::from(config.longest) {
            continue;
        }
        let before = third + stride * (i64::from(config.ahead) - 1);
        let target = before + stride;
        let another_line = target >> 6 != before >> 6 && target >> 6 != here >> 6;
        let own_page = target >> 12 == here >> 12;
        let there = own_page || (config.crosses_pages && mapped.contains(&(target >> 12)));
        count += u64::from(another_line && there);
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn as_many_lines_as_the_history_says(steps in steps(), config in strides()) {
        let machine = with(config, machine(&[]));
        let run = run(&machine, "radix", &mut Steps::new(&steps, 100));
        prop_assert_eq!(fetched(&run), expected(config, &steps));
    }

    #[test]
    fn batches_change_nothing(steps in steps(), config in strides(), length in 2usize..400) {
        let mut machine = with(config, small_machine());
        if let Some(prefetch) = &mut machine.caches.prefetch {
            // Beside the others.
            (prefetch.adjacent, prefetch.streams, prefetch.ahead) = (true, 8, 4);
        }
        for design in Design::all().map(Design::name) {
            let whole = run(&machine, &design, &mut Steps::new(&steps, length));
            let single = run(&machine, &design, &mut Steps::new(&steps, 1));
            prop_assert_eq!(
                serde_json::to_string(&whole).unwrap(),
                serde_json::to_string(&single).unwrap(),
                "{}",
                design
            );
        }
    }
}

/// Loads of all memory in steps of a quarter of a page.
const LOADS: u64 = PAGES * 4;

/// So many loads, each of which waits for the one before, of all memory in turn.
fn chain(loads: u64) -> Vec<Step> {
    let step = |number| Step {
        site: 3,
        offset: number % LOADS * 1024,
        store: false,
        dep: 1,
    };
    (0..loads).map(step).collect()
}

/// Cycles a load of a chain through memory in steps of a quarter of a page, the page of each being
/// free to translate.
fn in_steps(strides: Option<StridesConfig>) -> f64 {
    let keys = [
        "caches.llc.kib=512",
        "caches.l2.kib=64",
        // So that lines asked for together come together.
        "dram.gigabytes_per_second=100000.0",
    ];
    let mut config = machine(&keys);
    if let Some(strides) = strides {
        config = with(strides, config);
    }
    let cycles = |rounds: u64| {
        let steps = chain(rounds * LOADS);
        // The memory of all is there after the first round.
        let run = run(&config, "ideal", &mut Steps::new(&steps, 500));
        run.cycles.elapsed
    };
    (cycles(3) - cycles(2)) as f64 / LOADS as f64
}

#[test]
fn a_chain_of_equal_steps_waits_for_its_share_of_memory() {
    let memory = 36.0 + (45.0f64 * 2.66).round();
    let strides = |ahead, crosses_pages| {
        Some(StridesConfig {
            instructions: 16,
            ahead,
            longest: 2048,
            crosses_pages,
        })
    };
    close(in_steps(None), memory);
    // A load asks for its own line and the next one; the next comes 16 cycles later, or with what
    // is left of memory's latency: by turns.
    close(in_steps(strides(1, true)), memory / 2.0);
    // Three are under way besides, and four come in a memory's latency.
    close(in_steps(strides(3, true)), memory / 4.0);
    // In a page of four the first waits, and has the second fetched, which has the third fetched
    // when it has waited for nothing but the second level; the fourth comes with that.
    close(
        in_steps(strides(1, false)),
        (memory + 16.0 + (memory - 16.0) + 16.0) / 4.0,
    );
}

/// In a virtual machine, too, where a page is in another frame than the guest says.
#[test]
fn the_lines_that_are_fetched_are_those_that_are_loaded() {
    let strides = StridesConfig {
        instructions: 16,
        ahead: 5,
        longest: 2048,
        crosses_pages: true,
    };
    let config = with(
        strides,
        machine(&["caches.llc.kib=512", "caches.l2.kib=64"]),
    );
    let steps = chain(2 * LOADS);
    for design in ["radix", "nested-radix", "dpt", "ideal"] {
        let run = run(&config, design, &mut Steps::new(&steps, 500));
        // The first round fetches ahead within pages only, since the next is not there.
        let from_memory = run.caches.data.dram + run.caches.data.llc;
        assert!(
            from_memory < LOADS + LOADS / 20,
            "{design}: {from_memory} of {}",
            2 * LOADS
        );
    }
}

#[test]
fn no_source_without_instructions_has_anything_fetched() {
    let config = with(
        StridesConfig {
            instructions: 16,
            ahead: 1,
            longest: 2048,
            crosses_pages: true,
        },
        machine(&[]),
    );
    let steps: Vec<Step> = (0..1000)
        .map(|number| Step {
            site: NO_SITE,
            offset: number * 64,
            store: false,
            dep: 0,
        })
        .collect();
    assert_eq!(
        fetched(&run(&config, "radix", &mut Steps::new(&steps, 100))),
        0
    );
}
