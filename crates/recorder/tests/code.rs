//! The code of a recording, against what the processor, the assembler and the files say.

mod common;

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use common::processor::{lines, stepped};
use common::{Program, build};
use pagelab_events::{Batch, CodeTable, Flow};
use pagelab_recorder::{Request, Window, record_into};

struct Recorded {
    batches: Vec<Batch>,
    table: CodeTable,
}

fn record(request: Request) -> Recorded {
    record_as(Request {
        with_code: true,
        ..request
    })
}

fn record_as(request: Request) -> Recorded {
    let (_, batches) =
        record_into(&request, Vec::new(), &mut |_| ControlFlow::Continue(())).expect("it records");
    let batches: Vec<Batch> = batches.expect("the sink comes back");
    let mut table = CodeTable::default();
    for definition in batches.iter().flat_map(|batch| &batch.definitions) {
        assert!(table.define(definition.clone()), "{definition:?}");
    }
    Recorded { batches, table }
}

impl Recorded {
    /// The address of every instruction of a program with one thread, in order.
    fn instructions(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for batch in &self.batches {
            for &(_, entry) in &batch.flow {
                if let Flow::Block(number) = entry {
                    let block = &self.table.blocks()[number as usize];
                    let mut pc = block.pc;
                    for &length in &block.lengths {
                        all.push(pc);
                        pc += u64::from(length);
                    }
                }
            }
        }
        all
    }

    /// The address of the instruction of every access that the program makes itself.
    fn accesses(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for batch in &self.batches {
            assert_eq!(batch.site.len(), batch.len());
            for (op, &site) in batch.op.iter().zip(&batch.site) {
                let instruction = self.table.instruction(site).expect("it is known");
                if !op.is_kernel() {
                    all.push(instruction.pc);
                }
            }
        }
        all
    }
}

/// The lines that announce accesses ("#= "), once for each that they announce.
fn announced(program: &Program) -> Vec<u32> {
    let mut all = Vec::new();
    for (number, line) in (1..).zip(program.source.lines()) {
        if let Some((_, text)) = line.split_once("#= ") {
            all.extend(text.split(';').map(|_| number));
        }
    }
    all
}

const FLAGS: [&str; 3] = ["-nostdlib", "-static", "-g"];
const PROGRAMS: [&str; 5] = [
    "plain.s",
    "string.s",
    "dependence.s",
    "vector.s",
    "atomic.s",
];

#[test]
fn every_instruction_is_in_the_flow() {
    for name in PROGRAMS {
        let program = build(name, &FLAGS);
        let recorded = record(program.request());
        let native = stepped(&program.path);
        assert!(native.len() > 10, "{name}");
        assert_eq!(recorded.instructions(), native, "{name}");
    }
}

/// Repeated string instructions and read-modify-writes among them, and calls of which the kernel makes accesses.
#[test]
fn gaps_and_accesses_add_up_to_the_instructions() {
    for name in PROGRAMS {
        for verbatim in [false, true] {
            let program = build(name, &FLAGS);
            let recorded = record(Request {
                verbatim,
                ..program.request()
            });
            let batches = recorded.batches.iter();
            let counted: u64 = batches
                .flat_map(|batch| batch.op.iter().zip(&batch.gap))
                .map(|(op, &gap)| op.instructions(gap))
                .sum();
            let sites = recorded.batches.iter().flat_map(|batch| &batch.site);
            let last = recorded.table.instruction(*sites.last().unwrap()).unwrap();
            let native = stepped(&program.path);
            let until = native.iter().rposition(|&pc| pc == last.pc).unwrap() + 1;
            assert_eq!(counted, until as u64, "{name}");
        }
    }
}

#[test]
fn every_access_is_made_by_the_line_that_announces_it() {
    for name in PROGRAMS {
        for verbatim in [false, true] {
            let program = build(name, &FLAGS);
            let recorded = record(Request {
                verbatim,
                ..program.request()
            });
            let made = lines(&program.path, &recorded.accesses());
            assert_eq!(made, announced(&program), "{name}");
        }
    }
}

#[test]
fn blocks_are_where_the_files_say() {
    let program = build("threads.c", &["-O1", "-pthread"]);
    let recorded = record(program.request());
    let files: Vec<&str> = recorded.table.files().iter().map(String::as_str).collect();
    assert!(files.contains(&program.path.to_str().unwrap()), "{files:?}");
    assert!(
        files.iter().any(|file| file.contains("libc.so")),
        "{files:?}"
    );
    let mut compared = 0;
    for block in recorded.table.blocks() {
        let Some(number) = block.file.checked_sub(1) else {
            continue;
        };
        let file = File::open(files[number as usize]).expect("it can be read");
        let mut bytes = vec![0; block.bytes.len()];
        file.read_exact_at(&mut bytes, block.file_offset).unwrap();
        assert_eq!(&bytes[..], &block.bytes[..], "{block:x?}");
        compared += 1;
    }
    assert!(compared > 1000, "{compared}");
    assert!(compared as f64 > 0.99 * recorded.table.blocks().len() as f64);
}

/// In windows as well, every access has its instruction, and what was defined is executed.
#[test]
fn windows_keep_the_code_of_what_they_keep() {
    // One thread: how often threads look for each other differs from run to run.
    let program = build("random.c", &["-O1"]);
    let whole = record(program.request());
    let part = record(Request {
        window: Window {
            skip: 1000,
            period: 700,
            sample: 300,
            ..Window::default()
        },
        ..program.request()
    });
    let (all, kept) = (whole.accesses().len(), part.accesses().len());
    assert!(kept > all / 4 && kept < all / 2, "{kept} of {all}");
    for batch in &part.batches {
        assert!(batch.flow.is_sorted_by_key(|&(at, _)| at));
        assert!(matches!(
            batch.flow.first(),
            None | Some((0, Flow::Thread(_)))
        ));
    }
}

#[test]
fn without_code_there_is_none() {
    let program = build("plain.s", &FLAGS);
    let recorded = record_as(program.request());
    assert!(recorded.table.blocks().is_empty());
    let empty = |batch: &Batch| batch.flow.is_empty() && batch.site.is_empty();
    assert!(recorded.batches.iter().all(empty));
    assert!(recorded.batches.iter().any(|batch| !batch.addr.is_empty()));
}
