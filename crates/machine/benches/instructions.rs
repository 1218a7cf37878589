//! Fixed pieces of work of the simulator and the trace format, whose instructions
//! scripts/instructions.py has callgrind count.
//!
//! Run with the name of one it does that once, and asks valgrind to count while it does: what makes
//! the events has ended before, and a program's initialisation and exit are left out or counted alone. Without
//! a name it lists all names, after a line that says which vector instructions are used. The path of a
//! trace, and after it perhaps keys and values of the machine, or `fetch` for an instruction side, has `radix`
//! simulate the first batches of that.

mod code;

use pagelab_events::{Batch, Metadata, Source, SourceError, TraceReader, TraceWriter};
use pagelab_machine::{MachineConfig, simulate};
use pagelab_memory::simd::SimdLevel;
use pagelab_workloads::Workload;
use std::hint::black_box;
use std::io::Cursor;
use std::ops::{ControlFlow, Range};

/// Workload and parameters.
type Program = (&'static str, &'static [(&'static str, &'static str)]);

const UPDATES: Program = (
    "random-updates",
    &[("footprint", "256MiB"), ("updates", "100K")],
);
const IN_CACHE: Program = (
    "random-updates",
    &[("footprint", "16KiB"), ("updates", "300K")],
);
const CHASE: Program = ("pointer-chase", &[("pages", "20000"), ("loads", "100K")]);
const STORE: Program = ("kv", &[("footprint", "64MiB"), ("operations", "3000")]);
const GRAPH: Program = ("bfs", &[("footprint", "24MiB")]);
/// No workload but a stream that says which blocks are executed.
const CODE: Program = ("code", &[]);
/// An instruction side: that of most processors that the presets have.
const FETCH: &str =
    "fetch={ tlb = { entries = 64, ways = 8 }, l1 = { kib = 32, ways = 8 }, next_lines = 1 }";

enum Work {
    /// A design, and keys of the machine.
    Simulate(&'static str, &'static [&'static str]),
    /// A design; only the initialisation is counted: page faults, and hardly anything else.
    Faults(&'static str),
    Encode,
    Decode,
}

use Work::{Decode, Encode, Faults, Simulate};

const CASES: &[(&str, Work, Program)] = &[
    ("radix, random updates", Simulate("radix", &[]), UPDATES),
    ("dpt, random updates", Simulate("dpt", &[]), UPDATES),
    ("ecpt, random updates", Simulate("ecpt", &[]), UPDATES),
    ("ideal, random updates", Simulate("ideal", &[]), UPDATES),
    (
        "radix, two clocks, random updates",
        Simulate("radix", &["free_clock=true"]),
        UPDATES,
    ),
    ("victima, random updates", Simulate("victima", &[]), UPDATES),
    (
        "radix+range, random updates",
        Simulate("radix+range", &[]),
        UPDATES,
    ),
    ("radix, updates of 16 KiB", Simulate("radix", &[]), IN_CACHE),
    ("radix, pointer chase", Simulate("radix", &[]), CHASE),
    ("radix, key-value store", Simulate("radix", &[]), STORE),
    ("dpt, key-value store", Simulate("dpt", &[]), STORE),
    ("radix, code", Simulate("radix", &[]), CODE),
    (
        "radix, code that is fetched",
        Simulate("radix", &[FETCH]),
        CODE,
    ),
    ("radix, faults", Faults("radix"), UPDATES),
    ("dpt, faults", Faults("dpt"), UPDATES),
    ("encode, key-value store", Encode, STORE),
    ("decode, key-value store", Decode, STORE),
    ("encode, breadth-first search", Encode, GRAPH),
    ("encode, code", Encode, CODE),
    ("decode, code", Decode, CODE),
];

fn main() {
    let Some(wanted) = std::env::args().nth(1) else {
        println!("{:?}", SimdLevel::detect());
        CASES.iter().for_each(|(name, ..)| println!("{name}"));
        return;
    };
    if wanted == "--bench" {
        println!("scripts/instructions.py has these counted");
        return;
    }
    if wanted.ends_with(".trace") {
        let words: Vec<String> = std::env::args().skip(2).collect();
        let key = |word| if word == "fetch" { FETCH } else { word };
        let keys: Vec<&str> = words.iter().map(|word| key(word.as_str())).collect();
        let batches = recorded(&wanted);
        let last = batches.len() - 1;
        run("radix", &keys, batches, 1..last);
        return;
    }
    let (_, work, program) = CASES
        .iter()
        .find(|(name, ..)| *name == wanted)
        .expect("a name of the list");
    let batches = batches(program);
    match work {
        // The first batch of a program is its initialisation, the last has its exit.
        Simulate(design, keys) => {
            let last = batches.len() - 1;
            run(design, keys, batches, 1..last);
        }
        Faults(design) => run(design, &[], batches, 0..1),
        Encode => {
            let room = Vec::with_capacity(encode(&batches, Vec::new()).len());
            black_box(counted(|| encode(&batches, room)));
        }
        Decode => {
            let trace = encode(&batches, Vec::new());
            counted(|| decode(&trace));
        }
    }
}

/// All that a program does, in memory: its own thread has ended when counting begins.
fn batches(program: &Program) -> Vec<Batch> {
    if *program == CODE {
        return code::batches();
    }
    let (name, parameters) = program;
    let parameters: Vec<_> = [&[("windows", "0")], *parameters]
        .concat()
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let workload = Workload::find(name).expect("a built-in workload");
    let mut source = workload.start(&parameters).expect("valid parameters");
    let mut batches = vec![Batch::default()];
    while (source.next_batch(batches.last_mut().expect("at least one"))).expect("it does not fail")
    {
        batches.push(Batch::default());
    }
    batches.pop();
    batches
}

/// The first batches of a trace.
fn recorded(path: &str) -> Vec<Batch> {
    let mut source = TraceReader::open(std::path::Path::new(path)).expect("a trace");
    let mut batches = vec![Batch::default()];
    while batches.len() < 1500
        && source
            .next_batch(batches.last_mut().unwrap())
            .expect("a trace")
    {
        batches.push(Batch::default());
    }
    batches
}

/// Batches from memory, some of which are counted.
struct Replay {
    batches: std::vec::IntoIter<Batch>,
    counted: Range<usize>,
    given: usize,
    has_code: bool,
}

impl Source for Replay {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        if self.given == self.counted.start {
            valgrind(START_INSTRUMENTATION);
        }
        if self.given == self.counted.end {
            valgrind(STOP_INSTRUMENTATION);
        }
        self.given += 1;
        let next = self.batches.next();
        Ok(next.map(|next| *batch = next).is_some())
    }

    fn has_code(&self) -> bool {
        self.has_code
    }
}

fn run(design: &str, keys: &[&str], batches: Vec<Batch>, counted: Range<usize>) {
    let mut overrides = vec![
        "memory.memory_bytes=4294967296".to_owned(),
        "memory.utilisation=0.2".to_owned(),
        "free_clock=false".to_owned(),
    ];
    overrides.extend(keys.iter().map(|&key| key.to_owned()));
    let config = MachineConfig::load("dpt-paper", &overrides).expect("a preset is valid");
    let accesses: usize = batches[counted.clone()].iter().map(Batch::len).sum();
    assert!(!counted.is_empty() && counted.end < batches.len());
    let mut replay = Replay {
        has_code: batches.iter().any(|batch| !batch.site.is_empty()),
        batches: batches.into_iter(),
        counted,
        given: 0,
    };
    let go_on = &mut |_: pagelab_machine::Progress| ControlFlow::Continue(());
    let result = simulate(&config, design, &mut replay, go_on).expect("a built-in design");
    assert!(result.complete, "{design} ends early");
    println!("{accesses} accesses");
    if let Some(fetch) = result.fetch {
        let per_access = fetch.fetches as f64 / accesses as f64;
        let mpki = [fetch.l1_mpki, fetch.tlb.l1_mpki, result.caches.l1_mpki];
        println!("{per_access:.2} fetches an access; misses of code, its TLB and data {mpki:.2?}");
    }
}

fn encode(batches: &[Batch], output: Vec<u8>) -> Vec<u8> {
    let mut writer = TraceWriter::new(output, &Metadata::new()).expect("memory");
    for batch in batches {
        writer.write(batch).expect("memory");
    }
    writer.finish().expect("memory")
}

fn decode(trace: &[u8]) {
    let mut reader = TraceReader::new(Cursor::new(trace), "bench").expect("a trace");
    let mut batch = Batch::default();
    while reader.next_batch(&mut batch).expect("a readable trace") {
        black_box(&batch);
    }
}

fn counted<T>(work: impl FnOnce() -> T) -> T {
    valgrind(START_INSTRUMENTATION);
    let made = work();
    valgrind(STOP_INSTRUMENTATION);
    made
}

/// Callgrind's requests (callgrind.h): the tool's two letters in the upper half, and a number.
const START_INSTRUMENTATION: u64 = 0x4354_0004;
const STOP_INSTRUMENTATION: u64 = 0x4354_0005;

/// Asks valgrind for something; does nothing anywhere else.
#[cfg(target_arch = "x86_64")]
fn valgrind(request: u64) {
    let arguments = [request, 0, 0, 0, 0, 0];
    // SAFETY: the sequence that valgrind.h has for this processor. Run natively it turns rdi by 128
    // bits, which is by none; valgrind reads the arguments and puts an answer into rdx.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") &raw const arguments,
            inout("rdx") 0u64 => _,
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn valgrind(_request: u64) {}
