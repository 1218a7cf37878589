//! Calls of allocators, as the preloaded library tells them.

mod common;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

use common::{What, build, run};
use pagelab_events::Control;
use pagelab_recorder::Request;

/// The library, built as the makefile does.
fn library() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("preload");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("preload-{:?}.so", std::thread::current().id()));
    let status = Command::new("gcc")
        .args([
            "-std=gnu11",
            "-O2",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-fno-builtin",
        ])
        .args([
            "-fno-omit-frame-pointer",
            "-fno-optimize-sibling-calls",
            "-o",
        ])
        .arg(&path)
        .args(["allocations.c", "advised.c"].map(|name| folder.join(name)))
        .status();
    assert!(status.is_ok_and(|status| status.success()));
    path
}

/// Memory that is had is nobody else's, and what is given back was had: as the events of all threads are ordered.
#[test]
fn memory_is_had_by_one_at_a_time() {
    let request = Request {
        allocations: Some(library()),
        with_code: true,
        ..build("allocations.c", &["-pthread"]).request()
    };
    let recorded = run(&request);
    assert_eq!(recorded.outcome.incomplete, None);
    let mut live: HashMap<u32, HashMap<u64, u64>> = HashMap::new();
    let mut calling = HashMap::new();
    let mut had = [0; 2];
    for event in &recorded.events {
        let What::Control(control) = event.what else {
            continue;
        };
        let process = live.entry(event.process).or_default();
        match control {
            Control::Allocating { site } => {
                let before = calling.insert((event.process, event.thread), site);
                assert_eq!(before, None, "a call in a call");
            }
            Control::Allocated { addr, len } => {
                calling
                    .remove(&(event.process, event.thread))
                    .expect("a call that returns");
                assert_eq!(process.insert(addr, len), None, "{addr:x} is had twice");
                had[event.process as usize] += 1;
            }
            Control::Freed { addr } => {
                assert!(process.remove(&addr).is_some(), "{addr:x} is not had");
            }
            Control::Fork { child } => {
                let all = process.clone();
                live.insert(child, all);
            }
            _ => {}
        }
    }
    assert!(calling.is_empty());
    // Each time, half of the time once more by realloc, and what the C library allocates for itself.
    for had in had {
        assert!(
            (4 * 1000 * 3 / 2 - 200..4 * 1000 * 3 / 2 + 200).contains(&had),
            "{had}"
        );
    }
    assert!(recorded.outcome.allocation_sites >= 3);
    assert!(
        recorded
            .outcome
            .refused
            .iter()
            .all(|refused| !refused.call.contains("7061"))
    );
}

#[test]
fn without_the_library_nothing_is_told() {
    let recorded = build("allocations.c", &["-pthread"]).record();
    assert_eq!(recorded.outcome.allocation_sites, 0);
    let told = |control: &Control| matches!(control, Control::Allocating { .. });
    assert!(!recorded.controls(0).iter().any(told));
}
