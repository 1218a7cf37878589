//! Threads of one program that take shorter turns than in its recording.

use pagelab_events::{Batch, Control, Source, SourceError, WarmUp};

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
    thread: u32,
    /// Accesses of each thread that were taken and not given out.
    queues: Vec<Queue>,
    queued: usize,
    /// Error of the source, to be said after what came before.
    failed: Option<SourceError>,
}

struct Queue {
    thread: u32,
    accesses: Batch,
    given: usize,
}

/// Accesses that are looked ahead: several turns of a recording, for a few threads.
const AHEAD: usize = 1 << 16;

impl<'a> Turns<'a> {
    pub(crate) fn new(source: &'a mut dyn Source, turn: u32) -> Self {
        Turns {
            source,
            turn: turn as usize,
            ahead: AHEAD,
            batch: Batch::default(),
            access: 0,
            control: 0,
            thread: 0,
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
            match next {
                Some(&(_, Control::Thread { thread })) => self.thread = thread,
                Some((_, Control::ThreadStart { .. } | Control::ThreadEnd { .. })) => {}
                _ => return,
            }
            self.control += 1;
        }
    }

    fn queue(&mut self, until: usize) {
        let thread = self.thread;
        let known = self.queues.iter().position(|queue| queue.thread == thread);
        let place = known.unwrap_or_else(|| {
            self.queues.push(Queue {
                thread,
                accesses: Batch::default(),
                given: 0,
            });
            self.queues.len() - 1
        });
        copy(
            &self.batch,
            self.access..until,
            &mut self.queues[place].accesses,
        );
        self.queued += until - self.access;
        self.access = until;
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
                copy(&queue.accesses, queue.given..end, batch);
                queue.given = end;
            }
            self.queues
                .retain(|queue| queue.given < queue.accesses.len());
        }
    }
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
            (self.access, self.control) = (0, 0);
            if !more {
                self.batch.clear();
            }
            batch.definitions.append(&mut self.batch.definitions);
            if !more || self.batch.process != process {
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
            }
        }
        batches
    }

    fn events(source: &mut dyn Source) -> Vec<(u32, u32, Event)> {
        let mut batch = Batch::default();
        let mut events = Vec::new();
        while source.next_batch(&mut batch).unwrap() {
            let (mut thread, mut controls) = (u32::MAX, batch.controls.iter().peekable());
            for place in 0..=batch.len() {
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

    /// Events of each thread, with all control events of its process.
    fn by_thread(events: &[(u32, u32, Event)]) -> HashMap<(u32, u32), Vec<Event>> {
        let mut found = HashMap::new();
        for process in 0..2 {
            for thread in 0..3 {
                let own = events.iter().filter(|&&(of, by, event)| {
                    of == process && (by == thread || matches!(event, Event::Control(_)))
                });
                found.insert((process, thread), own.map(|event| event.2).collect());
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
                    given.push((process, thread, access(given.len() as u64)));
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
