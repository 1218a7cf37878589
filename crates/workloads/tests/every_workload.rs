//! Promises of every workload, whichever program it follows.

use pagelab_events::{Access, Batch, Control, Op, Source};
use pagelab_workloads::{ALL, Workload};
use std::collections::HashSet;

/// Small instances of all workloads: a few hundred thousand accesses each.
const SMALL: &[(&str, &[(&str, &str)])] = &[
    ("bc", &[("footprint", "8MiB"), ("sources", "2")]),
    ("bfs", &[("footprint", "8MiB")]),
    ("cc", &[("footprint", "8MiB")]),
    ("gc", &[("footprint", "8MiB")]),
    ("pr", &[("footprint", "8MiB"), ("iterations", "2")]),
    ("tc", &[("footprint", "8MiB")]),
    ("sssp", &[("footprint", "8MiB")]),
    (
        "kmer",
        &[
            ("footprint", "8MiB"),
            ("genome", "20000"),
            ("coverage", "2"),
        ],
    ),
    (
        "random-updates",
        &[("footprint", "8MiB"), ("updates", "100000")],
    ),
    ("xsbench", &[("footprint", "8MiB"), ("lookups", "500")]),
    ("dlrm", &[("footprint", "8MiB"), ("batches", "1")]),
    ("stream", &[("footprint", "1MiB"), ("iterations", "1")]),
    ("kv", &[("footprint", "8MiB"), ("operations", "2000")]),
    ("pointer-chase", &[("pages", "2048"), ("loads", "50000")]),
];

fn start(workload: &Workload, more: &[(&str, &str)]) -> Box<dyn Source + Send> {
    let (_, small) = SMALL
        .iter()
        .find(|(name, _)| *name == workload.name)
        .unwrap_or_else(|| panic!("no small instance of {}", workload.name));
    let parameters: Vec<(String, String)> = small
        .iter()
        .chain(more)
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    workload.start(&parameters).unwrap()
}

/// All batches but empty ones, which only say that a program is running.
fn batches(workload: &Workload, more: &[(&str, &str)]) -> Vec<Batch> {
    let mut source = start(workload, more);
    let mut all = Vec::new();
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).unwrap() {
        if !batch.is_empty() {
            all.push(batch.clone());
        }
    }
    assert!(batch.is_empty());
    all
}

fn controls(batches: &[Batch]) -> impl Iterator<Item = Control> {
    batches
        .iter()
        .flat_map(|b| b.controls.iter().map(|(_, control)| *control))
}

fn accesses(batches: &[Batch]) -> Vec<Access> {
    let rows = |batch: &Batch| {
        (0..batch.len())
            .map(|at| batch.access(at))
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(rows).collect()
}

/// The windows of a stream: accesses left out before each, and its own.
fn windows(batches: &[Batch]) -> Vec<(u64, Vec<Access>)> {
    let mut windows: Vec<(u64, Vec<Access>)> = Vec::new();
    for batch in batches {
        for &(at, control) in &batch.controls {
            if let Control::Skipped { accesses, .. } = control {
                assert_eq!(at, 0);
                windows.push((accesses, Vec::new()));
            }
        }
        if let Some((_, window)) = windows.last_mut() {
            window.extend((0..batch.len()).map(|at| batch.access(at)));
        }
    }
    windows
}

#[test]
fn the_same_parameters_give_the_same_events_and_another_seed_gives_others() {
    for workload in ALL {
        let events = batches(workload, &[]);
        assert!(events == batches(workload, &[]), "{}", workload.name);
        // There is nothing random in this one.
        if workload.name != "stream" {
            let others = batches(workload, &[("seed", "2")]);
            assert!(events != others, "{}", workload.name);
        }
    }
}

#[test]
fn memory_is_populated_before_the_first_access_and_holds_every_access() {
    for workload in ALL {
        let batches = batches(workload, &[]);
        let mut mapped = Vec::new();
        for control in controls(&batches) {
            if let Control::Map {
                addr,
                len,
                populate,
                ..
            } = control
            {
                assert!(populate);
                assert!(
                    mapped
                        .iter()
                        .all(|&(from, to)| addr + len <= from || to <= addr)
                );
                mapped.push((addr, addr + len));
            }
        }
        assert!(batches[0].controls.len() == mapped.len() && batches[0].addr.is_empty());
        for access in accesses(&batches) {
            let (from, to) = (access.addr, access.addr + u64::from(access.op.size()));
            assert!(
                mapped
                    .iter()
                    .any(|&(start, end)| start <= from && to <= end),
                "{}: {access:?}",
                workload.name
            );
        }
        assert_eq!(controls(&batches).last(), Some(Control::Exit { status: 0 }));
    }
}

/// First byte and length of every mapping.
fn mappings(batches: &[Batch]) -> Vec<(u64, u64)> {
    let map = |control| match control {
        Control::Map { addr, len, .. } => Some((addr, len)),
        _ => None,
    };
    controls(batches).filter_map(map).collect()
}

/// Regions so far apart have entries of the second level of the page table in lines of 64 bytes
/// (which map 2^24 bytes) or tables (2^30) of their own.
#[test]
fn a_sparse_program_is_the_same_one_with_each_2_mib_elsewhere() {
    for (sparsity, own) in [(8, 24), (9, 24), (513, 30)] {
        for workload in ALL {
            let dense = batches(workload, &[]);
            let sparse = batches(workload, &[("sparsity", &sparsity.to_string())]);
            same_but_moved(&dense, &sparse, sparsity, own, workload.name);
        }
    }
}

fn same_but_moved(dense: &[Batch], sparse: &[Batch], sparsity: u64, own: u32, name: &str) {
    let moved = |addr: u64| {
        let offset = addr - 0x7000_0000_0000;
        0x1000_0000_0000 + offset + (sparsity - 1) * (offset >> 21 << 21)
    };
    let pages = |batches: &[Batch]| -> Vec<u64> {
        let pages = |(addr, len): (u64, u64)| (addr..addr + len).step_by(4096);
        mappings(batches).into_iter().flat_map(pages).collect()
    };
    let expected: Vec<u64> = pages(dense).into_iter().map(moved).collect();
    assert_eq!(pages(sparse), expected, "{name}");
    let distinct = |shift: u32| {
        let places: HashSet<u64> = expected.iter().map(|addr| addr >> shift).collect();
        places.len()
    };
    assert_eq!(distinct(own), distinct(21), "{name}");

    let (dense, sparse) = (accesses(dense), accesses(sparse));
    assert_eq!(dense.len(), sparse.len());
    for (before, after) in dense.iter().zip(&sparse) {
        let addr = moved(before.addr);
        let size = u64::from(before.op.size()).min(0x20_0000 - addr % 0x20_0000) as u16;
        let op = if before.op.is_store() {
            Op::store(size)
        } else {
            Op::load(size)
        };
        assert_eq!(
            *after,
            Access {
                addr,
                op,
                ..*before
            },
            "{name}"
        );
    }
}

#[test]
fn memory_is_as_large_as_the_footprint_says() {
    for workload in ALL.iter().filter(|w| w.name != "pointer-chase") {
        let batches = batches(workload, &[]);
        let mapped: u64 = mappings(&batches).iter().map(|(_, len)| len).sum();
        let promised = if workload.name == "stream" {
            1 << 20
        } else {
            8 << 20
        };
        let share = mapped as f64 / f64::from(promised);
        assert!((0.94..1.06).contains(&share), "{}: {share}", workload.name);
    }
}

#[test]
fn an_address_depends_on_an_earlier_load_if_on_anything() {
    for workload in ALL {
        let accesses = accesses(&batches(workload, &[]));
        for (at, access) in accesses.iter().enumerate() {
            if let Some(back) = (access.dep as usize).checked_sub(1) {
                let made_by = at.checked_sub(back + 1).map(|place| accesses[place]);
                let good = made_by.is_some_and(|load| !load.op.is_store());
                assert!(good, "{}: {access:?} at {at}", workload.name);
            }
        }
    }
}

/// Kernels that go through pointers or indices that they have loaded.
#[test]
fn chains_of_loads_are_there_where_the_program_has_them() {
    for workload in ALL {
        let accesses = accesses(&batches(workload, &[]));
        let dependent = accesses.iter().filter(|access| access.dep > 0).count();
        let share = dependent as f64 / accesses.len() as f64;
        let expected = match workload.name {
            "stream" | "random-updates" => 0.0..=0.0,
            "pointer-chase" => 0.99..=1.0,
            "tc" => 0.9..=1.0,
            "kv" => 0.3..=0.9,
            _ => 0.5..=1.0,
        };
        assert!(expected.contains(&share), "{}: {share}", workload.name);
    }
}

#[test]
fn windows_are_parts_of_the_whole_program() {
    let sampled = [("windows", "5"), ("warm_up", "2000"), ("measured", "1500")];
    for workload in ALL {
        let whole = accesses(&batches(workload, &[("windows", "0")]));
        let windows = windows(&batches(workload, &sampled));
        assert_eq!(windows.len(), 5, "{}", workload.name);
        let mut at = 0;
        for (left_out, window) in windows {
            at += left_out as usize;
            assert_eq!(window.len(), 3500);
            for (place, access) in window.iter().enumerate() {
                let mut expected = whole[at + place];
                if expected.dep as usize > place {
                    expected.dep = 0;
                }
                assert_eq!(
                    *access,
                    expected,
                    "{}, access {}",
                    workload.name,
                    at + place
                );
            }
            at += window.len();
        }
        assert!(at <= whole.len());
    }
}

#[test]
fn what_is_left_out_is_counted_in_instructions_too() {
    for workload in ALL {
        let instructions = |parameters: &[(&str, &str)]| {
            let batches = batches(workload, parameters);
            let skipped = controls(&batches).map(|control| match control {
                Control::Skipped { instructions, .. } => instructions,
                _ => 0,
            });
            let made = accesses(&batches)
                .iter()
                .map(|a| u64::from(a.gap) + 1)
                .sum::<u64>();
            skipped.sum::<u64>() + made
        };
        let whole = instructions(&[("windows", "0")]);
        let one_window = [("windows", "1"), ("warm_up", "10"), ("measured", "30000")];
        // Nothing after the last window is run.
        let sampled = instructions(&one_window);
        assert!(sampled > 30_000 && sampled <= whole, "{}", workload.name);
    }
}

#[test]
fn a_source_can_be_dropped_at_any_time() {
    for workload in ALL {
        for read in [0, 1, 3] {
            for windows in ["0", "3"] {
                let more = [
                    ("windows", windows),
                    ("warm_up", "10"),
                    ("measured", "9000"),
                ];
                let mut source = start(workload, &more);
                let mut batch = Batch::default();
                for _ in 0..read {
                    source.next_batch(&mut batch).unwrap();
                }
                drop(source);
            }
        }
    }
}

#[test]
fn several_at_a_time_do_not_disturb_each_other() {
    let workload = Workload::find("bfs").unwrap();
    let alone: Vec<_> = ["1", "2"]
        .map(|seed| batches(workload, &[("seed", seed)]))
        .into();
    let mut sources = ["1", "2", "1", "2"].map(|seed| start(workload, &[("seed", seed)]));
    let mut streams: [Vec<Batch>; 4] = Default::default();
    loop {
        let mut ended = 0;
        for (source, stream) in sources.iter_mut().zip(&mut streams) {
            let mut batch = Batch::default();
            if source.next_batch(&mut batch).unwrap() {
                if !batch.is_empty() {
                    stream.push(batch);
                }
            } else {
                ended += 1;
            }
        }
        if ended == 4 {
            break;
        }
    }
    for (place, stream) in streams.iter().enumerate() {
        assert!(stream == &alone[place % 2], "stream {place}");
    }
}

#[test]
fn names_and_parameters_are_unique_and_described() {
    let names: HashSet<_> = ALL.iter().map(|workload| workload.name).collect();
    assert_eq!(names.len(), ALL.len());
    for workload in ALL {
        let all = workload.parameters.iter().chain(pagelab_workloads::COMMON);
        let keys: Vec<_> = all.clone().map(|parameter| parameter.name).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        for parameter in all {
            assert!((parameter.min..=parameter.max).contains(&parameter.default));
            assert!(!parameter.description.is_empty());
        }
    }
}
