//! Level in which the kernel leaves the lines of a page that it fills in a fault.

use crate::common::{BASE, Cut, Event, load, machine, map, run, store};
use pagelab_events::Control;
use pagelab_machine::{FilledPages, MachineConfig, RunResult};

const PAGE: u64 = 4096;

/// Caches of 64, 1,024 and 16,384 lines.
fn filling(at: FilledPages, more: &[&str]) -> MachineConfig {
    let sizes = ["caches.l1.kib=4", "caches.l2.kib=64", "caches.llc.kib=1024"];
    let mut config = machine(&[&sizes, more].concat());
    config.caches.filled_pages = at;
    config
}

fn lines_of(page: u64) -> impl Iterator<Item = Event> {
    (1..64).map(move |line| load(BASE + page * PAGE + line * 64, 0, 0))
}

/// Number of data references that the second level, the last level and memory served, after those of `before`.
fn served(config: &MachineConfig, before: &[Event], events: &[Event]) -> [u64; 3] {
    let of = |events: &[Event]| {
        let RunResult { caches, .. } = run(config, "radix", &mut Cut::new(events, 500));
        [caches.data.l2, caches.data.llc, caches.data.dram]
    };
    let (all, first) = (of(&[before, events].concat()), of(before));
    std::array::from_fn(|level| all[level] - first[level])
}

#[test]
fn a_page_of_zeros_is_where_the_machine_says() {
    let mut events = Vec::new();
    for page in 0..8 {
        events.push(store(BASE + page * PAGE));
        events.extend(lines_of(page));
    }
    let expected = [
        (FilledPages::Memory, [0, 0, 512]),
        (FilledPages::L2, [512, 0, 0]),
        (FilledPages::Llc, [0, 512, 0]),
    ];
    for (at, expected) in expected {
        let before = [map(BASE, 8 * PAGE)];
        assert_eq!(served(&filling(at, &[]), &before, &events), expected);
    }
}

#[test]
fn a_copy_is_where_a_page_of_zeros_would_be() {
    // The parent writes to the page while the child has it, too; its lines of before are elsewhere.
    let before = [
        map(BASE, PAGE),
        store(BASE),
        Event::Control(Control::Fork { child: 1 }),
    ];
    let after: Vec<Event> = std::iter::once(store(BASE)).chain(lines_of(0)).collect();
    let config = filling(FilledPages::L2, &[]);
    assert_eq!(served(&config, &before, &after), [64, 0, 0]);
    let config = filling(FilledPages::Memory, &[]);
    assert_eq!(served(&config, &before, &after), [0, 0, 64]);
}

#[test]
fn of_a_large_page_the_part_that_was_asked_for_is_nearest() {
    let thp = "memory.page_policy=\"thp\"";
    let config = filling(FilledPages::L2, &[thp, "memory.fragmentation=0.0"]);
    // Page 300 is in the second half: 0 to 87 are filled first, then those around it from 88 and 511 on.
    // The second level holds 16 pages, the last 256 more.
    let before = [map(BASE, 512 * PAGE), store(BASE + 300 * PAGE)];
    let of = |page| served(&config, &before, &lines_of(page).collect::<Vec<_>>());
    assert_eq!(of(296), [63, 0, 0]);
    assert_eq!(of(305), [63, 0, 0]);
    assert_eq!(of(250), [0, 63, 0]);
    assert_eq!(of(350), [0, 63, 0]);
    assert_eq!(of(20), [0, 0, 63]);
    assert_eq!(of(500), [0, 0, 63]);
}

/// Caches hold the host's frames.
#[test]
fn in_a_virtual_machine_it_is_no_different() {
    let before = [map(BASE, PAGE)];
    let events: Vec<Event> = std::iter::once(store(BASE)).chain(lines_of(0)).collect();
    let config = filling(FilledPages::L2, &[]);
    let result = |events: &[Event]| run(&config, "nested-radix", &mut Cut::new(events, 500));
    let all = result(&[&before[..], &events].concat()).caches.data;
    assert_eq!([all.l2, all.llc, all.dram], [64, 0, 0]);
}
