//! Every preset has figures that can be, and a source for each table of them.

use crate::common::{BASE, Cut, load, map, run, store};
use pagelab_machine::{MachineConfig, PRESETS};

fn every() -> impl Iterator<Item = (&'static str, MachineConfig)> {
    let read = |name| MachineConfig::load(name, &[]).unwrap();
    PRESETS.iter().map(move |&(name, _)| (name, read(name)))
}

#[test]
fn latencies_rise_from_level_to_level() {
    for (name, config) in every() {
        let caches = config.caches;
        let mut cycles = vec![caches.l1.cycles, caches.l2.cycles, caches.llc.cycles];
        let nanoseconds = config.dram.latency_ns;
        cycles.push(caches.llc.cycles + (nanoseconds * config.core.ghz) as u32);
        assert!(cycles.is_sorted_by(|a, b| a < b), "{name}: {cycles:?}");
        let kib = [caches.l1.kib, caches.l2.kib, caches.llc.kib];
        assert!(kib.is_sorted_by(|a, b| a < b), "{name}: {kib:?}");
        assert!(
            config.tlb.l1_4k.entries < config.tlb.l2_4k.entries,
            "{name}"
        );
        assert!(config.tlb.l2_cycles < caches.l2.cycles, "{name}");
        // Latency in all, by those who measured it: 60 to 140 ns.
        let memory = f64::from(caches.llc.cycles) / config.core.ghz + nanoseconds;
        assert!((55.0..140.0).contains(&memory), "{name}: {memory} ns");
    }
}

/// A table of figures says where they are from: in the lines around its heading.
#[test]
fn each_table_has_a_source() {
    for (name, text) in PRESETS {
        let blocks = text
            .split("\n\n")
            .filter(|block| block.contains("\n[") || block.starts_with('['));
        let mut tables = 0;
        for block in blocks {
            let levels_only = block.starts_with("[radix]\n");
            assert!(
                levels_only || block.contains("# "),
                "{name}: no source in {block}"
            );
            tables += 1;
        }
        assert!(tables >= 7, "{name}");
    }
}

/// Loads and stores of 1,500 pages, each of which waits for the last load: they walk on every
/// machine, and take the time that memory takes at the least.
#[test]
fn each_runs_a_small_program() {
    const PAGES: u64 = 1500;
    let mut events = vec![map(BASE, PAGES << 12)];
    for at in 0..2 * PAGES {
        // 601 has no factor in common with 1,500, so that each page is met twice.
        let address = BASE + ((at * 601 % PAGES) << 12) + at * 601 / PAGES % 64 * 64;
        events.push(store(address));
        events.push(load(address ^ 64, 2, if at == 0 { 0 } else { 2 }));
    }
    for (name, config) in every() {
        let result = run(&config, "radix", &mut Cut::new(&events, 100));
        assert!(result.complete, "{name}");
        assert_eq!(result.accesses, 4 * PAGES, "{name}");
        assert!(
            result.walks.count >= PAGES / 16,
            "{name}: {}",
            result.walks.count
        );
        assert!(result.cycles.elapsed > 4 * PAGES, "{name}");
    }
}
