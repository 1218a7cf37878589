//! Windows of a sampled stream, against whole runs that end where a window begins or ends.

use crate::common::{BASE, Cut, Event, load, map, run, small_machine};
use pagelab_events::{Access, Backing, Control, Op, Protection, Unit, WarmUp, WarmedUp};
use pagelab_machine::{Design, RunResult, WindowResult};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

fn skipped() -> Event {
    Event::Control(Control::Skipped {
        instructions: 1000,
        accesses: 100,
    })
}

const MAPPED: u64 = 8 << 20;

/// Accesses all over a mapping, each with a gap and a dependence.
fn accesses(count: usize) -> impl Strategy<Value = Vec<Event>> {
    let access = (0..MAPPED / 64, 0u32..9, 0u32..3);
    proptest::collection::vec(
        access.prop_map(|(line, gap, dep)| load(BASE + 64 * line, gap, dep)),
        count,
    )
}

fn warm_up(length: u64, unit: Unit) -> WarmUp {
    WarmUp { length, unit }
}

/// Number of accesses of a part that belong to its warm-up.
fn warming_up(part: &[Event], warm_up: WarmUp) -> usize {
    let mut instructions = 0;
    let mut accesses = 0;
    for event in part {
        let Event::Access(access) = event else {
            unreachable!("a part has accesses only");
        };
        instructions += u64::from(access.gap);
        let before = match warm_up.unit {
            Unit::Accesses => accesses,
            Unit::Instructions => instructions,
        };
        if before >= warm_up.length {
            break;
        }
        instructions += 1;
        accesses += 1;
    }
    accesses as usize
}

fn simulate(events: &[Event], warm_up: WarmUp) -> RunResult {
    simulate_with("radix", events, warm_up)
}

/// A design, after whose name a prefetcher of translations may stand.
fn simulate_with(design: &str, events: &[Event], warm_up: WarmUp) -> RunResult {
    let (design, prefetcher) = design.split_once(' ').unwrap_or((design, ""));
    let mut machine = small_machine();
    if !prefetcher.is_empty() {
        machine.tlb_prefetch =
            Some(serde_json::from_str(&format!("{{\"prefetcher\": {prefetcher:?}}}")).unwrap());
    }
    run(
        &machine,
        design,
        &mut WarmedUp::new(Cut::new(events, 97), warm_up),
    )
}

/// Counts of a whole run, as a window counts them.
fn counted(run: &RunResult) -> WindowResult {
    let served = |level: fn(&pagelab_machine::ServedBy) -> u64| {
        level(&run.caches.data) + level(&run.walks.served_by)
    };
    let llc_misses = served(|served| served.dram);
    WindowResult {
        instructions: run.instructions,
        accesses: run.accesses,
        cycles: run.cycles.elapsed,
        causes: run.cycles.causes,
        l1_tlb_misses: run.tlb.l1_misses,
        l2_tlb_misses: run.tlb.l2_misses,
        walks: run.walks.count,
        walk_cycles: (run.walks.latency.mean() * run.walks.count as f64).round() as u64,
        walk_reads: run.walks.reads,
        l2_misses: llc_misses + served(|served| served.llc),
        llc_misses,
        ..WindowResult::default()
    }
}

/// Counters of a run's design, a name for each number.
fn own(run: &RunResult) -> BTreeMap<String, i64> {
    let mut named = BTreeMap::new();
    let mut left = vec![(String::new(), run.design_counters.clone())];
    while let Some((name, value)) = left.pop() {
        match value {
            Value::Object(fields) => {
                left.extend(
                    fields
                        .into_iter()
                        .map(|(key, value)| (format!("{name}.{key}"), value)),
                );
            }
            Value::Array(items) => {
                let items = items.into_iter().enumerate();
                left.extend(items.map(|(at, value)| (format!("{name}.{at}"), value)));
            }
            Value::Null => {}
            count => {
                named.insert(name[1..].to_owned(), count.as_i64().unwrap());
            }
        }
    }
    let others = run.tlb_counters.iter();
    named.extend(others.map(|(name, &count)| (name.to_string(), count as i64)));
    named
}

/// Every counter of all designs, with whether it is a time, which is rounded.
fn fields(window: &WindowResult) -> Vec<(String, u64, bool)> {
    let times = [
        "cycles",
        "data",
        "translation",
        "faults",
        "zeroing",
        "migrations",
        "recoverable",
    ];
    let value = serde_json::to_value(window).unwrap();
    let fields = value.as_object().unwrap().iter();
    fields
        .filter(|(_, value)| !value.is_object())
        .map(|(name, value)| {
            let is_time = times.contains(&name.as_str());
            (name.clone(), value.as_u64().unwrap(), is_time)
        })
        .collect()
}

/// All designs, and prefetchers of translations with one.
fn designs() -> Vec<String> {
    let prefetchers = ["sequential", "agile"].map(|name| format!("radix {name}"));
    Design::all().map(Design::name).chain(prefetchers).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_window_counts_what_happens_between_its_ends(
        // From the sixth window on the last level's misses are estimated.
        parts in proptest::collection::vec((1usize..400).prop_flat_map(accesses), 2..4),
        warm_up in (0u64..300, prop_oneof![Just(Unit::Accesses), Just(Unit::Instructions)]),
        begins_with_a_gap: bool,
        design in proptest::sample::select(designs()),
    ) {
        let warm_up = WarmUp { length: warm_up.0, unit: warm_up.1 };
        let mut events = vec![map(BASE, MAPPED)];
        let mut whole = events.clone();
        // First and last access of each measured part, in the stream without gaps.
        let mut measured = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            if number > 0 || begins_with_a_gap {
                events.push(skipped());
            }
            events.extend_from_slice(part);
            let warm_up = warming_up(part, warm_up);
            if warm_up < part.len() {
                measured.push((whole.len() + warm_up, whole.len() + part.len()));
            }
            whole.extend_from_slice(part);
        }
        let sampled = simulate_with(&design, &events, warm_up);
        prop_assert_eq!(sampled.windows.len(), measured.len());
        let gaps = parts.len() - usize::from(!begins_with_a_gap);
        prop_assert_eq!(sampled.skipped_instructions, 1000 * gaps as u64);
        let mut accesses = 0;
        for (window, (from, to)) in sampled.windows.iter().zip(measured) {
            let [begin, end] =
                [from, to].map(|at| simulate_with(&design, &whole[..at], WarmUp::default()));
            let before = own(&begin);
            let changed = own(&end).into_iter().map(|(name, count)| {
                let before = before.get(&name).copied().unwrap_or(0);
                (name, count - before)
            });
            let tlb = window.tlb_counters.iter();
            let mine = tlb.map(|(name, &count)| (name.to_string(), count as i64));
            let mut mine: BTreeMap<_, _> = mine.chain(window.design_counters.clone()).collect();
            let mut changed: BTreeMap<_, _> = changed.collect();
            for by_the_clock in ["prefetches_late", "data_lines_late"] {
                prop_assert_eq!(mine.remove(by_the_clock).is_some(), changed.remove(by_the_clock).is_some());
            }
            prop_assert_eq!(mine, changed, "{}", &design);
            let (begin, end) = (counted(&begin), counted(&end));
            accesses += window.accesses;
            for (((name, mine, is_time), (_, begin, _)), (_, end, _)) in
                fields(window).into_iter().zip(fields(&begin)).zip(fields(&end))
            {
                if (is_time || name == "walk_cycles") && design != "radix" {
                    // An access that is put aside when a window begins is timed there, and others, walks too, then
                    // wait for it.
                    continue;
                }
                if design.ends_with("+pom_tlb") && ["l2_misses", "llc_misses"].contains(&name.as_str()) {
                    // Its reads past the caches are the whole run's reads of memory, but no misses.
                    continue;
                }
                let slack = u64::from(is_time);
                prop_assert!(mine.abs_diff(end - begin) <= slack, "{name}: {mine}, {begin}, {end}");
            }
        }
        prop_assert_eq!(sampled.accesses, accesses);
        let all = parts.iter().map(Vec::len).sum::<usize>() as u64;
        prop_assert_eq!(sampled.warm_up_accesses, all - accesses);
        if design == "radix" {
            prop_assert_eq!(sampled.tlb.lookups, accesses);
        }
        prop_assert_eq!(sampled.walks.count, sampled.windows.iter().map(|w| w.walks).sum::<u64>());
    }
}

#[test]
fn a_stream_without_gaps_has_no_windows_and_is_measured_whole() {
    let events: Vec<Event> = std::iter::once(map(BASE, MAPPED))
        .chain((0..500).map(|line| load(BASE + 4096 * line, 1, 0)))
        .collect();
    let result = simulate(&events, WarmUp::default());
    assert!(result.windows.is_empty());
    assert_eq!((result.accesses, result.warm_up_accesses), (500, 0));
    assert_eq!(result.initialisation_cycles, 0);
}

#[test]
fn a_stream_without_gaps_warms_up_at_its_beginning() {
    let events: Vec<Event> = std::iter::once(map(BASE, MAPPED))
        .chain((0..500).map(|line| load(BASE + 4096 * line, 4, 0)))
        .collect();
    for (length, unit, measured) in [
        (100, Unit::Accesses, 400),
        // An access and its gap are five instructions.
        (100, Unit::Instructions, 480),
        (103, Unit::Instructions, 480),
        (105, Unit::Instructions, 479),
        (499, Unit::Accesses, 1),
        (1000, Unit::Accesses, 0),
    ] {
        let result = simulate(&events, warm_up(length, unit));
        assert_eq!(result.accesses, measured, "{length} {unit:?}");
        assert_eq!(result.warm_up_accesses, 500 - measured);
        // Each page is new.
        assert_eq!(result.walks.count, 2 * measured);
    }
}

#[test]
fn an_instruction_that_loads_and_stores_counts_once() {
    let both = |line: u64| {
        let addr = BASE + 64 * line;
        let store = Access {
            addr,
            op: Op::store(8).continuing(true),
            ..Access::default()
        };
        [load(addr, 2, 0), Event::Access(store)]
    };
    let events: Vec<Event> = std::iter::once(map(BASE, MAPPED))
        .chain((0..500).flat_map(both))
        .collect();
    let whole = simulate(&events, WarmUp::default());
    assert_eq!((whole.accesses, whole.instructions), (1000, 1500));
    let rest = simulate(&events, warm_up(300, Unit::Instructions));
    assert_eq!((rest.accesses, rest.instructions), (800, 1200));
}

#[test]
fn initialisation_is_reported_apart() {
    let mapped = Event::Control(Control::Map {
        addr: BASE,
        len: MAPPED,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing: Backing::Anonymous,
        populate: true,
    });
    let mut events = vec![mapped, skipped()];
    events.extend((0..2048).map(|page| load(BASE + 4096 * page, 1, 0)));
    let result = simulate(&events, WarmUp::default());
    assert_eq!((result.os.faults, result.cycles.causes.faults), (0, 0));
    assert_eq!(result.os.populated.base, 2048);
    // Zeroing 2,048 pages takes 100 ns each at 2.66 GHz; tables come on top.
    assert!(result.initialisation_cycles >= 2048 * 266);
    assert_eq!(result.windows.len(), 1);
    assert_eq!(result.windows[0].cycles, result.cycles.elapsed);
}
