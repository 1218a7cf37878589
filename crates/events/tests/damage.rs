//! Traces that were cut off or damaged: what comes before is read, the rest is an error, and
//! nothing panics.

mod common;

use common::{Event, Scratch, drain, flatten};
use pagelab_events::{Access, Batch, Control, Metadata, Op, SourceError, TraceReader, TraceWriter};
use std::io::{self, Cursor, Write};

/// Three chunks of a few events each; their batches, and the bytes.
fn small_trace() -> (Vec<Batch>, Vec<u8>) {
    let batches: Vec<_> = (0..3u64).map(small_batch).collect();
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
        writer.flush_chunk().unwrap();
    }
    (batches, writer.finish().unwrap())
}

fn small_batch(number: u64) -> Batch {
    let mut batch = Batch {
        process: number as u32 % 2,
        ..Batch::default()
    };
    batch.push_control(Control::Thread { thread: 3 });
    batch.push_control(Control::Brk { end: number << 12 });
    for index in 0..70 {
        batch.push(Access {
            addr: 0x1_0000 * number + 8 * index,
            op: Op::load(8),
            gap: 1,
            dep: index as u32 % 3,
        });
    }
    batch.push_control(Control::Exit { status: 0 });
    batch
}

fn read(bytes: &[u8]) -> Result<(Vec<Event>, Option<SourceError>, bool), SourceError> {
    let mut reader = TraceReader::new(Cursor::new(bytes), "cut.trace")?;
    let complete = reader.is_complete();
    let (events, error) = drain(&mut reader);
    Ok((events, error, complete))
}

/// Ends of the chunks.
fn chunk_ends(batches: &[Batch]) -> Vec<u64> {
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    let ends = batches.iter().map(|batch| {
        writer.write(batch).unwrap();
        writer.flush_chunk().unwrap();
        writer.whole_bytes()
    });
    ends.collect()
}

#[test]
fn a_trace_cut_off_anywhere_is_read_up_to_its_last_whole_chunk() {
    let (batches, bytes) = small_trace();
    let ends = chunk_ends(&batches);
    let header = 12 + 24 + 2;
    for len in 0..bytes.len() {
        let cut = read(&bytes[..len]);
        if len < header {
            let error = cut.unwrap_err().to_string();
            assert!(error.starts_with("cut.trace: "), "{error}");
            continue;
        }
        let (events, error, complete) = cut.unwrap();
        let whole = ends.iter().filter(|&&end| end <= len as u64).count();
        assert_eq!(events, flatten(&batches[..whole]), "cut at {len}");
        assert!(!complete);
        let start = if whole == 0 {
            header as u64
        } else {
            ends[whole - 1]
        };
        if len as u64 == start || whole == 3 {
            continue;
        }
        let expected = format!("cut.trace: chunk {whole} at byte {start}: the file ends inside it");
        assert_eq!(error.unwrap().to_string(), expected);
    }
}

#[test]
fn a_cut_after_a_chunk_is_no_error_but_not_complete() {
    let (batches, bytes) = small_trace();
    for (whole, end) in (1..).zip(chunk_ends(&batches)) {
        let (events, error, complete) = read(&bytes[..end as usize]).unwrap();
        assert_eq!(events, flatten(&batches[..whole]));
        assert!(error.is_none());
        assert!(!complete);
    }
}

#[test]
fn every_flipped_bit_is_noticed_and_what_comes_before_is_read() {
    let (batches, bytes) = small_trace();
    let ends = chunk_ends(&batches);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let Ok((events, error, complete)) = read(&damaged) else {
            assert!(
                bit / 8 < 38,
                "only the metadata keep a trace from being opened"
            );
            continue;
        };
        let whole = ends.iter().filter(|&&end| end <= bit as u64 / 8).count();
        assert!(error.is_some() || !complete, "bit {bit} went unnoticed");
        assert_eq!(events, flatten(&batches[..whole]), "bit {bit}");
        if whole < 3 {
            let start = if whole == 0 { 38 } else { ends[whole - 1] };
            let place = format!("cut.trace: chunk {whole} at byte {start}: ");
            let error = error.unwrap().to_string();
            assert!(error.starts_with(&place), "{error}");
        }
    }
}

#[test]
fn what_is_no_trace_is_refused_with_its_name() {
    for (bytes, expected) in [
        (&b""[..], "cut.trace: not a pagelab trace"),
        (&b"#!/bin/sh\n"[..], "cut.trace: not a pagelab trace"),
        (
            &b"pagelab\n\x09\0\0\0"[..],
            "cut.trace: a pagelab trace of version 9; this program reads powers of two up to 512",
        ),
    ] {
        assert_eq!(read(bytes).unwrap_err().to_string(), expected);
    }
}

/// A disk with room for so many bytes.
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for &mut Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.room - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..fits]);
        match fits {
            0 if !bytes.is_empty() => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(fits),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_leaves_a_trace_that_can_be_cut_back() {
    let (batches, bytes) = small_trace();
    let ends = chunk_ends(&batches);
    for room in 38..ends[2] as usize {
        let mut disk = Disk {
            bytes: Vec::new(),
            room,
        };
        let mut writer = TraceWriter::new(&mut disk, &Metadata::new()).unwrap();
        let mut write = |batch| {
            writer.write(batch)?;
            writer.flush_chunk()
        };
        let error = batches.iter().find_map(|batch| write(batch).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let whole = writer.whole_bytes();
        drop(writer);
        assert!(disk.bytes == bytes[..room]);
        let (events, error, _) = read(&disk.bytes[..whole as usize]).unwrap();
        let chunks = ends.iter().filter(|&&end| end <= room as u64).count();
        assert_eq!(events, flatten(&batches[..chunks]));
        assert!(error.is_none());
    }
}

#[test]
fn a_file_is_cut_back_to_its_last_whole_chunk() {
    let file = Scratch::new("cut.trace", b"");
    let path = &file.0;
    let mut writer = TraceWriter::create(path, &Metadata::new()).unwrap();
    writer.write(&small_batch(0)).unwrap();
    writer.flush_chunk().unwrap();
    let whole = writer.whole_bytes();
    // As after a write that failed half-way.
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"CHNK and then nothing").unwrap();
    writer.cut_back().unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().len(), whole);
    let (events, error) = drain(&mut TraceReader::open(path).unwrap());
    assert_eq!(events, flatten([&small_batch(0)]));
    assert!(error.is_none());
}
