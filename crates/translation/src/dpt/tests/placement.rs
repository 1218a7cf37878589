//! Figures 5 to 9 and 12 of the paper, by hand.

use super::*;
use PageSize::{Base4K, Large2M};

/// Addresses of the tests: a program's, not too near 0.
const VPN: u64 = 0x5_5555_5400;

/// Every frame that SOA tries for the hash of `vpn`, from stride 1 on, with the default steps.
fn reach(bench: &Bench, vpn: u64) -> Vec<Pfn> {
    let strides = [1, 512, 512 * 512];
    let steps = strides.iter().flat_map(|s| (1..=4).map(move |n| s * n));
    let mut frames: Vec<Pfn> = [0]
        .into_iter()
        .chain(steps)
        .map(|o| bench.hashed(vpn, o))
        .collect();
    // 4 times 256K frames are the whole memory of the test: back at the hash.
    assert_eq!(frames.pop(), Some(frames[0]));
    frames
}

#[test]
fn the_hash_of_tag_and_process_names_the_frame_and_nine_bits_the_entry() {
    let mut bench = Bench::new(&bare());
    let pfn = bench.map(VPN + 77, Base4K).unwrap();
    let base = bench.hashed(VPN, 0);
    let pte = PhysAddr(base.address().0 + 77 * 8);
    assert_eq!(bench.walk(VPN + 77).last().unwrap(), &[pte]);
    assert_eq!(bench.lookup(VPN + 77), Some(pfn));
    // The neighbours share the page; another process has its own.
    bench.map(VPN + 78, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN + 78), base);
    assert_eq!(bench.table.counters().pte_pages, 1);
    let other = Asid(5);
    let id = bench.directory.page(other, Vpn(VPN)).unwrap();
    let page = Page {
        id,
        asid: other,
        vpn: Vpn(VPN),
    };
    let translation = Translation {
        pfn,
        size: Base4K,
        writable: false,
    };
    bench
        .table
        .map(&mut bench.frames, page, translation, &mut bench.work)
        .unwrap();
    assert_eq!(bench.table.counters().pte_pages, 2);
}

#[test]
fn without_any_technique_a_collision_leads_anywhere_and_two_reads_further() {
    let mut bench = Bench::new(&bare());
    let base = bench.hashed(VPN, 0);
    bench.map(VPN + 512, Base4K).unwrap();
    bench.walk(VPN + 512);
    let plain = bench.walk(VPN + 512).len();
    bench.occupy([base], true);
    bench.map(VPN, Base4K).unwrap();
    let frame = bench.pte_frame(VPN);
    assert_ne!(frame, base);
    assert_eq!(bench.table.counters().placed_anywhere, 1);
    // The folder, a line of slots.
    assert_eq!(bench.walk(VPN).len(), plain + 2);
    // Freed, it is no exception any more.
    bench.unmap(VPN, Base4K);
    let page = bench.page(VPN);
    bench.table.release(&mut bench.frames, page, 512);
    assert_eq!(bench.table.counters().pte_pages, 1);
}

/// As many exceptions as a table of one page holds, and more; each is found, also when others are
/// gone, and at last all memory is given back.
#[test]
fn exceptions_grow_and_are_given_back() {
    let config = bare();
    let mut bench = Bench::new(&config);
    let regions = 2000;
    let vpn = |region: u64| VPN + region * 512;
    let mut taken = std::collections::BTreeSet::new();
    for region in 0..regions {
        let base = bench.hashed(vpn(region), 0);
        if taken.insert(base) && bench.frames.usage(base) == FrameUse::Free {
            bench.occupy([base], false);
        }
        bench.map(vpn(region), Base4K).unwrap();
    }
    assert_eq!(bench.table.counters().placed_anywhere, regions);
    let mut frames = std::collections::BTreeSet::new();
    for region in 0..regions {
        assert!(frames.insert(bench.pte_frame(vpn(region))), "{region}");
    }
    promise(&bench.table, &bench.frames);
    for region in (0..regions).filter(|region| region % 3 > 0) {
        bench.unmap(vpn(region), Base4K);
        let page = bench.page(vpn(region));
        bench.table.release(&mut bench.frames, page, 512);
    }
    promise(&bench.table, &bench.frames);
    for region in (0..regions).filter(|region| region % 3 == 0) {
        bench.unmap(vpn(region), Base4K);
        let page = bench.page(vpn(region));
        bench.table.release(&mut bench.frames, page, 512);
    }
    assert_eq!(bench.table.counters().pte_pages, 0);
    assert_eq!(bench.table.counters().dmt_bytes, 0);
}

#[test]
fn figure_7_left_a_base_page_in_the_way_is_passed_in_steps_of_one_frame() {
    let mut bench = Bench::new(&DptConfig {
        max_soa_step: 4,
        ..bare()
    });
    bench.occupy([0, 1].map(|n| bench.hashed(VPN, n)), true);
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN), bench.hashed(VPN, 2));
    assert_eq!(bench.table.counters().soa_steps[0][2], 1);
    assert_eq!(bench.table.counters().collisions_with_data, 1);
    assert_eq!(bench.work.probes, 3);
}

#[test]
fn figure_7_right_a_large_page_in_the_way_is_passed_in_steps_of_a_large_page() {
    let mut bench = Bench::new(&DptConfig {
        max_soa_step: 4,
        ..bare()
    });
    let base = bench.hashed(VPN, 0);
    bench.frames.occupy(Pfn(base.0 & !511), Large2M, true);
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN), bench.hashed(VPN, 512));
    assert_eq!(bench.table.counters().soa_steps[1][1], 1);
    assert_eq!(bench.work.probes, 2);
}

#[test]
fn when_a_stride_is_used_up_the_next_larger_one_follows() {
    let config = DptConfig {
        max_soa_step: 4,
        ..bare()
    };
    for (taken, stride, step) in [(5, 1, 1), (9, 2, 1), (11, 2, 3)] {
        let mut bench = Bench::new(&config);
        let reach = reach(&bench, VPN);
        bench.occupy(reach[..taken].iter().copied(), false);
        bench.map(VPN, Base4K).unwrap();
        assert_eq!(bench.pte_frame(VPN), reach[taken]);
        assert_eq!(bench.table.counters().soa_steps[stride][step], 1);
    }
    let mut bench = Bench::new(&config);
    let reach = reach(&bench, VPN);
    bench.occupy(reach, true);
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.table.counters().placed_anywhere, 1);
}

#[test]
fn a_page_table_in_the_way_counts_as_a_collision_between_hashes() {
    let mut bench = Bench::new(&DptConfig {
        max_soa_step: 4,
        ..bare()
    });
    let base = bench.hashed(VPN, 0);
    assert!(bench.frames.claim_table(base));
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN), bench.hashed(VPN, 1));
    assert_eq!(bench.table.counters().collisions_with_tables, 1);
    assert_eq!(bench.table.counters().collisions_with_data, 0);
}

#[test]
fn figure_9_the_page_in_the_way_moves_and_its_entry_follows() {
    let mut bench = Bench::new(&DptConfig {
        cpd: true,
        ..bare()
    });
    let base = bench.hashed(VPN, 0);
    let victim = VPN + (1 << 20);
    bench.frames.occupy(base, Base4K, true);
    let owner = bench.page(victim).id;
    bench.frames.owners(base).push(owner);
    bench.map_to(victim, Base4K, base).unwrap();
    assert_eq!(bench.lookup(victim), Some(base));

    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN), base);
    let moved = &bench.work.displaced[..];
    assert_eq!((moved.len(), moved[0].from), (1, base));
    let to = moved[0].to;
    assert_eq!(bench.lookup(victim), Some(to));
    assert_eq!(bench.table.counters().cpd_moves, [1, 0, 0]);
}

#[test]
fn the_page_in_the_way_may_be_the_one_to_be_mapped() {
    let mut bench = Bench::new(&DptConfig {
        cpd: true,
        ..bare()
    });
    let base = bench.hashed(VPN, 0);
    bench.frames.occupy(base, Base4K, true);
    bench.map_to(VPN, Base4K, base).unwrap();
    let to = bench.work.displaced[0].to;
    assert_eq!(bench.lookup(VPN), Some(to));
    assert_eq!(bench.pte_frame(VPN), base);
}

#[test]
fn victims_are_movable_and_small_before_large() {
    let config = DptConfig {
        max_soa_step: 4,
        cpd: true,
        ..bare()
    };
    // Steps 1 to 4 of stride 1: pinned. Stride 512: a large page, then a base page.
    let mut bench = Bench::new(&config);
    let reach = reach(&bench, VPN);
    bench.occupy(reach[..5].iter().copied(), false);
    bench.frames.occupy(Pfn(reach[5].0 & !511), Large2M, true);
    bench.occupy([reach[6]], true);
    for frame in &reach[7..] {
        assert!(bench.frames.claim_table(*frame));
    }
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN), reach[6]);
    assert_eq!(bench.table.counters().cpd_moves, [1, 0, 0]);
    // The next in the same place must take the large page.
    let mut bench = Bench::new(&config);
    bench.occupy(reach[..5].iter().copied(), false);
    bench.frames.occupy(Pfn(reach[5].0 & !511), Large2M, true);
    bench.occupy(reach[6..].iter().copied(), false);
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN), reach[5]);
    assert_eq!(bench.table.counters().cpd_moves, [0, 1, 0]);
}

#[test]
fn figure_12_a_free_frame_in_a_fragmented_block_comes_first() {
    let config = DptConfig {
        max_soa_step: 4,
        fap: true,
        ..bare()
    };
    // The hash names a free frame of an unbroken block; the fourth block from there is broken.
    let mut bench = Bench::new(&config);
    let fourth = bench.hashed(VPN, 4 * 512);
    bench.occupy([Pfn(fourth.0 ^ 1)], false);
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN), fourth);
    assert_eq!(bench.table.counters().fap_hits, 1);
    assert_eq!(bench.table.counters().collisions_with_data, 0);
    // Without FAP the hash is good enough.
    let mut bench = Bench::new(&DptConfig {
        fap: false,
        ..config
    });
    bench.occupy([Pfn(fourth.0 ^ 1)], false);
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN), bench.hashed(VPN, 0));
}

#[test]
fn figure_12_the_last_resort_breaks_a_block_or_moves_a_page_as_configured() {
    for (prefer, moves) in [(Prefer::Performance, 0), (Prefer::Fragmentation, 1)] {
        let mut bench = Bench::new(&DptConfig {
            max_soa_step: 4,
            fap: true,
            cpd: true,
            prefer,
            ..bare()
        });
        // Nothing free lies in a broken block; one movable page is in reach.
        let large = bench.hashed(VPN, 512);
        bench.frames.occupy(Pfn(large.0 & !511), Large2M, true);
        bench.map(VPN, Base4K).unwrap();
        let frame = if moves == 0 {
            bench.hashed(VPN, 0)
        } else {
            large
        };
        assert_eq!(bench.pte_frame(VPN), frame);
        let counters = bench.table.counters();
        assert_eq!(counters.cpd_moves, [0, moves, 0]);
        assert_eq!(counters.fap_blocks_broken, 1 - moves);
    }
}

/// With every frame in use with probability u, a search of n frames fails with probability u^n.
#[test]
fn searches_fail_as_often_as_chance_says() {
    let config = DptConfig {
        max_soa_step: 4,
        ..bare()
    };
    let mut bench = Bench::new(&config);
    let mut random = 1u64;
    let used = (0..FRAMES).filter(|_| {
        // splitmix64, Steele, Lea, Flood 2014.
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 10 < 7
    });
    bench.occupy(used.map(Pfn).collect::<Vec<_>>(), true);
    let mut counters = DptCounters::default();
    let searches = 100_000;
    let failed = (0..searches).filter(|&tag| {
        let hashed = (tag, 1);
        let work = &mut Work::default();
        super::super::placement::search(&config, &bench.frames, hashed, &mut counters, work)
            .is_err()
    });
    // Thirteen frames, the last of which is the first again in 4 GiB.
    let chance: f64 = 0.7f64.powi(12);
    let expected = searches as f64 * chance;
    let deviation = (expected * (1.0 - chance)).sqrt();
    let failed = failed.count() as f64;
    assert!(
        (failed - expected).abs() < 4.0 * deviation,
        "{failed}, not {expected}"
    );
    let collisions = counters.collisions_with_data as f64;
    assert!(
        (collisions / searches as f64 - 0.7).abs() < 0.01,
        "{collisions}"
    );
}
