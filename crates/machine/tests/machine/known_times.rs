//! Runs whose time can be worked out by hand from the machine's latencies.

use crate::common::{BASE, Cut, Event, close, load, machine, map, run, store};
use pagelab_events::{Access, Batch, Control, Mispredicted, Op, Source, SourceError};
use pagelab_machine::MachineConfig;

/// A chain of dependent loads over `pages` pages, one line each, round and round; cycles per load
/// over the last half, when everything that fits is in.
fn chain(config: &MachineConfig, design: &str, pages: u64) -> f64 {
    let loads = 20_000u64;
    let event = |i: u64| {
        let page = i % pages;
        // Spread over the sets of every level, also where frames follow each other as pages do.
        let line = (page + page / 128) % 64;
        load(BASE + page * 4096 + line * 64, 0, 1)
    };
    let cycles = |loads: u64| {
        let mut events: Vec<Event> = vec![map(BASE, pages * 4096)];
        events.extend((0..loads).map(event));
        run(config, design, &mut Cut::new(&events, 500))
            .cycles
            .elapsed
    };
    (cycles(2 * loads) - cycles(loads)) as f64 / loads as f64
}

#[test]
fn a_chain_within_reach_of_everything_costs_the_first_level() {
    close(chain(&machine(&[]), "radix", 32), 4.0);
    close(chain(&machine(&[]), "ideal", 32), 4.0);
}

#[test]
fn past_the_first_tlb_each_load_pays_the_second() {
    // 256 pages in turn always miss a first-level TLB of 64. Four lines for each of the 64 places
    // in a page fit a four-way cache, whatever their frames.
    close(chain(&machine(&[]), "radix", 256), 4.0 + 8.0);
    close(chain(&machine(&[]), "ideal", 256), 4.0);
}

#[test]
fn past_the_second_tlb_each_load_pays_a_walk() {
    // 8,192 lines of data, 512 KiB, and 64 KiB of entries, used in turn: the last level has them
    // all, the first two, made small, none by the time they are used again.
    let radix = chain(&machine(&["caches.l2.kib=64"]), "radix", 8192);
    // Every PTE line serves eight pages in a row: one read in eight comes from the last level
    // (36 cycles), seven from the first (4). The entries of the PMD level are in their walk cache
    // for 512 pages, then read once. 2 cycles for the walk cache, 8 for the TLB, 36 for the data.
    let walk = 8.0 + 2.0 + (36.0 + 7.0 * 4.0) / 8.0;
    close(radix, walk + 36.0);
    close(chain(&machine(&["caches.l2.kib=64"]), "ideal", 8192), 36.0);
}

/// A chain over random lines of 8,000 pages, of whose elements fields are read in order: cycles an
/// element. The first field, at 0, is the pointer to the next element.
fn fields(config: &MachineConfig, fields: &[u64]) -> f64 {
    let elements = 20_000u64;
    let mut random = 1u64;
    let mut events: Vec<Event> = vec![map(BASE, 8000 * 4096)];
    let pointer = fields.iter().position(|&field| field == 0).unwrap() as u32;
    for element in 0..elements {
        // Knuth's generator (MMIX).
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let line = BASE + (random >> 33) % (8000 * 64) * 64;
        for (number, field) in (0..).zip(fields) {
            // The last element's pointer: so many accesses back.
            let back = number + fields.len() as u32 - pointer;
            let dep = if element == 0 { 0 } else { back };
            events.push(load(line + field, 0, dep));
        }
    }
    let result = run(config, "radix", &mut Cut::new(&events, 500));
    result.cycles.elapsed as f64 / elements as f64
}

/// A line under way is not there yet: whichever field is read first, the pointer is had when its
/// line has come.
#[test]
fn a_line_under_way_is_had_when_it_arrives() {
    let machine = machine(&[]);
    let pointer = fields(&machine, &[0]);
    // A walk that misses the second-level TLB, then memory: 156 cycles for the line alone.
    assert!(pointer > 160.0, "{pointer}");
    close(fields(&machine, &[8, 0]), pointer);
    close(fields(&machine, &[0, 8]), pointer);
    close(fields(&machine, &[8, 16, 0, 24]), pointer);
}

/// Two loads from lines of one page, new to the TLB: the second has its translation when the walk
/// ends that the first began.
#[test]
fn a_walk_under_way_serves_whoever_waits_for_it() {
    let config = machine(&["caches.l2.kib=64"]);
    // As a chain over 8,192 pages in turn (see above), but a page's line is asked for by two loads
    // at once, and the next page waits for the second of them.
    let loads = 20_000u64;
    let cycles = |pages: u64| {
        let mut events: Vec<Event> = vec![map(BASE, 8192 * 4096)];
        for i in 0..pages {
            let page = i % 8192;
            let line = (page + page / 128) % 64;
            let at = BASE + page * 4096;
            events.push(load(at + line * 64, 0, 1));
            events.push(load(at + (line + 32) % 64 * 64, 0, 2));
        }
        run(&config, "radix", &mut Cut::new(&events, 500))
            .cycles
            .elapsed
    };
    let walk = 8.0 + 2.0 + (36.0 + 7.0 * 4.0) / 8.0;
    close(
        (cycles(2 * loads) - cycles(loads)) as f64 / loads as f64,
        walk + 36.0,
    );
}

/// A batch that comes once.
struct Once(Option<Batch>);

impl Source for Once {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let next = self.0.take();
        let more = next.is_some();
        *batch = next.unwrap_or_default();
        Ok(more)
    }
}

/// Two loads a round that hit, and a branch after the first of them that nobody foresees.
#[test]
fn what_follows_a_mispredicted_branch_waits_until_it_is_decided() {
    let cycles = |rounds: u64, waits: Mispredicted, misprediction: &str| {
        let mut batch = Batch::default();
        batch.push_control(Control::Thread { thread: 0 });
        for round in 0..rounds {
            for half in [0, 1] {
                if half == 1 && round > 0 {
                    batch.push_mispredicted(waits);
                }
                batch.push(Access {
                    addr: BASE + 64 * half,
                    op: Op::load(8),
                    ..Access::default()
                });
            }
        }
        let config = machine(&[misprediction, "caches.l1.cycles=4"]);
        run(&config, "radix", &mut Once(Some(batch))).cycles
    };
    let a_round = |branch, misprediction: &str| {
        let [long, short] = [2000, 1000].map(|rounds| cycles(rounds, branch, misprediction));
        let mispredictions = long.causes.mispredictions - short.causes.mispredictions;
        let elapsed = long.elapsed - short.elapsed;
        (elapsed as f64 / 1000.0, mispredictions as f64 / 1000.0)
    };
    let loaded = Mispredicted {
        dep: 1,
        ..Mispredicted::default()
    };
    // Four instructions a cycle; 4 cycles for the load, then 20 until the second load and the next
    // round's first are dispatched, a slot each. The second load's own slot of the 20 is no wait.
    let (elapsed, mispredictions) = a_round(loaded, "core.misprediction=20");
    close(elapsed, 4.0 + 20.0 + 0.5);
    close(mispredictions, 20.0 - 0.25);
    // The load is not waited for.
    let at_once = Mispredicted::default();
    close(a_round(at_once, "core.misprediction=20").0, 20.0 + 0.5);
    close(a_round(loaded, "core.misprediction=0").0, 0.5);
    // Nine more after it, one by one.
    let ten = Mispredicted { more: 9, ..loaded };
    let (elapsed, mispredictions) = a_round(ten, "core.misprediction=20");
    close(elapsed, 4.0 + 10.0 * 20.0 + 0.5);
    close(mispredictions, 10.0 * 20.0 - 0.25);
    // All of it is executed again after each branch, so that it gains nothing to have been executed.
    let joins = Mispredicted {
        reconverges: true,
        ..loaded
    };
    close(a_round(joins, "core.misprediction=20").0, 4.0 + 20.0 + 0.5);
    close(a_round(joins, "core.misprediction=0").0, 0.5);
}

/// Loads from the last level, and after each a branch that nobody foresees, which waits for it.
#[test]
fn what_is_loaded_on_a_wrong_path_that_joins_the_right_one_is_there_afterwards() {
    let cycles = |rounds: u64, reconverges: bool| {
        let mut batch = Batch::default();
        batch.push_control(Control::Thread { thread: 0 });
        for round in 0..rounds {
            if round > 0 {
                batch.push_mispredicted(Mispredicted {
                    dep: 1,
                    reconverges,
                    more: 0,
                });
            }
            // As the chain over 8,192 pages.
            let page = round % 8192;
            batch.push(Access {
                addr: BASE + page * 4096 + (page + page / 128) % 64 * 64,
                op: Op::load(8),
                ..Access::default()
            });
        }
        let config = machine(&["caches.l2.kib=64", "core.misprediction=20"]);
        let elapsed = run(&config, "ideal", &mut Once(Some(batch))).cycles.elapsed;
        elapsed as f64
    };
    let a_round =
        |reconverges| (cycles(40_000, reconverges) - cycles(20_000, reconverges)) / 20_000.0;
    // 36 cycles for the load, 20 for the branch, and the slot of the next load.
    close(a_round(false), 36.0 + 20.0 + 0.25);
    // While one branch is decided, many of the loads behind it start; when it is their turn they have
    // come, and hit: 4 cycles.
    close(a_round(true), 4.0 + 20.0 + 0.25);
}

/// A stream from outside may have a branch that waits for loads before the first access.
#[test]
fn a_branch_on_a_wrong_path_may_wait_for_what_was_never_recorded() {
    let elapsed = |dep| {
        let mut batch = Batch::default();
        batch.push_control(Control::Thread { thread: 0 });
        for (place, waits) in [(0, None), (64, Some(1)), (128, Some(dep)), (192, None)] {
            if let Some(dep) = waits {
                batch.push_mispredicted(Mispredicted {
                    dep,
                    reconverges: true,
                    more: 0,
                });
            }
            batch.push(Access {
                addr: BASE + place,
                op: Op::load(8),
                ..Access::default()
            });
        }
        let config = machine(&["core.misprediction=20"]);
        run(&config, "ideal", &mut Once(Some(batch))).cycles.elapsed
    };
    assert_eq!(elapsed(900), elapsed(0));
}

#[test]
fn independent_loads_are_bound_by_bandwidth() {
    let config = machine(&[
        "dram.gigabytes_per_second=1.0",
        "core.miss_buffers=64",
        "core.reorder_buffer=512",
    ]);
    // Each line once, over 64 MiB: nothing is in a cache. 64 bytes at 1 GB/s are 170.24 cycles
    // of 2.66 GHz; the latency of 45 ns hides behind 64 lines under way.
    let lines = 1u64 << 20;
    let mut events = vec![map(BASE, lines * 64)];
    events.extend((0..lines).map(|i| load(BASE + i * 64, 0, 0)));
    let result = run(&config, "ideal", &mut Cut::new(&events, 4096));
    close(result.cycles.elapsed as f64 / lines as f64, 64.0 * 2.66);
}

/// By Little's law: a line is under way from when the second level has missed it, after 16 cycles, to when
/// memory has it, after 36 and 45 ns of 2.66 GHz.
#[test]
fn what_one_core_reads_is_bound_by_second_level_misses_under_way() {
    let under_way = 36.0 + 45.0 * 2.66 - 16.0;
    // Streams fetch so far ahead that few first-level misses at a time are enough.
    let streams = "caches.prefetch={ adjacent = false, streams = 32, ahead = 63, at_once = 4, \
                   crosses_pages = true }";
    // Twice what the last level has, so that a second time nothing is in a cache, and no fault.
    let lines = 1u64 << 18;
    let once = || (0..lines).map(|i| load(BASE + i * 64, 0, 0));
    for (buffers, keys) in [
        (8, vec!["core.miss_buffers=64"]),
        (8, vec!["core.miss_buffers=6", streams]),
        (24, vec!["core.miss_buffers=6", streams]),
    ] {
        let of_second_level = format!("core.l2_miss_buffers={buffers}");
        let mut all = vec![
            "dram.gigabytes_per_second=1000.0",
            "core.reorder_buffer=512",
            &of_second_level,
        ];
        all.extend(keys);
        let config = machine(&all);
        let cycles = |times| {
            let mut events = vec![map(BASE, lines * 64)];
            events.extend((0..times).flat_map(|_| once()));
            run(&config, "ideal", &mut Cut::new(&events, 4096))
                .cycles
                .elapsed
        };
        let a_line = (cycles(2) - cycles(1)) as f64 / lines as f64;
        close(a_line, under_way / f64::from(buffers));
    }
}

/// As [`independent_loads_are_bound_by_bandwidth`], with stores: each line is read, by the store or
/// ahead of it, and written back when another needs its place in the last level.
#[test]
fn lines_written_back_take_bandwidth_where_the_machine_says_so() {
    let ahead = "caches.prefetch={ adjacent = true, streams = 0, ahead = 0 }";
    let none = "dram.write_backs=false";
    let taken = "dram.write_backs=true";
    for (keys, lines_moved) in [
        (vec![none], 1.0),
        (vec![taken], 2.0),
        (vec![none, ahead], 1.0),
        (vec![taken, ahead], 2.0),
    ] {
        let mut all = vec![
            "dram.gigabytes_per_second=1.0",
            "core.miss_buffers=64",
            "core.store_buffer=256",
            "core.reorder_buffer=512",
        ];
        all.extend(keys);
        let config = machine(&all);
        let cycles = |lines: u64| {
            let mut events = vec![map(BASE, lines * 64)];
            events.extend((0..lines).map(|i| store(BASE + i * 64)));
            run(&config, "ideal", &mut Cut::new(&events, 4096))
                .cycles
                .elapsed
        };
        // The last level has the first 131,072 lines, which leave while later ones come.
        let lines = 1u64 << 19;
        close(
            (cycles(2 * lines) - cycles(lines)) as f64 / lines as f64,
            lines_moved * 64.0 * 2.66,
        );
    }
}

/// A chain over lines that no cache has: all in one row of a bank, or each in another one.
#[test]
fn open_rows_answer_sooner_and_others_later() {
    let chain = |rows: &str| {
        let mut keys = vec!["caches.llc.kib=512", "caches.l2.kib=64"];
        let rows = format!("dram.rows={rows}");
        if rows != "dram.rows=" {
            keys.push(&rows);
        }
        chain(&machine(&keys), "ideal", 16384)
    };
    let cycles = |ns: f64| 36.0 + (ns * 2.66).round();
    close(chain(""), cycles(45.0));
    let times = "activate_ns = 14.0, precharge_ns = 13.0";
    let one = format!("{{ banks = 1, row_bytes = 2147483648, {times} }}");
    close(chain(&one), cycles(45.0 - 14.0));
    let each = format!("{{ banks = 1, row_bytes = 4096, {times} }}");
    close(chain(&each), cycles(45.0 + 13.0));
}

/// A bank serves one access at a time, by the timings of DDR4-2666 (JESD79-4; in clocks of 0.75 ns
/// DRAMsim3 has the same in configs/DDR4_8Gb_x8_2666.ini).
#[test]
fn banks_that_are_busy_hold_others_up() {
    let took = |banks: u32, stride: u64, dependent: u32| {
        let rows = format!(
            "dram.rows={{ banks = {banks}, row_bytes = {}, activate_ns = 14.25, \
             precharge_ns = 14.25, busy = {{ interleave = {banks}, column_ns = 5.25, \
             read_ns = 7.5, open_ns = 32.25 }} }}",
            4096 / banks
        );
        let config = machine(&[
            "caches.llc.kib=512",
            "caches.l2.kib=64",
            "core.miss_buffers=64",
            "core.reorder_buffer=512",
            "dram.gigabytes_per_second=10000.0",
            rows.as_str(),
        ]);
        let lines = 1u64 << 15;
        let rounds = |rounds: u64| {
            let mut events = vec![map(BASE, lines * stride)];
            let event = |i: u64| load(BASE + i % lines * stride, 0, dependent);
            events.extend((0..rounds * lines).map(event));
            let result = run(&config, "ideal", &mut Cut::new(&events, 4096));
            let banks = result.dram.banks.unwrap();
            let counts = [banks.row_hits, banks.row_conflicts, banks.busy_cycles];
            (result.cycles.elapsed, counts)
        };
        // The second round, in which no page faults.
        let (first, both) = (rounds(1), rounds(2));
        let counts: [u64; 3] = std::array::from_fn(|i| both.1[i] - first.1[i]);
        ((both.0 - first.0) as f64 / lines as f64, counts)
    };
    // One bank, a row each: tRC is between them, tRAS and tRP.
    let (cycles, [hits, conflicts, _]) = took(1, 4096, 0);
    close(cycles, (32.25 + 14.25) * 2.66);
    assert_eq!((hits, conflicts), (0, 1 << 15));
    // Every line of each row: tCCD_L apart, and a conflict each 64, whose row was open for long:
    // PRE tRTP after the last read, then tRP and tRCD.
    let (cycles, [_, conflicts, _]) = took(1, 64, 0);
    close(cycles, (63.0 * 5.25 + 7.5 + 14.25 + 14.25) / 64.0 * 2.66);
    assert_eq!(conflicts, (1 << 15) / 64);
    // Two banks, line by line in turn, with half of each row.
    let halves = (31.0 * 5.25 + 7.5 + 14.25 + 14.25) / 32.0 * 2.66;
    close(took(2, 64, 0).0, halves / 2.0);
    // One access at a time finds no bank busy: it waits for the row alone.
    let (cycles, [.., busy]) = took(1, 4096, 1);
    close(cycles, 36.0 + (45.0 + 14.25) * 2.66);
    assert_eq!(busy, 0);
}

/// Cycles a line of a chain over all lines of some pages in turn, which no cache has any more.
fn lines_in_turn(prefetch: &str) -> f64 {
    let mut keys = vec![
        "caches.llc.kib=512",
        "caches.l2.kib=64",
        // So that lines asked for together come together.
        "dram.gigabytes_per_second=100000.0",
    ];
    let prefetch = format!("caches.prefetch={prefetch}");
    if prefetch != "caches.prefetch=" {
        keys.push(&prefetch);
    }
    let config = machine(&keys);
    let lines = 512 * 64u64;
    let cycles = |rounds: u64| {
        let mut events = vec![map(BASE, lines * 64)];
        events.extend((0..rounds * lines).map(|i| load(BASE + i % lines * 64, 0, 1)));
        run(&config, "ideal", &mut Cut::new(&events, 500))
            .cycles
            .elapsed
    };
    (cycles(2) - cycles(1)) as f64 / lines as f64
}

#[test]
fn prefetched_lines_come_from_the_second_level_or_when_they_arrive() {
    let memory = 36.0 + (45.0f64 * 2.66).round();
    close(lines_in_turn(""), memory);
    // Every other line comes with the one before it.
    let adjacent = "{ adjacent = true, streams = 0, ahead = 0 }";
    close(lines_in_turn(adjacent), (memory + 16.0) / 2.0);
    // A page's third line has the next one fetched, which comes with it and has the next one
    // fetched: 16 cycles later that is asked for and still under way. So they take turns, 31 and
    // 30 of them.
    let stream = "{ adjacent = false, streams = 4, ahead = 1 }";
    let page = 3.0 * memory + 31.0 * 16.0 + 30.0 * (memory - 16.0);
    close(lines_in_turn(stream), page / 64.0);
}

#[test]
fn memory_that_runs_out_ends_the_run_and_names_footprint_and_limit() {
    let config = machine(&["memory.memory_bytes=67108864", "memory.utilisation=0.5"]);
    let mut events = vec![map(BASE, 1 << 27)];
    events.extend((0..1u64 << 15).map(|page| load(BASE + page * 4096, 0, 0)));
    for design in [
        "radix",
        "flattened",
        "clustered",
        "ecpt",
        "me_hpt",
        "dpt",
        "ideal",
    ] {
        let result = run(&config, design, &mut Cut::new(&events, 100));
        assert!(!result.complete);
        let stopped = result.stopped.unwrap();
        assert!(stopped.contains("of 64 MiB"), "{stopped}");
        // Accesses simulated up to there still count, and no frame was used twice.
        assert!(result.accesses > 7000, "{}", result.accesses);
        assert!(result.os.resident_bytes <= 32 << 20);
    }
}

/// Lines are asked for whose neighbours are not, and then the neighbours of the last of them: they
/// are in the second level, unless that was busy with misses when they were fetched.
#[test]
fn what_a_busy_second_level_has_fetched_ahead_stays_in_the_last() {
    let served = |prefetch: &str| {
        let config = machine(&[prefetch]);
        let pair = |i: u64| BASE + i * 11 * 128;
        let first = (0..3000).map(|i| load(pair(i), 0, 0));
        let neighbours = (2000..3000).map(|i| load(pair(i) + 64, 0, 0));
        let mut events = vec![map(BASE, 64 << 20)];
        events.extend(first.chain(neighbours));
        let data = run(&config, "ideal", &mut Cut::new(&events, 700))
            .caches
            .data;
        (data.l2, data.llc, data.dram)
    };
    let adjacent = "adjacent = true, streams = 0, ahead = 0";
    let ahead = |busy: &str| format!("caches.prefetch={{ {adjacent}{busy} }}");
    assert_eq!(served(&ahead("")), (1000, 0, 3000));
    assert_eq!(served(&ahead(", busy = 0.5")), (0, 1000, 3000));
}

/// A line is fetched to complete an aligned two only for one that comes into the second level. Lines
/// that are there, and stay in use, do not keep their neighbours there: four in each set of eight
/// ways and their neighbours are all that there is room for, and then two more with theirs.
#[test]
fn what_is_in_the_second_level_has_no_neighbour_fetched() {
    let config = machine(&[
        "caches.prefetch={ adjacent = true, streams = 0, ahead = 0 }",
        "caches.l2.kib=256",
        "caches.l2.ways=8",
        "memory.page_policy=thp",
        "memory.utilisation=0.0",
    ]);
    // One line of each two, so that all sets have as many.
    let lap = |first: u64, lines: u64| {
        (first..first + lines).map(|i| load(BASE + i * 128 + (i + i / 256) % 2 * 64, 0, 0))
    };
    let served = |laps: u64| {
        let mut events = vec![map(BASE, 4 << 20)];
        events.extend(lap(0, 2048).chain(lap(0, 2048)));
        for _ in 0..laps {
            events.extend(lap(2048, 1024).chain(lap(0, 2048)));
        }
        run(&config, "ideal", &mut Cut::new(&events, 700))
            .caches
            .data
            .l2
    };
    assert_eq!(served(3) - served(2), 3072);
}

/// Loads that memory serves, each decides a branch, and each branch is before a store that faults: as long
/// as nothing overlaps the time in the kernel, all of it counts, and what the branch costs comes on top.
#[test]
fn a_fault_waits_until_the_wrong_path_has_been_left() {
    let rounds = 200;
    let cycles = |mispredicted: Option<bool>| {
        let mut batch = Batch::default();
        batch.push_control(Control::Thread { thread: 0 });
        for round in 0..rounds {
            let load = Access {
                addr: BASE + round * 64,
                op: Op::load(8),
                ..Access::default()
            };
            let store = Access {
                addr: BASE + (1 << 30) + round * 4096,
                op: Op::store(8),
                ..Access::default()
            };
            batch.push(load);
            if let Some(reconverges) = mispredicted {
                let dep = 1;
                batch.push_mispredicted(Mispredicted {
                    dep,
                    reconverges,
                    more: 0,
                });
            }
            batch.push(store);
        }
        let keys = ["core.misprediction=300", "cost.fault_ns=1000.0"];
        let keys = keys.map(str::to_owned);
        let config = MachineConfig::load("dpt-paper", &keys).unwrap();
        run(&config, "ideal", &mut Once(Some(batch))).cycles
    };
    let [foreseen, straight, joins] = [None, Some(false), Some(true)].map(cycles);
    let kernel = |cycles: pagelab_machine::Cycles| cycles.causes.faults + cycles.causes.zeroing;
    assert_eq!(kernel(straight), kernel(foreseen));
    assert_eq!(kernel(joins), kernel(foreseen));
    // The load of the next line has been made, but not what the fault takes.
    let least = foreseen.elapsed + (300 - 1) * rounds;
    assert!(joins.elapsed > least, "{} cycles, {least}", joins.elapsed);
    assert!(joins.elapsed <= straight.elapsed);
}

/// Two threads of one core with a chain each, in turns of so many loads: each waits for its own last load.
#[test]
fn threads_that_share_a_core_wait_for_their_own_loads() {
    let config = machine(&["caches.l2.kib=64"]);
    let a_load = |turn: u64| {
        let cycles = |loads: u64| {
            let mut batch = Batch::default();
            for round in 0..loads / (2 * turn) {
                for thread in 0..2 {
                    let number = thread as u32;
                    batch.push_control(Control::Thread { thread: number });
                    for i in round * turn..(round + 1) * turn {
                        // As the chain over 8,192 pages, each thread another half of them.
                        let page = thread * 4096 + i % 4096;
                        batch.push(Access {
                            addr: BASE + page * 4096 + (page + page / 128) % 64 * 64,
                            op: Op::load(8),
                            gap: 0,
                            dep: 1,
                        });
                    }
                }
            }
            let result = run(&config, "ideal", &mut Once(Some(batch)));
            result.cycles.elapsed
        };
        (cycles(64_000) - cycles(32_000)) as f64 / 32_000.0
    };
    // Both chains have a load under way at a time, each from the last level.
    for turn in [1, 2, 16] {
        close(a_load(turn), 36.0 / 2.0);
    }
}
