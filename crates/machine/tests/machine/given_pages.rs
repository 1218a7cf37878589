//! Time to give pages their data, beside the fault itself.

use crate::common::{BASE, Cut, Event, machine, run};
use pagelab_events::{Access, Backing, Control, Op, Protection};

/// A microsecond, in cycles of the machine.
const MICROSECOND: u64 = 2660;

/// Pages that are touched one after the other.
const PAGES: u64 = 512;

/// Touches all pages in each of some ways, and returns what the kernel took, in microseconds.
fn kernel(policy: &str, backing: Backing, touches: &[Op], fork: bool) -> u64 {
    let mut events = vec![Event::Control(Control::Map {
        addr: BASE,
        len: PAGES * 4096,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing,
        populate: false,
    })];
    for (at, &op) in touches.iter().enumerate() {
        if fork && at == 1 {
            events.push(Event::Control(Control::Fork { child: 1 }));
        }
        events.extend((0..PAGES).map(|page| {
            Event::Access(Access {
                addr: BASE + page * 4096,
                op,
                ..Access::default()
            })
        }));
    }
    let config = machine(&[
        &format!("memory.page_policy=\"{policy}\""),
        "memory.zero_page=true",
        "cost.give_ns=1000.0",
        "cost.copy_4k_ns=0.0",
        "cost.entry_ns=0.0",
    ]);
    let result = run(&config, "radix", &mut Cut::new(&events, 64));
    let cycles = result.cycles.causes.faults;
    // The core hides a little of each.
    (cycles + MICROSECOND / 2) / MICROSECOND
}

#[test]
fn a_page_or_folio_of_any_size_is_given_once() {
    let (load, store) = (Op::load(8), Op::store(8));
    let anonymous = Backing::Anonymous;
    assert_eq!(kernel("base", anonymous, &[store], false), PAGES);
    assert_eq!(kernel("base", anonymous, &[store, store], false), PAGES);
    assert_eq!(kernel("thp", anonymous, &[store], false), 1);
    let folio = kernel("64K", anonymous, &[store], false);
    assert_eq!(folio, PAGES / 16);
    // A fault maps 16 pages of a file, and is given one.
    let file = kernel("base", Backing::PrivateFile, &[load], false);
    assert_eq!(file, PAGES / 16);
}

#[test]
fn the_page_of_zeros_is_not_given_but_what_replaces_it_is() {
    let (load, store) = (Op::load(8), Op::store(8));
    for policy in ["base", "thp"] {
        assert_eq!(kernel(policy, Backing::Anonymous, &[load], false), 0);
    }
    let replaced = kernel("base", Backing::Anonymous, &[load, store], false);
    assert_eq!(replaced, PAGES);
    let replaced = kernel("thp", Backing::Anonymous, &[load, store], false);
    assert_eq!(replaced, 1);
}

/// The cost of copying has all that a copy takes.
#[test]
fn copies_are_not_given() {
    let stores = [Op::store(8); 2];
    assert_eq!(kernel("base", Backing::Anonymous, &stores, true), PAGES);
}
