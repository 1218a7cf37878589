use crate::{Batch, Begun, Control, Flow, Source, SourceError, WarmUp};
use std::mem;

/// A stream of which any part can be read by itself, and several parts at a time.
pub trait Divisible: Sync {
    /// Number of its accesses, as far as it can be read.
    fn accesses(&self) -> u64;

    /// Events after the first `from` accesses, up to and with access number `to`; up to the end
    /// without. A control event belongs to what follows the access after which it happens.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot be read.
    fn interval(
        &self,
        from: u64,
        to: Option<u64>,
    ) -> Result<Box<dyn Source + Send + '_>, SourceError>;

    /// True if it may say which instructions make the accesses.
    fn has_code(&self) -> bool {
        false
    }
}

/// A part of a source and nothing else: neither system calls nor accesses of what is left out.
///
/// What follows is not told that something was left out; whoever reads it knows how memory stood.
/// Batches that lie within the part pass as they are.
pub struct Interval<S> {
    source: S,
    /// Accesses to be left out yet.
    skip: u64,
    /// Accesses yet to come, if there is an end.
    left: Option<u64>,
}

impl<S: Source> Interval<S> {
    /// Events after the first `skip` accesses of `source`, up to the last of the `accesses` that
    /// follow.
    pub fn new(source: S, skip: u64, accesses: Option<u64>) -> Self {
        Interval {
            source,
            skip,
            left: accesses,
        }
    }
}

impl<S: Source> Source for Interval<S> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        // Definitions of code hold for all that follows.
        let mut definitions = Vec::new();
        loop {
            if self.left == Some(0) || !self.source.next_batch(batch)? {
                batch.clear();
                batch.definitions = definitions;
                return Ok(!batch.definitions.is_empty());
            }
            definitions.append(&mut batch.definitions);
            let accesses = batch.len() as u64;
            if accesses < self.skip {
                self.skip -= accesses;
                continue;
            }
            // Even with nothing left to skip: a control event at the beginning of a batch comes
            // after the last access of the one before.
            if self.skip > 0 {
                leave_out_first(batch, self.skip as usize);
                self.skip = 0;
            }
            if let Some(left) = &mut self.left {
                if batch.len() as u64 >= *left {
                    leave_out_after(batch, *left as usize);
                }
                *left -= batch.len() as u64;
            }
            batch.definitions = definitions;
            return Ok(true);
        }
    }

    fn remaining(&self) -> Option<u64> {
        let rest = self.source.remaining()?.saturating_sub(self.skip);
        Some(self.left.map_or(rest, |left| rest.min(left)))
    }

    fn warm_up(&self) -> WarmUp {
        WarmUp::default()
    }

    fn has_code(&self) -> bool {
        self.source.has_code()
    }
}

/// Takes the first `count` accesses, at least one, out of a batch, with all that happens before the
/// last of them. The thread stays named, that of the flow too.
fn leave_out_first(batch: &mut Batch, count: usize) {
    let at = |entry: u32| (entry as usize).checked_sub(count).map(|at| at as u32);
    let mut thread = None;
    let mut kept = Vec::new();
    for (place, control) in mem::take(&mut batch.controls) {
        match (at(place), control) {
            (Some(place), control) => kept.push((place, control)),
            (None, Control::Thread { thread: named }) => thread = Some(named),
            (None, _) => {}
        }
    }
    let named = thread.map(|thread| (0, Control::Thread { thread }));
    batch.controls = named.into_iter().chain(kept).collect();
    batch.addr.drain(..count);
    batch.op.drain(..count);
    batch.gap.drain(..count);
    batch.dep.drain(..count);
    batch.site.drain(..count.min(batch.site.len()));
    let branches = mem::take(&mut batch.mispredicted);
    let branches = branches.into_iter();
    batch.mispredicted = branches
        .filter_map(|(place, branch)| Some((at(place)?, branch)))
        .collect();
    let mut thread = None;
    let mut begun = None;
    let mut kept = Vec::new();
    for (place, entry) in mem::take(&mut batch.flow) {
        match (at(place), entry) {
            (Some(place), entry) => kept.push((place, entry)),
            (None, Flow::Thread(named)) => {
                thread = Some(named);
                begun = None;
            }
            (None, Flow::Block(block)) => begun = Some((block, count as u32 - place)),
        }
    }
    let next = kept.first().map_or(batch.addr.len() as u32, |next| next.0);
    batch.begun = begun.map(|(block, accesses)| Begun {
        block,
        accesses,
        left: next,
    });
    let named = thread.map(|thread| (0, Flow::Thread(thread)));
    batch.flow = named.into_iter().chain(kept).collect();
}

/// Takes all out of a batch that happens after its first `count` accesses.
fn leave_out_after(batch: &mut Batch, count: usize) {
    batch.goes_on = true;
    if let Some(begun) = &mut batch.begun {
        begun.left = begun.left.min(count as u32);
    }
    let before = |place: u32| (place as usize) < count;
    batch.addr.truncate(count);
    batch.op.truncate(count);
    batch.gap.truncate(count);
    batch.dep.truncate(count);
    batch.site.truncate(count);
    batch.controls.retain(|entry| before(entry.0));
    batch.mispredicted.retain(|entry| before(entry.0));
    batch.flow.retain(|entry| before(entry.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Mispredicted, Op};
    use proptest::prelude::*;

    struct Batches(std::vec::IntoIter<Batch>);

    impl Source for Batches {
        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            let next = self.0.next();
            *batch = next.clone().unwrap_or_default();
            Ok(next.is_some())
        }
    }

    fn branch(number: u64) -> Mispredicted {
        Mispredicted {
            dep: number as u32,
            reconverges: number.is_multiple_of(2),
            more: number as u32 % 3,
        }
    }

    /// Accesses and control events: a number, whether it is an access, and its thread.
    type Event = (u64, bool, u32);

    fn batches(events: &[Event], length: usize) -> Vec<Batch> {
        let mut batches = Vec::new();
        for events in events.chunks(length) {
            let mut batch = Batch::default();
            let mut named = None;
            for &(number, is_access, thread) in events {
                if named != Some(thread) {
                    batch.push_control(Control::Thread { thread });
                    named = Some(thread);
                }
                if !is_access {
                    batch.push_control(Control::Brk { end: number });
                    continue;
                }
                if number % 3 == 0 {
                    batch.push_mispredicted(branch(number));
                }
                let (op, gap) = (Op::load(8), number as u32 + 1);
                batch.push(Access {
                    addr: number,
                    op,
                    gap,
                    dep: 0,
                });
            }
            batches.push(batch);
        }
        batches
    }

    fn read(source: &mut dyn Source) -> Vec<Event> {
        let (mut events, mut batch) = (Vec::new(), Batch::default());
        while source.next_batch(&mut batch).unwrap() {
            let mut thread = u32::MAX;
            for at in 0..=batch.len() {
                for (_, control) in batch.controls.iter().filter(|c| c.0 as usize == at) {
                    match *control {
                        Control::Thread { thread: named } => thread = named,
                        Control::Brk { end } => events.push((end, false, thread)),
                        _ => unreachable!(),
                    }
                }
                if at < batch.len() {
                    let number = batch.addr[at];
                    assert_eq!(u64::from(batch.gap[at]), number + 1);
                    let found = batch.mispredicted_in(at..at + 1);
                    let expected: &[_] = &[(at as u32, branch(number))];
                    assert_eq!(found, if number % 3 == 0 { expected } else { &[] });
                    events.push((number, true, thread));
                }
            }
        }
        events
    }

    #[test]
    fn the_flow_starts_with_its_thread_wherever_it_is_cut() {
        let mut whole = Batch::default();
        whole.push_control(Control::Thread { thread: 0 });
        (0..4).for_each(|_| whole.push(Access::default()));
        whole.site = vec![0, 1, 2, 3];
        let (thread, block) = (Flow::Thread, Flow::Block);
        whole.flow = vec![
            (0, thread(5)),
            (0, block(0)),
            (2, thread(6)),
            (2, block(1)),
            (3, block(2)),
        ];
        let begun = |block, accesses, left| {
            Some(Begun {
                block,
                accesses,
                left,
            })
        };
        for (skip, expected, rest) in [
            (
                1,
                vec![(0, thread(5)), (1, thread(6)), (1, block(1)), (2, block(2))],
                begun(0, 1, 1),
            ),
            (3, vec![(0, thread(6)), (0, block(2))], begun(1, 1, 0)),
        ] {
            let source = Batches(vec![whole.clone()].into_iter());
            let mut batch = Batch::default();
            assert!(
                Interval::new(source, skip, None)
                    .next_batch(&mut batch)
                    .unwrap()
            );
            assert_eq!((&batch.flow, batch.begun), (&expected, rest));
            assert_eq!(batch.site, whole.site[skip as usize..]);
        }
    }

    proptest! {
        /// Pieces of a stream, wherever it is cut and batched, are the stream, and each begins
        /// right after the last access of the one before.
        #[test]
        fn intervals_add_up(
            kinds in proptest::collection::vec((0u32..4, 0u32..3), 1..80),
            cuts in proptest::collection::btree_set(1u64..60, 0..5),
            length in 1usize..20,
        ) {
            let numbered = (0..).zip(&kinds);
            let events: Vec<Event> = numbered
                .map(|(number, &(kind, thread))| (number, kind > 0, thread))
                .collect();
            let accesses = events.iter().filter(|event| event.1).count() as u64;
            let ends: Vec<u64> = cuts.into_iter().filter(|&cut| cut < accesses).collect();
            let starts = [0].into_iter().chain(ends.iter().copied());
            let mut all = Vec::new();
            for (number, from) in starts.enumerate() {
                let length_of = ends.get(number).map(|to| to - from);
                let source = Batches(batches(&events, length).into_iter());
                let piece = read(&mut Interval::new(source, from, length_of));
                let own = piece.iter().filter(|event| event.1).count() as u64;
                prop_assert_eq!(own, length_of.unwrap_or(accesses - from));
                prop_assert!(length_of.is_none() || piece.last().is_some_and(|event| event.1));
                all.extend(piece);
            }
            prop_assert_eq!(all, events);
        }
    }
}
