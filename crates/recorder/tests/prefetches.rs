//! Instructions that ask for a line to be fetched.

mod common;

use std::path::PathBuf;

use common::{Recorded, What, build, run};
use pagelab_events::{Access, Op, dependence};
use pagelab_recorder::{Ended, Request};
use pagelab_recorder_wire::block::Prefetch;

/// Addresses that a program says that it has asked for, a thread after the other; and what was
/// recorded.
fn both(name: &str, request: Request) -> (Vec<u64>, Recorded) {
    let program = build("prefetches.c", &["-O1", "-static", "-pthread"]);
    let said = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("prefetches.{name}"));
    let recorded = run(&Request {
        arguments: vec![said.clone().into()],
        ..Request {
            program: program.request().program,
            ..request
        }
    });
    assert_eq!(recorded.outcome.ended, Ended::Status(0));
    let bytes = std::fs::read(said).expect("the program has written what it asked for");
    let words = bytes.chunks_exact(8);
    let said = words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
    (said.collect(), recorded)
}

/// A thread's accesses.
fn accesses(recorded: &Recorded, thread: u32) -> Vec<Access> {
    let of_thread = recorded
        .events
        .iter()
        .filter(|event| event.thread == thread);
    let accesses = of_thread.filter_map(|event| match event.what {
        What::Access(access) => Some(access),
        _ => None,
    });
    accesses.collect()
}

fn check(name: &str, request: Request) {
    let (said, recorded) = both(name, request);
    assert!(!said.is_empty());
    let halves = said.split_at(said.len() / 2);
    for (thread, said) in [(0, halves.0), (1, halves.1)] {
        let accesses = accesses(&recorded, thread);
        let prefetched: Vec<_> = (accesses.iter().enumerate())
            .filter(|(_, access)| access.op.is_prefetch())
            .map(|(number, access)| (number, access.addr))
            .collect();
        let last = Prefetch::NOWHERE;
        // Only the place in the page is kept where no program can have memory.
        let expected = said.iter().map(|&address| match address {
            address if address < last => address,
            address => last | (address % 4096),
        });
        let addresses: Vec<_> = prefetched.iter().map(|&(_, address)| address).collect();
        assert_eq!(addresses, expected.collect::<Vec<_>>(), "thread {thread}");
        // The first of each round waits for the load just before it, of its own pointer.
        for &(number, address) in prefetched.iter().step_by(15) {
            let near = dependence::near(accesses[number].dep) as usize;
            assert!((1..8).contains(&near), "{:?}", accesses[number]);
            let load = accesses[number - near];
            assert_eq!(load.op, Op::load(8), "of {address:#x}");
        }
    }
}

#[test]
fn what_is_asked_for_is_recorded() {
    check("needed", Request::default());
}

#[test]
fn what_is_asked_for_is_recorded_with_code() {
    check(
        "code",
        Request {
            with_code: true,
            ..Request::default()
        },
    );
}

#[test]
fn what_is_asked_for_is_recorded_where_everything_is_reported() {
    check(
        "verbatim",
        Request {
            verbatim: true,
            ..Request::default()
        },
    );
}
