//! Reports, and the traces and lists that become of them.

use super::*;
use crate::spaces::Spaces;
use crate::stream::{Record, Stream};
use crate::{Recorded, record, symbols};
use pagelab_events::{Batch, CodeTable, Control, Metadata, Source, TraceReader};
use std::path::{Path, PathBuf};

/// The words of a walk of four reads to a page of 4 KiB.
fn told(walk: &GuestWalk) -> Vec<u64> {
    let (paddr, _) = walk.found.unwrap();
    let mut words = vec![1 | 4 << 5 | 12 << 13, walk.addr, walk.root, paddr];
    words.extend(walk.reads.iter().flat_map(|read| [read.entry, read.value]));
    words
}

fn bytes(words: &[u64]) -> Vec<u8> {
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    b"pglsys2\n".iter().copied().chain(words).collect()
}

/// Files of a recording.
struct Files {
    _folder: tempfile::TempDir,
    trace: PathBuf,
    list: PathBuf,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        Files {
            trace: folder.path().join("trace"),
            list: folder.path().join("walks"),
            _folder: folder,
        }
    }

    fn record(&self, words: &[u64], memory: Option<u64>, symbols: &[(u64, String)]) -> Recorded {
        let (report, metadata) = (bytes(words), Metadata::new());
        let Files { trace, list, .. } = self;
        record(&report[..], trace, list, &metadata, memory, symbols).unwrap()
    }
}

fn events(path: &Path) -> Vec<String> {
    let mut reader = TraceReader::open(path).unwrap();
    let (mut batch, mut events) = (Batch::default(), Vec::new());
    while reader.next_batch(&mut batch).unwrap() {
        let mut controls = batch.controls.iter().peekable();
        for index in 0..=batch.len() {
            while let Some((_, control)) = controls.next_if(|(at, _)| *at as usize == index) {
                if !matches!(control, Control::Thread { .. }) {
                    events.push(format!("{} {control:?}", batch.process));
                }
            }
            if index < batch.len() {
                let access = batch.access(index);
                let (op, gap, dep) = (access.op.0, access.gap, access.dep);
                events.push(format!(
                    "{} {:x} {op:x} {gap} {dep}",
                    batch.process, access.addr
                ));
            }
        }
    }
    events
}

/// A block of these instructions, and the words that enter it.
fn block(number: u64, pc: u64, instructions: &[&[u8]]) -> Vec<u64> {
    let lengths = instructions.iter().map(|code| code.len() as u8);
    let mut bytes: Vec<u8> = lengths.chain(instructions.concat()).collect();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let code = bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let count = instructions.len() as u64;
    let mut words = vec![3 | count << 16 | number << 32, pc];
    words.extend(code);
    words.extend([4 | number << 32, 0]);
    words
}

const NOP: &[u8] = b"\x90";
/// mov %rax, (%rdi); mov (%rbx), %rax; movzbl (%rax), %eax; prefetchw (%rax)
const STORE: &[u8] = b"\x48\x89\x07";
const LOAD: &[u8] = b"\x48\x8b\x03";
const CHASE: &[u8] = b"\x0f\xb6\x00";
const PREFETCH: &[u8] = b"\x0f\x0d\x08";

/// Words written by hand after linux/guest/system.c: a program stores, enters the kernel, another
/// address space follows, and the first page is mapped elsewhere when it is used again.
#[test]
fn a_report_becomes_a_trace_and_a_list() {
    let files = Files::new();
    let walk = |purpose: u64, reads: u64, shift: u64| 1 | purpose << 3 | reads << 5 | shift << 13;
    let access =
        |store: u64, log2: u64, instruction: u64| store << 3 | log2 << 5 | instruction << 16;
    let mut words = vec![walk(1, 4, 12), 0x7000_0123, 0x1000, 0x5123];
    words.extend([
        0x1000, 0x2001, 0x2008, 0x3001, 0x3c00, 0x4001, 0x4000, 0x5001,
    ]);
    words.extend(block(0, 0x40_0000, &[NOP, NOP, NOP, STORE, NOP]));
    words.extend([access(1, 3, 3), 0x7000_0123]);
    words.extend([5, 0]);
    words.extend(block(1, 0xffff_ffff_8100_0000, &[PREFETCH, LOAD]));
    words.extend([walk(0, 3, 21), 0xffff_8000_0020_0040, 0x1000, 0x20_0040]);
    words.extend([0x1800, 0x6001, 0x6000, 0x7001, 0x7008, 0x20_0081]);
    words.extend([access(0, 3, 1), 0xffff_8000_0020_0040]);
    // Another space: the same address is another page, which is not there.
    words.extend([walk(0, 1, 0), 0x7000_0123, 0x9000, 0, 0x9000, 0]);
    words.extend([walk(1, 4, 12), 0x7000_0200, 0x1000, 0x8200]);
    words.extend([
        0x1000, 0x2001, 0x2008, 0x3001, 0x3c00, 0x4001, 0x4000, 0x8001,
    ]);
    words.extend(block(2, 0x50_0000, &[CHASE]));
    words.extend([access(0, 0, 0), 0x7000_0200]);
    words.extend([2, 100, 200]);
    let recorded = files.record(&words, None, &[]);
    let counts = (
        recorded.accesses,
        recorded.by_kernel,
        recorded.walks,
        recorded.faults,
    );
    assert_eq!(counts, (4, 2, 4, 1));
    assert_eq!(
        (recorded.instructions, recorded.kernel_instructions),
        (100, 200)
    );
    assert!(recorded.whole);
    assert_eq!(recorded.spaces, 2);
    let map = |addr: u64, len: u64| {
        let rest = "prot: Protection(7), backing: Anonymous, populate: true";
        format!("0 Map {{ addr: {addr}, len: {len}, {rest} }}")
    };
    // The prefetch goes nowhere, and the last load waits for what the kernel has loaded.
    let expected = [
        map(0x7000_0000, 0x1000),
        "0 70000123 8008 3 0".to_owned(),
        "0 Skipped { instructions: 0, accesses: 0 }".to_owned(),
        map(0xffff_8000_0020_0000, 0x20_0000),
        "0 7ffffffff000 4000 1 0".to_owned(),
        "0 ffff800000200040 4008 0 0".to_owned(),
        "0 Unmap { addr: 1879048192, len: 4096 }".to_owned(),
        map(0x7000_0000, 0x1000),
        "0 70000200 1 0 1".to_owned(),
    ];
    assert_eq!(events(&files.trace), expected);
    let judged = judge(WalkLines::open(&files.list).unwrap()).unwrap();
    assert_eq!((judged.different, judged.faults), (0, 1));
    assert_eq!(judged.walks, [(3, 1), (4, 2)].into());
}

/// A page that a program and the kernel know by addresses of their own, each in its address space, is one.
#[test]
fn a_page_is_one_wherever_it_is_mapped() {
    let files = Files::new();
    let mut guest = Guest::new(4);
    guest.map(0x1000, 0x7000_0000, 1, 0x5000);
    guest.map(0x2000, 0x4000_0000, 1, 0x5000);
    let mut words = Vec::new();
    let spaces = [(0x1000, 0x7000_0018), (0x2000, 0x4000_0018)];
    for (number, (root, addr)) in spaces.into_iter().enumerate() {
        words.extend(told(&guest.walk(root, addr)));
        words.extend(block(number as u64, 0x40_0000, &[LOAD]));
        words.extend([3 << 5, addr]);
    }
    // The direct map, which was walked before.
    words.extend(block(2, 0xffff_ffff_8100_0000, &[LOAD]));
    words.extend([3 << 5, 0xffff_8880_0000_5018]);
    files.record(&words, Some(1 << 20), &[]);
    let told = events(&files.trace);
    assert!(told[0].starts_with("0 Map"), "{told:?}");
    let of_user = "0 100000005018 8 0 0".to_owned();
    let of_kernel = "0 100000005018 4008 0 0".to_owned();
    assert_eq!(told[1..], [of_user.clone(), of_user, of_kernel]);
}

/// One goes on in the middle of a block, after another one, in a space of its own, has entered it, too.
#[test]
fn each_processor_is_a_thread() {
    let files = Files::new();
    let mut guest = Guest::new(4);
    guest.map(0x1000, 0x7000_0000, 1, 0x5000);
    guest.map(0x2000, 0x7000_0000, 1, 0x6000);
    let access = |instruction: u64, addr: u64| [3 << 5 | instruction << 16, addr];
    let mut words = told(&guest.walk(0x1000, 0x7000_0018));
    words.extend(block(0, 0x40_0000, &[LOAD, LOAD]));
    words.extend(access(0, 0x7000_0018));
    words.extend([6 | 1 << 32, 0]);
    words.extend(told(&guest.walk(0x2000, 0x7000_0028)));
    words.extend([4, 0]);
    words.extend(access(0, 0x7000_0028));
    words.extend([6, 0]);
    words.extend(access(1, 0x7000_0038));
    let recorded = files.record(&words, Some(1 << 20), &[]);
    assert_eq!(recorded.accesses, 3);
    let mut reader = TraceReader::open(&files.trace).unwrap();
    let (mut batch, mut made, mut thread) = (Batch::default(), Vec::new(), u32::MAX);
    while reader.next_batch(&mut batch).unwrap() {
        for (at, addr) in batch.addr.iter().enumerate() {
            let controls = (batch.controls.iter()).filter(|control| control.0 as usize == at);
            for (_, control) in controls {
                if let Control::Thread { thread: next } = control {
                    thread = *next;
                }
            }
            made.push((thread, addr & 0xf_ffff));
        }
    }
    assert_eq!(made, [(0, 0x5018), (1, 0x6028), (0, 0x5038)]);
}

/// An address far above a page that lies at the end of what addresses can name.
#[test]
fn an_address_of_no_page_has_no_place() {
    let mut spaces = Spaces::default();
    let space = spaces.number(0x1000);
    let walk = GuestWalk {
        addr: 0x7000,
        found: Some((u64::MAX - 4095, PageSize::Base4K)),
        ..GuestWalk::default()
    };
    spaces.learn(space, &walk, &mut Vec::new());
    assert_eq!(spaces.physical(space, 0x7fff), Some(u64::MAX));
    assert_eq!(spaces.physical(space, u64::MAX), None);
}

#[test]
fn functions_of_the_kernel_have_names() {
    let files = Files::new();
    let map =
        "ffffffff81000000 T startup\nffffffff81000100 t fault\n\nffffffff81000200 D data\nx T y\n";
    let symbols = symbols(map.as_bytes()).unwrap();
    let mut words = vec![1 | 12 << 13, 0x7000, 0x1000, 0x5000];
    for (number, pc) in [0x40_0000, 0xffff_ffff_8100_0110, 0xffff_ffff_8100_0020]
        .into_iter()
        .enumerate()
    {
        words.extend(block(number as u64, pc, &[LOAD]));
        words.extend([3 << 5, 0x7000]);
    }
    files.record(&words, None, &symbols);
    let mut reader = TraceReader::open(&files.trace).unwrap();
    let (mut batch, mut code) = (Batch::default(), CodeTable::default());
    while reader.next_batch(&mut batch).unwrap() {
        for definition in &batch.definitions {
            code.define(definition.clone());
        }
    }
    let names: Vec<_> = (0..3).map(|block| code.function(block)).collect();
    assert_eq!(names, [None, Some("fault"), Some("startup")]);
}

/// Addresses of five levels of page tables have more bits than four.
#[test]
fn addresses_of_five_levels_are_whole() {
    let files = Files::new();
    let far = 0xff11_0000_0123_4560;
    let mut words = vec![1 | 12 << 13, far, 0x1000, 0x5560];
    words.extend(block(0, 0xffff_ffff_8100_0000, &[LOAD]));
    words.extend([3 << 5, far]);
    files.record(&words, None, &[]);
    let last = events(&files.trace).pop().unwrap();
    assert_eq!(last, "0 ff11000001234560 4008 0 0");
}

#[test]
fn a_report_that_is_cut_off_is_read_up_to_there() {
    let mut guest = Guest::new(4);
    guest.map(0x1000, 0x5000, 1, 0x9000);
    let walk = guest.walk(0x1000, 0x5000);
    let whole = bytes(&told(&walk));
    for end in 8..=whole.len() {
        let mut stream = Stream::new(&whole[..end]).unwrap();
        let expected = (end == whole.len()).then(|| Record::Walk(walk.clone()));
        assert_eq!(stream.next().unwrap(), expected);
    }
    assert!(Stream::new(&b"pagelab\n"[..]).is_err());
    for bad in [
        6 | 64 << 32,
        7,
        7 << 5,
        1 | 3 << 3,
        1 | 13 << 13,
        1 | 65 << 5,
        3 | 1 << 16,
    ] {
        let report = bytes(&[bad, 0, 0, 0]);
        assert!(
            Stream::new(&report[..]).unwrap().next().is_err(),
            "{bad:#x}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_report_is_read_or_refused(words in prop::collection::vec(0u64..1 << 22, 0..60)) {
        let report = bytes(&words);
        let mut stream = Stream::new(&report[..]).unwrap();
        while let Ok(Some(_)) = stream.next() {}
    }
}
