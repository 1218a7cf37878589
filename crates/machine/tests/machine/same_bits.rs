//! The same input gives the same bits, however it is cut into batches and whatever else runs.
//!
//! Batches of one access are the plain sequential order: translate, look the caches up, keep
//! time, then the next. So this is also the check that chunks change nothing.

use crate::common::{BASE, Cut, Event, map, run, small_machine};
use pagelab_events::{Access, Advice, Control, Op};
use pagelab_machine::{
    CoherenceConfig, Design, FilledPages, OthersConfig, PrefetchConfig, WalksEnter,
};
use proptest::prelude::*;

/// A mapping of 40 MiB, accesses all over it (some straddling lines and pages), and calls that
/// change it.
pub fn events() -> impl Strategy<Value = Vec<Event>> {
    let pages = 10 * 1024u64;
    let access = (
        prop_oneof![0..pages * 4096, 0..64u64 * 4096],
        any::<bool>(),
        prop_oneof![Just(8u16), Just(1), Just(64), Just(300), Just(0)],
        0u32..12,
        0u32..6,
    )
        .prop_map(|(offset, store, size, gap, dep)| {
            let op = if size == 0 {
                Op::PREFETCH
            } else if store {
                Op::store(size)
            } else {
                Op::load(size)
            };
            Event::Access(Access {
                addr: BASE + offset,
                op,
                gap,
                dep,
            })
        });
    let range = (0..pages, 1..2000u64);
    let control = range.prop_flat_map(|(first, pages)| {
        let (addr, len) = (BASE + first * 4096, pages * 4096);
        prop_oneof![
            Just(Control::Unmap { addr, len }),
            Just(Control::Advise {
                addr,
                len,
                advice: Advice::DontNeed
            }),
            Just(Control::Thread { thread: 1 }),
            Just(Control::Thread { thread: 0 }),
        ]
    });
    let event = prop_oneof![60 => access, 1 => control.prop_map(Event::Control)];
    proptest::collection::vec(event, 200..1200).prop_map(move |mut events| {
        events.insert(0, map(BASE, pages * 4096));
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cutting_into_batches_changes_nothing(
        events in events(),
        length in 2usize..700,
        cores in 1u32..4,
        policy in prop_oneof![
            Just(pagelab_os::PagePolicy::BASE),
            Just(pagelab_os::PagePolicy::THP)
        ],
        walks_enter in prop_oneof![Just(WalksEnter::L1), Just(WalksEnter::L2)],
        coherent in any::<bool>(),
        busy in proptest::option::of(proptest::option::of(0.05..0.9f64)),
        at_once in 1u32..9,
        within in 1u32..64,
        crosses_pages in any::<bool>(),
        others in proptest::option::of(0.1..20.0f64),
        filled in prop_oneof![Just(FilledPages::Memory), Just(FilledPages::L2), Just(FilledPages::Llc)],
    ) {
        let mut config = small_machine();
        config.cores = cores;
        config.memory.page_policy = policy;
        config.caches.walks_enter = walks_enter;
        config.caches.filled_pages = filled;
        config.caches.coherence = coherent.then_some(CoherenceConfig {
            transfer_cycles: 75,
            invalidate_cycles: 60,
            turn: 0,
        });
        config.caches.prefetch = busy.map(|busy| PrefetchConfig {
            adjacent: true,
            streams: 8,
            ahead: 10,
            within,
            at_once,
            crosses_pages,
            busy,
            ..PrefetchConfig::NONE
        });
        config.caches.others = others.map(|gigabytes_per_second| OthersConfig {
            gigabytes_per_second,
        });
        // Designs that look into caches go without coherence.
        let coherent = config.caches.coherence.is_some() && cores > 1;
        for design in Design::all().filter(|d| !(coherent && d.looks_into_caches())) {
            let whole = run(&config, &design.name(), &mut Cut::new(&events, length));
            let single = run(&config, &design.name(), &mut Cut::new(&events, 1));
            prop_assert_eq!(
                serde_json::to_string(&whole).unwrap(),
                serde_json::to_string(&single).unwrap()
            );
        }
    }
}

/// A chunk of long accesses asks more of the second level than its prefetchers can wait for answers
/// to: each has up to 257 lines.
#[test]
fn long_accesses_are_the_same_in_batches_of_any_length() {
    let mut config = small_machine();
    config.caches.prefetch = Some(PrefetchConfig {
        adjacent: true,
        busy: Some(0.3),
        ..PrefetchConfig::NONE
    });
    let mut events = vec![map(BASE, 1 << 24)];
    for round in 0..400u64 {
        // Some that miss everywhere, and as many of what the second level has.
        let block = if round / 20 % 2 == 0 { round } else { 0 };
        events.push(Event::Access(Access {
            addr: BASE + block * 12_288,
            op: Op::load(8_000),
            gap: 3,
            dep: 0,
        }));
    }
    let cut = |length| {
        let result = run(&config, "radix", &mut Cut::new(&events, length));
        serde_json::to_string(&result).unwrap()
    };
    let single = cut(1);
    for length in [7, 100, 1000] {
        assert!(cut(length) == single, "batches of {length}");
    }
}

#[test]
fn runs_side_by_side_do_not_disturb_each_other() {
    let config = small_machine();
    let events: Vec<Event> = std::iter::once(map(BASE, 1 << 24))
        .chain((0..20_000u64).map(|i| {
            let offset = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            crate::common::load(BASE + offset, 3, 0)
        }))
        .collect();
    let one = |design: &str| {
        serde_json::to_string(&run(&config, design, &mut Cut::new(&events, 100))).unwrap()
    };
    let alone = one("dpt");
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| one("dpt"))).collect();
        for run in runs {
            assert_eq!(run.join().unwrap(), alone);
        }
    });
}
