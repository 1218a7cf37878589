//! Code that is written to a trace is what is read from it.

mod common;

use common::{Event, Flat, Scratch, any_access, any_control};
use pagelab_events::{
    Access, AllocationCall, AllocationSite, Batch, CodeBlock, Control, Definition, Flow, Follows,
    Frame, Metadata, Mispredicted, NO_SITE, Op, Range, Source, TraceReader, TraceWriter, cat,
};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::io::Cursor;
use std::process::Command;

/// Events, the site of each access, and each execution: process, thread, accesses before it, block.
#[derive(Debug, Default, PartialEq)]
struct Spelled {
    events: Vec<Event>,
    sites: Vec<u32>,
    executions: Vec<(u32, u32, usize, u32)>,
    definitions: Vec<Definition>,
}

#[derive(Default)]
struct Speller {
    flat: Flat,
    spelled: Spelled,
}

impl Speller {
    fn add(&mut self, batch: &Batch) {
        let before = self.spelled.sites.len();
        let mut thread = None;
        for &(at, entry) in &batch.flow {
            match entry {
                Flow::Thread(next) => thread = Some(next),
                Flow::Block(block) => self.spelled.executions.push((
                    batch.process,
                    thread.expect("a flow starts with a thread"),
                    before + at as usize,
                    block,
                )),
            }
        }
        if batch.site.is_empty() {
            self.spelled.sites.extend(vec![NO_SITE; batch.len()]);
        } else {
            self.spelled.sites.extend_from_slice(&batch.site);
        }
        self.spelled.definitions.extend(batch.definitions.clone());
        self.flat.add(batch);
    }

    fn end(mut self) -> Spelled {
        self.spelled.events = self.flat.events;
        self.spelled
    }
}

fn spell<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Spelled {
    let mut speller = Speller::default();
    batches.into_iter().for_each(|batch| speller.add(batch));
    speller.end()
}

fn written(batches: &[Batch]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: Vec<u8>) -> Spelled {
    let mut reader = TraceReader::new(Cursor::new(bytes), "test.trace").unwrap();
    let mut speller = Speller::default();
    let mut batch = Batch::default();
    while reader.next_batch(&mut batch).unwrap() {
        assert!(!batch.is_empty());
        assert!(batch.flow.is_sorted_by_key(|&(at, _)| at));
        assert!(matches!(
            batch.flow.first(),
            None | Some((0, Flow::Thread(_)))
        ));
        speller.add(&batch);
    }
    speller.end()
}

fn any_block() -> impl Strategy<Value = CodeBlock> {
    let lengths = proptest::collection::vec(1u8..16, 1..12);
    let accesses = proptest::collection::vec((any::<Index>(), 0u8..3, any::<i32>()), 0..6);
    (
        0u32..3,
        any::<u64>(),
        any::<u64>(),
        lengths,
        accesses,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(process, pc, file_offset, lengths, made, known, placed)| {
            let total = lengths.iter().map(|&length| usize::from(length)).sum();
            let mut accesses: Vec<_> = (made.iter())
                .map(|(at, ..)| at.index(lengths.len()) as u16)
                .collect();
            accesses.sort_unstable();
            let follows = |(index, &(_, back, offset)): (usize, &(_, u8, i32))| Follows {
                back: if usize::from(back) <= index { back } else { 0 },
                offset: if back > 0 && usize::from(back) <= index {
                    offset
                } else {
                    0
                },
            };
            let addresses: Vec<_> = made.iter().enumerate().map(follows).collect();
            CodeBlock {
                process,
                pc,
                file: 1,
                file_offset,
                bytes: if known { vec![0x90; total] } else { Vec::new() }.into(),
                lengths: lengths.into(),
                addresses: if placed { addresses } else { Vec::new() }.into(),
                accesses: accesses.into(),
            }
        })
}

/// Next step of a generated thread.
#[derive(Clone, Debug)]
enum Step {
    /// It executes a block: all of its accesses, or fewer or more than are usual.
    Execute(Index, Option<u8>),
    /// Another thread of this process goes on.
    Switch(u32),
    /// It makes an access of which it is not known who makes it.
    Stray,
    Control(Control),
    /// Another batch starts, of this process.
    Batch(u32),
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let execute = (any::<Index>(), proptest::option::weighted(0.1, 0u8..9));
    let step = prop_oneof![
        20 => execute.prop_map(|(block, accesses)| Step::Execute(block, accesses)),
        2 => (0u32..3).prop_map(Step::Switch),
        1 => Just(Step::Stray),
        1 => any_control().prop_map(Step::Control),
        2 => (0u32..3).prop_map(Step::Batch),
    ];
    proptest::collection::vec(step, 1..400)
}

fn start(process: u32, thread: u32) -> Batch {
    let mut batch = Batch {
        process,
        ..Batch::default()
    };
    batch.push_control(Control::Thread { thread });
    batch.flow.push((0, Flow::Thread(thread)));
    batch.regular.push(false);
    batch
}

fn batches(
    blocks: &[CodeBlock],
    steps: &[Step],
    mut accesses: impl FnMut() -> Access,
) -> Vec<Batch> {
    let mut first_sites = vec![0u32];
    for block in blocks {
        first_sites.push(first_sites.last().unwrap() + block.lengths.len() as u32);
    }
    let mut all = Vec::new();
    let mut batch = start(0, 0);
    batch
        .definitions
        .push(Definition::File("/usr/bin/true".to_owned()));
    // Half of the blocks are defined when they are needed.
    let mut defined = blocks.len() / 2;
    let mut pending = 0;
    let known = blocks[..defined].iter().cloned().map(Definition::Block);
    batch.definitions.extend(known);
    for step in steps {
        match step {
            Step::Execute(index, count) => {
                let number = index.index(blocks.len());
                while defined <= number {
                    batch
                        .definitions
                        .push(Definition::Block(blocks[defined].clone()));
                    defined += 1;
                }
                batch
                    .flow
                    .push((batch.len() as u32, Flow::Block(number as u32)));
                let block = &blocks[number];
                let mut done = 0;
                let mut regular = count.is_none();
                let first = batch.len();
                for at in 0..count.map_or(block.accesses.len(), usize::from) {
                    let instruction = block.accesses.get(at).copied().unwrap_or(0);
                    let mut access = accesses();
                    if count.is_none() {
                        // Mostly as every time.
                        let instruction = u32::from(instruction);
                        let odd = access.addr % 16;
                        access.op = Op::load(at as u16);
                        access.gap = if instruction < done {
                            0
                        } else {
                            pending + instruction - done
                        };
                        if at == 0 && odd == 1 {
                            access.gap += 1;
                        }
                        if instruction >= done {
                            (pending, done) = (0, instruction + 1);
                        }
                        if odd != 2 {
                            access.dep = at as u32;
                        }
                        if let Some(follows) = block.addresses.get(at).filter(|at| at.back > 0) {
                            let from = batch.addr[first + at - usize::from(follows.back)];
                            access.addr = from.wrapping_add(follows.offset as u64);
                            if odd == 3 {
                                access.addr ^= 1;
                                regular = false;
                            }
                        }
                    }
                    batch.push(access);
                    batch
                        .site
                        .push(first_sites[number] + u32::from(instruction));
                }
                pending += block.lengths.len() as u32 - done;
                batch.regular.push(regular);
            }
            &Step::Switch(thread) => {
                batch.push_control(Control::Thread { thread });
                batch.flow.push((batch.len() as u32, Flow::Thread(thread)));
                batch.regular.push(false);
                pending = 0;
            }
            Step::Stray => {
                batch.push(accesses());
                batch.site.push(NO_SITE);
            }
            Step::Control(Control::Thread { .. }) => {}
            Step::Control(control) => batch.push_control(*control),
            &Step::Batch(process) => all.push(std::mem::replace(&mut batch, start(process, 1))),
        }
    }
    all.push(batch);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn code_comes_back(
        blocks in proptest::collection::vec(any_block(), 1..20),
        steps in any_steps(),
        accesses in proptest::collection::vec(any_access(), 50),
    ) {
        let mut made = accesses.iter().cycle();
        let mut batches = batches(&blocks, &steps, || *made.next().unwrap());
        // Definitions of code that never runs are no trace: it reads as an empty one.
        let spelled = spell(&batches);
        prop_assume!(!spelled.events.is_empty() || !spelled.executions.is_empty());
        let bytes = written(&batches);
        // Facts told beforehand change nothing.
        batches.iter_mut().for_each(|batch| batch.regular.clear());
        prop_assert!(bytes == written(&batches));
        prop_assert_eq!(read(bytes.clone()), spell(&batches));
        // Written again, it is the same trace.
        let mut reader = TraceReader::new(Cursor::new(bytes.clone()), "test.trace").unwrap();
        let mut again = Vec::new();
        let mut batch = Batch::default();
        while reader.next_batch(&mut batch).unwrap() {
            again.push(batch.clone());
        }
        prop_assert_eq!(spell(&again), spell(&batches));
        prop_assert_eq!(read(written(&again)), spell(&batches));
    }
}

/// Chunks end where a column of accesses or the flow is full, also in the middle of a block.
#[test]
fn more_than_chunks_hold() {
    let block = |accesses: &[u16]| CodeBlock {
        pc: 0x1000,
        lengths: [3; 4].into(),
        bytes: [0x90; 12].into(),
        accesses: accesses.into(),
        ..CodeBlock::default()
    };
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    batch.flow.push((0, Flow::Thread(0)));
    batch.definitions = vec![
        Definition::Block(block(&[])),
        Definition::Block(block(&[0, 1, 1])),
    ];
    for turn in 0..700_000u32 {
        batch.flow.push((batch.len() as u32, Flow::Block(0)));
        if turn % 7 == 0 {
            batch.flow.push((batch.len() as u32, Flow::Block(1)));
            for instruction in [0, 1, 1] {
                batch.push(Access {
                    addr: u64::from(turn) * 8,
                    ..Access::default()
                });
                batch.site.push(4 + instruction);
            }
        }
    }
    let bytes = written(std::slice::from_ref(&batch));
    // A loop like this takes next to nothing.
    assert!(bytes.len() < 200_000, "{}", bytes.len());
    assert_eq!(read(bytes), spell([&batch]));
}

/// As many blocks without an access as fill chunks, and then a mispredicted branch.
#[test]
fn a_mispredicted_branch_stays_with_its_access() {
    let branch = Mispredicted {
        dep: 1,
        reconverges: false,
        more: 0,
    };
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    batch.flow.push((0, Flow::Thread(0)));
    batch.definitions = vec![Definition::Block(CodeBlock {
        pc: 0x1000,
        lengths: [3].into(),
        bytes: [0x90; 3].into(),
        accesses: [0].into(),
        ..CodeBlock::default()
    })];
    let last = Mispredicted {
        more: u32::MAX,
        ..branch
    };
    // 262,144 entries fill a chunk: one less, as many, and more than two.
    for blocks in [262_143, 262_144, 600_000] {
        let executed = (batch.len() as u32, Flow::Block(0));
        batch.flow.extend(std::iter::repeat_n(executed, blocks));
        // Seventeen times as many as there may be before an access fill the control stream.
        for _ in 0..17 {
            (1..Batch::MAX_MISPREDICTED).for_each(|_| batch.push_mispredicted(branch));
            batch.push_mispredicted(last);
            batch.push(Access::default());
            batch.site.push(0);
        }
    }
    let bytes = written(std::slice::from_ref(&batch));
    assert_eq!(read(bytes), spell([&batch]));
    batch.mispredicted.insert(0, (0, branch));
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    assert!(writer.write(&batch).is_err());
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    batch.flow = vec![(0, Flow::Thread(0)), (0, Flow::Block(0))];
    let refused = |batch: &Batch| {
        let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
        writer.write(batch).unwrap_err().to_string()
    };
    assert!(refused(&batch).contains("block 0"), "{}", refused(&batch));
    batch.flow = vec![(0, Flow::Block(0))];
    assert!(refused(&batch).contains("out of order"));
    batch.flow = vec![(0, Flow::Thread(0))];
    batch.push(Access::default());
    assert!(refused(&batch).contains("sites"));
    batch.flow.clear();
    batch.site.push(NO_SITE);
    assert!(refused(&batch).contains("sites"));
}

/// Output of the reader in Python that was made from the documentation, from our reader.
fn as_text(bytes: Vec<u8>) -> Vec<String> {
    let mut reader = TraceReader::new(Cursor::new(bytes), "test.trace").unwrap();
    let mut lines = Vec::new();
    let mut batch = Batch::default();
    while reader.next_batch(&mut batch).unwrap() {
        for definition in &batch.definitions {
            lines.push(match definition {
                Definition::File(path) => format!("file {path}"),
                Definition::Function { name, blocks } => format!("function {name} {blocks:?}"),
                Definition::Lines { path, sites } => format!("lines {path} {sites:?}"),
                Definition::AllocationSite(site) => {
                    let frames = site.frames.iter();
                    let frames: Vec<_> = frames
                        .map(|frame| format!("{}+{:x}", frame.file, frame.offset))
                        .collect();
                    format!("allocation-site {} {}", site.call as u8, frames.join(" "))
                }
                Definition::Mapping { path, ranges } => {
                    let ranges = ranges.iter();
                    let ranges: Vec<_> = ranges
                        .map(|range| format!("{}:{:x}+{:x}", range.process, range.addr, range.len))
                        .collect();
                    format!("mapping {path} {}", ranges.join(" "))
                }
                Definition::Block(block) => {
                    let bytes: String = block
                        .bytes
                        .iter()
                        .map(|byte| format!("{byte:02x}"))
                        .collect();
                    let follows = block.addresses.iter();
                    let follows: Vec<_> = follows
                        .map(|follows| format!("{}:{}", follows.back, follows.offset))
                        .collect();
                    format!(
                        "block {} {:x} {} {:x} {:?} {bytes} {:?} {}",
                        block.process,
                        block.pc,
                        block.file,
                        block.file_offset,
                        block.lengths,
                        block.accesses,
                        if follows.is_empty() {
                            "-".to_owned()
                        } else {
                            follows.join(" ")
                        }
                    )
                }
            });
        }
        let mut flow = batch.flow.iter().peekable();
        for index in 0..=batch.len() {
            while let Some(&(_, entry)) = flow.next_if(|&&(at, _)| at as usize == index) {
                match entry {
                    Flow::Thread(thread) => {
                        lines.push(format!("thread {} {thread}", batch.process));
                    }
                    Flow::Block(block) => lines.push(format!("execute {block}")),
                }
            }
            if let Some(site) = batch.site.get(index) {
                lines.push(format!("site {site}"));
            }
        }
    }
    lines
}

/// A function of blocks that may not be there, one of none, a file that was mapped, and lines.
fn names() -> [Definition; 4] {
    let range = |process, addr, len| Range { process, addr, len };
    [
        Definition::Mapping {
            path: "/some where/data".to_owned(),
            ranges: [range(0, 0x7000, 0x2000), range(1, 0x1000, 1 << 40)].into(),
        },
        Definition::Function {
            name: "loop at λ".to_owned(),
            blocks: [0, 7, 3].into(),
        },
        Definition::Function {
            name: String::new(),
            blocks: [].into(),
        },
        Definition::Lines {
            path: "some where.js".to_owned(),
            sites: [(7, u32::MAX), (0, 1), (8, 2)].into(),
        },
    ]
}

/// A call of mmap from code that is in no file.
fn allocation_site() -> Definition {
    let frames = [u64::MAX, 0x7000].map(|offset| Frame { file: 0, offset });
    Definition::AllocationSite(AllocationSite {
        call: AllocationCall::Mmap,
        frames: frames.into(),
    })
}

#[test]
fn names_come_first_also_where_only_the_beginning_is_read() {
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    for chunk in 0..3 {
        batch.push_control(Control::Brk { end: chunk });
        writer.write(&batch).unwrap();
        writer.flush_chunk().unwrap();
    }
    batch.clear();
    batch.definitions = names().into();
    writer.write(&batch).unwrap();
    let bytes = writer.finish().unwrap();
    let mut reader = TraceReader::new(Cursor::new(bytes), "test.trace").unwrap();
    assert!(reader.has_code());
    assert!(reader.next_batch(&mut batch).unwrap());
    assert_eq!(batch.definitions, names());
    // Once.
    reader.seek_chunk(0);
    assert!(reader.next_batch(&mut batch).unwrap());
    assert_eq!(batch.definitions, []);
}

#[test]
fn what_is_after_the_last_chunk_of_a_file_that_was_cut_off_is_not_read() {
    let mut batch = Batch::default();
    batch.push_control(Control::Brk { end: 1 });
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    writer.write(&batch).unwrap();
    batch.clear();
    batch.definitions = names().into();
    writer.write(&batch).unwrap();
    let mut bytes = writer.finish().unwrap();
    // The tail starts with where the index is.
    let tail = bytes.len() - 16;
    let index = u64::from_le_bytes(bytes[tail..tail + 8].try_into().unwrap());
    bytes.truncate(index as usize);
    *bytes.last_mut().unwrap() ^= 1;
    let mut reader = TraceReader::new(Cursor::new(bytes), "test.trace").unwrap();
    assert!(reader.has_code());
    assert!(reader.next_batch(&mut batch).unwrap());
    assert!(!reader.next_batch(&mut batch).unwrap());
}

/// Without threads that do nothing, or are named although they go on.
fn essential<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut kept: Vec<&str> = Vec::new();
    let (mut named, mut running) = ("", "");
    for line in lines {
        match line.split(' ').next() {
            Some("thread") => named = line,
            Some("execute" | "site") => {
                if named != running {
                    kept.push(named);
                    running = named;
                }
                kept.push(line);
            }
            _ => kept.push(line),
        }
    }
    kept
}

/// Output of the reader in Python.
fn from_documentation(file: &Scratch, options: &[&str]) -> String {
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace_reader.py");
    let theirs = Command::new("python3")
        .args([reader.as_ref(), file.0.as_os_str()])
        .args(options)
        .output()
        .expect("python3 is needed for this test");
    let complaint = String::from_utf8_lossy(&theirs.stderr);
    assert!(theirs.status.success(), "{complaint}");
    String::from_utf8(theirs.stdout).unwrap()
}

/// Without the names of processes and threads, which a chunk has also where only code is executed.
fn events(text: &str) -> Vec<&str> {
    let named = |line: &&str| !line.starts_with("process,") && !line.starts_with("thread,");
    text.lines().filter(named).collect()
}

/// docs/trace-format.md says it all.
#[test]
fn a_reader_made_from_the_documentation_reads_the_same_code() {
    let mut runner = TestRunner::deterministic();
    let accesses = proptest::collection::vec(any_access(), 50);
    let blocks = proptest::collection::vec(any_block(), 1..20);
    let strategy = (blocks, any_steps(), accesses);
    let mut executions = 0;
    for _ in 0..8 {
        let (blocks, steps, accesses) = strategy.new_tree(&mut runner).unwrap().current();
        let mut made = accesses.iter().cycle();
        let mut batches = batches(&blocks, &steps, || *made.next().unwrap());
        batches[0].definitions.extend(names());
        batches[0].definitions.push(allocation_site());
        let bytes = written(&batches);
        let file = Scratch::new("code", &bytes);
        let mut reader = TraceReader::new(Cursor::new(bytes.clone()), "test.trace").unwrap();
        let mut ours = Vec::new();
        cat(&mut reader, &mut ours, "text").unwrap();
        let ours = String::from_utf8(ours).unwrap();
        // The accesses, whose gaps and addresses are told with the code.
        assert_eq!(events(&from_documentation(&file, &[])), events(&ours));
        let theirs = from_documentation(&file, &["--code"]);
        let ours = as_text(bytes);
        executions += ours
            .iter()
            .filter(|line| line.starts_with("execute"))
            .count();
        // Ours are read first, but for the mapping, which stands where it was told.
        let ours = essential(ours.iter().map(String::as_str));
        let theirs = essential(theirs.lines());
        let names = names().len() - 1;
        assert_eq!(theirs[theirs.len() - names..], ours[..names]);
        assert_eq!(theirs[..theirs.len() - names], ours[names..]);
    }
    assert!(executions > 100, "{executions}");
}
