//! A trace file of any bytes: its blocks, metadata, index and tail.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelab_events::{Batch, Source, TraceReader};
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = TraceReader::new(Cursor::new(bytes), "fuzz") else {
        return;
    };
    let mut batch = Batch::default();
    while let Ok(true) = reader.next_batch(&mut batch) {}
});
