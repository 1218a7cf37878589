//! ChampSim's format, against records written by hand beside each instruction.

mod common;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use common::build;
use common::processor::{lines, stepped};
use pagelab_champsim::{ExportError, is_champsim, write_champsim};
use pagelab_events::{TraceReader, open_any};
use pagelab_recorder::{Request, Window, record};

/// Numbers of registers, as Intel's Pin has them.
fn register(name: &str) -> u8 {
    match name {
        "rdi" => 3,
        "rsi" => 4,
        "rbp" => 5,
        "rsp" => 6,
        "rbx" => 7,
        "rdx" => 8,
        "rcx" => 9,
        "rax" => 10,
        "r8" => 11,
        "r9" => 12,
        "r11" => 14,
        "r15" => 18,
        "flags" => 25,
        "rip" => 26,
        "xmm1" => 65,
        "xmm2" => 66,
        other => panic!("{other}"),
    }
}

/// ChampSim's record, registers in ascending order.
#[derive(Debug, Default, PartialEq)]
struct Record {
    ip: u64,
    is_branch: u8,
    branch_taken: u8,
    writes: Vec<u8>,
    reads: Vec<u8>,
    stores: Vec<u64>,
    loads: Vec<u64>,
}

impl Record {
    fn read(bytes: &[u8]) -> Record {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let words = |from: usize, to: usize| {
            let all = (from..to).step_by(8).map(word);
            all.filter(|&word| word != 0).collect()
        };
        let registers = |from: usize, to: usize| {
            let mut found: Vec<u8> = bytes[from..to]
                .iter()
                .copied()
                .filter(|&r| r != 0)
                .collect();
            found.sort_unstable();
            found
        };
        Record {
            ip: word(0),
            is_branch: bytes[8],
            branch_taken: bytes[9],
            writes: registers(10, 12),
            reads: registers(12, 16),
            stores: words(16, 32),
            loads: words(32, 64),
        }
    }
}

/// Records of a line for its instruction the n-th time: a record a repetition.
fn expected(text: &str, visit: usize, ip: u64, symbols: &HashMap<String, u64>) -> Vec<Record> {
    let note = text.split_once("#> ").map_or("", |(_, note)| note);
    let field = |name: &str| {
        let found = note
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name));
        found.map(|value| {
            value
                .split('/')
                .nth(visit)
                .unwrap_or_else(|| value.split('/').next_back().unwrap())
        })
    };
    let registers = |name: &str| {
        let mut all: Vec<u8> =
            field(name).map_or(Vec::new(), |names| names.split(',').map(register).collect());
        all.sort_unstable();
        all
    };
    let addresses = |name: &str| -> Vec<u64> {
        let all = field(name).map_or(Vec::new(), |texts| texts.split('&').collect());
        all.into_iter()
            .map(|text| {
                let sign = text.find(['+', '-']).unwrap_or(text.len());
                let offset: i64 = text[sign..].parse().unwrap_or(0);
                symbols[&text[..sign]].wrapping_add_signed(offset)
            })
            .collect()
    };
    let (loads, stores) = (addresses("l="), addresses("s="));
    let times = loads.len().max(stores.len()).max(1);
    (0..times)
        .map(|time| Record {
            ip,
            is_branch: u8::from(field("t=").is_some()),
            branch_taken: u8::from(field("t=") == Some("1")),
            writes: registers("w="),
            reads: registers("r="),
            stores: stores.get(time).into_iter().copied().collect(),
            loads: loads.get(time).into_iter().copied().collect(),
        })
        .collect()
}

fn trace(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn recorded(request: Request, name: &str) -> PathBuf {
    let path = trace(name);
    record(&request, &path, &mut |_| ControlFlow::Continue(())).expect("it records");
    path
}

#[test]
fn every_record_is_as_it_is_written_by_hand() {
    let program = build("champsim.s", &["-nostdlib", "-static", "-g"]);
    let path = recorded(
        Request {
            with_code: true,
            ..program.request()
        },
        "champsim.trace",
    );
    let output = trace("by-hand.champsimtrace");
    let mut source = TraceReader::open(path).unwrap();
    let count = write_champsim(&mut source, &output).unwrap();
    let bytes = std::fs::read(&output).unwrap();
    let written: Vec<Record> = bytes.chunks(64).map(Record::read).collect();
    assert_eq!(written.len() as u64, count);

    let symbols = program.symbols();
    let native = stepped(&program.path);
    let numbers = lines(&program.path, &native);
    let texts: Vec<&str> = program.source.lines().collect();
    let mut visits: HashMap<u64, usize> = HashMap::new();
    let mut by_hand = Vec::new();
    for (&ip, number) in native.iter().zip(numbers) {
        let visit = visits.entry(ip).or_default();
        by_hand.extend(expected(texts[number as usize - 1], *visit, ip, &symbols));
        *visit += 1;
    }
    assert!(by_hand.len() > 35, "{}", by_hand.len());
    assert_eq!(written.len(), by_hand.len());
    for (written, mut by_hand) in written.into_iter().zip(by_hand) {
        // A record has room for two registers that are written: which of three is open.
        if by_hand.writes.len() > 2 {
            assert_eq!(written.writes.len(), 2);
            by_hand
                .writes
                .retain(|register| written.writes.contains(register));
        }
        assert_eq!(written, by_hand);
    }
}

#[test]
fn a_compressed_trace_is_read_back_with_the_same_accesses() {
    let program = build("counters.c", &["-O1", "-static"]);
    let path = recorded(
        Request {
            with_code: true,
            window: Window {
                limit: 5000,
                ..Window::default()
            },
            ..program.request()
        },
        "counters.trace",
    );
    let mut addresses = Vec::new();
    for suffix in ["", ".xz", ".gz"] {
        let output = trace(&format!("counters.champsim{suffix}"));
        assert!(is_champsim(&output));
        let mut source = TraceReader::open(&path).unwrap();
        let count = write_champsim(&mut source, &output).unwrap();
        let mut found = Vec::new();
        let mut instructions = 0;
        let mut source = open_any(&output).unwrap();
        let mut batch = pagelab_events::Batch::default();
        while source.next_batch(&mut batch).unwrap() {
            found.extend_from_slice(&batch.addr);
            instructions += batch.gap.iter().map(|&gap| u64::from(gap)).sum::<u64>();
        }
        assert!(found.len() > 1000 && instructions < count);
        addresses.push(found);
    }
    assert!(addresses.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn without_code_it_says_how_to_get_it() {
    let program = build("champsim.s", &["-nostdlib", "-static", "-g"]);
    let path = recorded(program.request(), "plain.trace");
    let mut source = TraceReader::open(path).unwrap();
    let refused = write_champsim(&mut source, trace("none.champsim"));
    assert!(matches!(refused, Err(ExportError::NoCode)));
    assert!(!is_champsim("a.csv") && !is_champsim("champsim.trace"));
}
