//! Which part of an execution is recorded.

use std::sync::atomic::Ordering;

use pagelab_events::{Batch, Control};
use pagelab_recorder_wire::region::Header;

/// Which part of an execution to record, counted over all its threads and processes.
///
/// System calls and other control events are always recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Count instructions instead of accesses.
    pub in_instructions: bool,
    /// Leave out so many first.
    pub skip: u64,
    /// Of what follows only look at the first so many; 0 for all.
    pub limit: u64,
    /// Of every so many ...
    pub period: u64,
    /// ... record the first so many; with a period of 0, all.
    pub sample: u64,
}

impl Window {
    /// Whether position `at` is recorded, and the first position after it that is the other way.
    fn phase(&self, at: u64) -> (bool, u64) {
        let Some(into) = at.checked_sub(self.skip) else {
            return (false, self.skip);
        };
        let end = match self.limit {
            0 => u64::MAX,
            limit => self.skip.saturating_add(limit),
        };
        if at >= end {
            return (false, u64::MAX);
        }
        if self.period == 0 {
            return (true, end);
        }
        let start = at - into % self.period;
        if at - start < self.sample {
            (true, (start + self.sample).min(end))
        } else {
            (false, start.saturating_add(self.period))
        }
    }
}

/// Translating a program's code anew takes as long as some millions of accesses: what is shorter
/// is reported all the same, and left out here.
const WORTHWHILE: u64 = 4_000_000;

/// Follows the execution through the windows.
pub(crate) struct Windows {
    window: Window,
    /// Accesses or instructions so far.
    at: u64,
    /// Whether this place is recorded, and up to where that holds.
    open: bool,
    until: u64,
}

/// What has been left out of a thread since its last recorded access: instructions and accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
}

impl LeftOut {
    pub(crate) fn add(&mut self, more: LeftOut) {
        self.instructions += more.instructions;
        self.accesses += more.accesses;
    }

    /// The event that says so, if there is something to say.
    pub(crate) fn take(&mut self) -> Option<Control> {
        let left_out = std::mem::take(self);
        (left_out != LeftOut::default()).then_some(Control::Skipped {
            instructions: left_out.instructions,
            accesses: left_out.accesses,
        })
    }
}

impl Windows {
    pub(crate) fn new(window: Window) -> Windows {
        let (open, until) = window.phase(0);
        Windows {
            window,
            at: 0,
            open,
            until,
        }
    }

    /// Has the plugin do what the beginning asks for.
    pub(crate) fn set_up(&self, header: &mut Header) {
        header.in_instructions = u32::from(self.window.in_instructions);
        *header.reporting.0.get_mut() = u32::from(self.open);
        *header.left.0.get_mut() = i64::try_from(self.until).unwrap_or(i64::MAX);
    }

    /// The plugin has left out so much.
    pub(crate) fn left_out(&mut self, more: LeftOut, header: &Header) {
        let count = if self.window.in_instructions {
            more.instructions
        } else {
            more.accesses
        };
        self.go_on(count, header);
    }

    /// Keeps those of the accesses from `start` on that are in a window, and counts the others.
    /// If some were left out, how many were kept after them.
    pub(crate) fn keep(
        &mut self,
        batch: &mut Batch,
        start: usize,
        left_out: &mut LeftOut,
        header: &Header,
    ) -> Option<usize> {
        let all = self.open && self.until == u64::MAX && *left_out == LeftOut::default();
        if all {
            return None;
        }
        let mut kept = start;
        let mut since = None;
        for index in start..batch.len() {
            let instructions = u64::from(batch.gap[index]) + 1;
            if self.open {
                if let Some(control) = left_out.take() {
                    batch.controls.push((kept as u32, control));
                    cut_dependences(batch, index);
                    since = Some(kept);
                }
                batch.addr[kept] = batch.addr[index];
                batch.op[kept] = batch.op[index];
                batch.gap[kept] = batch.gap[index];
                batch.dep[kept] = batch.dep[index];
                kept += 1;
            } else {
                left_out.instructions += instructions;
                left_out.accesses += 1;
                since = Some(kept);
                if header.reporting.0.load(Ordering::Relaxed) == 0 {
                    header.left.0.fetch_sub(1, Ordering::AcqRel);
                }
            }
            let count = if self.window.in_instructions {
                instructions
            } else {
                1
            };
            self.go_on(count, header);
        }
        batch.addr.truncate(kept);
        batch.op.truncate(kept);
        batch.gap.truncate(kept);
        batch.dep.truncate(kept);
        since.map(|since| kept - since)
    }

    fn go_on(&mut self, count: u64, header: &Header) {
        self.at += count;
        if self.at < self.until {
            return;
        }
        let was_open = self.open;
        (self.open, self.until) = self.window.phase(self.at);
        if was_open != self.open {
            let left = self.until - self.at;
            if !self.open {
                let left = i64::try_from(left).unwrap_or(i64::MAX);
                header.left.0.store(left, Ordering::Release);
            }
            // Threads look what is wanted when the epoch moves.
            let wanted = u32::from(self.open || left < WORTHWHILE);
            if header.reporting.0.swap(wanted, Ordering::AcqRel) != wanted {
                header.epoch.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// The accesses from `start` on follow something that was left out: they depend on nothing
/// before it.
fn cut_dependences(batch: &mut Batch, start: usize) {
    for (distance, dep) in (0..).zip(&mut batch.dep[start..]) {
        if *dep > distance {
            *dep = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The phases by their definition, one position at a time.
    fn recorded(window: &Window, at: u64) -> bool {
        at >= window.skip
            && (window.limit == 0 || at - window.skip < window.limit)
            && (window.period == 0 || (at - window.skip) % window.period < window.sample)
    }

    #[test]
    fn phases_agree_with_their_definition() {
        for (skip, limit, period, sample) in [
            (0, 0, 0, 0),
            (7, 0, 0, 0),
            (7, 5, 0, 0),
            (0, 25, 10, 3),
            (4, 12, 10, 3),
            (4, 0, 10, 10),
        ] {
            let window = Window {
                in_instructions: false,
                skip,
                limit,
                period,
                sample,
            };
            for at in 0..60 {
                let (open, until) = window.phase(at);
                assert_eq!(open, recorded(&window, at), "{window:?} at {at}");
                assert!((at..until.min(60)).all(|at| recorded(&window, at) == open));
            }
        }
    }
}
