//! Replacement policies that look at who makes a reference, in a whole machine. What they do by
//! themselves is in crates/memory/tests/policies.

use crate::common::{BASE, Event, machine, map, run};
use pagelab_events::{Access, Batch, NO_SITE, Op, Source, SourceError};
use pagelab_machine::RunResult;

/// An instruction, and the offset of what it loads.
type Load = (u32, u64);

struct Loads<'a>(std::slice::Chunks<'a, Load>, bool);

impl<'a> Loads<'a> {
    fn new(loads: &'a [Load]) -> Self {
        Loads(loads.chunks(100), false)
    }
}

impl Source for Loads<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let mapped = std::mem::replace(&mut self.1, true);
        if !mapped && let Event::Control(control) = map(BASE, 64 << 20) {
            batch.push_control(control);
        }
        for &(site, offset) in self.0.next().unwrap_or_default() {
            batch.push(Access {
                addr: BASE + offset,
                op: Op::load(8),
                gap: 2,
                dep: 0,
            });
            batch.site.push(site);
        }
        Ok(!batch.is_empty())
    }
}

/// A last level of 1,024 lines behind small ones.
fn with(policy: &str, design: &str, loads: &[Load]) -> RunResult {
    let policy = format!("caches.llc.replacement={policy}");
    let config = machine(&[
        "tlb.l1_4k={ entries = 16, ways = 4 }",
        "tlb.l2_4k={ entries = 64, ways = 8 }",
        "caches.l1={ kib = 4, ways = 4, cycles = 4 }",
        "caches.l2={ kib = 8, ways = 8, cycles = 14 }",
        "caches.llc={ kib = 64, ways = 16, cycles = 30 }",
        &policy,
    ]);
    run(&config, design, &mut Loads::new(loads))
}

fn lines(site: u32, lines: std::ops::Range<u64>) -> impl Iterator<Item = Load> {
    lines.map(move |line| (site, line * 64))
}

/// Rounds of a working set of half the lines, used so many times, and a scan of others.
fn rounds(times: u32, scan: u64) -> Vec<Load> {
    let round = |number: u64| {
        let set = (0..times).flat_map(|time| lines(time, 0..512));
        let first = 4096 + number % 16 * scan;
        set.chain(lines(9, first..first + scan))
    };
    (0..24).flat_map(round).collect()
}

#[test]
fn a_working_set_outlives_a_scan() {
    let loads = rounds(3, 768);
    let from_memory = |policy| with(policy, "ideal", &loads).caches.data.dram;
    let (lru, srrip) = (from_memory("lru"), from_memory("srrip"));
    // Under LRU the set, too, comes from memory once a round.
    assert!(lru > 24 * (512 + 768) * 99 / 100, "{lru}");
    assert!(srrip < 24 * (768 + 60), "{srrip}");
}

#[test]
fn what_a_scanning_instruction_brings_is_dead() {
    let loads = rounds(2, 8192);
    let last_level = |policy: &str, loads: &[Load]| with(policy, "ideal", loads).caches.data.llc;
    let srrip = last_level("srrip", &loads);
    let ship = last_level("ship", &loads);
    // The set is there at its second use in a round, and with SHiP at its first, too.
    assert!(srrip < 24 * 560, "{srrip}");
    assert!(ship > 24 * 900, "{ship}");
    // Regions are scanned too seldom to be learnt.
    let unnamed: Vec<Load> = loads.iter().map(|load| (NO_SITE, load.1)).collect();
    let by_region = last_level("{ name = \"ship\", signature = \"region\" }", &loads);
    assert_eq!(last_level("ship", &unnamed), by_region);
    assert!(by_region < ship);
}

/// Loads all over more pages than the TLB has, of which the leaves of the table fill the last level.
#[test]
fn leaves_of_the_table_outlive_data_that_were_walked_for() {
    let random = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let loads: Vec<Load> = (0..80_000)
        .map(|number| (1, random(number) % (32 << 20)))
        .collect();
    for design in ["radix", "victima"] {
        let walks = |policy: &str| {
            let run = with(policy, design, &loads);
            let served = run.walks.served_by;
            assert_eq!(run.walks.reads, served.total());
            served.dram as f64 / run.walks.reads as f64
        };
        let (drrip, t_drrip) = (walks("drrip"), walks("t-drrip"));
        assert!(t_drrip < 0.7 * drrip, "{design}: {t_drrip} against {drrip}");
    }
}

/// Pages of a scan leave the second-level TLB before those that another instruction comes back to.
#[test]
fn a_tlb_learns_by_instructions() {
    let pages = |site, pages: std::ops::Range<u64>| pages.map(move |page| (site, page * 4096));
    let round = |number: u64| {
        let first = 1024 + number % 8 * 256;
        let set = pages(4, 0..32).chain(pages(4, 0..32));
        set.chain(pages(9, first..first + 256))
    };
    let loads: Vec<Load> = (0..60).flat_map(round).collect();
    let misses = |policy: &str| {
        let policy = format!("tlb.l2_4k.replacement={policy}");
        let config = machine(&[
            "tlb.l1_4k={ entries = 16, ways = 4 }",
            "tlb.l2_4k={ entries = 64, ways = 8 }",
            &policy,
        ]);
        run(&config, "radix", &mut Loads::new(&loads)).tlb.l2_misses
    };
    let (chirp, lru) = (misses("chirp"), misses("lru"));
    assert!(chirp + 1000 < lru, "{chirp} against {lru}");
}
