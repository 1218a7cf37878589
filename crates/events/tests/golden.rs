//! The worked example (docs/trace-format-example.txt), byte for byte, and files of older versions.

mod common;

use common::{drain, flatten};
use pagelab_events::{
    Access, Backing, Batch, CodeBlock, Control, Definition, Flow, Follows, Metadata, Mispredicted,
    Op, Protection, Source, TraceReader, TraceWriter,
};
use std::io::Cursor;

/// Batch that the example says it holds.
fn example() -> Batch {
    let mut batch = before_continued();
    for store in [3, 5] {
        batch.op[store] = batch.op[store].continuing(true);
    }
    batch
}

/// The example as version 256 could say it.
fn before_continued() -> Batch {
    let mut batch = before_forms();
    batch.gap[4] = 2;
    let Some(Definition::Block(last)) = batch.definitions.last_mut() else {
        unreachable!("the last definition is a block");
    };
    // The store goes where the load was.
    last.addresses = [0, 1].map(|back| Follows { back, offset: 0 }).into();
    batch
}

/// The example as version 32 could say it.
fn before_forms() -> Batch {
    let mut batch = without_code();
    let block = |pc, bytes: &[u8], lengths: &[u8], accesses: &[u16]| {
        Definition::Block(CodeBlock {
            pc,
            file: 1,
            file_offset: pc - 0x40_0000,
            lengths: lengths.into(),
            bytes: bytes.into(),
            accesses: accesses.into(),
            ..CodeBlock::default()
        })
    };
    // xor eax,eax; cdq; mov rdi,[rdi+0x10]; inc eax; mov edx,[rdi]
    let head = [
        0x31, 0xc0, 0x99, 0x48, 0x8b, 0x7f, 0x10, 0xff, 0xc0, 0x8b, 0x17,
    ];
    // inc eax; add [rdi+rax*4],edx; jnz back
    let body = [0xff, 0xc0, 0x01, 0x14, 0x87, 0x75, 0xf9];
    batch.definitions = vec![
        Definition::File("/bin/x".to_owned()),
        block(0x40_1000, &head, &[2, 1, 4, 2, 2], &[2, 4]),
        block(0x40_100b, &body, &[2, 3, 2], &[1, 1]),
    ];
    let starts = [
        Flow::Thread(0),
        Flow::Block(0),
        Flow::Block(1),
        Flow::Block(1),
        Flow::Block(1),
    ];
    batch.flow = [0, 0, 2, 4, 6].into_iter().zip(starts).collect();
    batch.site = vec![2, 4, 6, 6, 6, 6, 6];
    batch
}

/// The example as version 1 could say it.
fn without_code() -> Batch {
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

/// Bytes of the example: the pairs of hexadecimal digits that open its lines, up to two spaces.
fn documented() -> Vec<u8> {
    let text = include_str!("../../../docs/trace-format-example.txt");
    let lines = text.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
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
    reader.seek_chunk(0);
    let mut batch = Batch::default();
    assert!(reader.next_batch(&mut batch).unwrap());
    assert_eq!(batch.site, example().site);
    assert_eq!(batch.flow, example().flow);
}

/// A reader of an older file, which holds what the batch does.
fn older(text: &str, holds: &Batch) -> TraceReader<Cursor<Vec<u8>>> {
    let bytes = text.split_whitespace();
    let bytes = bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap());
    let mut reader = TraceReader::new(Cursor::new(bytes.collect()), "old").unwrap();
    assert!(reader.is_complete());
    let (events, error) = drain(&mut reader);
    assert!(error.is_none());
    assert_eq!(events, flatten([holds]));
    reader
}

/// A file of version 1, as written before there was code.
#[test]
fn version_1_is_read() {
    older(include_str!("data/version1.hex"), &without_code());
}

/// The example as version 4 said it: with the blocks as symbols, and codes as differences.
#[test]
fn version_4_is_read() {
    let mut reader = older(include_str!("data/version4.hex"), &before_forms());
    reader.seek_chunk(0);
    let mut batch = Batch::default();
    assert!(reader.next_batch(&mut batch).unwrap());
    assert_eq!(batch.site, example().site);
    assert_eq!(batch.flow, example().flow);
}

/// The example as version 8 said it, in which an access waited for one load.
#[test]
fn version_8_is_read() {
    older(include_str!("data/version8.hex"), &before_forms());
}

/// The example as version 16 said it, in which no branch said that its wrong path joins the right one.
#[test]
fn version_16_is_read() {
    older(include_str!("data/version16.hex"), &before_forms());
}

/// The example as version 32 said it, in which every access had a code and an address of its own.
#[test]
fn version_32_is_read() {
    let mut reader = older(include_str!("data/version32.hex"), &before_forms());
    reader.seek_chunk(0);
    let mut batch = Batch::default();
    assert!(reader.next_batch(&mut batch).unwrap());
    assert_eq!(batch.site, example().site);
    assert_eq!(batch.flow, example().flow);
}

/// The example as version 64 said it, in which no mispredicted branch stood for others.
#[test]
fn version_64_is_read() {
    older(include_str!("data/version64.hex"), &before_continued());
}

/// The example as version 128 said it, in which nothing was a prefetch.
#[test]
fn version_128_is_read() {
    older(include_str!("data/version128.hex"), &before_continued());
}

/// The example as version 256 said it, in which no access continued an instruction.
#[test]
fn version_256_is_read() {
    older(include_str!("data/version256.hex"), &before_continued());
}

/// A bit of the size then says now that an access continues an instruction.
#[test]
fn version_256_has_larger_sizes() {
    let mut batch = without_code();
    batch.op[2] = Op::load(8).continuing(true);
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    writer.write(&batch).unwrap();
    let mut bytes = writer.finish().unwrap();
    bytes[8..12].copy_from_slice(&256u32.to_le_bytes());
    let (events, error) = drain(&mut TraceReader::new(Cursor::new(bytes), "old").unwrap());
    assert!(error.is_none());
    batch.op[2] = Op::load(Op::MAX_SIZE);
    assert_eq!(events, flatten([&batch]));
}

/// A number that would name two loads today was a load too far back for any core.
#[test]
fn version_8_has_one_load_an_access() {
    let mut batch = without_code();
    let deps = [0, 1, 65_536 + 2, 65_535, 65_536, 5, 6];
    batch.dep = deps.to_vec();
    let branch = |dep| Mispredicted {
        dep,
        reconverges: false,
        more: 0,
    };
    batch.mispredicted = vec![(3, branch(65_536 + 1))];
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    writer.write(&batch).unwrap();
    let bytes = without_forms(writer.finish().unwrap(), 8);
    let (events, error) = drain(&mut TraceReader::new(Cursor::new(bytes), "old").unwrap());
    assert!(error.is_none());
    batch.dep = deps.map(|dep| if dep < 65_536 { dep } else { 0 }).to_vec();
    batch.mispredicted = vec![(3, branch(0))];
    assert_eq!(events, flatten([&batch]));
}

/// A trace of one chunk without code as an older version had it: without the last stream, which is empty, and
/// cut off after the chunk.
fn without_forms(mut bytes: Vec<u8>, version: u8) -> Vec<u8> {
    bytes[8..12].copy_from_slice(&u32::from(version).to_le_bytes());
    let mut at = 12;
    while bytes[at..at + 4] != *b"CHNK" {
        at += 24 + u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) - 8;
    bytes.truncate(at + 24 + length as usize);
    let sum = crc32fast::hash(&bytes[at + 24..]);
    bytes[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
    bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
    let sum = crc32fast::hash(&bytes[at..at + 20]);
    bytes[at + 20..at + 24].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).map(|line| {
        let bytes: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}
