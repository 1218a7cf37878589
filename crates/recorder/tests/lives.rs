//! Threads and processes, from their beginnings to their ends.

mod common;

use std::process::Command;

use common::{build, in_time, run};
use pagelab_events::Control;
use pagelab_recorder::Ended;

const STATIC: [&str; 3] = ["-static", "-O1", "-pthread"];

#[test]
fn a_child_whose_first_thread_ends_is_recorded_until_the_last_does() {
    const STORES: usize = 16384 * 40;
    let program = build("leader.c", &STATIC);
    let alone = Command::new(&program.path).status().expect("it runs");
    assert_eq!(alone.code(), Some(15));
    let request = program.request();
    let recorded = in_time(move || run(&request));
    assert_eq!(recorded.outcome.ended, Ended::Status(15));
    assert_eq!(recorded.outcome.incomplete, None);
    assert_eq!(
        recorded.controls(1).last(),
        Some(&Control::Exit { status: 5 })
    );
    let start = program.symbols()["places"];
    let places = start..start + 16384 * 64;
    let stores = recorded
        .accesses()
        .filter(|access| places.contains(&access.addr));
    assert_eq!(stores.count(), STORES);
}
