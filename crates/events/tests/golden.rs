//! The worked example of docs/trace-format.md, byte for byte.

mod common;

use common::{drain, flatten};
use pagelab_events::{
    Access, Backing, Batch, Control, Metadata, Op, Protection, TraceReader, TraceWriter,
};
use std::io::Cursor;

/// What the example says it holds.
fn example() -> Batch {
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    batch.push_control(Control::Map {
        addr: 0x7000,
        len: 0x2000,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing: Backing::Anonymous,
        populate: false,
    });
    for (addr, op, gap, dep) in [
        (0x7010, Op::load(8), 2, 0),
        (0x8000, Op::load(4), 1, 1),
        (0x8004, Op::load(4), 1, 2),
        (0x8004, Op::store(4), 0, 3),
        (0x8008, Op::load(4), 1, 4),
        (0x8008, Op::store(4), 0, 5),
        (0x800c, Op::load(4), 1, 6),
    ] {
        batch.push(Access { addr, op, gap, dep });
    }
    batch.push_control(Control::Exit { status: 1 });
    batch
}

/// The bytes of the example: all pairs of hexadecimal digits that open the lines between the
/// marks, up to two spaces.
fn documented() -> Vec<u8> {
    let text = include_str!("../../../docs/trace-format.md");
    let (_, text) = text.split_once("<!-- example -->").unwrap();
    let (text, _) = text.split_once("<!-- end of example -->").unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    let bytes = lines.flat_map(|line| line.split("  ").next().unwrap().split(' '));
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).expect(byte))
        .collect()
}

#[test]
fn the_documented_bytes_are_what_is_written() {
    let metadata = Metadata::new().with("program", "x");
    let mut writer = TraceWriter::new(Vec::new(), &metadata).unwrap();
    writer.write(&example()).unwrap();
    let written = writer.finish().unwrap();
    assert_eq!(hex(&written), hex(&documented()));
}

#[test]
fn the_documented_bytes_are_read_as_documented() {
    let mut reader = TraceReader::new(Cursor::new(documented()), "example").unwrap();
    assert_eq!(reader.metadata().get("program"), Some("x"));
    assert!(reader.is_complete());
    let (events, error) = drain(&mut reader);
    assert!(error.is_none());
    assert_eq!(events, flatten([&example()]));
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).map(|line| {
        let bytes: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}
