//! docs/trace-format.md describes what is written: a reader in another language, made from that
//! page alone, agrees with the Rust reader.

mod common;

use common::{Flat, Scratch, any_access, any_control};
use pagelab_events::{Access, Batch, Control, Metadata, Op, TraceReader, TraceWriter, cat};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::process::Command;

/// Both readers' text of the trace with these batches.
fn both_texts(name: &str, batches: &[Batch]) -> (String, String) {
    let file = Scratch::new(name, b"");
    let path = &file.0;
    let mut writer = TraceWriter::create(path, &Metadata::new()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    let mut ours = Vec::new();
    cat(&mut TraceReader::open(path).unwrap(), &mut ours, name).unwrap();
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace_reader.py");
    let theirs = Command::new("python3")
        .arg(reader)
        .arg(path)
        .output()
        .expect("python3 is needed for this test");
    let complaint = String::from_utf8_lossy(&theirs.stderr);
    assert!(theirs.status.success(), "{complaint}");
    (
        String::from_utf8(ours).unwrap(),
        String::from_utf8(theirs.stdout).unwrap(),
    )
}

#[test]
fn arbitrary_events_read_the_same() {
    let mut runner = TestRunner::deterministic();
    let access = any_access();
    let control = any_control();
    let mut batches = Vec::new();
    for number in 0..40u32 {
        let mut batch = Batch {
            process: number / 2 % 3,
            ..Batch::default()
        };
        batch.push_control(Control::Thread { thread: number % 4 });
        for _ in 0..100 {
            batch.push(access.new_tree(&mut runner).unwrap().current());
            if number % 3 == 0 {
                batch.push_control(control.new_tree(&mut runner).unwrap().current());
            }
        }
        batches.push(batch);
    }
    let (ours, theirs) = both_texts("arbitrary", &batches);
    assert_eq!(ours, theirs);
    let mut flat = Flat::default();
    batches.iter().for_each(|batch| flat.add(batch));
    assert!(ours.lines().count() > flat.events.len());
}

/// Compressed streams, several chunks, siblings, all three predictions.
#[test]
fn a_program_like_stream_reads_the_same() {
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    let mut seed = 1u64;
    for turn in 0..18_000u64 {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let object = 0x5600_0000_0000 + (seed >> 40) * 64;
        for (addr, op, gap, dep) in [
            (0x7fff_ffff_e000, Op::load(8), 2, 0),
            (object, Op::load(8), 1, 1),
            (object + 24, Op::load(4), 0, 2),
            (object + 24, Op::store(4), (seed >> 60) as u32, 3),
            (
                0x7000_0000_0000 + turn * 8,
                Op::store(8),
                3,
                5 * turn as u32,
            ),
        ] {
            batch.push(Access { addr, op, gap, dep });
        }
    }
    let (ours, theirs) = both_texts("program", &[batch]);
    assert!(ours == theirs);
}
