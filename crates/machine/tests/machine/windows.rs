//! Windows of a sampled stream, against whole runs that end where a window begins or ends.

use crate::common::{BASE, Cut, Event, load, map, run, small_machine};
use pagelab_events::{Backing, Batch, Control, Protection, Source, SourceError};
use pagelab_machine::{RunResult, WindowResult};
use proptest::prelude::*;

/// A source whose windows begin with accesses that are not measured.
struct WarmedUp(Cut, u64);

impl Source for WarmedUp {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        self.0.next_batch(batch)
    }

    fn warm_up(&self) -> u64 {
        self.1
    }
}

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

fn simulate(events: &[Event], warm_up: u64) -> RunResult {
    run(
        &small_machine(),
        "radix",
        &mut WarmedUp(Cut::new(events, 97), warm_up),
    )
}

/// What a whole run has counted, as a window counts it.
fn counted(run: &RunResult) -> WindowResult {
    let served = |level: fn(&pagelab_machine::ServedBy) -> u64| {
        level(&run.caches.data) + level(&run.walks.served_by)
    };
    let llc_misses = served(|served| served.dram);
    WindowResult {
        instructions: run.instructions,
        accesses: run.accesses,
        cycles: run.cycles.elapsed,
        data: run.cycles.data,
        translation: run.cycles.translation,
        faults: run.cycles.faults,
        migrations: run.cycles.migrations,
        l1_tlb_misses: run.tlb.l1_misses,
        l2_tlb_misses: run.tlb.l2_misses,
        walks: run.walks.count,
        walk_cycles: (run.walks.latency.mean() * run.walks.count as f64).round() as u64,
        walk_reads: run.walks.reads,
        l2_misses: llc_misses + served(|served| served.llc),
        llc_misses,
    }
}

/// Every counter, with whether it is a time, which is rounded.
fn fields(window: &WindowResult) -> Vec<(String, u64, bool)> {
    let times = ["cycles", "data", "translation", "faults", "migrations"];
    let value = serde_json::to_value(window).unwrap();
    let fields = value.as_object().unwrap().iter();
    fields
        .map(|(name, value)| {
            let is_time = times.contains(&name.as_str());
            (name.clone(), value.as_u64().unwrap(), is_time)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_window_counts_what_happens_between_its_ends(
        parts in proptest::collection::vec((1usize..400).prop_flat_map(accesses), 2..5),
        warm_up in 0u64..300,
    ) {
        let mut events = vec![map(BASE, MAPPED)];
        let mut whole = events.clone();
        // First and last access of each measured part, in the stream without gaps.
        let mut measured = Vec::new();
        for part in &parts {
            events.push(skipped());
            events.extend_from_slice(part);
            let warm_up = part.len().min(warm_up as usize);
            if warm_up < part.len() {
                measured.push((whole.len() + warm_up, whole.len() + part.len()));
            }
            whole.extend_from_slice(part);
        }
        let sampled = simulate(&events, warm_up);
        prop_assert_eq!(sampled.windows.len(), measured.len());
        prop_assert_eq!(sampled.skipped_instructions, 1000 * parts.len() as u64);
        let mut accesses = 0;
        for (window, (from, to)) in sampled.windows.iter().zip(measured) {
            let begin = counted(&simulate(&whole[..from], 0));
            let end = counted(&simulate(&whole[..to], 0));
            accesses += window.accesses;
            for (((name, mine, is_time), (_, begin, _)), (_, end, _)) in
                fields(window).into_iter().zip(fields(&begin)).zip(fields(&end))
            {
                let slack = u64::from(is_time);
                prop_assert!(mine.abs_diff(end - begin) <= slack, "{name}: {mine}, {begin}, {end}");
            }
        }
        prop_assert_eq!(sampled.accesses, accesses);
        let all = parts.iter().map(Vec::len).sum::<usize>() as u64;
        prop_assert_eq!(sampled.warm_up_accesses, all - accesses);
        prop_assert_eq!(sampled.tlb.lookups, accesses);
        prop_assert_eq!(sampled.walks.count, sampled.windows.iter().map(|w| w.walks).sum::<u64>());
    }
}

#[test]
fn a_stream_without_gaps_has_no_windows_and_is_measured_whole() {
    let events: Vec<Event> = std::iter::once(map(BASE, MAPPED))
        .chain((0..500).map(|line| load(BASE + 4096 * line, 1, 0)))
        .collect();
    let result = simulate(&events, 100);
    assert!(result.windows.is_empty());
    assert_eq!((result.accesses, result.warm_up_accesses), (500, 0));
    assert_eq!(result.initialisation_cycles, 0);
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
    let result = simulate(&events, 0);
    assert_eq!((result.os.faults, result.cycles.faults), (0, 0));
    assert_eq!(result.os.populated.base, 2048);
    // Zeroing 2,048 pages takes 100 ns each at 2.66 GHz; tables come on top.
    assert!(result.initialisation_cycles >= 2048 * 266);
    assert_eq!(result.windows.len(), 1);
    assert_eq!(result.windows[0].cycles, result.cycles.elapsed);
}
