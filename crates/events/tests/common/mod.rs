//! Generators and helpers that several tests share.
#![allow(dead_code, reason = "no test file uses all of them")]

use pagelab_events::{
    Access, Advice, Backing, Batch, Control, HugePages, Mispredicted, Op, Protection, Source,
    SourceError, Touch, dependence,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that goes away.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// A file of this name, in a directory of its own, with these contents.
    pub fn new(name: &str, contents: &[u8]) -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = format!("pagelab-events-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join(name);
        std::fs::write(&path, contents).unwrap();
        Scratch(path)
    }

    /// Another file beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.0.with_file_name(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

/// An event with the process and thread that make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Access(u32, u32, Access),
    Mispredicted(u32, u32, Mispredicted),
    Control(u32, u32, Control),
}

/// Spells batches out, event by event. A thread's name is folded into the events that follow it;
/// events before the first name are taken as thread 0's.
#[derive(Default)]
pub struct Flat {
    pub events: Vec<Event>,
    threads: HashMap<u32, u32>,
}

impl Flat {
    pub fn add(&mut self, batch: &Batch) {
        let mut controls = batch.controls.iter().peekable();
        let mut mispredicted = batch.mispredicted.iter().peekable();
        for index in 0..=batch.len() {
            while let Some((_, control)) = controls.next_if(|(at, _)| *at as usize == index) {
                let thread = self.threads.entry(batch.process).or_default();
                match control {
                    Control::Thread { thread: next } => *thread = *next,
                    &control => self
                        .events
                        .push(Event::Control(batch.process, *thread, control)),
                }
            }
            if index < batch.len() {
                let thread = *self.threads.entry(batch.process).or_default();
                while let Some((_, branch)) = mispredicted.next_if(|(at, _)| *at as usize == index)
                {
                    let event = Event::Mispredicted(batch.process, thread, *branch);
                    self.events.push(event);
                }
                self.events
                    .push(Event::Access(batch.process, thread, batch.access(index)));
            }
        }
        assert!(controls.next().is_none(), "a control event is out of order");
        assert!(
            mispredicted.next().is_none(),
            "a misprediction is out of order"
        );
    }
}

pub fn flatten<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Vec<Event> {
    let mut flat = Flat::default();
    for batch in batches {
        flat.add(batch);
    }
    flat.events
}

/// Reads a source to its end or error, checking that it keeps its contract.
pub fn drain(source: &mut impl Source) -> (Vec<Event>, Option<SourceError>) {
    let mut flat = Flat::default();
    let mut batch = Batch::default();
    loop {
        match source.next_batch(&mut batch) {
            Ok(false) => return (flat.events, None),
            Err(error) => return (flat.events, Some(error)),
            Ok(true) => {}
        }
        assert!(!batch.is_empty(), "an empty batch before the end");
        if !batch.addr.is_empty() {
            let named = matches!(batch.controls.first(), Some((0, Control::Thread { .. })));
            assert!(named, "a batch with accesses starts with a thread");
        }
        flat.add(&batch);
    }
}

pub fn any_control() -> impl Strategy<Value = Control> {
    let backing = prop_oneof![
        Just(Backing::Anonymous),
        Just(Backing::SharedAnonymous),
        Just(Backing::PrivateFile),
        Just(Backing::SharedFile),
        Just(Backing::Stack),
    ];
    let advice = prop_oneof![
        Just(Advice::DontNeed),
        Just(Advice::Free),
        Just(Advice::HugePage),
        Just(Advice::NoHugePage),
        Just(Advice::Populate),
        any::<u32>().prop_map(Advice::Other),
    ];
    let touch = prop_oneof![
        Just(Touch::Loaded),
        Just(Touch::Stored),
        Just(Touch::Present),
        Just(Touch::Executed),
    ];
    let map = (
        any::<u64>(),
        any::<u64>(),
        any::<u8>(),
        backing,
        any::<bool>(),
    );
    prop_oneof![
        any::<u32>().prop_map(|thread| Control::Thread { thread }),
        map.prop_map(|(addr, len, prot, backing, populate)| Control::Map {
            addr,
            len,
            prot: Protection(prot),
            backing,
            populate
        }),
        any::<(u64, u64)>().prop_map(|(addr, len)| Control::Unmap { addr, len }),
        any::<(u64, u64, u8)>().prop_map(|(addr, len, prot)| Control::Protect {
            addr,
            len,
            prot: Protection(prot)
        }),
        any::<(u64, u64, u64, u64)>().prop_map(|(old_addr, old_len, new_addr, new_len)| {
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            }
        }),
        (any::<(u64, u64)>(), advice).prop_map(|((addr, len), advice)| Control::Advise {
            addr,
            len,
            advice
        }),
        prop_oneof![
            Just(HugePages::Anywhere),
            Just(HugePages::Nowhere),
            Just(HugePages::WhereAdvised),
        ]
        .prop_map(|allowed| Control::HugePages { allowed }),
        any::<u64>().prop_map(|end| Control::Brk { end }),
        any::<u32>().prop_map(|child| Control::Fork { child }),
        Just(Control::Exec),
        any::<u32>().prop_map(|thread| Control::ThreadStart { thread }),
        any::<u32>().prop_map(|thread| Control::ThreadEnd { thread }),
        any::<i32>().prop_map(|status| Control::Exit { status }),
        (any::<(u64, u64)>(), touch).prop_map(|((addr, len), touch)| Control::Touched {
            addr,
            len,
            touch
        }),
        any::<u32>().prop_map(|site| Control::Allocating { site }),
        any::<(u64, u64)>().prop_map(|(addr, len)| Control::Allocated { addr, len }),
        any::<u64>().prop_map(|addr| Control::Freed { addr }),
        any::<(u64, u64)>().prop_map(|(instructions, accesses)| Control::Skipped {
            instructions,
            accesses
        }),
    ]
}

/// Half of the accesses look like a program's, half are anything at all.
pub fn any_access() -> impl Strategy<Value = Access> {
    let tame = (0u64..1 << 20, 0u16..9, 0u32..10, 0u32..20);
    prop_oneof![
        tame.prop_map(|(addr, size, gap, dep)| Access {
            addr: 0x7fff_0000_0000 + addr,
            op: Op::load(size),
            gap,
            dep
        }),
        any::<(u64, u16, u32, (u16, u16))>().prop_map(|(addr, op, gap, (near, apart))| Access {
            addr,
            op: Op(op),
            gap,
            dep: dependence::of_two(near.into(), u32::from(near) + u32::from(apart)),
        }),
    ]
}

/// A batch that names its thread first.
pub fn any_batch(most: usize) -> impl Strategy<Value = Batch> {
    let controls = proptest::collection::vec((any::<prop::sample::Index>(), any_control()), 0..8);
    let more = prop_oneof![Just(0), any::<u32>()];
    let branch = (0u32..1100, 0u32..1100, any::<bool>(), more);
    let branch = branch.prop_map(|(one, other, reconverges, more)| Mispredicted {
        dep: dependence::of_two(one, other),
        reconverges,
        more,
    });
    let mispredicted = proptest::collection::vec((any::<prop::sample::Index>(), branch), 0..8);
    (
        0u32..3,
        0u32..3,
        proptest::collection::vec(any_access(), 0..most),
        controls,
        mispredicted,
    )
        .prop_map(|(process, thread, accesses, controls, mispredicted)| {
            let mut batch = Batch {
                process,
                ..Batch::default()
            };
            let mut placed: Vec<_> = controls
                .into_iter()
                .map(|(at, control)| (at.index(accesses.len() + 1) as u32, control))
                .collect();
            placed.sort_by_key(|&(at, _)| at);
            batch.controls.push((0, Control::Thread { thread }));
            batch.controls.extend(placed);
            if !accesses.is_empty() {
                let place = |(at, branch): (prop::sample::Index, Mispredicted)| {
                    (at.index(accesses.len()) as u32, branch)
                };
                batch.mispredicted = mispredicted.into_iter().map(place).collect();
                batch.mispredicted.sort_by_key(|&(at, _)| at);
            }
            accesses.into_iter().for_each(|access| batch.push(access));
            batch
        })
}
