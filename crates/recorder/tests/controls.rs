//! System calls, in the order in which they happened, with what they did.

mod common;

use std::collections::{HashMap, HashSet};
use std::process::Command;

use common::{What, assemble, build};
use pagelab_events::{Advice, Backing, Control, Op, Protection};

const RAW: [&str; 5] = [
    "-nostdlib",
    "-static",
    "-O1",
    "-fno-stack-protector",
    "-fcf-protection=none",
];
const STATIC: [&str; 3] = ["-static", "-O1", "-pthread"];

/// True if an event is about memory after the program was loaded.
fn is_memory(control: &Control) -> bool {
    !matches!(control, Control::Exit { .. } | Control::Skipped { .. })
}

#[test]
fn changes_of_the_address_space_are_recorded_as_they_were_carried_out() {
    let recorded = build("memory.c", &RAW).record();
    assert_eq!(recorded.outcome.ended.code(), 7);
    let controls = recorded.controls(0);
    let first = controls
        .iter()
        .position(|control| matches!(control, Control::Brk { .. }))
        .expect("the heap is asked for");
    let Control::Brk { end: heap } = controls[first] else {
        unreachable!();
    };
    let at = 0x1000_0000;
    let write = Protection(Protection::READ | Protection::WRITE);
    let read = Protection(Protection::READ);
    let map = |addr, len, prot, backing, populate| Control::Map {
        addr,
        len,
        prot,
        backing,
        populate,
    };
    let advise = |advice| Control::Advise {
        addr: at,
        len: 0x1000,
        advice,
    };
    let expected = [
        Control::Brk { end: heap },
        Control::Brk { end: heap + 0x3000 },
        Control::Brk { end: heap + 0x1000 },
        map(at, 0x4000, write, Backing::Anonymous, false),
        Control::Protect {
            addr: at + 0x1000,
            len: 0x1000,
            prot: read,
        },
        advise(Advice::DontNeed),
        advise(Advice::HugePage),
        Control::Unmap {
            addr: at + 0x2000,
            len: 0x1000,
        },
        map(at + 0x10000, 0x2000, write, Backing::SharedAnonymous, true),
        Control::Remap {
            old_addr: at + 0x10000,
            old_len: 0x2000,
            new_addr: at + 0x10000,
            new_len: 0x1000,
        },
        map(at + 0x20000, 0x1000, read, Backing::SharedAnonymous, false),
        map(at + 0x21000, 0x1000, read, Backing::PrivateFile, false),
        Control::Exit { status: 7 },
    ];
    assert_eq!(controls[first..], expected);
}

#[test]
fn what_was_mapped_at_the_start_is_what_the_program_headers_say_and_a_stack() {
    let program = assemble("plain.s");
    let controls = program.record().controls(0);
    let mapped = |addr: u64, wanted: Backing| {
        controls.iter().any(|control| match *control {
            Control::Map {
                addr: at,
                len,
                backing,
                ..
            } => (at..at + len).contains(&addr) && backing == wanted,
            _ => false,
        })
    };
    let symbols = program.symbols();
    assert!(mapped(symbols["_start"], Backing::PrivateFile));
    let is_code = |addr: u64| {
        controls.iter().any(|control| match *control {
            Control::Map {
                addr: at,
                len,
                prot,
                ..
            } => (at..at + len).contains(&addr) && prot.0 & Protection::EXEC != 0,
            _ => false,
        })
    };
    assert!(is_code(symbols["_start"]) && !is_code(symbols["data"]));
    assert!(
        mapped(symbols["data"] + 4096, Backing::Anonymous),
        "the bss"
    );
    let stacks = controls.iter().filter(|control| {
        matches!(
            control,
            Control::Map {
                backing: Backing::Stack,
                ..
            }
        )
    });
    assert_eq!(stacks.count(), 1);
    assert!(controls[..controls.len() - 1].iter().all(is_memory));
}

#[test]
fn every_access_of_a_program_with_a_library_lies_in_a_mapping() {
    let recorded = build("fork.c", &["-O1"]).record();
    let mut memory: HashMap<u32, Mappings> = HashMap::new();
    for event in &recorded.events {
        let mappings = memory.entry(event.process).or_default();
        match event.what {
            What::Access(access) => assert!(
                mappings.contains(access.addr),
                "process {} accesses {:x}",
                event.process,
                access.addr
            ),
            What::Mispredicted(_) => {}
            What::Control(Control::Fork { child }) => {
                let copy = mappings.clone();
                memory.insert(child, copy);
            }
            What::Control(control) => mappings.apply(control),
        }
    }
}

/// The pages that are mapped.
#[derive(Clone, Default)]
struct Mappings {
    pages: HashSet<u64>,
    heap: Option<u64>,
}

impl Mappings {
    fn contains(&self, addr: u64) -> bool {
        self.pages.contains(&(addr / 4096))
    }

    fn apply(&mut self, control: Control) {
        match control {
            Control::Map { addr, len, .. } => self.pages.extend(addr / 4096..(addr + len) / 4096),
            Control::Unmap { addr, len } => {
                for page in addr / 4096..(addr + len) / 4096 {
                    self.pages.remove(&page);
                }
            }
            Control::Brk { end } => {
                let start = *self.heap.get_or_insert(end);
                self.pages.extend(start / 4096..end.div_ceil(4096));
            }
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => {
                self.apply(Control::Unmap {
                    addr: old_addr,
                    len: old_len,
                });
                self.pages
                    .extend(new_addr / 4096..(new_addr + new_len) / 4096);
            }
            _ => {}
        }
    }
}

#[test]
fn the_kernel_accesses_what_system_calls_copy_line_by_line() {
    let program = build("kernel.c", &RAW);
    let recorded = program.record();
    let buffer = program.symbols()["buffer"];
    let got: Vec<(u64, Op)> = recorded
        .accesses()
        .filter(|access| access.op.is_kernel())
        .map(|access| (access.addr.wrapping_sub(buffer), access.op))
        .collect();
    let ends = program.symbols()["ends"].wrapping_sub(buffer);
    let load = |size| Op::load(size).by_kernel();
    let store = |size| Op::store(size).by_kernel();
    let expected = [
        (ends, store(8)),
        (60, load(4)),
        (64, load(64).continuing(true)),
        (128, load(2).continuing(true)),
        (1024, store(64)),
        (1088, store(6).continuing(true)),
        (0, load(30)),
        (100, store(10)),
        (300, store(20).continuing(true)),
    ];
    assert_eq!(got, expected);
}

#[test]
fn threads_are_told_apart_and_use_memory_only_while_it_is_mapped() {
    let recorded = build("threads.c", &STATIC).record();
    assert_eq!(recorded.outcome.ended.code(), 0);
    assert_eq!(recorded.outcome.threads, 5);
    let mut started = HashSet::from([0]);
    let mut mappings = Mappings::default();
    let mut accesses = HashMap::<u32, u64>::new();
    for event in &recorded.events {
        match event.what {
            What::Control(Control::ThreadStart { thread }) => assert!(started.insert(thread)),
            What::Control(Control::ThreadEnd { thread }) => assert!(started.remove(&thread)),
            What::Mispredicted(_) => {}
            What::Control(control) => mappings.apply(control),
            What::Access(access) => {
                assert!(
                    started.contains(&event.thread),
                    "thread {} has not started",
                    event.thread
                );
                assert!(
                    mappings.contains(access.addr),
                    "{:x} is not mapped",
                    access.addr
                );
                *accesses.entry(event.thread).or_default() += 1;
            }
        }
    }
    // Each of the four makes or uses 60 mappings of 16 pages.
    assert!(
        (1..5).all(|thread| accesses[&thread] > 60 * 16),
        "{accesses:?}"
    );
}

#[test]
fn forked_children_are_processes_of_their_own() {
    let program = build("fork.c", &STATIC);
    let recorded = program.record();
    assert_eq!(recorded.outcome.ended.code(), 5);
    assert_eq!(recorded.outcome.processes, 4);
    let exit = |process| *recorded.controls(process).last().expect("it ends");
    assert_eq!(exit(0), Control::Exit { status: 5 });
    assert_eq!(exit(1), Control::Exit { status: 10 });
    assert_eq!(
        exit(2),
        Control::Exit {
            status: 128 + libc::SIGTERM
        }
    );
    assert_eq!(
        exit(3),
        Control::Exit {
            status: 128 + libc::SIGSEGV
        }
    );
    let forks: Vec<Control> = recorded
        .controls(0)
        .into_iter()
        .filter(|control| matches!(control, Control::Fork { .. }))
        .collect();
    assert_eq!(forks, [1, 2, 3].map(|child| Control::Fork { child }));
    // Each child, and only it, stores its mark; the parent stores the last.
    let mark = program.symbols()["mark"];
    for (process, at) in [(1, 0), (2, 4), (3, 8), (0, 12)] {
        let stores: Vec<u32> = recorded
            .events
            .iter()
            .filter(|event| match event.what {
                What::Access(access) => access.op.is_store() && access.addr == mark + at,
                What::Control(_) | What::Mispredicted(_) => false,
            })
            .map(|event| event.process)
            .collect();
        assert_eq!(stores, [process]);
    }
}

#[test]
fn programs_started_by_the_program_are_followed_on_request() {
    let mut request = assemble("plain.s").request();
    request.program = "sh".into();
    request.arguments = vec!["-c".into(), "/bin/true; exec /bin/echo".into()];
    let exec = |process: u32, recorded: &common::Recorded| {
        let controls = recorded.controls(process);
        controls.contains(&Control::Exec)
    };
    let alone = common::run(&request);
    request.follow_exec = true;
    let followed = common::run(&request);
    assert_eq!(followed.outcome.notes, [""; 0]);
    assert!(exec(0, &followed) && exec(1, &followed));
    assert!(followed.program_accesses().len() > alone.program_accesses().len() + 10_000);
    let mapped = followed
        .controls(0)
        .into_iter()
        .skip_while(|control| *control != Control::Exec);
    assert!(
        mapped
            .filter(|control| matches!(control, Control::Map { .. }))
            .count()
            > 3
    );
}

#[test]
fn scripts_run_their_interpreters() {
    let script = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("script.sh");
    std::fs::write(&script, "#!/bin/sh -e\nexit $1\n").expect("it can be written");
    assert!(
        Command::new("chmod")
            .arg("+x")
            .arg(&script)
            .status()
            .is_ok()
    );
    let mut request = assemble("plain.s").request();
    request.program = script.into();
    request.arguments = vec!["9".into()];
    assert_eq!(common::run(&request).outcome.ended.code(), 9);
}

#[test]
fn the_kernel_writes_no_more_than_there_is_room_for_and_leaves_what_mremap_says() {
    let program = build("copies.c", &STATIC);
    let alone = Command::new(&program.path).status().expect("it runs");
    let recorded = program.record();
    assert_eq!(recorded.outcome.ended.code(), 7);
    assert_eq!(alone.code(), Some(7));
    let at = 0x1000_0000;
    let stored = |place: u64| -> Vec<(u64, u16)> {
        let by_kernel = recorded.accesses().filter(|access| {
            access.op.is_kernel() && access.op.is_store() && access.addr >> 12 == place >> 12
        });
        by_kernel
            .map(|access| (access.addr, access.op.size()))
            .collect()
    };
    assert_eq!(stored(at), [(at, 16)]);
    assert_eq!(stored(at + 0x1000), []);
    let controls = recorded.controls(0);
    let old = at + 0x10000;
    let moved = controls
        .iter()
        .position(|control| matches!(control, Control::Remap { old_addr, .. } if *old_addr == old));
    let left = controls[moved.expect("it is moved") + 1];
    let prot = Protection(Protection::READ | Protection::WRITE);
    let mapped = |addr, backing| Control::Map {
        addr,
        len: 0x4000,
        prot,
        backing,
        populate: false,
    };
    assert_eq!(left, mapped(old, Backing::Anonymous));
    let shared = controls.iter().rev().find_map(|control| match control {
        Control::Map { addr, .. } => Some((*addr, *control)),
        _ => None,
    });
    let (again, control) = shared.expect("it is mapped again");
    assert_ne!(again, at + 0x20000);
    assert_eq!(control, mapped(again, Backing::SharedAnonymous));
}
