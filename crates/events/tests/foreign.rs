//! Traces of Valgrind Lackey and ChampSim, plain and compressed, whole and cut off.

mod common;

use common::{drain, flatten};
use pagelab_events::{
    Access, Batch, CodeTable, Flow, Format, Op, Source, SourceError, convert, open_any,
    open_foreign,
};
use std::io::{Cursor, Write};

fn read(name: &str, contents: &[u8]) -> (Vec<common::Event>, Option<SourceError>) {
    let (_, mut source) = open_foreign(Cursor::new(contents.to_vec()), name).unwrap();
    drain(&mut source)
}

fn refusal(name: &str, contents: &[u8]) -> String {
    match open_foreign(Cursor::new(contents.to_vec()), name) {
        Ok(_) => panic!("{name} was opened"),
        Err(error) => error.to_string(),
    }
}

/// The events of one thread that makes these accesses: address, operation, gap, dependence.
fn accesses(rows: &[(u64, Op, u32, u32)]) -> Vec<common::Event> {
    let mut batch = Batch::default();
    for &(addr, op, gap, dep) in rows {
        batch.push(Access { addr, op, gap, dep });
    }
    flatten([&batch])
}

const LACKEY: &str = "\
==11108== Lackey, an example Valgrind tool
==11108== Command: true
==11108==
I  0401ab70,3
I  0401ab73,5
 S 1fff000618,8
I  0401b770,1
 L 1fff000610,16
 S 1fff000620,2
I  0401b771,7
I  0401b778,7
==11108== some warning in between
I  0401b77f,5
 M 0421f9f8,4
==11108==
==11108== Exit code:       0
";

/// Meaning of these lines, by Valgrind's manual, section Lackey.
fn lackey_events() -> Vec<common::Event> {
    accesses(&[
        (0x1fff000618, Op::store(8), 1, 0),
        (0x1fff000610, Op::load(16), 0, 0),
        (0x1fff000620, Op::store(2).continuing(true), 0, 0),
        (0x421f9f8, Op::load(4), 2, 0),
        (0x421f9f8, Op::store(4).continuing(true), 0, 0),
    ])
}

#[test]
fn lackey_lines_become_accesses() {
    let (events, error) = read("any-name", LACKEY.as_bytes());
    assert!(error.is_none());
    assert_eq!(events, lackey_events());
}

#[test]
fn lackey_without_valgrinds_lines_is_recognised() {
    for first in ["I  0401ab70,3", " L 1fff000618,8", " S 1fff,1", " M 1fff,1"] {
        let (events, error) = read("trace", format!("{first}\n M 10,4\n").as_bytes());
        assert!(error.is_none());
        assert!(events.len() >= 2);
    }
}

/// A file without lines of instructions says nothing of them: each access has its own.
#[test]
fn lackey_without_instructions_has_one_for_each_line() {
    let (events, _) = read("trace", b" L 1000,8\n S 2000,8\n M 3000,8\n");
    let continues = events.iter().filter_map(|event| match event {
        common::Event::Access(_, _, access) => Some(access.op.continues()),
        _ => None,
    });
    assert!(continues.eq([false, false, false, true]));
}

#[test]
fn a_wrong_lackey_line_is_named() {
    for (line, expected) in [
        (
            " L 8000000000000000,8",
            "expected an address whose bits 56 to 63 are equal",
        ),
        (" S 1000,8192", "expected a size of at most 8191 bytes"),
        (
            " M 1000,99999999999999999999",
            "expected a size of at most 8191 bytes",
        ),
    ] {
        let (events, error) = read("t", format!("{LACKEY}{line}\n L 1,1\n").as_bytes());
        assert_eq!(events, lackey_events());
        let error = error.unwrap().to_string();
        let expected = format!("t: line 17: found {line:?}, {expected}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

/// ChampSim's record, field by field as in its inc/trace_instruction.h.
#[derive(Clone, Copy, Default)]
struct Instruction {
    ip: u64,
    is_branch: u8,
    branch_taken: u8,
    destination_registers: [u8; 4],
    source_registers: [u8; 4],
    destination_memory: [u64; 4],
    source_memory: [u64; 4],
}

impl Instruction {
    /// `input_instr`: two destinations of each kind.
    fn input(&self) -> Vec<u8> {
        let mut bytes = self.ip.to_le_bytes().to_vec();
        bytes.extend([self.is_branch, self.branch_taken]);
        bytes.extend(&self.destination_registers[..2]);
        bytes.extend(self.source_registers);
        let destinations = &self.destination_memory[..2];
        bytes.extend(destinations.iter().flat_map(|addr| addr.to_le_bytes()));
        bytes.extend(
            self.source_memory
                .iter()
                .flat_map(|addr| addr.to_le_bytes()),
        );
        assert_eq!(bytes.len(), 64);
        bytes
    }

    /// `cloudsuite_instr`: four, padding as the C compiler lays it out, and an address space.
    fn cloudsuite(&self) -> Vec<u8> {
        let mut bytes = self.ip.to_le_bytes().to_vec();
        bytes.extend([self.is_branch, self.branch_taken]);
        bytes.extend(self.destination_registers);
        bytes.extend(self.source_registers);
        bytes.extend([0; 6]);
        let memory = self.destination_memory.iter().chain(&self.source_memory);
        bytes.extend(memory.flat_map(|addr| addr.to_le_bytes()));
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes.len(), 96);
        bytes
    }
}

/// `mov rax, [7000]; add rbx, rax; cmp; je; mov rcx, [rbx]; add [rcx], rdx; push rcx`, with
/// rax = 3, rbx = 4, rcx = 5, rdx = 7, stack pointer 6, flags 25, instruction pointer 26.
fn instructions() -> Vec<Instruction> {
    let mut ip = 0x40_0000;
    let mut instruction = |written: [u8; 2], read: [u8; 2], stored: u64, loaded: u64| {
        ip += 4;
        Instruction {
            ip,
            destination_registers: [written[0], written[1], 0, 0],
            source_registers: [read[0], read[1], 0, 0],
            destination_memory: [stored, 0, 0, 0],
            source_memory: [loaded, 0, 0, 0],
            ..Instruction::default()
        }
    };
    let mut instructions = vec![
        instruction([3, 0], [0, 0], 0, 0x7000),
        instruction([4, 25], [4, 3], 0, 0),
        instruction([25, 0], [3, 0], 0, 0),
        instruction([26, 0], [26, 25], 0, 0),
        instruction([5, 0], [4, 0], 0, 0x7fff_0000),
        instruction([25, 0], [5, 7], 0x7fff_1000, 0x7fff_1000),
        instruction([6, 0], [6, 5], 0x7ffe_0000, 0),
        instruction([6, 5], [6, 0], 0, 0x7ffe_0000),
        instruction([6, 0], [6, 0], 0x7ffe_0000, 0),
    ];
    instructions[3].is_branch = 1;
    instructions[3].branch_taken = 1;
    instructions
}

fn champsim_events() -> Vec<common::Event> {
    accesses(&[
        (0x7000, Op::load(8), 0, 0),
        (0x7fff_0000, Op::load(8), 3, 1),
        (0x7fff_1000, Op::load(8), 0, 1),
        (0x7fff_1000, Op::store(8).continuing(true), 0, 2),
        // The pushed register depends on access 1; which register makes the address is unknown.
        (0x7ffe_0000, Op::store(8), 0, 3),
        // The popped value is what access 1 has loaded.
        (0x7ffe_0000, Op::load(8), 0, 4),
        // The pop before also wrote the stack pointer, but not with what it loaded.
        (0x7ffe_0000, Op::store(8), 0, 0),
    ])
}

fn input_trace() -> Vec<u8> {
    instructions().iter().flat_map(Instruction::input).collect()
}

fn cloudsuite_trace() -> Vec<u8> {
    let instructions = instructions();
    instructions
        .iter()
        .flat_map(Instruction::cloudsuite)
        .collect()
}

#[test]
fn champsim_instructions_become_accesses() {
    for (name, bytes) in [
        ("600.perlbench_s-210B.champsimtrace", input_trace()),
        ("cassandra_phase0_core0.trace", cloudsuite_trace()),
        ("cloudsuite.trace", cloudsuite_trace()),
        ("not-cloudsuite.trace", input_trace()),
    ] {
        let (events, error) = read(name, &bytes);
        assert!(error.is_none(), "{name}");
        assert_eq!(events, champsim_events(), "{name}");
    }
}

/// The instruction pointer of each access, and of each block that is executed, in order.
fn pointers(source: &mut dyn Source) -> (Vec<u64>, Vec<u64>) {
    assert!(source.has_code());
    let (mut table, mut batch) = (CodeTable::default(), Batch::default());
    let (mut of_accesses, mut executed) = (Vec::new(), Vec::new());
    while source.next_batch(&mut batch).unwrap() {
        for definition in batch.definitions.drain(..) {
            assert!(table.define(definition));
        }
        assert_eq!(batch.site.len(), batch.len());
        let known = |&site| table.instruction(site).unwrap().pc;
        of_accesses.extend(batch.site.iter().map(known));
        executed.extend(batch.flow.iter().filter_map(|(_, flow)| match flow {
            Flow::Block(block) => Some(table.blocks()[*block as usize].pc),
            Flow::Thread(_) => None,
        }));
    }
    (of_accesses, executed)
}

/// The instructions above, twice: four bytes each, from 0x400004 on.
#[test]
fn champsims_instruction_pointers_stay() {
    let once = [0x04, 0x14, 0x18, 0x18, 0x1c, 0x20, 0x24].map(|low| 0x40_0000 + low);
    let of_accesses = [once, once].concat();
    let mut executed = of_accesses.clone();
    // One instruction loads and stores.
    executed.dedup();
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    for bytes in [input_trace().repeat(2), cloudsuite_trace().repeat(2)] {
        let contents = Cursor::new(bytes.clone());
        let (_, mut source) = open_foreign(contents, "some.trace").unwrap();
        assert_eq!(
            pointers(&mut source),
            (of_accesses.clone(), executed.clone())
        );
        // And in a trace of our own that is made of it.
        let (theirs, ours) = (folder.join("champsim-theirs"), folder.join("champsim-ours"));
        std::fs::write(&theirs, bytes).unwrap();
        convert(&theirs, &ours, Format::Pagelab).unwrap();
        let mut source = open_any(&ours).unwrap();
        assert_eq!(
            pointers(&mut source),
            (of_accesses.clone(), executed.clone())
        );
    }
}

#[test]
fn a_champsim_trace_cut_off_inside_an_instruction_is_an_error_at_its_end() {
    let (events, error) = read("t", &input_trace()[..8 * 64 + 10]);
    assert_eq!(events, champsim_events()[..6]);
    let error = error.unwrap().to_string();
    let expected = "instruction 8: the trace ends after 10 of its 64 bytes";
    assert!(error.ends_with(expected), "{error}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// A compressor and what its format is called in errors.
type Compressor = (&'static str, fn(&[u8]) -> Vec<u8>);
const COMPRESSORS: [Compressor; 4] = [("gzip", gzip), ("xz", xz), ("bzip2", bzip2), ("zstd", zstd)];

#[test]
fn compressed_traces_are_read_through_all_their_members() {
    for (kind, compress) in COMPRESSORS {
        let trace = input_trace();
        let (first, second) = trace.split_at(300);
        let bytes = [compress(first), compress(second)].concat();
        let (events, error) = read("trace", &bytes);
        assert!(error.is_none(), "{kind}: {error:?}");
        assert_eq!(events, champsim_events(), "{kind}");
        let (events, _) = read("trace", &compress(LACKEY.as_bytes()));
        assert_eq!(events, lackey_events(), "{kind}");
    }
}

/// Enough for several blocks of each format, and not too regular.
fn long_lackey() -> (String, usize) {
    let mut text = String::new();
    let mut seed = 1u64;
    let lines = 50_000;
    for _ in 0..lines {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(&format!(" L {:08x},8\n", seed >> 36));
    }
    (text, lines)
}

#[test]
fn a_compressed_trace_cut_off_is_read_as_far_as_it_goes() {
    let (text, lines) = long_lackey();
    for (kind, compress) in COMPRESSORS {
        let bytes = compress(text.as_bytes());
        let (events, error) = read("trace", &bytes[..bytes.len() * 9 / 10]);
        // bzip2 has blocks of 100 kB here, of which the last is lost.
        assert!(events.len() > lines / 2, "{kind}: {}", events.len());
        assert!(events.len() < lines, "{kind}");
        let error = error.expect(kind).to_string();
        let expected = format!("the {kind} data end early; the file was cut off");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn a_damaged_compressed_trace_is_an_error() {
    let (text, lines) = long_lackey();
    for (kind, compress) in COMPRESSORS {
        let mut bytes = compress(text.as_bytes());
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].fill(0xff);
        let (events, error) = read("trace", &bytes);
        assert!(events.len() <= lines, "{kind}");
        assert!(error.is_some(), "{kind}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_trace_in_a_pipe_is_refused_as_a_compressed_one_is() {
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"pagelab\n\x01\0\0\0").unwrap();
    drop(writer);
    let name = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let error = match open_any(&name) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    };
    assert!(error.starts_with(&name), "{error}");
    assert!(error.ends_with("give the file itself"), "{error}");
}

#[test]
fn what_is_no_trace_is_refused() {
    assert!(refusal("t", b"").ends_with("t: the file is empty"));
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let error = refusal("t", &program);
    assert!(
        error.contains("a program or a library, not a trace"),
        "{error}"
    );
    // Inside it there is nothing by which to know it.
    let error = refusal("t", &program[8..]);
    assert!(
        error.contains("not a trace that can be read: neither"),
        "{error}"
    );
    let error = refusal("t.gz", &gzip(b"pagelab\n\x01\0\0\0"));
    assert!(error.ends_with("give the file itself"), "{error}");
    let error = refusal("t.gz", &gzip(b"")[..10]);
    assert!(error.contains("the gzip data end early"), "{error}");
    let error = match open_any("/nonexistent/trace") {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    };
    assert!(
        error.starts_with("cannot read /nonexistent/trace: No such file"),
        "{error}"
    );
}
