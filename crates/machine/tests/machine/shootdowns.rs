//! Cost of other cores' dropping translations.

use crate::common::{BASE, Cut, Event, load, map, run};
use pagelab_events::{Access, Control, Op, Protection};
use pagelab_machine::MachineConfig;

const PAGES: u64 = 16;

/// Two threads touch the same pages, on as many cores; then what `calls` says.
fn faults(cores: u32, shootdowns: &str, calls: &[Event]) -> u64 {
    let mut keys = vec![
        format!("cores={cores}"),
        format!("cost.shootdowns={shootdowns}"),
        "cost.shootdown_ns=1000.0".to_owned(),
    ];
    for key in [
        "fault",
        "zero_4k",
        "copy_4k",
        "table_page",
        "probe",
        "entry",
    ] {
        keys.push(format!("cost.{key}_ns=0.0"));
    }
    let config = MachineConfig::load("dpt-paper", &keys).unwrap();
    let mut events = vec![map(BASE, PAGES * 4096)];
    for thread in 0..2 {
        events.push(Event::Control(Control::Thread { thread }));
        events.extend((0..PAGES).map(|page| load(BASE + page * 4096, 0, 0)));
    }
    events.extend_from_slice(calls);
    events.push(load(BASE + PAGES * 4096, 0, 0));
    let result = run(&config, "radix", &mut Cut::new(&events, 100));
    assert_eq!(result.cycles.causes.migrations, 0);
    result.cycles.causes.faults
}

fn store(page: u64) -> Event {
    Event::Access(Access {
        addr: BASE + page * 4096,
        op: Op::store(8),
        gap: 0,
        dep: 0,
    })
}

fn protect(prot: u8) -> Event {
    Event::Control(Control::Protect {
        addr: BASE,
        len: PAGES * 4096,
        prot: Protection(prot),
    })
}

#[test]
fn calls_that_take_something_away_wait_for_other_cores() {
    const ONE: u64 = 2660;
    let unmap = Event::Control(Control::Unmap {
        addr: BASE,
        len: 8 * 4096,
    });
    let read_only = protect(Protection::READ);
    let writable = protect(Protection::READ | Protection::WRITE);
    let fork = Event::Control(Control::Fork { child: 1 });
    for (calls, shootdowns) in [
        (vec![], 0),
        (vec![unmap.clone()], 1),
        // There is nothing any more that could be dropped.
        (vec![unmap.clone(), unmap], 1),
        (vec![read_only.clone()], 1),
        // A right that is given again needs nobody's attention.
        (vec![read_only, writable], 1),
        // The copies that stores after a fork make replace what others may read.
        (vec![fork.clone()], 1),
        (vec![fork, store(0), store(1), store(0)], 3),
    ] {
        assert_eq!(faults(2, "all", &calls), shootdowns * ONE, "{calls:?}");
        assert_eq!(faults(1, "all", &calls), 0, "{calls:?}");
        assert_eq!(faults(2, "migrations", &calls), 0, "{calls:?}");
    }
}
