//! A trace of another tool: text or ChampSim's records, plain or compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelab_events::{Batch, open_foreign};
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    let Ok((_, mut source)) = open_foreign(Cursor::new(bytes.to_vec()), "fuzz") else {
        return;
    };
    let mut batch = Batch::default();
    while let Ok(true) = source.next_batch(&mut batch) {}
});
