//! kswapd: when it works, and that programs then need not.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_os::KernelThread::Kswapd;
use pagelab_os::{OsConfig, PagePolicy, ReclaimConfig, ReclaimStatistics};
use proptest::prelude::*;
use support::{Machine, MapTable, Placement, config, map};

/// Frames of 16 MiB.
const FRAMES: u64 = 16 << 8;

fn machine(policy: PagePolicy, reclaim: ReclaimConfig) -> Machine<MapTable> {
    let config = OsConfig {
        reclaim: Some(reclaim),
        memory_bytes: FRAMES * PAGE_BYTES,
        ..config(policy, 0.0)
    };
    Machine::new(config, MapTable::new(Placement::None))
}

/// kswapd with marks at 200 pages, 400 and 600: the factor asks for 200.3 pages between them.
fn with_kswapd() -> ReclaimConfig {
    ReclaimConfig {
        kswapd: true,
        min_free_kbytes: Some(800),
        watermark_scale_factor: 489,
        ..ReclaimConfig::default()
    }
}

fn counts(machine: &Machine<MapTable>) -> ReclaimStatistics {
    let statistics = machine.os.statistics(&machine.table);
    statistics.reclaim.unwrap_or_default()
}

fn free(machine: &Machine<MapTable>) -> u64 {
    u64::from(machine.os.frames().buddy().free_frames())
}

/// Stores to pages in order, with so many steps of kswapd after each.
fn fill(machine: &mut Machine<MapTable>, pages: std::ops::Range<u64>, steps: u32) {
    for vpn in pages {
        machine.store(0, vpn, vpn + 1).unwrap();
        machine.os.wake(Kswapd);
        for _ in 0..steps {
            if machine.os.is_awake(Kswapd) {
                machine.work(Kswapd);
            }
        }
    }
}

#[test]
fn it_works_from_the_low_mark_to_the_high_one() {
    let mut machine = machine(PagePolicy::BASE, with_kswapd());
    map(&mut machine, 0, 0..2 * FRAMES);
    let before_low = FRAMES - 401;
    fill(&mut machine, 0..before_low, 1);
    assert_eq!(free(&machine), 401);
    assert_eq!(counts(&machine), ReclaimStatistics::default());
    machine.store(0, before_low, before_low + 1).unwrap();
    assert_eq!(free(&machine), 400);
    assert!(machine.os.wake(Kswapd));
    assert!(!machine.os.wake(Kswapd), "it is awake");
    // All pages were used since they came: the first look only clears accessed bits.
    machine.work(Kswapd);
    assert_eq!(free(&machine), 400);
    assert!(!machine.os.is_awake(Kswapd) && machine.os.wake(Kswapd));
    while machine.os.is_awake(Kswapd) {
        let before = free(&machine);
        assert!(before <= 600);
        machine.work(Kswapd);
        // A batch of 32 pages, or two where the first was not whole.
        assert!((32..64).contains(&(free(&machine) - before)));
    }
    let taken = free(&machine) - 400;
    assert!((201..264).contains(&taken));
    let counts = counts(&machine);
    let own = counts.kswapd.unwrap();
    assert_eq!((own.wakes, own.taken), (2, taken));
    assert!(own.scanned >= own.taken);
    assert_eq!((counts.reclaims, counts.scanned, counts.taken), (0, 0, 0));
    assert_eq!(counts.swapped_out, taken);
    machine.check();
    machine.check_contents();
}

/// The twin: kswapd frees 32 to 63 pages a step. A program waits where it stores to more than that meanwhile.
#[test]
fn a_program_waits_only_where_kswapd_is_too_slow() {
    for (pages_a_step, waits) in [(1, false), (16, false), (32, false), (100, true)] {
        let mut machine = machine(PagePolicy::BASE, with_kswapd());
        map(&mut machine, 0, 0..2 * FRAMES);
        let mut at = 0;
        while at < FRAMES + 1000 {
            fill(&mut machine, at..at + pages_a_step, 0);
            at += pages_a_step;
            if machine.os.is_awake(Kswapd) {
                machine.work(Kswapd);
            }
        }
        let counts = counts(&machine);
        assert_eq!(counts.reclaims > 0, waits, "{pages_a_step} pages a step");
        assert!(counts.kswapd.unwrap().taken > 0);
        assert!(free(&machine) >= 200);
    }
}

#[test]
fn a_limit_of_programs_is_none_of_its_business() {
    let mut machine = machine(
        PagePolicy::BASE,
        ReclaimConfig {
            max_bytes: Some(1000 * PAGE_BYTES),
            ..with_kswapd()
        },
    );
    map(&mut machine, 0, 0..2000);
    fill(&mut machine, 0..2000, 10);
    let counts = counts(&machine);
    assert!(counts.reclaims > 0);
    assert_eq!(counts.kswapd, None);
}

/// Without swap there is nothing to take: it gives up until a program finds something (`kswapd_failures`).
#[test]
fn it_gives_up_after_sixteen_failures() {
    let mut machine = machine(
        PagePolicy::BASE,
        ReclaimConfig {
            swap_bytes: Some(0),
            ..with_kswapd()
        },
    );
    map(&mut machine, 0, 0..2 * FRAMES);
    fill(&mut machine, 0..FRAMES - 300, 5);
    assert_eq!(counts(&machine).kswapd.unwrap().wakes, 16);
    assert!(!machine.os.wake(Kswapd));
}

/// `min_free_kbytes` by Linux's formula, and the factor where it is more than a quarter of that.
#[test]
fn marks_follow_the_size_of_the_memory() {
    // 16 MiB: the root of 16 * 16,384 KiB is 512 KiB, 128 pages; 32 pages more, or 30 % of 4,096.
    for (factor, low) in [(10, 128 + 32), (3000, 128 + 1228)] {
        let mut machine = machine(
            PagePolicy::BASE,
            ReclaimConfig {
                kswapd: true,
                watermark_scale_factor: factor,
                ..ReclaimConfig::default()
            },
        );
        map(&mut machine, 0, 0..FRAMES);
        fill(&mut machine, 0..FRAMES - low - 1, 0);
        assert!(!machine.os.wake(Kswapd));
        machine.store(0, FRAMES - low, 1).unwrap();
        assert!(machine.os.is_awake(Kswapd) || machine.os.wake(Kswapd));
        assert_eq!(free(&machine), low);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whenever it works, programs find what they have stored.
    #[test]
    fn nothing_is_lost(
        policy in prop_oneof![
            Just(PagePolicy::BASE),
            Just(PagePolicy::THP),
        ],
        stores in proptest::collection::vec((0u64..1500, 0u32..4), 1..100),
    ) {
        let mut machine = machine(policy, with_kswapd());
        map(&mut machine, 0, 0..FRAMES + 512);
        // Little is left.
        fill(&mut machine, 1536..FRAMES - 100, 0);
        for (vpn, steps) in stores {
            fill(&mut machine, vpn..vpn + 1, steps);
        }
        machine.check();
        machine.check_contents();
        machine.check_end(0..1);
    }
}
