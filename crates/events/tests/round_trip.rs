//! A trace that is written is what is read from it.

mod common;

use common::{any_batch, drain, flatten};
use pagelab_events::{Access, Batch, Control, Metadata, Op, Source, TraceReader, TraceWriter};
use proptest::prelude::*;
use std::io::Cursor;

fn write(batches: &[Batch]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap()
}

fn open(bytes: Vec<u8>) -> TraceReader<Cursor<Vec<u8>>> {
    TraceReader::new(Cursor::new(bytes), "test.trace").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_batches_come_back(batches in proptest::collection::vec(any_batch(500), 0..8)) {
        let mut reader = open(write(&batches));
        prop_assert!(reader.is_complete());
        let accesses: usize = batches.iter().map(Batch::len).sum();
        prop_assert_eq!(reader.remaining(), Some(accesses as u64));
        let (events, error) = drain(&mut reader);
        prop_assert!(error.is_none());
        prop_assert_eq!(events, flatten(&batches));
        prop_assert_eq!(reader.remaining(), Some(0));
    }
}

/// A loop over an array behind a pointer, a linked list, and random updates, over several chunks.
fn long_batch() -> Batch {
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 7 });
    let mut random = 1u64;
    for turn in 0..40_000u64 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        for (addr, op, gap, dep) in [
            (0x7fff_0000_1000, Op::load(8), 3, 0),
            (0x5555_0000_0000 + turn * 8, Op::load(8), 1, 1),
            (random >> 17, Op::store(4), (turn % 5) as u32, 1),
            (
                0x6000_0000_0000 + turn,
                Op::load(1).by_kernel(),
                0,
                4 * turn as u32,
            ),
        ] {
            batch.push(Access { addr, op, gap, dep });
        }
    }
    batch
}

#[test]
fn a_batch_larger_than_a_chunk_comes_back() {
    let batch = long_batch();
    let mut reader = open(write(std::slice::from_ref(&batch)));
    assert!(reader.chunks() > 2);
    let (events, error) = drain(&mut reader);
    assert!(error.is_none());
    assert!(events == flatten([&batch]));
}

#[test]
fn reading_can_start_at_any_chunk() {
    let batch = long_batch();
    let whole = flatten([&batch]);
    let mut reader = open(write(&[batch]));
    for chunk in (0..=reader.chunks()).rev() {
        reader.seek_chunk(chunk);
        let before = whole.len() - reader.remaining().unwrap() as usize;
        assert_eq!(before == 0, chunk == 0);
        let (events, error) = drain(&mut reader);
        assert!(error.is_none());
        assert!(events == whole[before..]);
    }
}

#[test]
fn metadata_come_back() {
    let metadata = Metadata::new()
        .with("command", "sort -n 'a \"b\"\n'")
        .with("anything", "\u{1f980}");
    let writer = TraceWriter::new(Vec::new(), &metadata).unwrap();
    let reader = open(writer.finish().unwrap());
    assert_eq!(*reader.metadata(), metadata);
    assert_eq!(reader.chunks(), 0);
}

#[test]
fn malformed_batches_are_refused() {
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    let mut uneven = Batch::default();
    uneven.addr.push(1);
    assert!(writer.write(&uneven).is_err());
    let mut beyond = Batch::default();
    beyond.controls.push((1, Control::Exec));
    assert!(writer.write(&beyond).is_err());
    let mut unordered = Batch::default();
    unordered.push_control(Control::Exec);
    unordered.push(Access::default());
    unordered.push_control(Control::Exec);
    unordered.controls.swap(0, 1);
    assert!(writer.write(&unordered).is_err());
    assert_eq!(writer.accesses(), 0);
}
