//! Several programs at once, each on its own core.

use crate::common::{BASE, Cut, Event, load, map, run, small_machine};
use pagelab_events::{Access, Batch, Control, Op, Source};
use pagelab_machine::{Design, MachineConfig, RunResult, simulate_programs};
use proptest::prelude::*;
use std::ops::ControlFlow;

fn run_programs(config: &MachineConfig, design: &str, programs: &mut [Cut]) -> RunResult {
    let mut sources: Vec<&mut dyn Source> = programs
        .iter_mut()
        .map(|cut| cut as &mut dyn Source)
        .collect();
    simulate_programs(config, design, &mut sources, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap()
}

fn json(result: &RunResult) -> String {
    serde_json::to_string(result).unwrap()
}

/// Accesses all over 24 MiB, a fork among them.
fn program() -> impl Strategy<Value = Vec<Event>> {
    let access = (0..6 * 1024u64 * 4096, any::<bool>(), 0u32..40, 0u32..4);
    let access = access.prop_map(|(offset, store, gap, dep)| {
        let op = if store { Op::store(8) } else { Op::load(8) };
        let addr = BASE + offset;
        Event::Access(Access { addr, op, gap, dep })
    });
    (proptest::collection::vec(access, 0..1500), 0usize..1500).prop_map(|(mut events, fork)| {
        if fork < events.len() {
            events.insert(fork, Event::Control(Control::Fork { child: 1 }));
        }
        events.insert(0, map(BASE, 6 * 1024 * 4096));
        events
    })
}

fn cut(programs: &[Vec<Event>], length: usize) -> Vec<Cut> {
    programs
        .iter()
        .map(|events| Cut::new(events, length))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn cutting_into_batches_changes_nothing(
        programs in proptest::collection::vec(program(), 1..5),
        lengths in (1usize..700, 1usize..700),
    ) {
        for design in ["radix", "dpt", "radix+mosaic"] {
            let config = small_machine();
            let one = run_programs(&config, design, &mut cut(&programs, lengths.0));
            let other = run_programs(&config, design, &mut cut(&programs, lengths.1));
            prop_assert_eq!(json(&one), json(&other));
        }
    }

    #[test]
    fn cores_add_up_to_the_whole(programs in proptest::collection::vec(program(), 1..5)) {
        let result = run_programs(&small_machine(), "radix", &mut cut(&programs, 100));
        prop_assert!(result.complete, "{:?}", result.stopped);
        prop_assert_eq!(result.per_core.len(), programs.len());
        let cores = || result.per_core.iter();
        for (core, events) in cores().zip(&programs) {
            let accesses = events.iter().filter(|e| matches!(e, Event::Access(_)));
            prop_assert_eq!(core.accesses, accesses.count() as u64);
        }
        prop_assert_eq!(cores().map(|c| c.instructions).sum::<u64>(), result.instructions);
        prop_assert_eq!(cores().map(|c| c.l2_tlb_misses).sum::<u64>(), result.tlb.l2_misses);
        prop_assert_eq!(cores().map(|c| c.cycles).max(), Some(result.cycles.elapsed));
    }
}

/// One program alone on a machine of one core is what it is without cores of its own.
#[test]
fn one_program_is_an_ordinary_run() {
    let mut events = vec![map(BASE, 4 << 20)];
    events.extend((0..5000).map(|i| load(BASE + i * 7919 % (4 << 20), 3, 0)));
    for design in Design::all() {
        let design = design.name();
        let alone = run(&small_machine(), &design, &mut Cut::new(&events, 100));
        let mut program = run_programs(&small_machine(), &design, &mut [Cut::new(&events, 100)]);
        assert_eq!(program.per_core[0].cycles, alone.cycles.elapsed);
        program.per_core.clear();
        assert_eq!(json(&program), json(&alone));
    }
}

/// Two programs that each fill the last-level cache push each other's lines out; small ones
/// disturb nobody.
#[test]
fn programs_share_the_last_level_and_nothing_above() {
    // The dependent loads of a chain over `bytes`, a line each, some rounds long.
    let chain = |bytes: u64| -> Vec<Event> {
        let lines = bytes / 64;
        let rounds = (lines..).take(6 * lines as usize);
        let mut events = vec![map(BASE, bytes)];
        events.extend(rounds.map(|i| load(BASE + i * 64 % bytes, 0, 1)));
        events
    };
    let cycles = |programs: &[Vec<Event>]| -> Vec<u64> {
        let mut config = small_machine();
        config.cost.fault_ns = 0.0;
        let result = run_programs(&config, "ideal", &mut cut(programs, 500));
        result.per_core.iter().map(|core| core.cycles).collect()
    };
    let (small, large) = (chain(2 << 10), chain(48 << 10));
    let alone = cycles(std::slice::from_ref(&large))[0];
    let together = cycles(&[large.clone(), large.clone()]);
    assert!(
        together.iter().all(|&t| t > alone * 3 / 2),
        "{alone} {together:?}"
    );
    let beside_small = cycles(&[large, small.clone()]);
    assert!(
        beside_small[0] < alone * 11 / 10,
        "{alone} {beside_small:?}"
    );
    let small_alone = cycles(&[small])[0];
    assert!(beside_small[1] < small_alone * 11 / 10);
}

/// Populating 16 MiB takes thousands of times as long as populating a page. Then both make the same
/// accesses at the same pace, so that as many of either are in the first one's window, to a turn
/// each.
#[test]
fn programs_begin_together_when_the_last_is_initialised() {
    let program = |bytes: u64| -> Vec<Event> {
        let left_out = Event::Control(Control::Skipped {
            instructions: 10,
            accesses: 10,
        });
        let mut populated = map(BASE, bytes);
        if let Event::Control(Control::Map { populate, .. }) = &mut populated {
            *populate = true;
        }
        let window = || (0..3000).map(|i| load(BASE + i * 64 % 4096, 3, 0));
        let mut events = vec![populated, left_out.clone()];
        events.extend(window());
        events.push(left_out);
        events.extend(window());
        events
    };
    for bytes in [[4096, 16 << 20], [16 << 20, 4096]] {
        let mut programs = cut(&bytes.map(program), 500);
        let result = run_programs(&small_machine(), "radix", &mut programs);
        assert!(result.complete, "{:?}", result.stopped);
        let window = &result.windows[0];
        assert!(window.accesses.abs_diff(6000) <= 512, "{window:?}");
        assert!(window.cycles > 0);
    }
}

/// A program that maps 100 pages, batch by batch, before its first access.
#[test]
fn initialisation_says_how_far_it_is_and_can_be_broken_off() {
    struct Maps(u64);
    impl Source for Maps {
        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, pagelab_events::SourceError> {
            batch.clear();
            if let Event::Control(control) = map(BASE + self.0 * 4096, 4096) {
                batch.push_control(control);
            }
            self.0 += 1;
            Ok(self.0 <= 100)
        }
    }
    let mut calls = 0;
    let mut third = |_: pagelab_machine::Progress| {
        calls += 1;
        if calls == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let mut maps = Maps(0);
    let result =
        simulate_programs(&small_machine(), "radix", &mut [&mut maps], &mut third).unwrap();
    assert_eq!(result.stopped.as_deref(), Some("interrupted"));
    assert_eq!(maps.0, 3);
}

/// A program that cannot be read on ends the run, and the message says which it was.
#[test]
fn an_error_names_its_program() {
    struct Broken;
    impl Source for Broken {
        fn next_batch(&mut self, _: &mut Batch) -> Result<bool, pagelab_events::SourceError> {
            Err(pagelab_events::SourceError::Corrupt {
                name: "file".into(),
                what: "broken".into(),
            })
        }
    }
    let mut good = Cut::new(&[map(BASE, 4096), load(BASE, 0, 0)], 10);
    let result = simulate_programs(
        &small_machine(),
        "radix",
        &mut [&mut good, &mut Broken],
        &mut |_| ControlFlow::Continue(()),
    )
    .unwrap();
    assert_eq!(result.stopped.as_deref(), Some("program 1: file: broken"));
}
