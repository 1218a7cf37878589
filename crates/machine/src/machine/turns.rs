//! Threads of one program that take shorter turns than in its recording.

use pagelab_events::{Batch, Control, Flow, Source, SourceError, WarmUp};

/// A source whose threads take turns of so many accesses between two control events.
///
/// A recording has them in turns of thousands, in no particular order but for the calls that change
/// the address space (docs/record.md). What each thread does keeps its order, and its place before
/// or behind all control events.
pub(crate) struct Turns<'a> {
    source: &'a mut dyn Source,
    turn: usize,
    /// Accesses that are looked ahead.
    ahead: usize,
    /// The batch under way, and how far it was taken.
    batch: Batch,
    access: usize,
    control: usize,
    flow: usize,
    /// None before the batch's process has named one.
    thread: Option<u32>,
    /// Thread whose blocks the flow names.
    executes: u32,
    /// Accesses of each thread that were taken and not given out.
    queues: Vec<Queue>,
    queued: usize,
    /// Error of the source, to be said after what came before.
    failed: Option<SourceError>,
}

#[derive(Default)]
struct Queue {
    thread: u32,
    accesses: Batch,
    given: usize,
    /// Entries of the flow that were given out.
    executed: usize,
}

/// Accesses that are looked ahead: many turns of a recording, for a few threads.
const AHEAD: usize = 1 << 17;

impl<'a> Turns<'a> {
    pub(crate) fn new(source: &'a mut dyn Source, turn: u32) -> Self {
        Turns {
            source,
            turn: turn as usize,
            ahead: AHEAD,
            batch: Batch::default(),
            access: 0,
            control: 0,
            flow: 0,
            thread: None,
            executes: 0,
            queues: Vec::new(),
            queued: 0,
            failed: None,
        }
    }

    /// Takes accesses from the batch up to the next control event that is not a change of threads,
    /// and not more than are looked ahead: where the source ends its batches is no matter.
    fn take(&mut self) {
        while self.access < self.batch.len() || self.control < self.batch.controls.len() {
            let next = self.batch.controls.get(self.control);
            let until = next.map_or(self.batch.len(), |next| next.0 as usize);
            if self.access < until {
                self.queue(until.min(self.access + self.ahead - self.queued));
                if self.queued == self.ahead {
                    return;
                }
                continue;
            }
            let next = next.map(|next| next.1);
            self.execute(until as u32);
            match next {
                Some(Control::Thread { thread }) => self.thread = Some(thread),
                Some(Control::ThreadStart { .. } | Control::ThreadEnd { .. }) => {}
                _ => return,
            }
            self.control += 1;
        }
        // The batch has come to its end.
        self.execute(u32::MAX);
    }

    fn queue(&mut self, until: usize) {
        while let Some(&(at, _)) = self.batch.flow.get(self.flow)
            && (at as usize) < until
        {
            self.queue_accesses(at as usize);
            self.execute(at);
        }
        self.queue_accesses(until);
    }

    fn queue_accesses(&mut self, until: usize) {
        let accesses = self.access..until;
        let queue = of_thread(&mut self.queues, self.thread.unwrap_or(0));
        copy(&self.batch, accesses.clone(), &mut queue.accesses);
        self.queued += accesses.len();
        self.access = until;
    }

    /// Takes the flow up to what starts before access `until` of the batch.
    fn execute(&mut self, until: u32) {
        while let Some(&(at, entry)) = self.batch.flow.get(self.flow)
            && at <= until
        {
            match entry {
                Flow::Thread(thread) => self.executes = thread,
                Flow::Block(_) => {
                    let queue = of_thread(&mut self.queues, self.executes);
                    let at = queue.accesses.len() as u32;
                    queue.accesses.flow.push((at, entry));
                }
            }
            self.flow += 1;
        }
    }

    /// Gives everything out that was taken.
    fn give(&mut self, batch: &mut Batch) {
        self.queued = 0;
        while !self.queues.is_empty() {
            let turn = if self.queues.len() == 1 {
                usize::MAX
            } else {
                self.turn
            };
            for queue in &mut self.queues {
                let thread = queue.thread;
                batch.push_control(Control::Thread { thread });
                let left = queue.accesses.len() - queue.given;
                let end = queue.given + turn.min(left);
                queue.execute(end, batch);
                copy(&queue.accesses, queue.given..end, batch);
                queue.given = end;
            }
            self.queues
                .retain(|queue| queue.given < queue.accesses.len());
        }
    }
}

impl Queue {
    /// Gives out the blocks that are executed up to access `end`; behind the last access all.
    fn execute(&mut self, end: usize, batch: &mut Batch) {
        let Batch { flow, .. } = &self.accesses;
        let last = end == self.accesses.len();
        let next = &flow[self.executed..];
        let count = next.partition_point(|&(at, _)| last || (at as usize) < end);
        if count == 0 {
            return;
        }
        let (at, given) = (batch.len(), self.given);
        batch.flow.push((at as u32, Flow::Thread(self.thread)));
        let moved = |&(of, entry): &(u32, Flow)| ((of as usize - given + at) as u32, entry);
        batch.flow.extend(next[..count].iter().map(moved));
        self.executed += count;
    }
}

fn of_thread(queues: &mut Vec<Queue>, thread: u32) -> &mut Queue {
    let known = queues.iter().position(|queue| queue.thread == thread);
    let place = known.unwrap_or(queues.len());
    if known.is_none() {
        queues.push(Queue {
            thread,
            ..Queue::default()
        });
    }
    &mut queues[place]
}

/// Adds accesses of one batch to another.
fn copy(from: &Batch, range: std::ops::Range<usize>, to: &mut Batch) {
    for &(at, branch) in from.mispredicted_in(range.clone()) {
        let at = at as usize - range.start + to.len();
        to.mispredicted.push((at as u32, branch));
    }
    to.addr.extend_from_slice(&from.addr[range.clone()]);
    to.op.extend_from_slice(&from.op[range.clone()]);
    to.gap.extend_from_slice(&from.gap[range.clone()]);
    to.dep.extend_from_slice(&from.dep[range.clone()]);
    to.site
        .extend_from_slice(from.site.get(range).unwrap_or_default());
}

impl Source for Turns<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            batch.process = self.batch.process;
            self.take();
            if self.queued == self.ahead {
                self.give(batch);
                return Ok(true);
            }
            if let Some(&(_, control)) = self.batch.controls.get(self.control) {
                self.give(batch);
                // The last turn may have been another's.
                if let Some(thread) = self.thread {
                    batch.push_control(Control::Thread { thread });
                }
                batch.push_control(control);
                self.control += 1;
                continue;
            }
            if batch.len() >= self.ahead {
                return Ok(true);
            }
            let process = self.batch.process;
            let more = self
                .source
                .next_batch(&mut self.batch)
                .unwrap_or_else(|error| {
                    self.failed = Some(error);
                    false
                });
            (self.access, self.control, self.flow) = (0, 0, 0);
            if !more {
                self.batch.clear();
            }
            batch.definitions.append(&mut self.batch.definitions);
            if !more || self.batch.process != process {
                self.thread = None;
                self.give(batch);
                if !batch.is_empty() {
                    return Ok(true);
                }
                if !more {
                    return self.failed.take().map_or(Ok(false), Err);
                }
            }
        }
    }

    fn remaining(&self) -> Option<u64> {
        self.source.remaining()
    }

    fn warm_up(&self) -> WarmUp {
        self.source.warm_up()
    }

    fn has_code(&self) -> bool {
        self.source.has_code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_events::{Access, Op};
    use proptest::prelude::*;
    use std::collections::HashMap;

    struct Batches(std::vec::IntoIter<Batch>);

    impl Source for Batches {
        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            let next = self.0.next();
            *batch = next.clone().unwrap_or_default();
            Ok(next.is_some())
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Event {
        Access(Access),
        Control(Control),
        Block(u32),
    }

    fn access(addr: u64) -> Event {
        Event::Access(Access {
            addr,
            op: Op::load(8),
            gap: addr as u32 % 7,
            dep: addr as u32 % 3,
        })
    }

    /// Batches of (process, thread, event), and what comes out of them again.
    fn batches(events: &[(u32, u32, Event)], length: usize) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        let mut last = None;
        for &(process, thread, event) in events {
            let full = batches.last().is_none_or(|batch| batch.len() >= length);
            if full || last.is_none_or(|(last, _)| last != process) {
                batches.push(Batch {
                    process,
                    ..Batch::default()
                });
                last = None;
            }
            let batch = batches.last_mut().unwrap();
            match event {
                Event::Access(access) => {
                    if last != Some((process, thread)) {
                        batch.push_control(Control::Thread { thread });
                    }
                    batch.push(access);
                    last = Some((process, thread));
                }
                Event::Control(control) => {
                    batch.push_control(control);
                    last = last.or(Some((process, u32::MAX)));
                }
                Event::Block(block) => {
                    let at = batch.len() as u32;
                    batch.flow.push((at, Flow::Thread(thread)));
                    batch.flow.push((at, Flow::Block(block)));
                    last = last.or(Some((process, u32::MAX)));
                }
            }
        }
        batches
    }

    fn events(source: &mut dyn Source) -> Vec<(u32, u32, Event)> {
        let mut batch = Batch::default();
        let mut events = Vec::new();
        while source.next_batch(&mut batch).unwrap() {
            let (mut thread, mut controls) = (u32::MAX, batch.controls.iter().peekable());
            let (mut executes, mut flow) = (u32::MAX, batch.flow.iter().peekable());
            for place in 0..=batch.len() {
                while let Some(&(_, entry)) = flow.next_if(|next| next.0 as usize == place) {
                    match entry {
                        Flow::Thread(thread) => executes = thread,
                        Flow::Block(block) => {
                            events.push((batch.process, executes, Event::Block(block)));
                        }
                    }
                }
                while let Some(&(_, control)) = controls.next_if(|next| next.0 as usize == place) {
                    match control {
                        Control::Thread { thread: next } => thread = next,
                        control => events.push((batch.process, 0, Event::Control(control))),
                    }
                }
                if place < batch.len() {
                    events.push((batch.process, thread, Event::Access(batch.access(place))));
                }
            }
        }
        events
    }

    /// Events of each thread: accesses with all control events of its process, and accesses with its blocks.
    fn by_thread(events: &[(u32, u32, Event)]) -> HashMap<(u32, u32), [Vec<Event>; 2]> {
        let mut found = HashMap::new();
        for process in 0..2 {
            for thread in 0..3 {
                let of_process = || events.iter().filter(|event| event.0 == process);
                let with_controls = of_process().filter(|&&(_, by, event)| match event {
                    Event::Access(_) => by == thread,
                    Event::Control(_) => true,
                    Event::Block(_) => false,
                });
                let with_blocks = of_process()
                    .filter(|&&(_, by, event)| by == thread && !matches!(event, Event::Control(_)));
                let both = [
                    with_controls.map(|event| event.2).collect(),
                    with_blocks.map(|event| event.2).collect(),
                ];
                found.insert((process, thread), both);
            }
        }
        found
    }

    proptest! {
        #[test]
        fn each_thread_does_the_same(
            runs in proptest::collection::vec((0u32..2, 0u32..3, 0usize..30, 0u32..8), 1..60),
            length in 1usize..100,
            turn in 1u32..12,
            ahead in 1usize..60,
        ) {
            let mut given = Vec::new();
            for (process, thread, accesses, control) in runs {
                for _ in 0..accesses {
                    let number = given.len() as u64;
                    if number % 3 == 1 {
                        given.push((process, thread, Event::Block(number as u32)));
                    }
                    given.push((process, thread, access(number)));
                }
                if control == 1 {
                    given.push((process, thread, Event::Block(given.len() as u32)));
                }
                if control == 0 {
                    let end = given.len() as u64;
                    given.push((process, 0, Event::Control(Control::Brk { end })));
                }
            }
            let turns = |length| {
                let mut source = Batches(batches(&given, length).into_iter());
                let mut turns = Turns::new(&mut source, turn);
                turns.ahead = ahead;
                events(&mut turns)
            };
            let got = turns(length);
            prop_assert_eq!(&got, &turns(1));
            prop_assert_eq!(by_thread(&got), by_thread(&given));
            // The order of everything that is not an access of a thread beside others.
            let controls = |events: &[(u32, u32, Event)]| -> Vec<(u32, Event)> {
                let all = events.iter().filter(|event| matches!(event.2, Event::Control(_)));
                all.map(|event| (event.0, event.2)).collect()
            };
            prop_assert_eq!(controls(&got), controls(&given));
        }
    }

    #[test]
    fn threads_take_turns() {
        let thread = |thread: u32, addr: std::ops::Range<u64>| {
            addr.map(move |addr| (0, thread, access(addr)))
        };
        let given: Vec<_> = thread(4, 0..5).chain(thread(9, 10..13)).collect();
        let mut source = Batches(batches(&given, 100).into_iter());
        let got = events(&mut Turns::new(&mut source, 2));
        let order: Vec<(u32, Event)> = got.iter().map(|event| (event.1, event.2)).collect();
        let expected = [0, 1, 10, 11, 2, 3, 12, 4].map(|addr| {
            let thread = if addr < 10 { 4 } else { 9 };
            (thread, access(addr))
        });
        assert_eq!(order, expected);
    }
}
