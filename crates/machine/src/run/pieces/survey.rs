//! The first pass over a stream: what may change its memory, and what is used again how much later.
//! It depends on the stream alone, and on neither machine nor design, so that it may be kept.

use super::code::Executed;
use super::crew::Crew;
use super::event::{Event, What};
use super::intervals::Intervals;
use super::names::{Spread, name};
use super::recent::{Lines, RecentLines, Space};
use super::removed_pages::Taking;
use crate::run::progress::Progress;
use pagelab_addr::{LINE_SHIFT, PAGE_SHIFT, VirtAddr, Vpn};
use pagelab_events::{Batch, Control, Divisible, Source, Touched};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Sizes of what is looked at for reuse: lines, pages, what a line of page-table entries maps, what
/// an entry of the level above maps; and of how many of them one is, the logarithm.
pub(super) const GRAINS: [Grain; 4] = [
    Grain {
        shift: LINE_SHIFT,
        one_in: 6,
    },
    Grain {
        shift: PAGE_SHIFT,
        one_in: 5,
    },
    Grain {
        shift: PAGE_SHIFT + 3,
        one_in: 4,
    },
    Grain {
        shift: PAGE_SHIFT + 9,
        one_in: 2,
    },
];

/// Units of a stream that are looked at together. A sample in space: of what is looked at, every
/// use is seen (SHARDS: Waldspurger et al., FAST 2015).
#[derive(Clone, Copy, Debug)]
pub(super) struct Grain {
    pub(super) shift: u32,
    pub(super) one_in: u32,
}

/// The last use of each unit, in accesses before it.
pub(super) type Uses = HashMap<u64, u64, BuildHasherDefault<Spread>>;

/// Survey of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) events: Vec<Event>,
    /// For each grain, units with their last use, by name.
    pub(super) uses: [Vec<(u64, u64)>; GRAINS.len()],
    /// The lines before its tail, and of it, or those used last.
    pub(super) lines: [Lines; 2],
    /// The stream cannot be read beyond.
    pub(super) broken: bool,
    /// After how many accesses the stream says that it leaves others out.
    pub(super) left_out: Vec<u64>,
}

/// Survey of a stream when all of it has been seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    pub(super) intervals: Intervals,
    /// Events that may change the memory, in order: no touch after which another would be in vain.
    pub(super) events: Vec<Event>,
    /// For each interval that could be read and each grain, units with their last use.
    pub(super) uses: Vec<[Vec<(u64, u64)>; GRAINS.len()]>,
    /// For the same intervals the lines before the tail, and of it, if they are many those used last.
    pub(super) lines: Vec<[Lines; 2]>,
    /// Accesses are missing between those that there are.
    pub(super) leaves_out: bool,
    /// The stream cannot be read beyond the last of these.
    pub(super) broken: bool,
}

impl Survey {
    /// That of a stream of which nobody needs to know anything.
    pub(super) fn of_nothing(accesses: u64) -> Self {
        Survey {
            intervals: Intervals::of(accesses, Some(1)),
            events: Vec::new(),
            uses: vec![Default::default()],
            lines: vec![Default::default()],
            leaves_out: false,
            broken: false,
        }
    }

    /// Looks at a whole stream, in several places at once. Incomplete if `progress` breaks it off.
    pub(super) fn of(
        stream: &dyn Divisible,
        count: Option<u64>,
        crew: &Crew,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Self {
        let intervals = Intervals::of(stream.accesses(), count);
        let next = AtomicU64::new(0);
        let joint = Mutex::new(Joint::new(intervals));
        let lock = || joint.lock().unwrap_or_else(PoisonError::into_inner);
        crew.side_by_side(progress, intervals.accesses, None, || {
            loop {
                let interval = next.fetch_add(1, Ordering::Relaxed);
                if interval >= intervals.count || crew.stopped() || lock().survey.broken {
                    return;
                }
                let seen = look(stream, intervals, interval, &crew.stop, &crew.done);
                lock().add(interval, seen);
            }
        });
        let joint = joint.into_inner();
        joint.unwrap_or_else(PoisonError::into_inner).survey
    }

    /// True if all of the stream was seen.
    pub(super) fn is_complete(&self) -> bool {
        !self.broken && self.uses.len() as u64 == self.intervals.count
    }
}

/// Puts together what was seen of one interval after the other.
pub(super) struct Joint {
    touched: Touched,
    fetched: Touched,
    /// Surveys that wait for an interval before them.
    ahead: BTreeMap<u64, Seen>,
    pub(super) survey: Survey,
}

impl Joint {
    pub(super) fn new(intervals: Intervals) -> Self {
        Joint {
            touched: Touched::default(),
            fetched: Touched::default(),
            ahead: BTreeMap::new(),
            survey: Survey {
                intervals,
                uses: Vec::new(),
                lines: Vec::new(),
                ..Survey::of_nothing(intervals.accesses)
            },
        }
    }

    /// Takes in what was seen of an interval.
    pub(super) fn add(&mut self, interval: u64, seen: Seen) {
        self.ahead.insert(interval, seen);
        while let Some(seen) = self.ahead.remove(&(self.survey.uses.len() as u64)) {
            self.follow(seen);
        }
    }

    fn follow(&mut self, seen: Seen) {
        let survey = &mut self.survey;
        if survey.broken {
            return;
        }
        // A gap before the first access or after the last is in nobody's way.
        let within = |after: &u64| (1..survey.intervals.accesses).contains(after);
        survey.leaves_out |= seen.left_out.iter().any(within);
        survey.broken = seen.broken;
        for event in &seen.events {
            let news = match event.what {
                What::Control(control) => {
                    self.touched.control(event.process, &control);
                    self.fetched.control(event.process, &control);
                    true
                }
                What::Touch { vpn, store } => self.touched.touch(event.process, vpn, store),
                What::Fetch { vpn } => self.fetched.touch(event.process, vpn, false),
            };
            if news {
                survey.events.push(*event);
            }
        }
        survey.uses.push(seen.uses);
        survey.lines.push(seen.lines);
    }
}

/// A unit of an address space.
#[inline(always)]
fn unit_of(process: u32, addr: u64, shift: u32) -> u64 {
    addr >> shift ^ u64::from(process) << 52
}

/// Looks at an interval of a stream. Counts the accesses in `progress`.
pub(super) fn look(
    stream: &dyn Divisible,
    intervals: Intervals,
    interval: u64,
    stop: &AtomicBool,
    progress: &AtomicU64,
) -> Seen {
    let mut seen = Seen::default();
    let from = intervals.start(interval);
    let Ok(mut source) = stream.interval(from, intervals.end(interval)) else {
        seen.broken = true;
        return seen;
    };
    let mut batch = Batch::default();
    let mut looking = Looking {
        touched: Touched::default(),
        executed: stream.has_code().then(Executed::default),
        fetched: Touched::default(),
        last_line: None,
        recent: RecentLines::default(),
        taking: Taking::default(),
        first: from,
        at: from,
        tail: intervals.tail(interval),
        last: [(0, 0); GRAINS.len()],
        uses: Default::default(),
        seen,
    };
    while !stop.load(Ordering::Relaxed) {
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => {
                looking.seen.broken = true;
                break;
            }
        }
        looking.batch(&batch);
        progress.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }
    looking.finish()
}

struct Looking {
    touched: Touched,
    /// For a stream with code: what is executed, and its pages.
    executed: Option<Executed>,
    fetched: Touched,
    /// The line of code used last, until a control event.
    last_line: Option<u64>,
    recent: RecentLines,
    taking: Taking,
    /// Accesses before the interval, and before the next access.
    first: u64,
    at: u64,
    /// Begin of the tail.
    tail: u64,
    /// For each grain the unit used last, and the last of its uses in a row.
    last: [(u64, u64); GRAINS.len()],
    uses: [Uses; GRAINS.len()],
    seen: Seen,
}

impl Looking {
    fn batch(&mut self, batch: &Batch) {
        let mut controls = batch.controls.iter().peekable();
        let process = batch.process;
        self.last_line = None;
        if let Some(executed) = &mut self.executed {
            executed.begin(batch);
        }
        for (index, (&addr, &op)) in batch.addr.iter().zip(&batch.op).enumerate() {
            while let Some((_, control)) = controls.next_if(|next| next.0 as usize <= index) {
                self.control(batch, index, control);
            }
            if self.executed.is_some() {
                self.code(batch, index);
            }
            if self.at == self.tail {
                self.seen.lines[0] = std::mem::take(&mut self.recent).finish();
            }
            if op.is_prefetch() {
                // It touches nothing. What it fetches is mostly used later, and it may ask for anything.
                self.at += 1;
                continue;
            }
            let end = addr.saturating_add(u64::from(op.size()).max(1) - 1);
            let pages = VirtAddr(addr).vpn().0..=VirtAddr(end).vpn().0;
            for vpn in pages.map(Vpn) {
                if self.touched.touch(process, vpn, op.is_store()) {
                    let store = op.is_store();
                    self.event(process, What::Touch { vpn, store });
                }
            }
            self.access(process, addr, op.is_store());
            for line in (addr >> LINE_SHIFT) + 1..=end >> LINE_SHIFT {
                self.access(process, line << LINE_SHIFT, op.is_store());
            }
            self.at += 1;
        }
        for (_, control) in controls {
            self.control(batch, batch.len(), control);
        }
        if self.executed.is_some() && !batch.goes_on {
            self.code(batch, usize::MAX);
        }
    }

    /// Looks at an access to one line.
    #[inline(always)]
    fn access(&mut self, process: u32, addr: u64, store: bool) {
        let number = self.at - self.first;
        (self.recent).used(Space::data(process), addr, number, store);
        for (number, &Grain { shift, one_in }) in GRAINS.iter().enumerate() {
            let unit = name(unit_of(process, addr, shift));
            if unit >> (64 - one_in) == 0 {
                self.used(number, unit);
            }
        }
    }

    /// Looks at the lines of code that are needed before an access of the batch.
    fn code(&mut self, batch: &Batch, before: usize) {
        let process = batch.process;
        while let Some(line) = (self.executed.as_mut()).and_then(|code| code.next(batch, before)) {
            if self.last_line.replace(line) == Some(line) {
                continue;
            }
            let vpn = VirtAddr(line).vpn();
            if self.fetched.touch(process, vpn, false) {
                self.event(process, What::Fetch { vpn });
            }
            let number = self.at - self.first;
            (self.recent).used(Space::code(process), line, number, false);
        }
    }

    fn event(&mut self, process: u32, what: What) {
        self.seen.events.push(Event {
            after: self.at,
            process,
            what,
        });
    }

    fn control(&mut self, batch: &Batch, before: usize, control: &Control) {
        if matches!(control, Control::Exit { .. }) && self.executed.is_some() {
            // Code executed before has no memory afterwards.
            self.code(batch, before);
        }
        let process = batch.process;
        self.last_line = None;
        match control {
            Control::Thread { .. }
            | Control::ThreadStart { .. }
            | Control::ThreadEnd { .. }
            | Control::Allocating { .. }
            | Control::Allocated { .. }
            | Control::Freed { .. } => return,
            Control::Skipped { accesses, .. } if *accesses > 0 => self.seen.left_out.push(self.at),
            _ => {}
        }
        for pages in self.taking.control(process, control) {
            self.recent.take(process, pages, self.at);
        }
        self.touched.control(process, control);
        self.fetched.control(process, control);
        self.event(process, What::Control(*control));
    }

    #[inline]
    fn used(&mut self, number: usize, unit: u64) {
        let (last, at) = &mut self.last[number];
        if *last == unit {
            *at = self.at;
            return;
        }
        self.note(number);
        self.last[number] = (unit, self.at);
    }

    fn note(&mut self, number: usize) {
        let (unit, at) = self.last[number];
        if unit != 0 {
            self.uses[number].insert(unit, at);
        }
    }

    fn finish(mut self) -> Seen {
        for number in 0..GRAINS.len() {
            self.note(number);
        }
        self.seen.uses = self.uses.map(|uses| {
            let mut uses: Vec<_> = uses.into_iter().collect();
            // A map's own order is its keys', as they are hashed, and hangs on its size.
            uses.sort_unstable();
            uses
        });
        let tail = self.at > self.tail;
        self.seen.lines[usize::from(tail)] = self.recent.finish();
        self.seen
    }
}
