//! Allocation of virtual memory: figure 8 of the paper, and PTE pooling.

use super::*;
use PageSize::{Base4K, Large2M};

const VPN: u64 = 0x7_ffff_7800;

fn cva() -> DptConfig {
    DptConfig {
        max_cva_count: 4,
        ..bare()
    }
}

#[test]
fn a_small_allocation_gets_its_pages_of_entries_at_once() {
    let mut bench = Bench::new(&cva());
    bench.reserve(VPN, 1024, Base4K);
    assert_eq!(bench.table.counters().pte_pages, 2);
    assert_eq!(bench.work.relocated, 0);
    // Another in the same regions needs none.
    bench.reserve(VPN + 5, 3, Base4K);
    assert_eq!(bench.table.counters().pte_pages, 2);
    let limit = bench.table.organisation.config.max_cva_mib << 8;
    bench.reserve(VPN + (1 << 30), limit + 1, Base4K);
    assert_eq!(bench.table.counters().pte_pages, 2);
    bench.reserve(VPN + (1 << 30), limit, Base4K);
    assert_eq!(bench.table.counters().pte_pages, 2 + limit / 512);
    // Without CVA there is no reason to place them early.
    let mut bench = Bench::new(&bare());
    bench.reserve(VPN, 1024, Base4K);
    assert_eq!(bench.table.counters().pte_pages, 0);
}

#[test]
fn figure_8_a_collision_is_avoided_by_another_address() {
    let mut bench = Bench::new(&cva());
    let (first, second) = (bench.hashed(VPN, 0), bench.hashed(VPN + 512, 0));
    bench.occupy([second], true);
    bench.reserve(VPN, 1024, Base4K);
    assert_eq!(bench.work.relocated, 2, "the allocation moves as a whole");
    assert!(bench.work.displaced.is_empty());
    // The program goes on with its own addresses.
    let pfn = bench.map(VPN + 3, Base4K).unwrap();
    let other = bench.map(VPN + 512, Base4K).unwrap();
    assert_eq!(bench.lookup(VPN + 3), Some(pfn));
    assert_eq!(bench.lookup(VPN + 512), Some(other));
    assert_eq!(bench.table.counters().pte_pages, 2);
    let frame = bench.pte_frame(VPN + 3);
    assert!(frame != first && frame != second);
    let counters = bench.table.counters();
    assert_eq!((counters.cva_searches, counters.cva_successes), (1, 1));
    assert_eq!(counters.cva_regions, 2);
    promise(&bench.table, &bench.frames);
}

#[test]
fn regions_that_have_their_page_of_entries_do_not_move() {
    let mut bench = Bench::new(&cva());
    bench.map(VPN, Base4K).unwrap();
    let frame = bench.pte_frame(VPN);
    let second = bench.hashed(VPN + 512, 0);
    bench.occupy([second], true);
    bench.reserve(VPN + 1, 1024, Base4K);
    assert_eq!(bench.work.relocated, 2, "of three regions");
    assert_eq!(bench.pte_frame(VPN), frame);
}

#[test]
fn when_no_other_address_is_better_the_page_in_the_way_moves() {
    let mut bench = Bench::new(&DptConfig { cpd: true, ..cva() });
    // All of memory is in use, but for some frames that no hash will name.
    let free: Vec<u32> = (0..200).collect();
    for frame in (0..FRAMES).filter(|frame| !free.contains(frame)) {
        bench.frames.occupy(Pfn(frame), Base4K, true);
    }
    bench.reserve(VPN, 512, Base4K);
    let counters = bench.table.counters();
    assert_eq!((counters.cva_attempts, counters.cva_successes), (4, 0));
    assert_eq!(counters.cpd_moves, [1, 0, 0]);
    assert_eq!(bench.pte_frame(VPN), bench.hashed(VPN, 0));
}

#[test]
fn large_pages_move_too() {
    let mut bench = Bench::new(&cva());
    let seed = bench.table.organisation.layout.seed(ASID, Large2M);
    let base = super::super::placement::base_frame(VPN >> 18, seed, FRAMES);
    bench.occupy([Pfn(base)], true);
    bench.reserve(VPN, 1024, Large2M);
    assert_eq!(bench.work.relocated, 2);
    let pfn = bench.map(VPN + 512, Large2M).unwrap();
    assert_eq!(bench.lookup(VPN + 512 + 9), Some(Pfn(pfn.0 + 9)));
    assert_eq!(bench.table.counters().pte_pages, 1);
    promise(&bench.table, &bench.frames);
}

#[test]
fn a_released_address_is_its_own_again() {
    let mut bench = Bench::new(&cva());
    let base = bench.hashed(VPN, 0);
    bench.occupy([base], true);
    bench.reserve(VPN, 512, Base4K);
    assert_eq!(bench.work.relocated, 1);
    let page = bench.page(VPN);
    bench.table.release(&mut bench.frames, page, 512);
    assert_eq!(bench.frames.table_bytes(), 0);
    bench.frames.free_data(base);
    bench.map(VPN, Base4K).unwrap();
    assert_eq!(bench.pte_frame(VPN), base);
}

#[test]
fn addresses_given_out_do_not_meet_recorded_ones() {
    // A trace may name any of 2^52 pages, also where relocated regions go.
    let mut bench = Bench::new(&cva());
    let base = bench.hashed(VPN, 0);
    bench.occupy([base], true);
    bench.reserve(VPN, 512, Base4K);
    assert_eq!(bench.work.relocated, 1);
    let ours = bench.map(VPN, Base4K).unwrap();
    for n in 0..4 {
        let vpn = (1 << (55 - 12)) + (n << 18);
        let pfn = bench.map(vpn, Base4K).unwrap();
        assert_eq!(bench.lookup(vpn), Some(pfn));
    }
    assert_eq!(bench.lookup(VPN), Some(ours));
    promise(&bench.table, &bench.frames);
}

#[test]
fn a_pool_serves_allocations_without_placing_anything() {
    let mut bench = Bench::new(&DptConfig {
        ptp_mib: 16,
        ..bare()
    });
    bench.reserve(VPN, 512, Base4K);
    assert_eq!(bench.table.counters().ptp_pages, 8);
    assert_eq!(bench.table.counters().pte_pages, 8);
    bench.reserve(VPN + 512, 7 * 512, Base4K);
    assert_eq!(bench.table.counters().ptp_regions, 8);
    for region in 0..8 {
        bench.map(VPN + region * 512, Base4K).unwrap();
    }
    assert_eq!(bench.table.counters().pte_pages, 8);
    // The pool is used up.
    bench.reserve(VPN + 8 * 512, 512, Base4K);
    bench.map(VPN + 8 * 512, Base4K).unwrap();
    assert_eq!(bench.table.counters().pte_pages, 9);
    // A region that comes back serves again.
    bench.unmap(VPN, Base4K);
    let page = bench.page(VPN);
    bench.table.release(&mut bench.frames, page, 512);
    assert_eq!(bench.table.counters().pte_pages, 9);
    bench.reserve(VPN + (1 << 20), 512, Base4K);
    bench.map(VPN + (1 << 20), Base4K).unwrap();
    assert_eq!(bench.table.counters().pte_pages, 9);
    promise(&bench.table, &bench.frames);
}

#[test]
fn a_region_that_moved_after_it_had_a_page_for_large_entries_loses_it_too() {
    let mut bench = Bench::new(&DptConfig {
        ptp_mib: 8,
        ..bare()
    });
    bench.map(VPN, Large2M).unwrap();
    bench.unmap(VPN, Large2M);
    bench.reserve(VPN, 1, Base4K);
    assert_eq!(bench.table.counters().ptp_regions, 1);
    let page = bench.page(VPN);
    bench.table.release(&mut bench.frames, page, 512);
    assert_eq!(bench.frames.table_bytes(), 0);
}
