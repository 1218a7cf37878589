//! A trace of one chunk with right checksums: the first eight bytes are the numbers of accesses
//! and control entries, the rest is the payload. What can be read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelab_events::{Batch, Control, Metadata, Source, TraceReader, TraceWriter};
use std::io::Cursor;

/// The start of a trace: magic, version, and metadata `{}`.
fn start() -> Vec<u8> {
    let mut bytes = b"pagelab\n\x01\0\0\0".to_vec();
    push_block(&mut bytes, b"META", b"{}", &[0; 8]);
    bytes
}

fn push_block(bytes: &mut Vec<u8>, tag: &[u8; 4], payload: &[u8], counts: &[u8]) {
    let mut header = tag.to_vec();
    header.extend((payload.len() as u32).to_le_bytes());
    header.extend(crc32fast::hash(payload).to_le_bytes());
    header.extend(counts);
    header.extend(crc32fast::hash(&header).to_le_bytes());
    bytes.extend(header);
    bytes.extend(payload);
}

/// All batches up to the end or the first error, checked for what every batch must be.
fn read(bytes: &[u8]) -> Vec<Batch> {
    let mut reader = TraceReader::new(Cursor::new(bytes), "fuzz").expect("the start is right");
    let mut batches = Vec::new();
    let mut batch = Batch::default();
    while let Ok(true) = reader.next_batch(&mut batch) {
        assert!(!batch.is_empty());
        let named = matches!(batch.controls.first(), Some((0, Control::Thread { .. })));
        assert!(batch.addr.is_empty() || named);
        assert!(batch.controls.is_sorted_by_key(|&(at, _)| at));
        batches.push(batch.clone());
    }
    batches
}

fuzz_target!(|bytes: &[u8]| {
    let Some((counts, payload)) = bytes.split_at_checked(8) else {
        return;
    };
    let mut trace = start();
    push_block(&mut trace, b"CHNK", payload, counts);
    let batches = read(&trace);
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).expect("memory");
    for batch in &batches {
        writer.write(batch).expect("what was read is well formed");
    }
    let again = read(&writer.finish().expect("memory"));
    let columns = |batches: &[Batch]| -> Vec<_> {
        let accesses = |batch: &Batch| -> Vec<_> {
            (0..batch.len()).map(|index| (batch.process, batch.access(index))).collect()
        };
        batches.iter().flat_map(accesses).collect()
    };
    assert!(columns(&batches) == columns(&again));
});
