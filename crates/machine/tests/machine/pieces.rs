//! One stream in pieces, against the same in one piece.

use crate::common::{BASE, Event, Held, load, map, prefetch, run, small_machine, store};
use pagelab_events::{
    Advice, Batch, Control, Divisible, DivisibleTrace, Metadata, Source, SourceError, TraceReader,
    TraceWriter,
};
use pagelab_machine::{Design, MachineConfig, Progress, RunResult, simulate_in_pieces};
use pagelab_workloads::Workload;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::time::Duration;

fn given(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn pieces(
    config: &MachineConfig,
    design: &str,
    stream: &dyn Divisible,
    workers: usize,
    count: u64,
) -> RunResult {
    let progress = &mut |_: pagelab_machine::Progress| ControlFlow::Continue(());
    simulate_in_pieces(config, design, stream, workers, Some(count), progress).unwrap()
}

/// All that is in a result but how it was cut.
fn uncut(result: &RunResult) -> Value {
    let mut value = serde_json::to_value(result).unwrap();
    value.as_object_mut().unwrap().remove("pieces");
    value
}

/// Memory that is mapped bit by bit, used at random, copied after a fork, and given back.
fn faults() -> Held {
    let mut events = Vec::new();
    let mut random: u64 = 1;
    for round in 0..40u64 {
        events.push(map(BASE + (round << 21), 1 << 20));
        for _ in 0..1000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let place = (random >> 33) % ((round + 1) << 21);
            // Only the first half of each 2 MiB is mapped.
            let addr = BASE + (place & !(1 << 20));
            let mut event = load(addr & !7, 4, u32::from(random >> 60 == 0));
            if let Event::Access(access) = &mut event
                && random >> 62 == 1
            {
                access.op = pagelab_events::Op::store(8);
            }
            events.push(event);
            if random >> 60 == 9 {
                // Half of these are of memory that is not mapped.
                events.push(prefetch(BASE + place, 1, 0));
            }
        }
        if round % 8 == 5 {
            events.push(Event::Control(Control::Fork {
                child: round as u32 + 1,
            }));
        }
        if round % 6 == 3 {
            let (addr, len) = (BASE + ((round - 2) << 21), 1 << 19);
            events.push(Event::Control(Control::Unmap { addr, len }));
            events.push(map(addr, len));
        }
    }
    events.push(Event::Control(Control::Exit { status: 0 }));
    Held(events)
}

#[test]
fn any_number_of_workers_gives_the_same_bits() {
    let config = small_machine();
    let workload = Workload::find("random-updates").unwrap();
    let parameters = given("footprint=2MiB,updates=40000");
    let program = workload.divide(&parameters).unwrap().unwrap();
    for stream in [&*program as &dyn Divisible, &faults()] {
        let one = serde_json::to_value(pieces(&config, "radix", stream, 1, 7)).unwrap();
        assert_eq!(one["complete"], json!(true));
        for workers in [2, 3, 5] {
            let several = pieces(&config, "radix", stream, workers, 7);
            assert_eq!(serde_json::to_value(several).unwrap(), one, "{workers}");
        }
    }
}

/// A recording of the first so many accesses ends by saying that there were more.
#[test]
fn what_is_missing_at_either_end_is_in_nobodys_way() {
    let config = small_machine();
    let mut events = faults().0;
    let skipped = |instructions| {
        Event::Control(Control::Skipped {
            instructions,
            accesses: 5,
        })
    };
    events.insert(1, skipped(10));
    events.push(skipped(20));
    let stream = Held(events);
    let whole = run(&config, "radix", &mut *stream.interval(0, None).unwrap());
    let cut = pieces(&config, "radix", &stream, 2, 5);
    assert_eq!(cut.skipped_instructions, 30);
    assert_eq!(cut.skipped_instructions, whole.skipped_instructions);
    assert_eq!(cut.accesses, whole.accesses);
    assert_eq!(cut.warm_up_accesses, whole.warm_up_accesses);
    assert_eq!(cut.stopped, None);
}

#[test]
fn one_piece_is_the_run_itself() {
    let config = small_machine();
    let stream = faults();
    let whole = run(&config, "dpt", &mut *stream.interval(0, None).unwrap());
    let one = pieces(&config, "dpt", &stream, 2, 1);
    assert_eq!(uncut(&one), uncut(&whole));
}

/// Counts of the operating system and the page table, and physical memory, are the same in every
/// design; the run itself compares memory at each cut.
#[test]
fn memory_goes_on_exactly_in_every_design() {
    let mut config = small_machine();
    let stream = faults();
    let mut compared = 0;
    // A design that looks into caches is refused.
    for design in Design::all().filter(|d| !d.looks_into_caches()) {
        let design = design.name();
        // Places for hashed frames run out sooner.
        config.memory.utilisation = 0.1;
        let whole = run(&config, &design, &mut *stream.interval(0, None).unwrap());
        let cut = pieces(&config, &design, &stream, 2, 6);
        assert_eq!(cut.stopped, whole.stopped, "{design}");
        assert_eq!(cut.accesses, whole.accesses, "{design}");
        assert_eq!(cut.counts.stores, whole.counts.stores, "{design}");
        assert_eq!(cut.instructions, whole.instructions, "{design}");
        compared += u32::from(whole.complete);
        let (cut, whole) = (uncut(&cut), uncut(&whole));
        for part in ["os", "memory_map", "free_2m_blocks"] {
            assert_eq!(cut[part], whole[part], "{design}");
        }
        assert_eq!(
            cut["cycles"]["zeroing"], whole["cycles"]["zeroing"],
            "{design}"
        );
    }
    assert!(compared > 15, "{compared} designs came to the end");
}

/// Cycles and misses of workloads cut into eight are within 1 % of those of one piece: of the
/// decisions that warming is for, those that are often made.
#[test]
fn a_cut_changes_little() {
    let config = small_machine();
    for (name, parameters) in [
        ("random-updates", "footprint=8MiB,updates=200000"),
        ("pointer-chase", "pages=2000,loads=300000,windows=0"),
        ("bfs", "footprint=4MiB,windows=0"),
        ("stream", "footprint=2MiB,iterations=2,windows=0"),
        ("xsbench", "footprint=4MiB,lookups=4000,windows=0"),
    ] {
        let workload = Workload::find(name).unwrap();
        let parameters = given(parameters);
        let whole = run(&config, "radix", &mut *workload.start(&parameters).unwrap());
        let stream = workload.divide(&parameters).unwrap().unwrap();
        let cut = pieces(&config, "radix", &*stream, 2, 8);
        assert_eq!(cut.accesses, whole.accesses, "{name}");
        assert_eq!(cut.initialisation_cycles, whole.initialisation_cycles);
        let all = cut.accesses as f64;
        for (what, cut, whole) in [
            ("cycles", cut.cycles.total, whole.cycles.total),
            ("first TLB", cut.tlb.l1_misses, whole.tlb.l1_misses),
            ("walks", cut.walks.count, whole.walks.count),
            ("second level", cut.caches.data.l2, whole.caches.data.l2),
            ("last level", cut.caches.data.llc, whole.caches.data.llc),
            ("memory", cut.caches.data.dram, whole.caches.data.dram),
            ("walks' reads", cut.walks.reads, whole.walks.reads),
        ] {
            let (cut, whole) = (cut as f64, whole as f64);
            let off = (cut - whole).abs();
            assert!(
                off <= 0.01 * whole.max(0.01 * all),
                "{name}: {what}: {cut} and {whole}"
            );
        }
    }
}

/// Memory is taken, filled and given back in turns, with long loops over little between them.
fn given_back(give: impl Fn(u64, u64, u64) -> Control) -> Held {
    const LEN: u64 = 512 << 10;
    let mut events = vec![map(BASE, 4096)];
    for round in 1..=16 {
        let addr = BASE + (round << 21);
        events.push(map(addr, LEN));
        events.extend((0..LEN).step_by(64).map(|at| store(addr + at)));
        events.push(Event::Control(give(round, addr, LEN)));
        events.extend((0..60_000).map(|n| load(BASE + n % 512 * 8, 2, 0)));
    }
    Held(events)
}

/// Lines of pages that are no more are in the caches when their frames are used again.
#[test]
fn frames_that_are_used_again_are_cached() {
    let mut config = small_machine();
    config.caches.llc.kib = 2048;
    config.memory.fragmentation = 0.0;
    let unmap = |_, addr, len| Control::Unmap { addr, len };
    let give_up = |_, addr, len| Control::Advise {
        addr,
        len,
        advice: Advice::DontNeed,
    };
    let move_and_replace = |round, addr, len| match round % 2 {
        0 => Control::Unmap { addr, len },
        _ => Control::Remap {
            old_addr: addr,
            old_len: len,
            new_addr: BASE + (1 << 30),
            new_len: len,
        },
    };
    let streams = [
        given_back(unmap),
        given_back(give_up),
        given_back(move_and_replace),
    ];
    for stream in streams {
        let whole = run(&config, "radix", &mut *stream.interval(0, None).unwrap());
        let cut = pieces(&config, "radix", &stream, 2, 8);
        let [all, missed] = [whole.accesses, whole.caches.data.dram].map(|n| n as f64);
        // Most of what is filled was cached, or the test would say nothing.
        assert!(missed < 0.02 * all, "{missed} of {all}");
        let off = cut.caches.data.dram.abs_diff(whole.caches.data.dram) as f64;
        assert!(off < 0.01 * missed, "{} and {missed}", cut.caches.data.dram);
    }
}

/// A page that the kernel has filled in a fault is in the caches when it is used for the first time, and so is what
/// the second half of an access has used.
#[test]
fn lines_that_no_access_begins_in_are_cached() {
    // 200 of 512 pages that the last level has room for, filled longer ago than a warm-up goes back.
    let mut filled = vec![map(BASE, 64 << 20)];
    for page in 0..3000u64 {
        filled.push(store(BASE + (page << 12)));
        filled.push(load(BASE + (page.saturating_sub(200) << 12) + 2048, 3, 0));
        filled.extend((0..200).map(|_| load(BASE, 3, 0)));
    }
    // Each reaches into the line that a later one is of alone.
    let mut reached = vec![map(BASE, 64 << 20)];
    for number in 0..20_000u64 {
        reached.push(load(BASE + number * 128 + 60, 3, 0));
        reached.push(load(BASE + number.saturating_sub(5000) * 128 + 64, 3, 0));
    }
    let cases = [(filled, &["l2", "llc"][..]), (reached, &["memory"])];
    for (events, levels) in cases {
        let stream = Held(events);
        for level in levels {
            let mut config = small_machine();
            config.caches.llc.kib = 2048;
            config.memory.fragmentation = 0.0;
            config.caches.filled_pages = serde_json::from_value(json!(level)).unwrap();
            let whole = run(&config, "radix", &mut *stream.interval(0, None).unwrap());
            let cut = pieces(&config, "radix", &stream, 2, 8);
            let [whole, cut] = [whole, cut].map(|result| result.caches.data.dram);
            assert!(cut.abs_diff(whole) <= 8, "{cut} and {whole} with {level}");
        }
    }
}

/// Lines that others have brought into the last level by the time a piece begins are there, as far as its first
/// accesses say how much time has passed.
#[test]
fn others_have_used_the_last_level_before() {
    let mut events = vec![map(BASE, 64 << 20)];
    let mut random: u64 = 1;
    for _ in 0..40_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        events.push(load(BASE + (random >> 51 << 6), 3, 0));
        events.extend((0..60).map(|_| load(BASE, 3, 0)));
    }
    let stream = Held(events);
    let mut config = small_machine();
    config.caches.llc.kib = 2048;
    let given = json!({ "gigabytes_per_second": 5.0 });
    config.caches.others = serde_json::from_value(given).unwrap();
    let whole = run(&config, "radix", &mut *stream.interval(0, None).unwrap());
    let cut = pieces(&config, "radix", &stream, 2, 8);
    let [from, of] = [&cut, &whole].map(|result| result.caches.data.dram as f64);
    // Uses are found for the better part, and not all of them.
    assert!((10_000.0..30_000.0).contains(&of), "{of}");
    assert!((from - of).abs() < 0.1 * of, "{from} and {of}");
    let [from, of] = [cut, whole].map(|result| result.cycles.total as f64);
    assert!((from - of).abs() < 0.05 * of, "{from} and {of} cycles");
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let stream = faults();
    let refusal_of = |design: &str, config: &MachineConfig, stream: &dyn Divisible| {
        let progress = &mut |_: pagelab_machine::Progress| ControlFlow::Continue(());
        let result = simulate_in_pieces(config, design, stream, 2, Some(4), progress);
        result.map(|_| ()).unwrap_err().to_string()
    };
    let refusal =
        |config: &MachineConfig, stream: &dyn Divisible| refusal_of("radix", config, stream);
    assert!(refusal_of("victima", &small_machine(), &stream).contains("looks into caches"));
    let mut config = small_machine();
    config.cores = 2;
    assert!(refusal(&config, &stream).contains("several cores"));
    let tiers = "base = \"dpt-paper\"\nname = \"tiers\"\n[memory.manager]\nname = \"tiered\"\n\
                 [[memory.nodes]]\nbytes = 134217728\nlatency_ns = 90.0\n\
                 gigabytes_per_second = 25.6\n[[memory.nodes]]\nbytes = 134217728\n\
                 latency_ns = 180.0\ngigabytes_per_second = 17.0\n";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tiers.toml");
    std::fs::write(&file, tiers).unwrap();
    let config = MachineConfig::load(file.to_str().unwrap(), &[]).unwrap();
    assert!(refusal(&config, &stream).contains("memory manager"));
    let mut events = faults().0;
    let skipped = Control::Skipped {
        instructions: 10,
        accesses: 5,
    };
    events.insert(20_000, Event::Control(skipped));
    assert!(refusal(&small_machine(), &Held(events)).contains("leaves accesses out"));
}

/// A trace file with a chunk every thousand accesses.
fn recorded(stream: &Held) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::default()).unwrap();
    let mut source = stream.interval(0, None).unwrap();
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).unwrap() {
        if !batch
            .controls
            .iter()
            .any(|c| matches!(c, (0, Control::Thread { .. })))
        {
            batch.controls.insert(0, (0, Control::Thread { thread: 0 }));
        }
        writer.write(&batch).unwrap();
    }
    writer.finish().unwrap()
}

/// A long trace, as chunks are: no control event between the first and the last access.
fn plain(accesses: u64) -> Held {
    let mut events = vec![map(BASE, 1 << 24)];
    let at = |n: u64| BASE + ((n.wrapping_mul(0x9e37_79b9) % (1 << 24)) & !7);
    events.extend((0..accesses).map(|n| load(at(n), 2, 0)));
    Held(events)
}

#[test]
fn a_truncated_trace_ends_as_it_does_in_one_piece() {
    let config = small_machine();
    let bytes = recorded(&plain(1_000_000));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.trace");
    let check = |bytes: &[u8], says: &str, within: std::ops::Range<u64>| {
        std::fs::write(&path, bytes).unwrap();
        let whole = run(&config, "radix", &mut TraceReader::open(&path).unwrap());
        assert!(
            whole.stopped.as_ref().unwrap().contains(says),
            "{:?}",
            whole.stopped
        );
        assert!(within.contains(&whole.accesses), "{}", whole.accesses);
        let stream = DivisibleTrace::open(&path).unwrap().unwrap();
        for workers in [1, 3] {
            let cut = pieces(&config, "radix", &stream, workers, 5);
            assert_eq!(cut.stopped, whole.stopped);
            assert_eq!(cut.accesses, whole.accesses);
            assert_eq!(uncut(&cut)["os"], uncut(&whole)["os"]);
        }
    };
    // The end is missing: the error comes after the last whole chunk.
    check(
        &bytes[..bytes.len() / 2],
        "the file ends inside it",
        1..900_000,
    );
    // Damaged in the middle, which is in the third piece: the error comes before the last chunks.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    check(&damaged, "checksum", 400_000..600_000);
    // Nothing is wrong with it: the same as one piece to the end.
    std::fs::write(&path, &bytes).unwrap();
    let whole = run(&config, "radix", &mut TraceReader::open(&path).unwrap());
    let stream = DivisibleTrace::open(&path).unwrap().unwrap();
    let cut = pieces(&config, "radix", &stream, 2, 5);
    assert_eq!((cut.complete, cut.accesses), (true, whole.accesses));
    // Not while it grows.
    std::fs::write(&path, &bytes[..bytes.len() / 3]).unwrap();
    let error = stream.interval(5, None).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("changes while it is read"),
        "{error}"
    );
}

#[test]
fn memory_that_runs_out_ends_the_run_where_it_does_in_one_piece() {
    let mut config = small_machine();
    config.memory.utilisation = 0.97;
    config.memory.fragmentation = 0.0;
    let stream = plain(200_000);
    let whole = run(&config, "radix", &mut *stream.interval(0, None).unwrap());
    assert!(whole.out_of_memory);
    let cut = pieces(&config, "radix", &stream, 3, 40);
    assert!(cut.out_of_memory);
    assert_eq!(cut.stopped, whole.stopped);
    assert_eq!(uncut(&cut)["os"], uncut(&whole)["os"]);
}

/// A stream that takes its time.
struct Slow(Held);

struct Slowly<'a>(Box<dyn Source + Send + 'a>);

impl Source for Slowly<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        std::thread::sleep(Duration::from_millis(1));
        self.0.next_batch(batch)
    }
}

impl Divisible for Slow {
    fn accesses(&self) -> u64 {
        self.0.accesses()
    }

    fn interval(
        &self,
        from: u64,
        to: Option<u64>,
    ) -> Result<Box<dyn Source + Send + '_>, SourceError> {
        Ok(Box::new(Slowly(self.0.interval(from, to)?)))
    }
}

#[test]
fn a_run_that_is_stopped_holds_what_was_simulated() {
    let config = small_machine();
    let slow = Slow(plain(60_000));
    let mut last = None;
    let mut progress = |progress: Progress| {
        last = progress.pieces;
        match progress.pieces {
            Some(_) if progress.accesses > 0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    let result = simulate_in_pieces(&config, "radix", &slow, 2, Some(4), &mut progress).unwrap();
    assert_eq!(result.stopped.as_deref(), Some("interrupted"));
    assert!(!result.complete);
    assert!(
        (1..60_000).contains(&result.accesses),
        "{}",
        result.accesses
    );
    assert_eq!(last.map(|(_, pieces)| pieces), Some(4));
}
