//! What is recorded of real programs agrees with what others say of them.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{build, run};
use pagelab_recorder::Request;

/// Working out addresses instead of having them reported must not change anything.
fn same_when_every_access_is_reported(request: &Request) {
    let worked_out = run(request);
    let reported = run(&Request {
        verbatim: true,
        ..request.clone()
    });
    let pairs = worked_out.events.iter().zip(&reported.events);
    for (index, (worked_out, reported)) in pairs.enumerate() {
        assert_eq!(worked_out, reported, "event {index}");
    }
    assert_eq!(worked_out.events.len(), reported.events.len());
    assert_eq!(
        worked_out.outcome.instructions,
        reported.outcome.instructions
    );
}

#[test]
fn a_dynamically_linked_program_is_the_same_when_every_access_is_reported() {
    same_when_every_access_is_reported(&build("work.c", &["-O2"]).request());
}

#[test]
fn an_unoptimised_program_is_the_same_when_every_access_is_reported() {
    same_when_every_access_is_reported(
        &build("work.c", &["-O0", "-static", "-mfpmath=387"]).request(),
    );
}

#[test]
fn a_compiler_is_the_same_when_every_access_is_reported() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/record/string.s");
    let request = Request {
        program: "as".into(),
        arguments: vec![source.into(), "-o".into(), "/dev/null".into()],
        ..Request::default()
    };
    same_when_every_access_is_reported(&request);
}

/// docs/record.md says why the two need not agree to the last access.
const TOLERANCE: f64 = 0.01;

/// Has the C library take the same string functions on both emulated processors: the plainest.
const TUNABLES: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-BMI2,-SSSE3,-SSE4_1,-SSE4_2",
);

#[test]
fn loads_and_stores_are_as_many_as_valgrind_counts() {
    let program = build("work.c", &["-O2", "-static"]);
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lackey.log");
    Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", log.display()))
        .arg(&program.path)
        .env(TUNABLES.0, TUNABLES.1)
        .status()
        .expect("valgrind runs (Debian: apt-get install valgrind)");
    let text = fs::read_to_string(log).expect("Lackey writes its log");
    let count = |kinds: [&str; 2]| {
        let of_kind = |line: &&str| kinds.iter().any(|kind| line.starts_with(kind));
        text.lines().filter(of_kind).count() as f64
    };
    let request = Request {
        environment: vec![(TUNABLES.0.into(), TUNABLES.1.into())],
        ..program.request()
    };
    let recorded = run(&request);
    let accesses = recorded.program_accesses();
    let stores = accesses
        .iter()
        .filter(|access| access.op.is_store())
        .count() as f64;
    let loads = accesses.len() as f64 - stores;
    for (name, ours, theirs) in [
        ("loads", loads, count([" L ", " M "])),
        ("stores", stores, count([" S ", " M "])),
    ] {
        let difference = ours / theirs - 1.0;
        println!(
            "{name}: {ours} recorded, {theirs} by Lackey: {:+.3} %",
            100.0 * difference
        );
        assert!(difference.abs() < TOLERANCE, "{name}: {ours} and {theirs}");
    }
}
