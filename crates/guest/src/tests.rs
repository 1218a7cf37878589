//! A guest of a few lines, whose memory is a map from addresses to words.

use crate::spaces::Spaces;
use crate::stream::{Record, Stream};
use crate::{
    EntryRead, GuestWalk, Hashed, Purpose, Range, Recorded, WalkLines, WalkList, judge, record,
    symbols,
};
use pagelab_addr::PageSize;
use pagelab_events::{Batch, CodeTable, Control, Metadata, Source, TraceReader};
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

const PRESENT: u64 = 1;
const LARGE: u64 = 0x80;

/// Page tables as the architecture's manual has them.
struct Guest {
    memory: HashMap<u64, u64>,
    levels: u32,
    next: u64,
}

impl Guest {
    fn new(levels: u32) -> Guest {
        Guest {
            memory: HashMap::new(),
            levels,
            next: 0x10_0000,
        }
    }

    fn frame(&mut self) -> u64 {
        // Not one after the other, so that no table is where another one would be looked for.
        self.next += 0x3000;
        self.next
    }

    fn entry(table: u64, addr: u64, level: u32) -> u64 {
        table + (addr >> (12 + 9 * (level - 1)) & 0x1ff) * 8
    }

    /// Maps the page at an address; `level` 1 is one of 4 KiB.
    fn map(&mut self, root: u64, addr: u64, level: u32, paddr: u64) {
        let mut table = root;
        for at in (level + 1..=self.levels).rev() {
            let entry = Self::entry(table, addr, at);
            let value = self.memory.get(&entry).copied().unwrap_or(0);
            table = if value & PRESENT != 0 {
                value & !0xfff
            } else {
                let new = self.frame();
                self.memory.insert(entry, new | PRESENT);
                new
            };
        }
        let large = if level > 1 { LARGE } else { 0 };
        let entry = Self::entry(table, addr, level);
        self.memory.insert(entry, paddr | large | PRESENT);
    }

    fn walk(&self, root: u64, addr: u64) -> GuestWalk {
        let (mut table, mut reads, mut found) = (root, Vec::new(), None);
        for level in (1..=self.levels).rev() {
            let entry = Self::entry(table, addr, level);
            let value = self.memory.get(&entry).copied().unwrap_or(0);
            reads.push(EntryRead { entry, value });
            if value & PRESENT == 0 {
                break;
            }
            if level == 1 || value & LARGE != 0 {
                let size = PageSize::ALL[level as usize - 1];
                let inside = addr & (size.bytes() - 1);
                found = Some(((value & !0xfff) | inside, size));
                break;
            }
            table = value & !0xfff;
        }
        GuestWalk {
            purpose: Purpose::Load,
            addr,
            root,
            found,
            hashed: None,
            reads,
        }
    }
}

fn judged(walks: &[GuestWalk]) -> crate::Judged {
    judge(walks.iter().map(|walk| Ok((0, walk.clone())))).unwrap()
}

/// Pages of all sizes, of programs and of the kernel, in two spaces that have the kernel's tables
/// in common.
fn walks_of(levels: u32) -> Vec<GuestWalk> {
    let mut guest = Guest::new(levels);
    let (one, two) = (0x1000, 0x2000);
    let kernel = 0xffff_ffff_8000_0000;
    guest.map(one, kernel, 2, 0x20_0000);
    guest.map(one, kernel + (3 << 20), 1, 0x5000);
    // The root's upper entries are the same in all spaces.
    for (entry, value) in guest.memory.clone() {
        if entry & !0xfff == one {
            guest.memory.insert(entry + two - one, value);
        }
    }
    for root in [one, two] {
        for page in 0..600 {
            guest.map(
                root,
                0x7fff_0000_0000 + page * 0x1000,
                1,
                0x100_0000 + page * 0x2000,
            );
        }
        guest.map(root, 0x4000_0000, 3, 0x8000_0000);
    }
    let mut walks = Vec::new();
    for round in 0..2 {
        for root in [one, two] {
            for page in (0..600).step_by(7) {
                walks.push(guest.walk(root, 0x7fff_0000_0000 + page * 0x1000 + 8 * round));
            }
            walks.push(guest.walk(root, kernel + 0x1234));
            walks.push(guest.walk(root, kernel + (3 << 20) + 0x10));
            walks.push(guest.walk(root, 0x4123_4567));
        }
    }
    walks
}

#[test]
fn the_simulator_reads_the_entries_that_the_guest_read() {
    for levels in [4, 5] {
        let walks = walks_of(levels);
        let judged = judged(&walks);
        assert_eq!(judged.different, 0, "{:?}", judged.differences);
        assert_eq!(judged.levels, levels);
        let counted: u64 = judged.walks.values().sum();
        assert_eq!((counted, judged.moved), (walks.len() as u64, 0));
        let whole = u64::from(levels);
        let kinds: Vec<u64> = judged.walks.keys().copied().collect();
        assert_eq!(kinds, [whole - 2, whole - 1, whole]);
    }
}

#[test]
fn a_walk_that_reads_another_entry_is_told() {
    for at in 0..4 {
        let mut walks = walks_of(4);
        // A later one, of a page whose tables are all known.
        walks[20].reads[at].entry ^= 8;
        let judged = judged(&walks);
        assert_eq!((judged.different, judged.moved), (1, 0), "read {at}");
    }
    let mut walks = walks_of(4);
    let extra = walks[20].reads[0];
    walks[20].reads.insert(0, extra);
    assert!(judged(&walks).different > 0);
}

#[test]
fn tables_that_the_guest_has_freed_and_made_anew_are_followed() {
    let (mut guest, root) = (Guest::new(4), 0x1000);
    let at = |page: u64| 0x10_0000_0000 + page * 0x1000;
    let mut walks = Vec::new();
    for page in 0..4 {
        guest.map(root, at(page), 1, 0x80_0000 + page * 0x1000);
        walks.push(guest.walk(root, at(page)));
    }
    // munmap() of all: the page of PTEs is freed, and another one takes its place.
    let pmd = walks[0].reads[2].entry;
    guest.memory.insert(pmd, 0);
    walks.push(guest.walk(root, at(0)));
    for page in 0..4 {
        guest.map(root, at(page), 1, 0x90_0000 + page * 0x1000);
        walks.push(guest.walk(root, at(page)));
    }
    // A large page in its place, and small ones again.
    guest.memory.insert(pmd, 0x4000_0000 | LARGE | PRESENT);
    walks.push(guest.walk(root, at(3)));
    guest.memory.insert(pmd, 0);
    guest.map(root, at(2), 1, 0xa0_0000);
    walks.push(guest.walk(root, at(2)));
    let judged = judged(&walks);
    assert_eq!(judged.different, 0, "{:?}", judged.differences);
    assert_eq!(judged.faults, 1);
    assert!(judged.moved >= 1);
}

#[test]
fn a_list_of_walks_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walks");
    let mut walks = walks_of(4);
    walks.truncate(100);
    walks.push(Guest::new(4).walk(0x1000, 0x5000));
    walks[3].purpose = Purpose::Store;
    walks[4].purpose = Purpose::Fetch;
    let mut list = WalkList::create(&path).unwrap();
    for walk in &walks {
        list.write(7, 3, walk).unwrap();
    }
    list.finish().unwrap();
    let read: Vec<_> = WalkLines::open(&path)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    // A list has where the page is, not the address in it.
    for walk in &mut walks {
        if let Some((paddr, size)) = &mut walk.found {
            *paddr &= !(size.bytes() - 1);
        }
    }
    let written: Vec<_> = walks.into_iter().map(|walk| (3, walk)).collect();
    assert_eq!(read, written);
}

#[test]
fn lines_that_are_no_walks_are_refused_by_number() {
    for line in [
        "1",
        "1,x",
        "1,0,jump,0,0,0",
        "1,0,load,zz,0,0",
        "1,0,load,0,5,0,",
        "1,0,load,0,0,0",
        "1,0,load,0,0,0,7",
        "1,0,load,0,0,0,7/8",
        "1,0,load,0,0,0,7/8/x",
        "1,0,load,0,0,0,,12",
    ] {
        let text = format!("# a comment\n{line}\n");
        let error = WalkLines::new(text.as_bytes()).next().unwrap().unwrap_err();
        assert!(
            error.to_string().starts_with("line 2 is no walk: "),
            "{line}: {error}"
        );
    }
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
    let mut access = |walk: GuestWalk, addr: u64, number: u64| {
        let (paddr, _) = walk.found.unwrap();
        words.extend([1 | 4 << 5 | 12 << 13, addr, walk.root, paddr]);
        words.extend(walk.reads.iter().flat_map(|read| [read.entry, read.value]));
        words.extend(block(number, 0x40_0000, &[LOAD]));
        words.extend([3 << 5, addr]);
    };
    access(guest.walk(0x1000, 0x7000_0000), 0x7000_0018, 0);
    access(guest.walk(0x2000, 0x4000_0000), 0x4000_0018, 1);
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
    let mut words = vec![1 | 4 << 5 | 12 << 13, 0x5000, 0x1000, 0x9000];
    words.extend(walk.reads.iter().flat_map(|read| [read.entry, read.value]));
    let whole = bytes(&words);
    for end in 8..=whole.len() {
        let mut stream = Stream::new(&whole[..end]).unwrap();
        let expected = (end == whole.len()).then(|| Record::Walk(walk.clone()));
        assert_eq!(stream.next().unwrap(), expected);
    }
    assert!(Stream::new(&b"pagelab\n"[..]).is_err());
    for bad in [
        6,
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

/// Walks by hash of Linux guests of 1280 MB: tables in the frame that the hash names, and 1, 2, 3 and 4
/// frames and blocks of 2 MB and of 1 GB further; the last one of a page of 2 MB.
const HASHED: &str = "\
7,0,store,7ffe2598e950,4096,1587b000,6/0+327648/0,2a439c0=ffffffffc0ffffff,2f3db80=fffffcafffffffff,2ebe100=ffffffffff492fff,27cd9c70=800000001587b867
7,0,fetch,430e50,4096,20c50000,6/0+327648/13,2a43e40=fffffffffffcdfff,2f3d8c0=ffffffffffffffc0,2ebe6c0=ffffffffffffffcd,407f9180=20c50025
7,1,store,a7ed58,4096,44cbe000,8/0+327648/8,2f32440=fffffff23fffffff,2f5df00=ffffffffffffffc0,2a2c680=ffffffffffffffc0,44cc03f0=8000000044cbe867
7,1,store,7fffc7d9bf89,4096,36838000,8/0+327648/9,2f329c0=fffffffffffc9fff,2f5dd40=ffffffffff47ffff,2a2c500=ffffffffff280fff,2d66acd8=8000000036838867
7,1,load,7f411dd73270,4096,44cc6000,8/0+327648/5,2f32880=ffff005fffffffff,2f5d640=ffffffffc5ffffff,2a2c500=ffffffffff280fff,185c1b98=8000000044cc6025
7,3,load,7fff8632ec38,4096,3929f000,5/0+327648/17,2eb3c40=f47fffffffffffff,2eb2cc0=fffffffffffd1fff,2eb0ec0=ffffffffff17ffff,39250970=800000003929f867
7,3,store,20000003943b,2097152,29800000,3/0+327648/0,2f4a040=ffffffffffffffff,2ebebc0=ffffffffffffffc0,2532b40=ffffffffffffffca,29ba6000=80000000298008e7
";

#[test]
fn frames_that_linux_chose_by_hash_are_the_simulators() {
    let text = HASHED.replace("3/0+327648/", "6/0+327648/");
    let judged = judge(WalkLines::new(text.as_bytes())).unwrap();
    assert_eq!(judged.different, 0, "{:?}", judged.differences);
    assert_eq!((judged.hashed, judged.reads), ([(3, 7)].into(), 7));
    // The next frame, another key, number of frames or metadata: not where the hash leads.
    let wrong = [
        text.replace("27cd9c70", "27cdac70"),
        text.replace("6/0+327648", "9/0+327648"),
        text.replace("+327648", "+327680"),
        text.replace("+327648/0,", "+327648/4,"),
    ];
    for text in wrong {
        let judged = judge(WalkLines::new(text.as_bytes())).unwrap();
        assert!(judged.different > 0, "{text}");
    }
}

/// Memory with a hole is numbered without it.
#[test]
fn frames_above_a_hole_are_the_simulators() {
    let first = HASHED.lines().next().unwrap();
    let hole = first.replace("0+327648", "0+256.1100+327392");
    let above = hole.replace("27cd9c70", "28cd9c70");
    let different = |text: &str| judge(WalkLines::new(text.as_bytes())).unwrap().different;
    assert_eq!((different(&above), different(&hole)), (0, 1));
    let inside = hole.replace("27cd9c70", "800c70");
    assert_eq!(different(&inside), 1);
}

/// The metadata say that a table is in none of its places: it may be anywhere.
#[test]
fn exceptions_are_not_where_the_hash_leads() {
    let first = HASHED.lines().next().unwrap();
    let elsewhere = first
        .replace("+327648/0,", "+327648/3,")
        .replace(",27cd9c70", ",1f00000=2f00000,2f00040=1234,1234c70");
    let judged = judge(WalkLines::new(elsewhere.as_bytes())).unwrap();
    assert_eq!(judged.different, 0, "{:?}", judged.differences);
    assert_eq!(judged.hashed, [(5, 1)].into());
}

/// The first of two pages in one table needs a frame, the second none; an exception of the same process comes next.
#[test]
fn an_exception_may_follow_a_table_that_was_there() {
    let first = HASHED.lines().next().unwrap();
    let second = first
        .replace("7ffe2598e950", "7ffe2598f950")
        .replace("27cd9c70", "27cd9c78");
    let third = first
        .replace("7ffe2598e950", "7ffe2998e950")
        .replace("+327648/0,", "+327648/3,")
        .replace(",27cd9c70", ",1f00000=2f00000,2f00040=1234,1234c70");
    let text = format!("{first}\n{second}\n{third}\n");
    let judged = judge(WalkLines::new(text.as_bytes())).unwrap();
    assert_eq!(judged.different, 0, "{:?}", judged.differences);
}

/// Neither a key nor a line decides how much memory is taken.
#[test]
fn a_list_takes_no_memory_for_what_it_only_names() {
    let far = "0,0,load,7000,0,0,ffffffffffffffff/0+64/,1e40080=2c0\n";
    assert_eq!(judge(WalkLines::new(far.as_bytes())).unwrap().faults, 1);
    let endless = "0,0,load,7000,0,0,,".to_owned() + &"1=1,".repeat(1 << 16);
    let error = WalkLines::new(endless.as_bytes()).next().unwrap();
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "line 1 is no walk: it is longer than any walk");
}

#[test]
fn memory_beyond_what_tables_name_is_refused() {
    let far = "0,0,load,40000000,1073741824,b0640000000,,2000=3000001,3008=27\n";
    let error = judge(WalkLines::new(far.as_bytes()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("0xb0640000000 lies beyond"), "{error}");
}

/// Walks that no guest makes: few addresses, so that they meet, with any sizes and reads.
fn any_walk() -> impl Strategy<Value = GuestWalk> {
    let read = (0u64..6, 0u64..16, any::<u8>()).prop_map(|(table, at, value)| EntryRead {
        entry: table << 12 | at << 3,
        value: u64::from(value) << 10 | u64::from(value & 1),
    });
    let addr = (0u64..4, 0u64..4, 0u64..4).prop_map(|(a, b, c)| a << 30 | b << 21 | c << 12);
    let found = prop::option::of((0u64..8, prop::sample::select(&PageSize::ALL[..])));
    let hashed = prop::option::weighted(0.3, (0u64..3, prop::option::of(any::<u8>())));
    let reads = prop::collection::vec(read, 0..7);
    (addr, any::<bool>(), found, hashed, reads).prop_map(|(addr, high, found, hashed, reads)| {
        GuestWalk {
            purpose: Purpose::Load,
            addr: if high { addr | 0xffff_8000 << 32 } else { addr },
            root: reads.first().map_or(0, |read| read.entry & !0xfff),
            found: found.map(|(frame, size)| (frame << 30 | addr & (size.bytes() - 1), size)),
            hashed: hashed.map(|(id, metadata)| Hashed {
                key: id,
                ranges: vec![Range {
                    start: 0,
                    frames: 64,
                }],
                metadata,
            }),
            reads,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a list says, comparing it ends, and with a verdict or an error.
    #[test]
    fn any_list_is_judged(walks in prop::collection::vec(any_walk(), 0..60)) {
        let found = walks.iter().filter(|walk| walk.found.is_some()).count() as u64;
        if let Ok(judged) = judge(walks.into_iter().map(|walk| Ok((0, walk)))) {
            let trees: u64 = judged.walks.values().sum();
            let hashed: u64 = judged.hashed.values().sum();
            prop_assert_eq!(trees + hashed, found);
            prop_assert!(judged.different <= found);
        }
    }

    #[test]
    fn any_report_is_read_or_refused(words in prop::collection::vec(0u64..1 << 22, 0..60)) {
        let report = bytes(&words);
        let mut stream = Stream::new(&report[..]).unwrap();
        while let Ok(Some(_)) = stream.next() {}
    }
}
