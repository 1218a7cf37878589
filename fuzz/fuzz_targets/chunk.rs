//! A trace of some definitions and one chunk with right checksums: the first eight bytes are the numbers of accesses
//! and control entries, the rest is the payload. What can be read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelab_events::{
    Batch, CodeBlock, Control, Definition, Follows, Metadata, NO_SITE, Source, TraceReader, TraceWriter,
};
use std::io::Cursor;

/// The start of a trace, with definitions of a file and three blocks.
fn start() -> Vec<u8> {
    let block = |number: u64| CodeBlock {
        pc: 0x1000 + 16 * number,
        file: 1,
        file_offset: 16 * number,
        lengths: [3, 2, 4].into(),
        bytes: [0x90; 9].into(),
        accesses: [0, 0, 2][..number as usize + 1].into(),
        addresses: [(0, 0), (1, 0), (2, 24)].map(|(back, offset)| Follows { back, offset })[..number as usize + 1].into(),
        ..CodeBlock::default()
    };
    let mut batch = Batch::default();
    batch.definitions.push(Definition::File("/bin/true".to_owned()));
    batch.definitions.extend((0..3).map(|number| Definition::Block(block(number))));
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).expect("memory");
    writer.write(&batch).expect("memory");
    writer.flush_chunk().expect("memory");
    let length = writer.whole_bytes() as usize;
    let mut bytes = writer.finish().expect("memory");
    bytes.truncate(length);
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
            let sites = batch.site.iter().copied().chain(std::iter::repeat(NO_SITE));
            (0..batch.len()).zip(sites)
                .map(|(index, site)| (batch.process, batch.access(index), site))
                .collect()
        };
        batches.iter().flat_map(accesses).collect()
    };
    assert!(columns(&batches) == columns(&again));
});
