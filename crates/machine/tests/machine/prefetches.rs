//! Prefetches in the program: what they bring is there later, and what is not mapped they leave alone.

use crate::common::{
    BASE, Cut, Event, close, load, machine, map, prefetch, run, small_machine, store,
};
use pagelab_machine::{Design, HeatRow, MachineConfig, RunResult};

const PAGES: u64 = 2048;

fn simulated(config: &MachineConfig, design: &str, events: &[Event]) -> RunResult {
    run(config, design, &mut Cut::new(events, 500))
}

/// Lines all over the memory, a page after the other, none twice.
fn line(number: u64) -> u64 {
    BASE + number * 37 % PAGES * 4096 + number / PAGES % 64 * 64
}

/// Touches every page, and then loads lines one after the other, each when the one before it is there; each was
/// asked for by `ask` so many loads before.
fn look_ups(ahead: u64, gap: u32, ask: fn(u64) -> Option<Event>) -> Vec<Event> {
    let mut events = vec![map(BASE, PAGES * 4096)];
    events.extend((0..PAGES).map(|page| store(BASE + page * 4096 + 4032)));
    for number in 0..30_000 {
        let asked = ask(line(number + ahead));
        let dep = 1 + u32::from(asked.is_some());
        events.extend(asked);
        events.push(load(line(number), gap, dep));
    }
    events
}

/// Cycles a look-up.
fn cycles(config: &MachineConfig, design: &str, events: &[Event]) -> f64 {
    let touched = simulated(config, design, &events[..=PAGES as usize]);
    let all = simulated(config, design, events);
    (all.cycles.total - touched.cycles.total) as f64 / 30_000.0
}

/// A load of what was asked for long before hits the first level, and its page the TLB.
#[test]
fn what_was_prefetched_is_there() {
    // Four in a cycle: one look-up takes longer to dispatch than memory to bring a line.
    let config = machine(&[]);
    let with = look_ups(2, 3999, |addr| Some(prefetch(addr, 0, 0)));
    let without = look_ups(2, 4000, |_| None);
    for design in ["radix", "dpt", "ecpt", "nested-radix", "ideal"] {
        close(cycles(&config, design, &with), 1000.0 + 0.25);
        let late = cycles(&config, design, &without) - 1000.25;
        // All that a reorder buffer does not hide.
        assert!(late > 100.0, "{design}: {late}");
    }
    let data = |events| simulated(&config, "radix", events).caches.data;
    let (with, without) = (data(&with), data(&without));
    assert_eq!(with.total(), without.total() + 30_000);
    assert!(with.dram <= without.dram + 2, "{with:?}, {without:?}");
}

/// Cycles that each of 5,000 prefetches adds whose pages are in the TLB, of lines that are in no cache; so many
/// instructions come before each.
fn each_adds(overrides: &[&str], gap: u32) -> f64 {
    const PAGES: u64 = 32;
    let mut with = vec![map(BASE, PAGES * 4096)];
    with.extend((0..PAGES).map(|page| store(BASE + page * 4096 + 4032)));
    let mut without = with.clone();
    for number in 0..5000 {
        let page = BASE + number % PAGES * 4096;
        with.push(prefetch(page + number / PAGES % 63 * 64, gap, 0));
        with.push(load(page + 4032, 0, 0));
        without.push(load(page + 4032, gap, 0));
    }
    // Nothing stays in a cache until it is asked for again.
    let caches = [
        "caches.l1={ kib = 8, ways = 2, cycles = 4 }",
        "caches.l2.kib=16",
        "caches.llc.kib=32",
    ];
    let config = machine(&[overrides, &caches].concat());
    let cycles = |events| simulated(&config, "radix", events).cycles.total as f64;
    (cycles(&with) - cycles(&without)) / 5000.0
}

/// Not for its line, though memory takes a thousand times as long as a reorder buffer hides.
#[test]
fn nothing_waits_for_what_a_prefetch_fetches() {
    let slow = [
        "dram.latency_ns=20000.0",
        "core.miss_buffers=4000",
        "dram.gigabytes_per_second=100000.0",
    ];
    let added = each_adds(&slow, 400);
    assert!((0.0..0.5).contains(&added), "{added}");
}

/// It retires when it has been sent: with its translation, and a miss buffer.
#[test]
fn a_prefetch_waits_until_it_is_sent() {
    // One after the other, from memory.
    let one = ["core.miss_buffers=1", "dram.gigabytes_per_second=100000.0"];
    let added = each_adds(&one, 0);
    assert!(added > 100.0, "{added}");
}

#[test]
fn prefetches_are_neither_loads_nor_stores() {
    let mut events = vec![map(BASE, 8 * 4096), store(BASE), load(BASE, 3, 0)];
    events.extend((0..5).map(|number| prefetch(BASE + number * 64, 1, 0)));
    let run = simulated(&machine(&[]), "radix", &events);
    assert_eq!(
        (run.loads, run.counts.stores, run.counts.prefetches),
        (1, 1, 5)
    );
    assert_eq!((run.accesses, run.instructions), (7, 15));
}

/// As if each were an instruction that does nothing: no fault, no page, no look-up and no line.
#[test]
fn prefetches_of_what_is_not_mapped_do_nothing() {
    let mut config = small_machine();
    config.core.misprediction = 15;
    config.heat_map = true;
    let mut random = 1u64;
    let mut below = |end: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % end
    };
    let (mut with, mut without) = (vec![map(BASE, 1 << 22)], vec![map(BASE, 1 << 22)]);
    for _ in 0..20_000 {
        let (addr, gap) = (BASE + below(1 << 10) * 4096, below(8) as u32);
        let asked = below(3) as u32;
        for _ in 0..asked {
            // Behind the mapping, in a gibibyte of its own each, and where no program has memory.
            let nowhere = match below(3) {
                0 => BASE + (1 << 22) + below(1 << 20),
                1 => below(1 << 16) << 30,
                _ => 0xffff_8000_0000_0000 | below(1 << 30),
            };
            with.push(prefetch(nowhere, 0, 0));
        }
        with.push(load(addr, gap, 0));
        without.push(load(addr, gap + asked, 0));
    }
    for design in Design::all() {
        let design = design.name();
        let with = simulated(&config, &design, &with);
        let without = simulated(&config, &design, &without);
        assert!(with.complete && without.complete, "{design}");
        assert_eq!(with.instructions, without.instructions, "{design}");
        assert_eq!(with.cycles.total, without.cycles.total, "{design}");
        // Places and counts of accesses; when is told by all accesses.
        let drawn = |run: &RunResult| {
            let rows = &run.heat_map.as_ref().unwrap().rows;
            let row = |row: &HeatRow| (row.kind, row.address, row.accesses.iter().sum::<u64>());
            rows.iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(drawn(&with), drawn(&without), "{design}");
        let told = |run: &RunResult| serde_json::to_value(run).unwrap();
        let (with, without) = (told(&with), told(&without));
        for part in [
            "cycles",
            "tlb",
            "walks",
            "caches",
            "os",
            "memory_map",
            "loads",
        ] {
            assert_eq!(with[part], without[part], "{design}: {part}");
        }
    }
}

/// A page is there for a prefetch as soon as an access has touched it, and not before.
#[test]
fn a_prefetch_touches_no_page() {
    let config = small_machine();
    let pages = |events: &[Event]| {
        let run = simulated(&config, "radix", events);
        (run.os.faults, run.caches.data.total())
    };
    let (mapped, asked) = (map(BASE, 1 << 20), prefetch(BASE, 0, 0));
    assert_eq!(
        pages(&[mapped.clone(), asked.clone(), asked.clone()]),
        (0, 0)
    );
    let touched = [mapped, asked.clone(), load(BASE + 64, 0, 0), asked];
    assert_eq!(pages(&touched), (1, 2));
}
