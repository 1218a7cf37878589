//! A trace that is read while it is written.

mod common;

use common::{Scratch, any_batch, flatten};
use pagelab_events::{Batch, Definition, Following, Metadata, Source, TraceReader, TraceWriter};
use proptest::prelude::*;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::channel;

/// All batches with events, and all definitions.
fn read(source: &mut dyn Source) -> (Vec<Batch>, Vec<Definition>) {
    let (mut batches, mut definitions) = (Vec::new(), Vec::new());
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).unwrap() {
        definitions.append(&mut batch.definitions);
        if !batch.is_empty() {
            batches.push(batch.clone());
        }
    }
    (batches, definitions)
}

/// A name of each kind, which stand at different places.
fn names() -> Vec<Definition> {
    let path = "/lib".to_owned();
    let (ranges, blocks, sites) = (Box::default(), Box::default(), Box::default());
    vec![
        Definition::Mapping { path, ranges },
        Definition::Function {
            name: "made".to_owned(),
            blocks,
        },
        Definition::Lines {
            path: "made.js".to_owned(),
            sites,
        },
    ]
}

fn trace(batches: &[Batch]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    let half = batches.len() / 2;
    for (number, batch) in batches.iter().enumerate() {
        if number == half {
            let definitions = names();
            let named = Batch {
                definitions,
                ..batch.clone()
            };
            writer.write(&named).unwrap();
        } else {
            writer.write(batch).unwrap();
        }
        writer.flush_chunk().unwrap();
    }
    writer.finish().unwrap()
}

/// Appends to the file that a writer holds.
fn append(file: &mut File, bytes: &[u8]) {
    file.write_all(bytes).unwrap();
}

/// The size of what stands before the first chunk.
fn head(bytes: &[u8]) -> usize {
    let first = bytes
        .windows(4)
        .position(|four| four == b"CHNK" || four == b"CODE");
    first.expect("there is a chunk")
}

fn followed(path: &Path) -> (Vec<Batch>, Vec<Definition>) {
    read(&mut Following::open(path).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_followed_is_what_is_read_afterwards(
        batches in proptest::collection::vec(any_batch(300), 1..8),
        cuts in proptest::collection::vec(0.0..1.0f64, 1..6),
    ) {
        let bytes = trace(&batches);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * bytes.len() as f64) as usize).collect();
        cuts.sort_unstable();
        // A writer begins with the head, whole.
        let mut written = head(&bytes);
        let scratch = Scratch::new("growing.trace", &bytes[..written]);
        let mut file = OpenOptions::new().append(true).open(&scratch.0).unwrap();
        file.lock().unwrap();
        let path = scratch.0.clone();
        let reader = std::thread::spawn(move || followed(&path));
        for cut in cuts.into_iter().filter(|&cut| cut > 0) {
            append(&mut file, &bytes[written.min(cut)..cut]);
            written = written.max(cut);
            std::thread::yield_now();
        }
        append(&mut file, &bytes[written..]);
        drop(file);
        let (found, mut named) = reader.join().unwrap();
        let whole = &mut TraceReader::open(&scratch.0).unwrap();
        let (expected, mut names) = read(whole);
        prop_assert_eq!(flatten(&found), flatten(&expected));
        // One batch is another's like, wherever the file had got to.
        prop_assert_eq!(found.len(), expected.len());
        for definitions in [&mut named, &mut names] {
            definitions.sort_by_key(|definition| format!("{definition:?}"));
        }
        prop_assert_eq!(named, names);
    }
}

#[test]
fn a_reader_waits_for_the_writer_and_says_so_by_batches_of_nothing() {
    let mut batch = Batch::default();
    batch.push_control(pagelab_events::Control::Brk { end: 1 });
    let scratch = Scratch::new("growing.trace", b"");
    let mut writer = TraceWriter::create(&scratch.0, &Metadata::new()).unwrap();
    writer.write(&batch).unwrap();
    writer.flush_chunk().unwrap();
    let path = scratch.0.clone();
    let (say, said) = channel();
    let reader = std::thread::spawn(move || {
        let mut following = Following::open(path).unwrap();
        let mut batch = Batch::default();
        let mut events = Vec::new();
        while following.next_batch(&mut batch).unwrap() {
            say.send(batch.is_empty()).unwrap();
            events.append(&mut flatten([&batch]));
        }
        events.len()
    });
    // Its events, then nothing, for as long as nothing is written.
    assert!(!said.recv().unwrap());
    assert!(said.recv().unwrap() && said.recv().unwrap());
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    assert_eq!(reader.join().unwrap(), 2);
}

#[test]
fn a_writer_that_is_gone_in_the_middle_of_a_chunk_leaves_damage() {
    let mut batch = Batch::default();
    batch.push_control(pagelab_events::Control::Brk { end: 1 });
    let bytes = trace(&[batch.clone(), batch]);
    let last = bytes.windows(4).rposition(|four| four == b"CHNK").unwrap();
    let scratch = Scratch::new("cut.trace", &bytes[..last + 30]);
    let mut following = Following::open(&scratch.0).unwrap();
    let mut batch = Batch::default();
    assert!(following.next_batch(&mut batch).unwrap());
    let error = following.next_batch(&mut batch).unwrap_err().to_string();
    assert!(error.contains("the file ends inside it"), "{error}");
}
