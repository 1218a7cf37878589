//! Level at which the reads of page walks enter the caches.

use crate::common::{BASE, Cut, Event, load, map, run, small_machine};
use pagelab_machine::{RunResult, WalksEnter};

fn of(design: &str, walks_enter: WalksEnter) -> RunResult {
    let mut config = small_machine();
    config.caches.walks_enter = walks_enter;
    let events: Vec<Event> = std::iter::once(map(BASE, 1 << 24))
        .chain((0..20_000u64).map(|i| {
            let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // Every other access stays within a page, so that the first level has hits to lose.
            let reach = if i % 2 == 0 { 24 } else { 12 };
            load(BASE + (random >> (64 - reach)), 3, 0)
        }))
        .collect();
    run(&config, design, &mut Cut::new(&events, 100))
}

/// The sets of the first level depend on the page offset alone, so its hits do not depend on
/// which frames a design's tables leave to the data.
#[test]
fn past_the_first_level_they_leave_it_to_the_data() {
    let undisturbed = of("ideal", WalksEnter::L2).caches.data.l1;
    for design in ["radix", "dpt", "ecpt"] {
        let run = of(design, WalksEnter::L2);
        assert_eq!(run.walks.served_by.l1, 0);
        assert_eq!(run.caches.data.l1, undisturbed);
        assert!(of(design, WalksEnter::L1).caches.data.l1 < undisturbed);
    }
}

#[test]
fn they_are_as_many_as_before() {
    for design in ["radix", "dpt", "ecpt"] {
        let [first, second] = [WalksEnter::L1, WalksEnter::L2].map(|level| of(design, level));
        assert!(first.walks.served_by.l1 > 0);
        assert_eq!(first.walks.reads, second.walks.reads);
    }
}
