//! Time to give memory back: entries of pages, and frames that are freed.

use crate::common::{BASE, Cut, Event, machine, map, run};
use pagelab_events::{Access, Control, Op};

/// A microsecond, in cycles of the machine.
const MICROSECOND: u64 = 2660;

/// Touches 512 pages, does what follows, and returns what the kernel took, in cycles.
fn kernel(policy: &str, op: Op, then: &[Control]) -> u64 {
    let mut events = vec![map(BASE, 2 << 20)];
    events.extend((0..512).map(|page| {
        Event::Access(Access {
            addr: BASE + page * 4096,
            op,
            ..Access::default()
        })
    }));
    events.extend(then.iter().map(|control| Event::Control(*control)));
    let policy = format!("memory.page_policy=\"{policy}\"");
    let config = machine(&[
        &policy,
        "cost.unmap_ns=1000.0",
        "cost.free_4k_ns=10.0",
        "cost.entry_ns=0.0",
        "memory.zero_page=true",
    ]);
    let result = run(&config, "radix", &mut Cut::new(&events, 64));
    assert_eq!(
        result.cycles.causes.zeroing + result.cycles.causes.migrations,
        0
    );
    result.cycles.causes.faults
}

fn unmap(pages: u64) -> Control {
    Control::Unmap {
        addr: BASE,
        len: pages * 4096,
    }
}

fn exit() -> Control {
    Control::Exit { status: 0 }
}

#[test]
fn a_small_page_is_an_entry_and_four_kibibytes() {
    let page = MICROSECOND + MICROSECOND / 100;
    // Each page's time is rounded to the clock.
    let near = |found: u64, expected: u64| found.abs_diff(expected) <= 512;
    assert_eq!(kernel("base", Op::store(8), &[]), 0);
    assert!(near(
        kernel("base", Op::store(8), &[unmap(512)]),
        512 * page
    ));
    assert!(near(
        kernel("base", Op::store(8), &[unmap(100)]),
        100 * page
    ));
    assert!(near(kernel("base", Op::store(8), &[exit()]), 512 * page));
    // Memory that was given back is not given back again.
    let both = [unmap(512), exit()];
    assert!(near(kernel("base", Op::store(8), &both), 512 * page));
}

#[test]
fn a_huge_page_is_one_entry() {
    let found = kernel("thp", Op::store(8), &[exit()]);
    let expected = MICROSECOND + 512 * MICROSECOND / 100;
    assert!(found.abs_diff(expected) <= 512, "{found}, {expected}");
}

#[test]
fn pages_of_zeros_are_nobodys_to_give_back() {
    assert_eq!(kernel("base", Op::load(8), &[unmap(512), exit()]), 0);
}

#[test]
fn who_shares_pages_gives_back_no_memory() {
    let fork = Control::Fork { child: 1 };
    let once = kernel("base", Op::store(8), &[exit()]);
    let first = kernel("base", Op::store(8), &[fork, exit()]);
    assert!(first.abs_diff(512 * MICROSECOND) <= 512);
    assert!(once > first + 512 * 20);
}
