//! Lines in the order of their last uses, against lists that a line moves to the end of.

use super::event::{Event, What};
use super::intervals::Intervals;
use super::recent::{Line, Lines, MOST, RecentLines, Sought, Space, Used, before};
use super::removed_pages::RemovedPages;
use pagelab_addr::{LINE_SHIFT, Vpn};
use pagelab_events::Control;
use proptest::prelude::*;
use std::collections::HashMap;

/// Across the border of two regions.
const BASE: u64 = (1 << 30) - 150 * 64;

fn sought(until: usize, tail: bool, most: usize, least: usize) -> Sought {
    Sought {
        until,
        tail,
        most,
        least,
        code: true,
    }
}

/// A use by a process, or pages of it that are unmapped before it.
type Step = (u32, u64, bool, Option<(u64, u64)>);

fn step() -> impl Strategy<Value = Step> {
    let unmapped = proptest::option::weighted(0.05, (0u64..6, 0u64..3));
    (0u32..2, 0u64..300, any::<bool>(), unmapped)
}

proptest! {
    #[test]
    fn as_lists(
        steps in proptest::collection::vec(step(), 1..400),
        length in 20usize..80,
        most in 1usize..400,
        kept in 1usize..120,
        tail in 0u64..50,
        with_tail: bool,
    ) {
        let intervals = Intervals {
            count: steps.len().div_ceil(length) as u64,
            length: length as u64,
            accesses: steps.len() as u64,
            tail,
        };
        let mut all: Vec<[Lines; 2]> = Vec::new();
        let mut stores = Vec::new();
        let mut ends = Vec::new();
        let mut events = Vec::new();
        // For each page, how often it was taken away, and whether it was used since.
        let mut pages = HashMap::<(u32, u64), (usize, bool)>::new();
        let mut list: Vec<(u32, u64, usize)> = Vec::new();
        for (interval, of) in (0..).zip(steps.chunks(length)) {
            let start = intervals.start(interval);
            let tail = intervals.tail(interval);
            let mut recent = RecentLines::default();
            let mut stored = HashMap::new();
            let mut before_tail = None;
            for (number, &(process, line, store, unmapped)) in (0..).zip(of) {
                let after = start + number;
                if after == tail {
                    let recent = std::mem::take(&mut recent);
                    before_tail = Some((recent.last(kept), std::mem::take(&mut stored), list.clone()));
                }
                if let Some((first, count)) = unmapped {
                    let first = (BASE >> 12) + first;
                    recent.take(process, first..first + count, after);
                    let control = Control::Unmap { addr: first << 12, len: count << 12 };
                    events.push(Event { after, process, what: What::Control(control) });
                    for page in first..first + count {
                        let (times, used) = pages.entry((process, page)).or_default();
                        *times += usize::from(std::mem::take(used));
                    }
                }
                let addr = BASE + line * 64 + line % 60;
                let (times, used) = pages.entry((process, addr >> 12)).or_default();
                if !std::mem::replace(used, true) {
                    let what = What::Touch { vpn: Vpn(addr >> 12), store };
                    events.push(Event { after, process, what });
                }
                recent.used(Space::data(process), addr, number, store);
                let one = (process, addr >> 6, *times);
                *stored.entry(one).or_insert(false) |= store;
                list.retain(|&other| other != one);
                list.push(one);
            }
            let rest = recent.last(kept);
            let ((body, of_body, before), rest) = match before_tail {
                Some(body) => (body, (rest, stored)),
                None => ((rest, stored, list.clone()), Default::default()),
            };
            prop_assert!(body.lines.len() <= kept && rest.0.lines.len() <= kept);
            all.push([body, rest.0]);
            stores.extend([of_body, rest.1]);
            ends.push(if with_tail { list.clone() } else { before });
        }
        let taken = RemovedPages::of(&events, u64::MAX);
        let name = |used: &Used| {
            (used.line.process(), used.line.addr() >> 6, used.generation(&taken))
        };
        for (until, list) in (1..).zip(&ends) {
            let parts = 2 * until - usize::from(!with_tail);
            // So many are known at the least, of the last part alone.
            let known = kept.min(all[until - 1][usize::from(with_tail)].lines.len());
            let sought = sought(until, with_tail, most, known.min(most));
            let found = before(intervals, &all, &taken, sought).unwrap();
            let names: Vec<_> = found.iter().map(|(used, _)| name(used)).collect();
            prop_assert!(found.is_sorted_by_key(|&(_, since)| since));
            let expected = &list[list.len().saturating_sub(most)..];
            prop_assert!(expected.ends_with(&names));
            prop_assert!(found.len() >= known.min(most));
            if all.iter().flatten().take(parts).all(|lines| lines.all) {
                prop_assert_eq!(&names, expected);
            }
            for (used, since) in found {
                let name = name(&used);
                let part = stores[..parts].iter().rposition(|of| of.contains_key(&name)).unwrap();
                let interval = part as u64 / 2;
                let begins = [intervals.start(interval), intervals.tail(interval)][part % 2];
                prop_assert_eq!(since, begins);
                let last = stores[..parts].iter().rev().find_map(|of| of.get(&name));
                prop_assert_eq!(Some(&used.line.stored()), last);
                let now = match with_tail {
                    true => intervals.start(until as u64).min(intervals.accesses),
                    false => intervals.tail(until as u64 - 1),
                };
                let times = taken.before(name.0, name.1 >> 6, now);
                prop_assert_eq!(used.seen_from(now, &taken).is_there(), times == name.2);
            }
        }
    }
}

#[test]
fn the_page_that_a_heap_ends_in_stays() {
    let touch = |page| What::Touch {
        vpn: Vpn(page),
        store: true,
    };
    let brk = |end| What::Control(Control::Brk { end });
    // The heap shrinks from the middle of page 11 to that of page 9.
    let what = [brk(0xb800), touch(9), touch(10), touch(11), brk(0x9800)];
    let events = (0..).zip(what).map(|(after, what)| Event {
        after,
        process: 0,
        what,
    });
    let taken = RemovedPages::of(&events.collect::<Vec<_>>(), u64::MAX);
    let times = [9, 10, 11].map(|page| taken.before(0, page, u64::MAX));
    assert_eq!(times, [0, 1, 1]);
}

#[test]
fn of_many_lines_the_last_are_kept() {
    let mut recent = RecentLines::default();
    let used = 5 * MOST as u64 / 2;
    for line in 0..used {
        recent.used(Space::data(0), line << LINE_SHIFT, line, false);
    }
    let kept = recent.finish();
    let addresses = kept.lines.iter().map(|line| line.addr() >> LINE_SHIFT);
    assert!(addresses.eq(used - MOST as u64..used) && !kept.all);
    let one = |line, all| Lines {
        lines: vec![Line(line)],
        gone: Vec::new(),
        all,
    };
    // The uses of a tail are for the pieces behind the next interval.
    let all = [
        [one(2, true), Lines::default()],
        [one(6, true), one(6, false)],
        [one(4, true), one(8, true)],
    ];
    let intervals = Intervals::of(1 << 16, Some(3));
    let find = |most, least| {
        let found = before(
            intervals,
            &all,
            &RemovedPages::default(),
            sought(3, false, most, least),
        )?;
        Some(found.iter().map(|(used, _)| used.line).collect::<Vec<_>>())
    };
    assert!(find(3, 3).is_none());
    assert_eq!(find(3, 2), Some(vec![Line(6), Line(4)]));
    // As many as are wanted are known.
    assert_eq!(find(1, 1), Some(vec![Line(4)]));
}
