//! Counts of `trace info`, and conversion between formats.

mod common;

use common::{Scratch, drain};
use pagelab_events::{
    ConvertError, Counts, Format, Metadata, TraceInfo, TraceReader, TraceWriter, convert, open_any,
};
use std::collections::BTreeMap;
use std::path::Path;

const TEXT: &str = "\
map,7000,0x3000
thread,0
L,7010,8,2
S,8004,4,0,1
L,9000,4
S+,9000,4
KS,8ff8,16,10
thread-start,1
thread,1
mispredicted
mispredicted,1
L,7018,8,1,0
thread,0
skipped,1000,100
L,600007000,1
fork,1
process,1
exec
L,7000,8
exit,3
process,0
skipped,5,2
exit,0
";

fn counts(figures: [u64; 7]) -> Counts {
    let [
        accesses,
        loads,
        stores,
        kernel,
        dependent,
        mispredicted,
        instructions,
    ] = figures;
    Counts {
        accesses,
        loads,
        stores,
        prefetches: 0,
        kernel,
        dependent,
        mispredicted,
        instructions,
    }
}

/// Neither loads nor stores, and of no size; what they ask for is not thereby accessed.
#[test]
fn prefetches_are_counted_by_themselves() {
    let file = Scratch::new(
        "prefetches.csv",
        b"L,7010,8,2\nP,9000,0,1,1\nP,9040\nS,8000,4\n",
    );
    let info = TraceInfo::of(&file.0).unwrap();
    assert_eq!(
        info.total,
        Counts {
            prefetches: 2,
            ..counts([4, 1, 1, 0, 1, 0, 7])
        }
    );
    assert_eq!(info.sizes, BTreeMap::from([(4, 1), (8, 1)]));
    assert_eq!(info.pages, 2);
    // As text they are lines of their own, and Lackey has none.
    let lackey = Scratch::new("prefetches.lackey", b"");
    convert(&file.0, &lackey.0, Format::Lackey).unwrap();
    let text = std::fs::read_to_string(&lackey.0).unwrap();
    assert_eq!(text.matches("I ").count(), 7);
    assert_eq!(text.matches(" L ").count() + text.matches(" S ").count(), 2);
}

#[test]
fn everything_is_counted() {
    let file = Scratch::new("events.csv", TEXT.as_bytes());
    let info = TraceInfo::of(&file.0).unwrap();
    assert_eq!(info.format, "CSV");
    assert!(info.complete);
    assert_eq!(info.error, None);
    assert_eq!(info.file_bytes, TEXT.len() as u64);
    assert_eq!(info.bytes_per_access, TEXT.len() as f64 / 8.0);
    // 13 of the gaps, and those of eight accesses, of which two are of one instruction.
    assert_eq!(info.total, counts([8, 5, 3, 1, 1, 2, 20]));
    assert_eq!(
        info.sizes,
        BTreeMap::from([(1, 1), (4, 3), (8, 3), (16, 1)])
    );
    assert_eq!((info.gaps, info.skipped_instructions), (2, 1005));
    assert_eq!(info.skipped_accesses, 102);
    // 7, 8, 9 and 600007 of process 0, and 7 of process 1.
    assert_eq!(info.pages, 5);
    let [parent, child] = &info.processes[..] else {
        panic!("two processes");
    };
    assert_eq!((parent.process, parent.pages), (0, 4));
    assert_eq!((child.process, child.pages), (1, 1));
    let controls = [
        ("exit", 1),
        ("fork", 1),
        ("map", 1),
        ("skipped", 2),
        ("thread-start", 1),
    ];
    assert_eq!(parent.controls, BTreeMap::from(controls));
    assert_eq!(child.controls, BTreeMap::from([("exec", 1), ("exit", 1)]));
    let threads: Vec<_> = parent
        .threads
        .iter()
        .map(|t| (t.thread, t.counts))
        .collect();
    let expected = [
        (0, counts([6, 3, 3, 1, 1, 0, 17])),
        (1, counts([1, 1, 0, 0, 0, 2, 2])),
    ];
    assert_eq!(threads, expected);
    assert_eq!(child.threads[0].counts, counts([1, 1, 0, 0, 0, 0, 1]));
}

#[test]
fn a_trace_says_the_same_as_its_text_and_more() {
    let file = Scratch::new("events.csv", TEXT.as_bytes());
    let trace = file.beside("events.trace");
    assert_eq!(convert(&file.0, &trace, Format::Pagelab).unwrap(), 8);
    let (text, info) = (
        TraceInfo::of(&file.0).unwrap(),
        TraceInfo::of(&trace).unwrap(),
    );
    assert_eq!(info.format, "pagelab trace");
    assert_eq!(info.metadata[Metadata::CONVERTED_FROM], "CSV");
    assert_eq!(info.chunks, Some(1));
    assert!(info.complete);
    assert_eq!((info.total, info.sizes), (text.total, text.sizes));
    assert_eq!(info.processes.len(), 2);
    let json = serde_json::to_value(TraceInfo::of(&trace).unwrap()).unwrap();
    assert_eq!(json["processes"][0]["threads"][1]["loads"], 1);
}

#[test]
fn a_cut_off_trace_gives_the_figures_of_what_is_left() {
    let file = Scratch::new("events.csv", TEXT.as_bytes());
    let trace = file.beside("events.trace");
    let mut writer = TraceWriter::create(&trace, &Metadata::new()).unwrap();
    let mut batch = pagelab_events::Batch::default();
    let mut source = open_any(&file.0).unwrap();
    while source.next_batch(&mut batch).unwrap() {
        writer.write(&batch).unwrap();
        writer.flush_chunk().unwrap();
    }
    writer.finish().unwrap();
    let chunks = TraceReader::open(&trace).unwrap().chunks();
    let bytes = std::fs::read(&trace).unwrap();
    let index = 24 + 16 * chunks + 16;
    std::fs::write(&trace, &bytes[..bytes.len() - index - 1]).unwrap();
    let info = TraceInfo::of(&trace).unwrap();
    assert!(!info.complete);
    assert!(info.error.unwrap().ends_with("the file ends inside it"));
    assert_eq!(info.total.accesses, 8);
    assert_eq!(info.chunks, Some(chunks - 1));
}

#[test]
fn conversions_keep_what_the_format_can_hold() {
    let file = Scratch::new("events.csv", TEXT.as_bytes());
    let read = |path: &Path| drain(&mut open_any(path).unwrap()).0;
    let original = read(&file.0);
    let mut from = file.0.clone();
    for name in ["1.trace", "2.csv", "3.trace"] {
        let to = file.beside(name);
        convert(&from, &to, Format::of_name(&to)).unwrap();
        assert_eq!(read(&to), original, "{name}");
        from = to;
    }
    let lackey = file.beside("4.lackey");
    convert(&from, &lackey, Format::of_name(&lackey)).unwrap();
    let info = TraceInfo::of(&lackey).unwrap();
    assert_eq!(info.format, "Valgrind Lackey");
    let whole = TraceInfo::of(&from).unwrap();
    assert_eq!(info.total.instructions, whole.total.instructions);
    assert_eq!(info.sizes, whole.sizes);
}

#[test]
fn what_can_be_read_of_a_bad_trace_is_converted() {
    let file = Scratch::new("events.csv", b"L,1000\nL,2000\nnonsense\nL,3000\n");
    let trace = file.beside("events.trace");
    let error = convert(&file.0, &trace, Format::Pagelab).unwrap_err();
    assert!(matches!(error, ConvertError::Read(_)));
    assert!(error.to_string().contains("events.csv: line 3: found"));
    let info = TraceInfo::of(&trace).unwrap();
    assert!(info.complete);
    assert_eq!(info.total.accesses, 2);
}

#[test]
fn conversions_that_cannot_be_are_refused() {
    let file = Scratch::new("events.csv", TEXT.as_bytes());
    let refusal = |to, format| convert(&file.0, to, format).unwrap_err().to_string();
    let error = refusal(file.beside("events.csv"), Format::Csv);
    assert!(error.ends_with("cannot be converted into itself; name another file"));
    let other_name = file.beside("other.csv");
    std::fs::hard_link(&file.0, &other_name).unwrap();
    let error = refusal(other_name, Format::Csv);
    assert!(error.ends_with("cannot be converted into itself; name another file"));
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), TEXT);
    let error = refusal(file.beside("t.champsim"), Format::ChampSim);
    assert!(
        error.starts_with("cannot write the ChampSim format"),
        "{error}"
    );
    let error = refusal("/nonexistent/t.trace".into(), Format::Pagelab);
    assert!(
        error.starts_with("cannot write /nonexistent/t.trace: No such file"),
        "{error}"
    );
    let error = refusal("/dev/full".into(), Format::Csv);
    assert!(
        error.starts_with("cannot write /dev/full: No space left"),
        "{error}"
    );
}
