//! What a guest reports, made into a trace and a list of walks, which are then read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelab_events::{Batch, Metadata, Source, TraceReader};
use pagelab_guest::{WalkLines, judge, record};

fuzz_target!(|bytes: &[u8]| {
    let directory = std::env::temp_dir();
    let [trace, walks] = ["trace", "walks"]
        .map(|kind| directory.join(format!("pagelab-fuzz-{}.{kind}", std::process::id())));
    let memory = (bytes.len() % 2 == 1).then_some(1 << 20);
    let recorded = record(bytes, &trace, &walks, &Metadata::default(), memory, &[]);
    if let Ok(recorded) = recorded {
        let mut reader = TraceReader::open(&trace).expect("a trace just written");
        let (mut batch, mut accesses) = (Batch::default(), 0);
        while reader.next_batch(&mut batch).expect("a trace just written") {
            accesses += batch.len() as u64;
        }
        assert!(accesses <= recorded.accesses);
        let lines = WalkLines::open(&walks).expect("a list just written");
        let read = lines.inspect(|line| assert!(line.is_ok(), "{line:?}")).count();
        assert_eq!(read as u64, recorded.walks);
        let _ = judge(WalkLines::open(&walks).expect("a list just written"));
    }
    let _ = std::fs::remove_file(trace);
    let _ = std::fs::remove_file(walks);
});
