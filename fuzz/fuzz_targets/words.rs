//! A file of words with right checksums: the input is four streams, of which the first three have two bytes with
//! their lengths. A recording is made of them, and written and read as a trace.
#![no_main]

use std::io::{Cursor, Error, Result};
use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use pagelab_events::{Batch, Metadata, Source, TraceReader, TraceWriter};
use pagelab_recorder::{Sink, finish_into};
use pagelab_recorder_wire::region;

/// More accesses are not looked at.
const ENOUGH: u64 = 1 << 20;

struct Trace(Option<TraceWriter<Vec<u8>>>, Vec<u8>);

impl Sink for Trace {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        let writer = self.0.as_mut().expect("not finished");
        writer.write(batch).expect("a recording is well formed");
        if writer.accesses() > ENOUGH {
            return Err(Error::other("enough"));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<u64> {
        self.1 = self.0.take().expect("finished once").finish()?;
        Ok(self.1.len() as u64)
    }
}

fn push_frame(bytes: &mut Vec<u8>, tag: &[u8; 4], payload: &[u8]) {
    let mut header = tag.to_vec();
    header.extend((payload.len() as u32).to_le_bytes());
    header.extend(crc32fast::hash(payload).to_le_bytes());
    header.extend(crc32fast::hash(&header).to_le_bytes());
    bytes.extend(header);
    bytes.extend(payload);
}

/// A file of one frame with these streams.
fn file(streams: [&[u8]; 4]) -> Vec<u8> {
    let mut bytes = b"pgwords\n\x02\0\0\0".to_vec();
    // With code, no window, of a process that there is not; no time, no texts.
    let mut head = region::MAGIC.to_le_bytes().to_vec();
    head.extend([2, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xf, 0, 0, 0]);
    push_frame(&mut bytes, b"HEAD", &head);
    let mut payload = Vec::new();
    for stream in streams {
        let length = (stream.len() as u32).to_le_bytes();
        payload.extend([length, length].concat());
        payload.extend(stream);
    }
    push_frame(&mut bytes, b"WRDS", &payload);
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let mut stream = || {
        let (length, behind) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (stream, behind) = behind.split_at_checked(length)?;
        rest = behind;
        Some(stream)
    };
    let (Some(events), Some(codes), Some(values)) = (stream(), stream(), stream()) else {
        return;
    };
    let words = file([events, codes, values, rest]);
    let writer = TraceWriter::new(Vec::new(), &Metadata::new()).expect("memory");
    let sink = Trace(Some(writer), Vec::new());
    let made = finish_into(Cursor::new(words), sink, &mut |_| ControlFlow::Continue(()));
    let (outcome, sink) = made.expect("the header is right");
    let trace = sink.expect("it does not panic").1;
    if trace.is_empty() {
        return;
    }
    let mut reader = TraceReader::new(Cursor::new(trace), "fuzz").expect("a trace just written");
    let (mut batch, mut accesses) = (Batch::default(), 0);
    while reader.next_batch(&mut batch).expect("a trace just written") {
        accesses += batch.len() as u64;
    }
    assert_eq!(accesses, outcome.accesses);
});
