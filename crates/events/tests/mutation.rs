//! Every parser on mutated files: it may find errors, but must not panic, hang, or make batches
//! that break the contract. `make fuzz` does the same guided by coverage, for as long as wanted.

mod common;

use common::drain;
use pagelab_events::{
    Access, AllocationCall, AllocationSite, Batch, CodeBlock, Control, Definition, Flow, Follows,
    Frame, Metadata, Op, Range, TraceReader, TraceWriter, open_foreign,
};
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::LazyLock;

/// A change to a file.
#[derive(Clone, Debug)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Number(prop::sample::Index, u32),
}

fn any_mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    let number = prop_oneof![
        Just(0),
        Just(u32::MAX),
        Just(1 << 31),
        Just(65536),
        any::<u32>()
    ];
    prop_oneof![
        4 => (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        4 => (index(), 0u8..8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        1 => index().prop_map(Mutation::Cut),
        1 => (index(), 1usize..100).prop_map(|(at, len)| Mutation::Remove(at, len)),
        1 => (index(), 1usize..100).prop_map(|(at, len)| Mutation::Repeat(at, len)),
        2 => (index(), number).prop_map(|(at, number)| Mutation::Number(at, number)),
    ]
}

fn any_mutations() -> impl Strategy<Value = Vec<Mutation>> {
    proptest::collection::vec(any_mutation(), 1..6)
}

fn apply(bytes: &mut Vec<u8>, mutations: &[Mutation]) {
    for mutation in mutations {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match mutation {
            Mutation::Set(at, byte) => bytes[at.index(len)] = *byte,
            Mutation::Flip(at, bit) => bytes[at.index(len)] ^= 1 << bit,
            Mutation::Cut(at) => bytes.truncate(at.index(len)),
            Mutation::Remove(at, count) => {
                let at = at.index(len);
                bytes.drain(at..len.min(at + count));
            }
            Mutation::Repeat(at, count) => {
                let at = at.index(len);
                bytes.extend_from_within(at..len.min(at + count));
            }
            Mutation::Number(at, number) => {
                let at = at.index(len);
                let end = len.min(at + 4);
                bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            }
        }
    }
}

static TRACE: LazyLock<Vec<u8>> = LazyLock::new(trace);

/// One of version 4, whose streams are as they are.
static OLD_TRACE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let bytes = include_str!("data/version4.hex").split_whitespace();
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
});

/// A trace of two chunks with every column busy.
fn trace() -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new().with("a", "b")).unwrap();
    for process in 0..2 {
        let mut batch = Batch {
            process,
            ..Batch::default()
        };
        batch.push_control(Control::Thread { thread: 1 });
        batch.flow.push((0, Flow::Thread(1)));
        if process == 0 {
            batch.definitions = definitions();
        }
        for index in 0..300u32 {
            let block = index % 9 / 3;
            if index % 3 == 0 {
                batch.flow.push((index, Flow::Block(block)));
            }
            // Every twenty-fifth is not the one that is usual.
            batch
                .site
                .push(4 * block + index % 3 + u32::from(index % 25 == 0));
            let addr = match index % 3 {
                1 => batch.addr[index as usize - 1] + 8,
                _ => u64::from(index * index) << (index % 30),
            };
            batch.push(Access {
                addr,
                op: if index % 3 == 0 {
                    Op::store(4)
                } else {
                    Op::load(8)
                },
                gap: u32::from(index % 7 == 0),
                dep: index / 30 * (index % 3),
            });
            if index % 50 == 0 {
                let end = u64::from(index);
                batch.push_control(Control::Brk { end });
            }
        }
        writer.write(&batch).unwrap();
        writer.flush_chunk().unwrap();
    }
    writer.finish().unwrap()
}

/// A file and three blocks of four instructions and three accesses.
fn definitions() -> Vec<Definition> {
    let block = |number: u64| CodeBlock {
        pc: 0x40_0000 + 64 * number,
        file: 1,
        file_offset: 64 * number,
        lengths: [2, 3, 4, 1].into(),
        bytes: [0x90; 10].into(),
        accesses: [0, 1, 2].into(),
        addresses: [
            Follows::default(),
            Follows { back: 1, offset: 8 },
            Follows::default(),
        ]
        .into(),
        ..CodeBlock::default()
    };
    let mut all = vec![Definition::File("/bin/true".to_owned())];
    all.extend((0..3).map(|number| Definition::Block(block(number))));
    all.push(Definition::Function {
        name: "f".to_owned(),
        blocks: [1, 2].into(),
    });
    all.push(Definition::Mapping {
        path: "/data".to_owned(),
        ranges: [Range {
            process: 1,
            addr: 0x1000,
            len: 0x1000,
        }]
        .into(),
    });
    all.push(Definition::AllocationSite(AllocationSite {
        call: AllocationCall::New,
        frames: [
            Frame {
                file: 1,
                offset: 0x1234,
            },
            Frame {
                file: 0,
                offset: 0x7fff_0000,
            },
        ]
        .into(),
    }));
    all.push(Definition::Lines {
        path: "a.js".to_owned(),
        sites: [(1, 7), (2, 9)].into(),
    });
    all
}

/// Ranges of the blocks' payloads: after a header of 24 bytes that says its length at byte 4.
fn blocks(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut blocks = Vec::new();
    let mut at = 12;
    while let Some(header) = bytes.get(at..at + 24) {
        let len = u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize;
        let end = bytes.len().min(at + 24 + len);
        blocks.push(at + 24..end);
        at = end;
    }
    blocks
}

/// Makes the checksums right again, so that what they protect is parsed.
fn repair(bytes: &mut [u8], blocks: &[std::ops::Range<usize>]) {
    for payload in blocks {
        let Some(head) = payload.start.checked_sub(24) else {
            continue;
        };
        let end = payload.end.min(bytes.len());
        if payload.start > end {
            continue;
        }
        let checksum = crc32fast::hash(&bytes[payload.start..end]);
        bytes[head + 8..head + 12].copy_from_slice(&checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[head..head + 20]);
        bytes[head + 20..head + 24].copy_from_slice(&checksum.to_le_bytes());
    }
}

const CSV: &str = "kind,addr,size,gap,dep\nmap,7000,0x3000,rw,stack,populate\nprocess,1\n\
    L,7010,8,2,1\nKS,8ff8,16,10\nadvise,7000,4096,free\nremap,1,2,3,4\nexit,-3\n# end\n";
const LACKEY: &str = "==1== Lackey\nI  04001234,3\n L 1ffe,8\n S 1ffe,8\n M 1000,4\n==1== end\n";

fn read_any(name: &str, bytes: Vec<u8>) {
    if let Ok((_, mut source)) = open_foreign(Cursor::new(bytes), name) {
        drain(&mut source);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn mutated_traces(mutations in any_mutations()) {
        let mut bytes = TRACE.clone();
        apply(&mut bytes, &mutations);
        if let Ok(mut reader) = TraceReader::new(Cursor::new(bytes), "mutated") {
            drain(&mut reader);
        }
    }

    #[test]
    fn mutated_traces_with_good_checksums(mutations in any_mutations()) {
        for trace in [&TRACE, &OLD_TRACE] {
            let mut bytes = (*trace).clone();
            let blocks = blocks(&bytes);
            apply(&mut bytes, &mutations);
            repair(&mut bytes, &blocks);
            if let Ok(mut reader) = TraceReader::new(Cursor::new(bytes), "mutated") {
                drain(&mut reader);
            }
        }
    }

    #[test]
    fn mutated_text(mutations in any_mutations()) {
        for (name, text) in [("t.csv", CSV), ("t.lackey", LACKEY)] {
            let mut bytes = text.as_bytes().to_vec();
            apply(&mut bytes, &mutations);
            read_any(name, bytes);
        }
    }

    #[test]
    fn mutated_champsim(mutations in any_mutations()) {
        let mut bytes = [0x40u8, 0x10, 0x40, 0, 0, 0, 0, 0].repeat(64);
        bytes.chunks_mut(64).for_each(|record| record[8..14].fill(1));
        apply(&mut bytes, &mutations);
        read_any("t.champsim", bytes);
    }

    #[test]
    fn mutated_compression(mutations in any_mutations()) {
        for compressed in COMPRESSED.iter() {
            let mut bytes = compressed.clone();
            apply(&mut bytes, &mutations);
            read_any("t", bytes);
        }
    }
}

/// The CSV text in every compressed format.
static COMPRESSED: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let text = CSV.as_bytes();
    let zstd = zstd::encode_all(text, 1).unwrap();
    [zstd, gzip(text), xz(text), bzip2(text)]
});

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::fast();
    let mut encoder = flate2::read::GzEncoder::new(bytes, level);
    read_to_end(&mut encoder)
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    read_to_end(&mut liblzma::read::XzEncoder::new(bytes, 0))
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let level = bzip2::Compression::fast();
    read_to_end(&mut bzip2::read::BzEncoder::new(bytes, level))
}

fn read_to_end(reader: &mut dyn std::io::Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A header with good checksums that claims whatever a 32-bit number can: nothing is allocated
/// for it.
#[test]
fn sizes_in_headers_are_not_believed() {
    let bytes = TRACE.clone();
    let blocks = blocks(&bytes);
    // The definitions and the first chunk.
    for at in blocks[1..3].iter().flat_map(|block| {
        let fields = (block.start - 24 + 4..block.start - 24 + 20).step_by(4);
        fields.chain([block.start, block.start + 4])
    }) {
        for claim in [u32::MAX, 1 << 31, 1 << 24, 65537] {
            let mut bytes = bytes.clone();
            bytes[at..at + 4].copy_from_slice(&claim.to_le_bytes());
            repair(&mut bytes, &blocks);
            // Scanned, since the index would disagree.
            bytes.truncate(blocks.last().unwrap().start - 24);
            let mut reader = TraceReader::new(Cursor::new(bytes), "claims").unwrap();
            let (events, error) = drain(&mut reader);
            let checksum = blocks[1..3].iter().any(|block| at == block.start - 24 + 8);
            assert!(events.is_empty() || checksum);
            assert!(error.is_some() || checksum);
        }
    }
}
