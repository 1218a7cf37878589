//! Parts of a stream, against a slow twin that looks at one event at a time.

mod common;

use common::{Event, any_access, drain, flatten};
use pagelab_events::{
    Access, Batch, CodeBlock, Control, Definition, Flow, Metadata, Mispredicted, Op, Selection,
    Source, SourceError, Touch, TraceWriter, Unit, Window, dependence,
};
use proptest::prelude::*;
use std::collections::HashMap;

/// Yields these batches.
struct Batches(std::vec::IntoIter<Batch>);

impl Source for Batches {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let next = self.0.next();
        let more = next.is_some();
        *batch = next.unwrap_or_default();
        Ok(more)
    }

    fn remaining(&self) -> Option<u64> {
        Some(
            self.0
                .as_slice()
                .iter()
                .map(|batch| batch.len() as u64)
                .sum(),
        )
    }
}

/// Units of a place's period that lie before it.
fn into_period(mut place: u64, selection: Selection) -> u64 {
    let mut so_far = 0;
    loop {
        let grown = so_far as f64 / (selection.thinning as f64);
        let period = if grown.is_finite() {
            selection.period.max(grown as u64)
        } else {
            selection.period
        };
        if place < period {
            return place;
        }
        place -= period;
        so_far += period;
    }
}

/// Selection event by event: for each kept access its place in the unselected stream.
fn kept(events: &[Event], selection: Selection) -> Vec<usize> {
    let mut places = Vec::new();
    let mut position = 0;
    let mut units_kept = 0;
    for (place, event) in events.iter().enumerate() {
        let Event::Access(_, _, access) = event else {
            continue;
        };
        let units = match selection.unit {
            Unit::Accesses => 1,
            Unit::Instructions => u64::from(access.gap) + u64::from(!access.op.continues()),
        };
        // An access is where its own instruction is: after its gap.
        let here = (position + units).saturating_sub(1);
        position += units;
        let skipped = here < selection.skip;
        let unsampled = selection.sample != 0
            && into_period(here.saturating_sub(selection.skip), selection) >= selection.sample;
        if skipped || unsampled {
            continue;
        }
        if selection.limit.is_some_and(|limit| units_kept >= limit) {
            break;
        }
        units_kept += units;
        places.push(place);
    }
    places
}

/// A dependence of a kept access, or of a branch before it: gone when an access between it and its
/// producer is.
fn dependence_of(events: &[Event], places: &[usize], place: usize, dep: u32) -> u32 {
    let Event::Access(process, thread, _) = events[place] else {
        panic!("not an access");
    };
    let mine = |&place: &usize| matches!(events[place], Event::Access(p, t, _) if (p, t) == (process, thread));
    let before: Vec<_> = (0..place).filter(mine).collect();
    let kept = |distance: u32| {
        let between = &before[before.len().saturating_sub(distance as usize)..];
        if between.iter().all(|place| places.contains(place)) {
            distance
        } else {
            0
        }
    };
    dependence::of_two(kept(dependence::near(dep)), kept(dependence::far(dep)))
}

fn any_stream() -> impl Strategy<Value = Vec<Batch>> {
    let access = any_access().prop_map(|access| Access {
        gap: access.gap % 10,
        dep: dependence::of_two(access.dep % 10, (access.dep >> 16) % 10),
        ..access
    });
    let mispredicted = proptest::option::weighted(0.2, 0u32..10);
    let made = (access, mispredicted);
    let batch = (0u32..2, 0u32..2, proptest::collection::vec(made, 0..30));
    proptest::collection::vec(batch, 0..8).prop_map(|batches| {
        let batches = batches.into_iter().map(|(process, thread, accesses)| {
            let mut batch = Batch {
                process,
                ..Batch::default()
            };
            batch.push_control(Control::Thread { thread });
            batch.push_control(Control::Brk { end: 1 });
            for (access, mispredicted) in accesses {
                mispredicted.into_iter().for_each(|dep| {
                    batch.push_mispredicted(Mispredicted {
                        dep,
                        reconverges: dep == 9,
                        more: dep / 7,
                    });
                });
                batch.push(access);
            }
            batch.push_control(Control::Brk { end: 2 });
            batch
        });
        batches.collect()
    })
}

fn any_selection() -> impl Strategy<Value = Selection> {
    let unit = prop_oneof![Just(Unit::Accesses), Just(Unit::Instructions)];
    let limit = proptest::option::of(0u64..100);
    let thinning = prop_oneof![Just(0u64), 1u64..8];
    (unit, 0u64..40, 1u64..30, 0u64..30, thinning, limit).prop_map(
        |(unit, skip, period, sample, thinning, limit)| Selection {
            unit,
            skip,
            period,
            sample,
            thinning,
            limit,
        },
    )
}

proptest! {
    #[test]
    fn a_window_selects_what_its_twin_selects(
        batches in any_stream(),
        selection in any_selection(),
    ) {
        let all = flatten(&batches);
        let places = kept(&all, selection);
        let known = |place, dep| dependence_of(&all, &places, place, dep);
        let mut expected = Vec::new();
        for &place in &places {
            if let Some(&Event::Mispredicted(process, thread, branch)) = all[..place].last() {
                let branch = Mispredicted {
                    dep: known(place, branch.dep),
                    ..branch
                };
                expected.push(Event::Mispredicted(process, thread, branch));
            }
            let Event::Access(process, thread, access) = all[place] else {
                panic!("not an access");
            };
            let dep = known(place, access.dep);
            expected.push(Event::Access(process, thread, Access { dep, ..access }));
        }
        let mut window = Window::new(Batches(batches.into_iter()), selection);
        let (events, error) = drain(&mut window);
        prop_assert!(error.is_none());
        let (accesses, controls): (Vec<_>, Vec<_>) =
            events.iter().partition(|event| !matches!(event, Event::Control(..)));
        prop_assert_eq!(&accesses, &expected);

        // Accesses that a thread has left out are accounted for up to each access that is kept of
        // it, in two events: where the interval begins, and at its end.
        let is_brk = |event: &&Event| matches!(event, Event::Control(_, _, Control::Brk { .. }));
        let mut passed = 0;
        let mut kept_so_far = 0;
        let mut left_out: HashMap<_, (u64, u64, u32)> = HashMap::new();
        let mut instructions_left_out = 0;
        for event in &events {
            match *event {
                Event::Control(process, thread, Control::Skipped { instructions, accesses }) => {
                    let mine = left_out.entry((process, thread)).or_default();
                    mine.0 += accesses;
                    mine.2 += 1;
                    prop_assert!(mine.2 <= 2);
                    instructions_left_out += instructions;
                }
                Event::Control(_, _, Control::Touched { .. }) => {}
                Event::Control(..) => passed += 1,
                Event::Mispredicted(..) => {}
                Event::Access(process, thread, _) => {
                    let before = &all[..places[kept_so_far]];
                    kept_so_far += 1;
                    prop_assert_eq!(before.iter().filter(is_brk).count(), passed);
                    let of_thread = |event: &&Event| matches!(
                        event, Event::Access(p, t, _) if (*p, *t) == (process, thread)
                    );
                    let accesses = before.iter().filter(of_thread).count();
                    let mine = left_out.entry((process, thread)).or_default();
                    prop_assert_eq!(accesses as u64, mine.0 + mine.1);
                    mine.1 += 1;
                    mine.2 = 0;
                }
            }
        }
        if selection.limit.is_none() {
            prop_assert_eq!(
                controls.iter().filter(|event| is_brk(event)).count(),
                all.iter().filter(is_brk).count()
            );
            let total = |events: &[Event]| events.iter().map(|event| match event {
                Event::Access(_, _, access) => {
                    u64::from(access.gap) + u64::from(!access.op.continues())
                }
                Event::Control(..) | Event::Mispredicted(..) => 0,
            }).sum::<u64>();
            prop_assert_eq!(total(&all), total(&events) + instructions_left_out);
        }
    }
}

#[test]
fn the_rest_is_known_when_accesses_are_counted() {
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    for addr in 0..100 {
        batch.push(Access {
            addr,
            op: Op::load(1),
            ..Access::default()
        });
    }
    let batches = vec![batch.clone(), batch];
    let remaining = |selection| {
        let mut window = Window::new(Batches(batches.clone().into_iter()), selection);
        let before = window.remaining();
        window.next_batch(&mut Batch::default()).unwrap();
        (before, window.remaining())
    };
    let skip = Selection {
        skip: 30,
        ..Selection::default()
    };
    assert_eq!(remaining(skip), (Some(170), Some(100)));
    let limit = Selection {
        limit: Some(120),
        ..skip
    };
    assert_eq!(remaining(limit), (Some(120), Some(50)));
    let sample = Selection {
        period: 10,
        sample: 2,
        ..Selection::default()
    };
    assert_eq!(remaining(sample), (Some(40), Some(20)));
    let instructions = Selection {
        unit: Unit::Instructions,
        ..skip
    };
    assert_eq!(remaining(instructions), (None, None));
}

#[test]
fn a_long_interval_is_left_out_in_two_words_and_its_system_calls_lie_in_it() {
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    for addr in 0..100 {
        batch.push(Access {
            addr,
            op: Op::load(1),
            ..Access::default()
        });
        batch.push_control(Control::Brk { end: addr });
    }
    let batches = vec![batch; 50];
    let selection = Selection {
        skip: 4_910,
        ..Selection::default()
    };
    let (events, error) = drain(&mut Window::new(Batches(batches.into_iter()), selection));
    assert!(error.is_none());
    let touched = |event: &&Event| matches!(event, Event::Control(_, _, Control::Touched { .. }));
    let skipped: Vec<_> = (0..)
        .zip(events.iter().filter(|event| !touched(event)))
        .filter_map(|(place, event)| match event {
            Event::Control(_, _, Control::Skipped { accesses, .. }) => Some((place, *accesses)),
            _ => None,
        })
        .collect();
    assert_eq!(skipped, [(0, 1), (4_911, 4_909)]);
}

/// The same with an event for each page that was touched.
fn by_pages(events: Vec<Event>) -> Vec<Event> {
    let mut split = Vec::new();
    for event in events {
        match event {
            Event::Control(process, thread, Control::Touched { addr, len, touch }) if len > 0 => {
                split.extend((0..len / 4096).map(|page| {
                    let (addr, len) = (addr + 4096 * page, 4096);
                    Event::Control(process, thread, Control::Touched { addr, len, touch })
                }));
            }
            other => split.push(other),
        }
    }
    split
}

/// The same events in batches of so many accesses at the most.
fn cut(events: &[Event], length: usize) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut last = None;
    for &event in events {
        let (Event::Access(process, thread, _)
        | Event::Mispredicted(process, thread, _)
        | Event::Control(process, thread, _)) = event;
        let full = batches.last().is_none_or(|batch| batch.len() == length);
        if full || batches.last().is_some_and(|batch| batch.process != process) {
            last = None;
            batches.push(Batch {
                process,
                ..Batch::default()
            });
        }
        let batch = batches.last_mut().unwrap();
        if last.replace(thread) != Some(thread) {
            batch.push_control(Control::Thread { thread });
        }
        match event {
            Event::Access(_, _, access) => batch.push(access),
            Event::Mispredicted(_, _, branch) => batch.push_mispredicted(branch),
            Event::Control(_, _, control) => batch.push_control(control),
        }
    }
    batches
}

proptest! {
    #[test]
    fn where_batches_end_is_no_matter(
        batches in any_stream(),
        selection in any_selection(),
        length in 2usize..40,
    ) {
        let selection = Selection { limit: None, ..selection };
        let all = flatten(&batches);
        let selected = |length| {
            let batches = cut(&all, length).into_iter();
            by_pages(drain(&mut Window::new(Batches(batches), selection)).0)
        };
        prop_assert_eq!(selected(length), selected(1));
    }
}

/// Code that a window leaves is what a trace can hold, and the sites stay with their accesses.
#[test]
fn code_goes_with_the_accesses_that_are_kept() {
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    batch.flow.push((0, Flow::Thread(0)));
    batch.definitions.push(Definition::Block(CodeBlock {
        lengths: [1; 2].into(),
        accesses: [0, 1].into(),
        ..CodeBlock::default()
    }));
    for index in 0..100u32 {
        if index % 2 == 0 {
            batch.flow.push((index, Flow::Block(0)));
        }
        batch.site.push(index % 2);
        batch.push(Access {
            addr: u64::from(index),
            ..Access::default()
        });
    }
    let selection = Selection {
        skip: 11,
        period: 20,
        sample: 5,
        ..Selection::default()
    };
    let mut window = Window::new(Batches(vec![batch].into_iter()), selection);
    let mut kept = Batch::default();
    assert!(window.next_batch(&mut kept).unwrap());
    // 11 to 15, 31 to 35, ...: each window opens in the middle of an execution.
    assert_eq!(kept.addr[..6], [11, 12, 13, 14, 15, 31]);
    let odd: Vec<u32> = kept.addr.iter().map(|&addr| addr as u32 % 2).collect();
    assert_eq!(kept.site, odd);
    let starts: Vec<u32> = kept.flow.iter().map(|&(at, _)| at).collect();
    assert_eq!(starts[..6], [0, 1, 3, 6, 8, 11]);
    TraceWriter::new(Vec::new(), &Metadata::new())
        .unwrap()
        .write(&kept)
        .unwrap();
}

#[test]
fn code_that_runs_only_where_nothing_is_kept_is_told() {
    let mut batch = Batch::default();
    batch.push_control(Control::Thread { thread: 0 });
    batch.flow.push((0, Flow::Thread(0)));
    for pc in [0x1000, 0x5fff] {
        batch.definitions.push(Definition::Block(CodeBlock {
            pc,
            lengths: [1; 2].into(),
            accesses: [0].into(),
            ..CodeBlock::default()
        }));
    }
    for index in 0..30 {
        let block = u32::from(index >= 13);
        batch.flow.push((index, Flow::Block(block)));
        batch.site.push(2 * block);
        batch.push(Access::default());
    }
    let selection = Selection {
        period: 20,
        sample: 10,
        ..Selection::default()
    };
    let mut window = Window::new(Batches(vec![batch].into_iter()), selection);
    let mut kept = Batch::default();
    assert!(window.next_batch(&mut kept).unwrap());
    let code = kept
        .controls
        .iter()
        .filter_map(|&(at, control)| match control {
            Control::Touched {
                addr,
                len,
                touch: Touch::Executed,
            } => Some((at, addr, len)),
            _ => None,
        });
    // The first block is told again: the window that had it may be left out in turn.
    assert_eq!(
        code.collect::<Vec<_>>(),
        [(10, 0x1000, 0x1000), (10, 0x5000, 0x2000)]
    );
    let first = (kept.controls.iter()).find(|(at, _)| *at == 10).unwrap();
    assert!(matches!(first.1, Control::Skipped { .. }));
    assert_eq!(kept.flow.len(), 1 + 10 + 10);
}

#[test]
fn the_end_of_an_initialisation_passes_a_window_that_leaves_nothing_out() {
    let mut batch = Batch::default();
    batch.push(Access::default());
    let end = Control::Skipped {
        instructions: 0,
        accesses: 0,
    };
    batch.push_control(end);
    batch.push(Access::default());
    let selection = Selection {
        limit: Some(10),
        ..Selection::default()
    };
    let mut window = Window::new(Batches(vec![batch].into_iter()), selection);
    let mut kept = Batch::default();
    assert!(window.next_batch(&mut kept).unwrap());
    assert_eq!((kept.len(), &kept.controls[..]), (2, &[(1, end)][..]));
}
