//! Unusual machines and generated programs of several processes, in every design: neither batches
//! nor workers change a bit, and what is counted adds up.

use crate::common::{BASE, Event, map};
use pagelab_events::{
    Access, Advice, Batch, Control, Divisible, Op, Protection, Source, SourceError, Stretch,
};
use pagelab_machine::{Design, MachineConfig, RunResult, simulate, simulate_in_pieces};
use proptest::prelude::*;
use std::ops::ControlFlow;

/// An event of a process.
type Step = (u32, Event);

const PAGES: u64 = 4 * 1024;

fn access() -> impl Strategy<Value = Event> {
    let offset = prop_oneof![
        0..PAGES * 4096,
        0..64u64 * 4096,
        (0..PAGES - 1).prop_map(|page| page * 4096 + 4092)
    ];
    let size = prop_oneof![Just(8u16), Just(1), Just(64), Just(300)];
    (offset, any::<bool>(), size, 0u32..12, 0u32..6).prop_map(|(offset, store, size, gap, dep)| {
        Event::Access(Access {
            addr: BASE + offset,
            op: if store {
                Op::store(size)
            } else {
                Op::load(size)
            },
            gap,
            dep,
        })
    })
}

fn control() -> impl Strategy<Value = Event> {
    let length = prop_oneof![1..40u64, 1..2000u64];
    (0..PAGES, length, 0..8u32).prop_map(|(first, pages, kind)| {
        let (addr, len) = (BASE + first * 4096, pages.min(PAGES - first) * 4096);
        let protect = |prot| Control::Protect {
            addr,
            len,
            prot: Protection(prot),
        };
        Event::Control(match kind {
            0 => Control::Unmap { addr, len },
            1 => Control::Advise {
                addr,
                len,
                advice: Advice::DontNeed,
            },
            2 => protect(Protection::READ),
            3 => protect(Protection::READ | Protection::WRITE),
            4 => Control::Thread { thread: 1 },
            5 => Control::Thread { thread: 0 },
            6 => Control::Fork { child: 0 },
            _ => return map(addr, len),
        })
    })
}

/// Up to four processes take turns over the same mapping, which changes under them.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let event = prop_oneof![40 => access(), 1 => control()];
    let turns = (any::<u32>(), proptest::collection::vec(event, 1..60));
    proptest::collection::vec(turns, 10..30).prop_map(|turns| {
        let mut steps = vec![(0, map(BASE, PAGES * 4096))];
        let mut last = 0;
        for (number, events) in turns {
            let process = number % (last + 1);
            for mut event in events {
                if let Event::Control(Control::Fork { child }) = &mut event {
                    if last == 3 {
                        continue;
                    }
                    last += 1;
                    *child = last;
                }
                steps.push((process, event));
            }
        }
        steps
    })
}

/// Steps in batches of some length.
struct Batches<'a> {
    steps: &'a [Step],
    at: usize,
    length: usize,
}

impl Source for Batches<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let Some((process, _)) = self.steps.get(self.at) else {
            return Ok(false);
        };
        batch.process = *process;
        if self.at == 0 || self.steps[self.at - 1].0 != *process {
            batch.push_control(Control::Thread { thread: 0 });
        }
        while let Some((of, event)) = self.steps.get(self.at)
            && of == process
            && batch.len() < self.length
        {
            match event {
                Event::Access(access) => {
                    batch.push(*access);
                    batch.site.push(access.gap);
                }
                Event::Control(control) => batch.push_control(*control),
            }
            self.at += 1;
        }
        Ok(true)
    }
}

struct Held(Vec<Step>);

impl Divisible for Held {
    fn accesses(&self) -> u64 {
        let accesses = self.0.iter().filter(|s| matches!(s.1, Event::Access(_)));
        accesses.count() as u64
    }

    fn stretch(
        &self,
        from: u64,
        to: Option<u64>,
    ) -> Result<Box<dyn Source + Send + '_>, SourceError> {
        let source = Batches {
            steps: &self.0,
            at: 0,
            length: 100,
        };
        Ok(Box::new(Stretch::new(source, from, to.map(|to| to - from))))
    }
}

/// One of each line.
const KEYS: [&[&str]; 22] = [
    &["dram.write_backs=true", "dram.write_backs=false"],
    &["free_clock=true", "free_clock=false"],
    &["core.walkers=3", "core.walkers=1"],
    &["core.miss_buffers=2", "core.miss_buffers=10"],
    &["caches.walks_enter=l1", "caches.walks_enter=l2"],
    &[
        "memory.page_policy=base",
        "memory.page_policy=16K",
        "memory.page_policy=1M",
        "memory.page_policy=thp",
    ],
    &[
        "caches.prefetch={ adjacent = true, streams = 8, ahead = 10, busy = 0.3 }",
        "caches.prefetch={ adjacent = false, streams = 8, ahead = 4 }",
        "seed=7",
    ],
    &[
        "caches.l2.replacement=random",
        "caches.l2.replacement=srrip",
        "caches.l2.replacement=lru",
    ],
    &[
        "caches.l1.replacement=tree-plru",
        "caches.llc.replacement=nru",
        "core.misprediction=20",
    ],
    &["tlb.l2_4k.replacement=random", "tlb.l2_4k.replacement=lru"],
    &[
        "dram.rows={ banks = 8, row_bytes = 4096, activate_ns = 10.0, precharge_ns = 10.0 }",
        "dram.gigabytes_per_second=3.0",
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
        "tlb_prefetch={ prefetcher = \"sequential\" }",
        "tlb_prefetch={ prefetcher = \"stride\", free = true }",
        "tlb_prefetch={ prefetcher = \"distance\", entries = 5 }",
        "tlb_prefetch={ prefetcher = \"agile\", free = true }",
        "seed=8",
        "seed=9",
    ],
    &["cost.shootdowns=all", "cost.shootdowns=migrations"],
    &[
        "memory.nodes=[{ bytes = 134217728, latency_ns = 90.0, gigabytes_per_second = 9.0 }, \
         { bytes = 134217728, latency_ns = 180.0, gigabytes_per_second = 5.0 }]",
        "memory.utilisation=0.3",
        "memory.utilisation=0.0",
    ],
];

/// A small machine with some of these keys.
fn machine() -> impl Strategy<Value = MachineConfig> {
    KEYS.map(|keys| (0..keys.len()).prop_map(|n| keys[n]))
        .to_vec()
        .prop_map(|keys| {
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
fn run(config: &MachineConfig, design: &str, steps: &[Step], length: usize) -> Option<RunResult> {
    let mut source = Batches {
        steps,
        at: 0,
        length,
    };
    simulate(config, design, &mut source, &mut |_| {
        ControlFlow::Continue(())
    })
    .ok()
}

/// Lines of all accesses.
fn lines(steps: &[Step]) -> u64 {
    let of = |event: &Event| match event {
        Event::Access(access) => {
            let last = access.addr + u64::from(access.op.size()) - 1;
            last / 64 - access.addr / 64 + 1
        }
        Event::Control(_) => 0,
    };
    steps.iter().map(|(_, event)| of(event)).sum()
}

fn adds_up(run: &RunResult, steps: &[Step]) {
    let design = &run.design;
    let cycles = &run.cycles;
    let causes = cycles.compute
        + cycles.data
        + cycles.translation
        + cycles.mispredictions
        + cycles.faults
        + cycles.zeroing
        + cycles.migrations;
    assert_eq!(cycles.total, causes, "{design}");
    assert_eq!(run.walks.reads, run.walks.served_by.total(), "{design}");
    assert!(run.tlb.l2_misses <= run.tlb.l1_misses, "{design}");
    assert!(run.tlb.l1_misses <= run.tlb.lookups, "{design}");
    if !run.complete {
        // It ended within an access.
        return;
    }
    assert_eq!(run.caches.data.total(), lines(steps), "{design}");
    let counter = |name: &str| run.tlb_counters.get(name).copied().unwrap_or(0);
    if design != "ideal" {
        // A fault walks again.
        let found = counter("block_hits") + counter("prefetches_useful");
        let walks = run.tlb.l2_misses - found + run.os.faults;
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
        assert_eq!(hits + walks, run.walks.count, "{design}");
        let places = ["in_l2", "in_llc", "in_memory"];
        let read = places.map(|place| counter(&format!("sets_read_{place}")));
        let read: u64 = read.iter().sum();
        // A store may find an entry of a page that it may not write.
        assert!((hits + walks..=2 * (hits + walks)).contains(&read));
        assert!(counter("sets_read_past_caches") <= counter("sets_read_in_memory"));
        assert!(counter("sets_written") <= walks);
    }
    assert!(counter("data_lines_late") <= counter("data_guesses_right"));
    if run.caches.prefetches.is_none() {
        let guessed = counter("lines_fetched_from_memory");
        let from_memory = run.caches.data.dram + run.walks.served_by.dram + guessed;
        assert_eq!(run.dram.reads, from_memory, "{design}");
    }
}

fn text(run: &RunResult) -> String {
    serde_json::to_string(run).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn batches_change_nothing(
        steps in steps(),
        machine in machine(),
        cores in 1u32..4,
        length in 2usize..700,
    ) {
        let machine = MachineConfig { cores, ..machine };
        for design in Design::all().map(Design::name) {
            let Some(whole) = run(&machine, &design, &steps, length) else {
                continue;
            };
            adds_up(&whole, &steps);
            let single = run(&machine, &design, &steps, 1).unwrap();
            prop_assert!(text(&whole) == text(&single), "{}", design);
        }
    }

    #[test]
    fn workers_change_nothing(steps in steps(), machine in machine(), count in 2u64..9) {
        let stream = Held(steps);
        for design in Design::all().filter(|d| !d.looks_into_caches()) {
            let design = design.name();
            let Some(whole) = run(&machine, &design, &stream.0, 100) else {
                continue;
            };
            let cut = |workers| {
                let go_on = &mut |_| ControlFlow::Continue(());
                simulate_in_pieces(&machine, &design, &stream, workers, Some(count), go_on).unwrap()
            };
            let one = cut(1);
            adds_up(&one, &stream.0);
            prop_assert!(text(&one) == text(&cut(3)), "{}", design);
            prop_assert_eq!(&one.stopped, &whole.stopped, "{}", design);
            prop_assert_eq!(&one.os, &whole.os, "{}", design);
            prop_assert_eq!(
                (one.instructions, one.accesses, one.stores, one.cycles.zeroing),
                (whole.instructions, whole.accesses, whole.stores, whole.cycles.zeroing),
                "{}", design
            );
        }
    }
}

/// A process number that no address space can have is not another's.
#[test]
fn a_process_that_cannot_be_is_refused() {
    let machine = MachineConfig::load("dpt-paper", &[]).unwrap();
    let load = |process| (process, crate::common::load(BASE, 0, 0));
    let steps = [(1, map(BASE, 4096)), load(1), load(1 + (1 << 16))];
    let refused = run(&machine, "radix", &steps, 10).unwrap();
    let why = refused.stopped.unwrap_or_default();
    assert!(why.contains("processes 0 to 65535"), "{why}");
    assert_eq!(refused.accesses, 1);
}
