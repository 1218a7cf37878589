//! Unusual machines and generated programs of several processes, in every design: batches
//! change no bit, branches change time only, and what is counted adds up.

use crate::common::{BASE, Event, map};
use crate::generated::{Batches, Step, steps};
use pagelab_events::{Selection, Source, Unit, Window};
use pagelab_machine::{Design, MachineConfig, RunResult, WindowResult, simulate};
use proptest::prelude::*;
use std::ops::ControlFlow;

/// One of each line.
const KEYS: [&[&str]; 27] = [
    &["dram.write_backs=true", "dram.write_backs=false"],
    &["free_clock=true", "free_clock=false"],
    &["core.walkers=3", "core.walkers=1"],
    &["core.miss_buffers=2", "core.miss_buffers=10"],
    &[
        "core.reorder_buffer=8",
        "core.store_buffer=1",
        "core.width=1",
    ],
    &["caches.walks_enter=l1", "caches.walks_enter=l2"],
    &[
        "memory.page_policy=base",
        "memory.page_policy=16K",
        "memory.page_policy=1M",
        "memory.page_policy=thp",
    ],
    &[
        "caches.prefetch={ adjacent = true, streams = 8, ahead = 10, busy = 0.3 }",
        "caches.prefetch={ adjacent = false, streams = 8, ahead = 4, \
         strides = { instructions = 8, ahead = 3, longest = 1048576, crosses_pages = true } }",
        "caches.prefetch={ adjacent = true, streams = 0, ahead = 0, \
         strides = { instructions = 4, ahead = 1, longest = 2048 } }",
        "caches.prefetch={ adjacent = true, next_line = { lines = 3 }, busy = 0.3, \
         ipcp = { instructions = 8 } }",
        "seed=7",
    ],
    &[
        "caches.l2.replacement=random",
        "caches.l2.replacement=srrip",
        "caches.l2.replacement=ship",
        "caches.l2.replacement=t-drrip",
        "caches.l2.replacement=lru",
    ],
    &[
        "caches.l1.replacement=tree-plru",
        "caches.llc.replacement=nru",
        "caches.llc.replacement={ name = \"t-drrip\", leaders = 2, selector_bits = 2, one_in = 3 }",
        "caches.llc.replacement={ name = \"ship\", counters = 5, counter_bits = 1 }",
        "core.misprediction=20",
    ],
    &[
        "tlb.l2_4k.replacement=random",
        "tlb.l2_4k.replacement={ name = \"chirp\", history = 2, counters = 7 }",
        "tlb.l2_4k.replacement=ship",
        "tlb.l2_4k.replacement=lru",
    ],
    &[
        "dram.rows={ banks = 8, row_bytes = 4096, activate_ns = 10.0, precharge_ns = 10.0 }",
        "dram.gigabytes_per_second=3.0",
        "dram.spread=[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 20]",
    ],
    &["memory.zero_page=true", "memory.zero_page=false"],
    &["victima.window=500", "victima.parallel=false"],
    &["victima.predictor=false", "victima.insert_on_miss=false"],
    &["victima.tlb_mpki=0.0", "victima.tlb_aware=false"],
    &[
        "revelator.filtered=false",
        "revelator.data=false",
        "revelator.entries=false",
        "revelator.cycles=30",
    ],
    &["revelator.functions=8", "revelator.window=20", "seed=7"],
    &[
        "pom_tlb.kib=1",
        "pom_tlb.kib=16",
        "pom_tlb.neighbours=1",
        "pom_tlb.cached=false",
    ],
    &[
        "pom_tlb.size_predictor=false",
        "pom_tlb.bypass_predictor=false",
        "pom_tlb.predictor_entries=4",
    ],
    &[
        "utopia.small_mib=1",
        "utopia.small_mib=0",
        "utopia.ways=1",
        "utopia.evict_at_faults=true",
    ],
    &[
        "utopia.parallel=false",
        "utopia.set_filter=false",
        "utopia.tag_cache_kib=0",
        "utopia.filter_cache_kib=1",
    ],
    &[
        "utopia.at_faults=false",
        "utopia.track=false",
        "utopia.costly_reads=0",
        "utopia.large_mib=4",
    ],
    &[
        "tlb_prefetch={ prefetcher = \"sequential\" }",
        "tlb_prefetch={ prefetcher = { name = \"stride\", instructions = 2 }, free = true }",
        "tlb_prefetch={ prefetcher = { name = \"distance\", distances = 3 }, entries = 5 }",
        "tlb_prefetch={ prefetcher = \"agile\", free = true }",
        "seed=8",
        "seed=9",
    ],
    &[
        "caches.coherence={ transfer_cycles = 75, invalidate_cycles = 60 }",
        "caches.coherence=none",
        "caches.others.gigabytes_per_second=5.0",
        "caches.others.gigabytes_per_second=1000.0",
    ],
    &["cost.shootdowns=all", "cost.shootdowns=migrations"],
    &[
        "memory.nodes=[{ bytes = 134217728, latency_ns = 90.0, gigabytes_per_second = 9.0 }, \
         { bytes = 134217728, latency_ns = 180.0, gigabytes_per_second = 5.0 }]",
        "memory.utilisation=0.3",
        "memory.utilisation=0.0",
    ],
];

/// With the instruction side and without.
const FETCH: [&str; 3] = [
    "fetch={ tlb = { entries = 4, ways = 4 }, l1 = { kib = 1, ways = 2 }, next_lines = 2 }",
    "fetch={ tlb = { entries = 8, ways = 2 }, l1 = { kib = 2, ways = 2, replacement = \"random\" } }",
    "fetch=none",
];

/// A small machine with some of these keys, and one of `others`.
fn machine(others: &'static [&'static str]) -> impl Strategy<Value = MachineConfig> {
    let keys = KEYS.iter().copied().chain([others]);
    let keys: Vec<_> = keys
        .map(|keys| (0..keys.len()).prop_map(|n| keys[n]))
        .collect();
    keys.prop_map(|keys| {
        let small = [
            "memory.memory_bytes=268435456",
            "memory.fragmentation=0.5",
            "tlb.l1_4k={ entries = 8, ways = 4 }",
            "tlb.l2_4k={ entries = 32, ways = 8 }",
            "caches.l1={ kib = 4, ways = 4, cycles = 4 }",
            "caches.l2={ kib = 16, ways = 8, cycles = 14 }",
            "caches.llc.kib=64",
        ];
        let keys: Vec<String> = small
            .into_iter()
            .chain(keys)
            .map(str::to_owned)
            .chain(std::iter::once("name=awkward".to_owned()))
            .collect();
        MachineConfig::load("dpt-paper", &keys).unwrap()
    })
}

/// `None` for a design that such a machine cannot have.
fn run(config: &MachineConfig, design: &str, source: &mut dyn Source) -> Option<RunResult> {
    simulate(config, design, source, &mut |_| ControlFlow::Continue(())).ok()
}

/// Lines of all accesses, without what prefetches have fetched.
fn lines(steps: &[Step]) -> u64 {
    let of = |event: &Event| match event {
        Event::Access(access) if access.op.is_prefetch() => 0,
        Event::Access(access) => {
            let last = access.addr + u64::from(access.op.size()) - 1;
            last / 64 - access.addr / 64 + 1
        }
        Event::Control(_) => 0,
    };
    steps.iter().map(|step| of(&step.event)).sum()
}

fn adds_up(run: &RunResult, steps: &[Step]) {
    let design = &run.design;
    let cycles = &run.cycles;
    let causes = &cycles.causes;
    let stalls = causes.data + causes.translation + causes.mispredictions;
    let kernel = causes.faults + causes.zeroing + causes.migrations;
    let fetch = causes.fetch.unwrap_or_default();
    assert_eq!(
        cycles.total,
        cycles.compute + stalls + fetch + kernel,
        "{design}"
    );
    assert_eq!(run.walks.reads, run.walks.served_by.total(), "{design}");
    assert!(run.tlb.l2_misses <= run.tlb.l1_misses, "{design}");
    assert!(run.tlb.l1_misses <= run.tlb.lookups, "{design}");
    if !run.complete {
        // It ended within an access.
        return;
    }
    // No line of a page that is not mapped is fetched.
    let data = lines(steps)..=lines(steps) + run.counts.prefetches;
    assert!(data.contains(&run.caches.data.total()), "{design}");
    assert_eq!(
        run.loads + run.counts.stores + run.counts.prefetches,
        run.accesses
    );
    let counter = |name: &str| run.tlb_counters.get(name).copied().unwrap_or(0);
    if design != "ideal" {
        // A fault walks again.
        let found = counter("block_hits") + counter("prefetches_useful");
        let of_code = run.fetch.map_or(0, |fetch| fetch.tlb.l2_misses);
        let walks = run.tlb.l2_misses + of_code - found + run.os.faults;
        assert_eq!(run.walks.count, walks, "{design}");
    }
    assert!(counter("prefetches_late") <= counter("prefetches_useful"));
    let blocks = counter("blocks_inserted_on_misses") + counter("blocks_inserted_on_evictions");
    let worth = counter("pages_predicted_costly") + counter("pages_not_predicted");
    assert!(blocks <= worth, "{:?}", run.tlb_counters);
    for kind in ["data", "entry"] {
        let of = |name: &str| counter(&format!("{kind}_{name}"));
        let guesses = of("guesses_right") + of("guesses_wrong");
        assert_eq!(of("guesses"), guesses, "{:?}", run.tlb_counters);
        assert!(of("lines_fetched") <= guesses, "{:?}", run.tlb_counters);
    }
    if design.ends_with("+pom_tlb") {
        let hits = counter("pom_hits_4k") + counter("pom_hits_2m");
        let walks = counter("page_table_walks");
        // Pages of instructions are walked to, and not in its sets.
        let of_code = run.fetch.map_or(0, |fetch| fetch.walks);
        assert_eq!(hits + walks + of_code, run.walks.count, "{design}");
        let places = ["in_l2", "in_llc", "in_memory"];
        let read = places.map(|place| counter(&format!("sets_read_{place}")));
        let read: u64 = read.iter().sum();
        // A store may find an entry of a page that it may not write.
        assert!((hits + walks..=2 * (hits + walks)).contains(&read));
        assert!(counter("sets_read_past_caches") <= counter("sets_read_in_memory"));
        assert!(counter("sets_written") <= walks);
    }
    if let Some(segments) = run.os.segments {
        let hits = counter("segment_hits_4k") + counter("segment_hits_2m");
        let walks = counter("page_table_walks");
        let of_code = run.fetch.map_or(0, |fetch| fetch.walks);
        assert_eq!(hits + walks + of_code, run.walks.count, "{design}");
        let asked = counter("sets_filtered_out") + counter("sets_searched");
        let filtered = counter("sets_filtered");
        assert!(filtered == 0 || filtered == asked, "{:?}", run.tlb_counters);
        let moved = segments.moved_in.base + segments.moved_in.large;
        let refused = segments.refused.base + segments.refused.large;
        assert_eq!(
            counter("pages_found_costly"),
            moved + refused,
            "{segments:?}"
        );
        for (used, places) in [
            (segments.used.base, segments.places.base),
            (segments.used.large, segments.places.large),
        ] {
            assert!(used <= places, "{segments:?}");
        }
    }
    // A wrong guess of an entry may name the line of the data, in memory of few frames.
    if counter("entry_lines_fetched") == 0 {
        assert!(counter("data_lines_late") <= counter("data_guesses_right"));
    }
    if run.caches.prefetches.is_none() {
        let guessed = counter("lines_fetched_from_memory");
        let of_code = run
            .fetch
            .map_or(0, |fetch| fetch.served_by.dram + fetch.prefetches.dram);
        let from_memory = run.caches.data.dram + run.walks.served_by.dram + of_code + guessed;
        assert_eq!(run.dram.reads, from_memory, "{design}");
    }
}

/// All but times.
fn decided(run: &RunResult) -> String {
    let mut counters = run.tlb_counters.clone();
    // Only the clock knows.
    counters.retain(|name, _| !name.ends_with("_late"));
    let causes = &run.cycles.causes;
    format!(
        "{:?} {:?} {} {:?} {:?} {counters:?} {} {:?} {:?}",
        run.caches.data,
        run.walks.served_by,
        run.walks.count,
        run.tlb,
        run.os,
        run.dram.reads,
        (causes.faults, causes.zeroing, causes.migrations),
        run.stopped,
    )
}

fn text(run: &RunResult) -> String {
    serde_json::to_string(run).unwrap()
}

const NONE: Vec<String> = Vec::new();

/// Fields in which two results are not the same.
fn differences(one: &RunResult, other: &RunResult) -> Vec<String> {
    let of = |run| serde_json::to_value(run).unwrap();
    crate::common::differences(&of(one), &of(other))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn batches_change_nothing(
        steps in steps(),
        machine in machine(&FETCH),
        cores in 1u32..4,
        lengths in proptest::collection::vec(2usize..700, 1..4),
    ) {
        let machine = MachineConfig { cores, ..machine };
        for design in Design::all().map(Design::name) {
            let run = |lengths| run(&machine, &design, &mut Batches::new(&steps, lengths));
            let Some(whole) = run(&lengths) else {
                continue;
            };
            adds_up(&whole, &steps);
            let single = run(&[1]).unwrap();
            prop_assert_eq!(differences(&whole, &single), NONE, "{}", design);
        }
    }

    #[test]
    fn batches_change_no_window(
        steps in steps(),
        machine in machine(&FETCH),
        cores in 1u32..4,
        lengths in proptest::collection::vec(2usize..700, 1..4),
        unit in prop_oneof![Just(Unit::Accesses), Just(Unit::Instructions)],
        skip in 0u64..300,
        period in 100u64..500,
        sample in 1u64..100,
        limit in proptest::option::of(0u64..500),
    ) {
        let machine = MachineConfig { cores, ..machine };
        let selection = Selection { unit, skip, period, sample, thinning: 0, limit };
        for design in Design::all().map(Design::name) {
            let run = |lengths| {
                let source = Batches::new(&steps, lengths);
                run(&machine, &design, &mut Window::new(source, selection))
            };
            let Some(whole) = run(&lengths) else {
                continue;
            };
            let single = run(&[1]).unwrap();
            prop_assert_eq!(differences(&whole, &single), NONE, "{}", design);
            let sum = |of: fn(&WindowResult) -> u64| whole.windows.iter().map(of).sum::<u64>();
            if !whole.windows.is_empty() {
                prop_assert_eq!(sum(|w| w.instructions), whole.instructions, "{}", design);
                prop_assert_eq!(sum(|w| w.accesses), whole.accesses, "{}", design);
                prop_assert_eq!(sum(|w| w.walk_reads), whole.walks.reads, "{}", design);
            }
        }
    }

    /// Nothing that is decided hangs on time here: `caches.others` come in with it.
    #[test]
    fn mispredicted_branches_change_time_only(
        steps in steps(),
        machine in machine(&FETCH),
        cores in 1u32..4,
    ) {
        let mut machine = MachineConfig { cores, ..machine };
        machine.caches.others = None;
        let mut free = machine.clone();
        free.core.misprediction = 0;
        let without: Vec<Step> = steps
            .iter()
            .map(|step| Step { branches: Vec::new(), ..step.clone() })
            .collect();
        for design in Design::all().map(Design::name) {
            let run = |machine, steps| run(machine, &design, &mut Batches::new(steps, &[100]));
            let (Some(with), Some(none)) = (run(&machine, &steps), run(&machine, &without)) else {
                continue;
            };
            prop_assert_eq!(decided(&with), decided(&none), "{}", design);
            prop_assert!(none.counts.mispredicted_branches == 0);
            let mut cost_nothing = run(&free, &steps).unwrap();
            cost_nothing.counts.mispredicted_branches = 0;
            cost_nothing.machine = none.machine.clone();
            prop_assert!(text(&cost_nothing) == text(&none), "{}", design);
        }
    }
}

/// A process number that no address space can have is not another's.
#[test]
fn a_process_that_cannot_be_is_refused() {
    let machine = MachineConfig::load("dpt-paper", &[]).unwrap();
    let load = |process| Step::new(process, crate::common::load(BASE, 0, 0));
    let steps = [Step::new(1, map(BASE, 4096)), load(1), load(1 + (1 << 16))];
    let refused = run(&machine, "radix", &mut Batches::new(&steps, &[10])).unwrap();
    let why = refused.stopped.unwrap_or_default();
    assert!(why.contains("processes 0 to 65535"), "{why}");
    assert_eq!(refused.accesses, 1);
}
