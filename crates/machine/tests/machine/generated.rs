//! Generated programs of several processes, and streams that are made of them.

use crate::common::{BASE, Event, map};
use pagelab_events::{
    Access, Advice, Batch, CodeBlock, Control, Definition, Flow, Mispredicted, Op, Protection,
    Source, SourceError, dependence,
};
use proptest::prelude::*;

/// An event of a process, and the branches before it that were mispredicted.
#[derive(Clone, Debug)]
pub struct Step {
    pub process: u32,
    pub event: Event,
    pub branches: Vec<Mispredicted>,
}

impl Step {
    pub fn new(process: u32, event: Event) -> Self {
        Step {
            process,
            event,
            branches: Vec::new(),
        }
    }
}

const PAGES: u64 = 4 * 1024;
/// One for each gap between accesses.
const BLOCKS: u32 = 12;

/// The loads that an address, or a branch, waits for.
fn loads() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0u32..6,
        1 => (1u32..6, 1u32..40).prop_map(|(one, other)| dependence::of_two(one, other)),
        1 => (0u32..1100, 0u32..1100).prop_map(|(one, other)| dependence::of_two(one, other)),
    ]
}

fn branches() -> impl Strategy<Value = Vec<Mispredicted>> {
    let more = prop_oneof![9 => Just(0), 1 => 1u32..400];
    let branch = (loads(), any::<bool>(), more).prop_map(|(dep, reconverges, more)| Mispredicted {
        dep,
        reconverges,
        more,
    });
    prop_oneof![
        5 => Just(Vec::new()),
        1 => proptest::collection::vec(branch, 1..5),
    ]
}

fn access() -> impl Strategy<Value = Event> {
    let offset = prop_oneof![
        0..PAGES * 4096,
        0..64u64 * 4096,
        (0..PAGES - 1).prop_map(|page| page * 4096 + 4092)
    ];
    let size = prop_oneof![
        40 => Just(8u16),
        40 => Just(1),
        40 => Just(64),
        40 => Just(300),
        1 => Just(8_000),
    ];
    let by_kernel = prop_oneof![30 => Just(false), 1 => Just(true)];
    let gap = prop_oneof![300 => 0..BLOCKS, 1 => 1000..1u32 << 28];
    (offset, any::<bool>(), by_kernel, size, gap, loads()).prop_map(
        |(offset, store, by_kernel, size, gap, dep)| {
            let op = if store {
                Op::store(size)
            } else {
                Op::load(size)
            };
            Event::Access(Access {
                addr: BASE + offset,
                op: if by_kernel { op.by_kernel() } else { op },
                gap,
                dep,
            })
        },
    )
}

/// One of what may be mapped, or of anything at all.
fn prefetch() -> impl Strategy<Value = Event> {
    let place = prop_oneof![
        4 => (0..PAGES * 4096).prop_map(|offset| BASE + offset),
        4 => (0..64u64 * 4096).prop_map(|offset| BASE + offset),
        1 => any::<u64>(),
    ];
    (place, 0..BLOCKS, loads()).prop_map(|(addr, gap, dep)| {
        Event::Access(Access {
            addr,
            op: Op::PREFETCH,
            gap,
            dep,
        })
    })
}

fn control() -> impl Strategy<Value = Event> {
    let length = prop_oneof![1..40u64, 1..2000u64];
    (0..PAGES, length, 0..8u32).prop_map(|(first, pages, kind)| {
        let (addr, len) = (BASE + first * 4096, pages.min(PAGES - first) * 4096);
        let protect = |prot| Control::Protect {
            addr,
            len,
            prot: Protection(prot),
        };
        Event::Control(match kind {
            0 => Control::Unmap { addr, len },
            1 => Control::Advise {
                addr,
                len,
                advice: Advice::DontNeed,
            },
            2 => protect(Protection::READ),
            3 => protect(Protection::READ | Protection::WRITE),
            4 => Control::Thread { thread: 1 },
            5 => Control::Thread { thread: 0 },
            6 => Control::Fork { child: 0 },
            _ => return map(addr, len),
        })
    })
}

/// Up to four processes take turns over the same mapping, which changes under them.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let event = prop_oneof![40 => access(), 4 => prefetch(), 1 => control()];
    let turns = (
        any::<u32>(),
        proptest::collection::vec((event, branches()), 1..60),
    );
    proptest::collection::vec(turns, 10..30).prop_map(|turns| {
        let mut steps = vec![Step::new(0, map(BASE, PAGES * 4096))];
        let mut last = 0;
        for (number, events) in turns {
            let process = number % (last + 1);
            for (mut event, branches) in events {
                if let Event::Control(Control::Fork { child }) = &mut event {
                    if last == 3 {
                        continue;
                    }
                    last += 1;
                    *child = last;
                }
                steps.push(Step {
                    process,
                    event,
                    branches,
                });
            }
        }
        steps
    })
}

/// Steps in batches of these lengths, in turn.
pub struct Batches<'a> {
    steps: &'a [Step],
    at: usize,
    lengths: &'a [usize],
    made: usize,
    thread: u32,
}

impl<'a> Batches<'a> {
    pub fn new(steps: &'a [Step], lengths: &'a [usize]) -> Self {
        Batches {
            steps,
            at: 0,
            lengths,
            made: 0,
            thread: 0,
        }
    }
}

impl Source for Batches<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let Some(&Step { process, .. }) = self.steps.get(self.at) else {
            return Ok(false);
        };
        batch.process = process;
        if self.at == 0 {
            batch.definitions.extend((0..BLOCKS).map(|number| {
                Definition::Block(CodeBlock {
                    // Some across lines and pages.
                    pc: 0x40_0000 + u64::from(number) * 4090,
                    lengths: [5, 9].into(),
                    accesses: [1].into(),
                    ..CodeBlock::default()
                })
            }));
        }
        if self.at == 0 || self.steps[self.at - 1].process != process {
            self.thread = 0;
        }
        batch.push_control(Control::Thread {
            thread: self.thread,
        });
        batch.flow.push((0, Flow::Thread(self.thread)));
        let length = self.lengths[self.made % self.lengths.len()];
        self.made += 1;
        while let Some(step) = self.steps.get(self.at)
            && step.process == process
            && batch.len() < length
        {
            match &step.event {
                Event::Access(access) => {
                    let block = access.gap % BLOCKS;
                    batch.flow.push((batch.len() as u32, Flow::Block(block)));
                    for branch in &step.branches {
                        batch.push_mispredicted(*branch);
                    }
                    batch.push(*access);
                    // The second instruction of its block.
                    batch.site.push(2 * block + 1);
                }
                Event::Control(control) => {
                    if let Control::Thread { thread } = *control {
                        self.thread = thread;
                        batch.flow.push((batch.len() as u32, Flow::Thread(thread)));
                    }
                    batch.push_control(*control);
                }
            }
            self.at += 1;
        }
        Ok(true)
    }
}
