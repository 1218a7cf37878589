//! Part of an execution that is recorded.

use std::sync::atomic::Ordering;

use pagelab_events::{Batch, Flow, dependence, period_behind};
use pagelab_recorder_wire::region::Header;

use crate::left_out::LeftOut;
use crate::output::Mark;
use crate::touches::Touches;

/// Part of an execution to record, counted over all its threads and processes.
///
/// System calls and other control events are always recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Count instructions instead of accesses.
    pub in_instructions: bool,
    /// Leave out so many first.
    pub skip: u64,
    /// Limit of what follows that is looked at; 0 for all.
    pub limit: u64,
    /// Length of every period ...
    pub period: u64,
    /// ... record the first so many; with a period of 0, all.
    pub sample: u64,
    /// Periods grow: each is at least one part in so many of the way so far; 0 if they do not.
    pub thinning: u64,
}

impl Window {
    /// True if position `at` is recorded, and the first position after it that is the other way.
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
        let start = if self.thinning == 0 {
            into - into % self.period
        } else {
            0
        };
        let mut period = period_behind(start, self.period, self.thinning);
        while into >= period.end {
            period = period_behind(period.end, self.period, self.thinning);
        }
        let piece = period.start.saturating_add(self.sample);
        if into < piece {
            (true, self.skip.saturating_add(piece).min(end))
        } else {
            (false, self.skip.saturating_add(period.end))
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
    /// This place is recorded, and up to where that holds.
    open: bool,
    until: u64,
    /// QEMU may be asked to translate anew. Otherwise everything is reported, and what is outside
    /// windows is left out here.
    translate_anew: bool,
}

impl Windows {
    pub(crate) fn new(window: Window, translate_anew: bool) -> Windows {
        let (open, until) = window.phase(0);
        Windows {
            window,
            at: 0,
            open,
            until,
            translate_anew,
        }
    }

    /// True if something may be left out.
    pub(crate) fn cut(&self) -> bool {
        !self.open || self.until != u64::MAX
    }

    /// Has the plugin do what the beginning asks for.
    pub(crate) fn set_up(&self, header: &mut Header) {
        header.tells_presence = u32::from(self.cut() && self.translate_anew);
        header.in_instructions = u32::from(self.window.in_instructions);
        *header.reporting.0.get_mut() = u32::from(self.open || !self.translate_anew);
        *header.left.0.get_mut() = i64::try_from(self.until).unwrap_or(i64::MAX);
    }

    /// The plugin has left out so much.
    pub(crate) fn left_out(&mut self, more: LeftOut, header: &Header) {
        self.go_on(self.count(more), header);
    }

    /// Units of the window in it.
    fn count(&self, of: LeftOut) -> u64 {
        if self.window.in_instructions {
            of.instructions
        } else {
            of.accesses
        }
    }

    /// Keeps those of the accesses from `start` on that are in a window, and counts the others, of
    /// which it is told what memory they touch first.
    /// If some were left out, how many were kept after them. Of the flow it keeps the executions
    /// whose next access is kept.
    pub(crate) fn keep(
        &mut self,
        batch: &mut Batch,
        start: Mark,
        left_out: &mut LeftOut,
        touches: &mut Touches,
        header: &Header,
    ) -> Option<usize> {
        let all = self.open && self.until == u64::MAX && *left_out == LeftOut::default();
        if all {
            return None;
        }
        // The kept part of a block may not be all of it.
        batch.regular.clear();
        batch.alike.clear();
        if let Some(kept) = self.keep_at_once(batch, start, left_out, touches, header) {
            return kept;
        }
        let mut kept = start.access;
        let mut since = None;
        let entries = batch.flow.split_off(start.flow);
        let mut entries = entries.into_iter().peekable();
        let branches = batch.mispredicted.split_off(start.mispredicted);
        let mut branches = branches.into_iter().peekable();
        for index in start.access..batch.len() {
            let instructions = batch.op[index].instructions(batch.gap[index]);
            while let Some((_, entry)) = entries.next_if(|&(at, _)| at as usize <= index) {
                self.keep_flow(batch, entry, kept, left_out, touches);
            }
            if self.open {
                if let Some(control) = left_out.take() {
                    let tells = touches.tell(batch.process);
                    let controls = [Some(control), tells].into_iter().flatten();
                    (batch.controls).extend(controls.map(|control| (kept as u32, control)));
                }
                if std::mem::take(&mut left_out.begun) {
                    cut_dependences(batch, index);
                    since = Some(kept);
                }
                while let Some((_, branch)) = branches.next_if(|&(at, _)| at as usize <= index) {
                    let branch = match since {
                        Some(since) => branch.within((kept - since) as u32),
                        None => branch,
                    };
                    batch.mispredicted.push((kept as u32, branch));
                }
                move_access(batch, index, kept);
                kept += 1;
            } else {
                while branches.next_if(|&(at, _)| at as usize <= index).is_some() {}
                left_out.instructions += instructions;
                left_out.accesses += 1;
                touches.leave_out(batch, index, kept, left_out);
                since = Some(kept);
                if header.reporting.0.load(Ordering::Relaxed) == 0 {
                    header.left.0.fetch_sub(1, Ordering::AcqRel);
                }
            }
            let one = LeftOut {
                instructions,
                accesses: 1,
                begun: false,
            };
            self.go_on(self.count(one), header);
        }
        for (_, entry) in entries {
            self.keep_flow(batch, entry, kept, left_out, touches);
        }
        truncate(batch, kept);
        since.map(|since| kept - since)
    }

    /// [`Windows::keep`] where no window begins or ends among the accesses: keeps all or none of them. `None` where
    /// one does.
    fn keep_at_once(
        &mut self,
        batch: &mut Batch,
        start: Mark,
        left_out: &mut LeftOut,
        touches: &mut Touches,
        header: &Header,
    ) -> Option<Option<usize>> {
        let whole = LeftOut {
            instructions: (batch.op[start.access..].iter())
                .zip(&batch.gap[start.access..])
                .map(|(op, &gap)| op.instructions(gap))
                .sum(),
            accesses: (batch.len() - start.access) as u64,
            begun: false,
        };
        let count = self.count(whole);
        if self.at + count >= self.until {
            return None;
        }
        if self.open && *left_out == LeftOut::default() {
            self.at += count;
            return Some(None);
        }
        // The plugin counts only what it does not report.
        if self.open || header.reporting.0.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.at += count;
        left_out.add(whole);
        for index in start.access..batch.len() {
            touches.leave_out(batch, index, start.access, left_out);
        }
        for (_, entry) in batch.flow.split_off(start.flow) {
            self.keep_flow(batch, entry, start.access, left_out, touches);
        }
        truncate(batch, start.access);
        batch.mispredicted.truncate(start.mispredicted);
        Some(Some(0))
    }

    /// Keeps or leaves out what a thread executed before access number `kept`, but not that it did.
    fn keep_flow(
        &self,
        batch: &mut Batch,
        entry: Flow,
        kept: usize,
        left_out: &mut LeftOut,
        touches: &mut Touches,
    ) {
        match entry {
            Flow::Block(block) if !self.open => {
                touches.leave_out_code(batch, block, kept, left_out);
            }
            _ => batch.flow.push((kept as u32, entry)),
        }
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
            let wanted = u32::from(self.open || left < WORTHWHILE || !self.translate_anew);
            if header.reporting.0.swap(wanted, Ordering::AcqRel) != wanted {
                header.epoch.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// Moves an access to another place.
fn move_access(batch: &mut Batch, from: usize, to: usize) {
    batch.addr[to] = batch.addr[from];
    batch.op[to] = batch.op[from];
    batch.gap[to] = batch.gap[from];
    batch.dep[to] = batch.dep[from];
    if let Some(&site) = batch.site.get(from) {
        batch.site[to] = site;
    }
}

/// Drops the accesses from `kept` on.
fn truncate(batch: &mut Batch, kept: usize) {
    batch.addr.truncate(kept);
    batch.op.truncate(kept);
    batch.gap.truncate(kept);
    batch.dep.truncate(kept);
    batch.site.truncate(kept);
}

/// The accesses from `start` on follow something that was left out: they depend on nothing
/// before it.
fn cut_dependences(batch: &mut Batch, start: usize) {
    for (distance, dep) in (0..).zip(&mut batch.dep[start..]) {
        *dep = dependence::within(*dep, distance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The phases by their definition, one position at a time.
    fn recorded(window: &Window, at: u64) -> bool {
        at >= window.skip
            && (window.limit == 0 || at - window.skip < window.limit)
            && (window.period == 0 || into_period(window, at - window.skip) < window.sample)
    }

    fn into_period(window: &Window, place: u64) -> u64 {
        let (mut start, mut length) = (0, window.period);
        for at in 0..place + 1 {
            if at - start == length {
                start = at;
                length = (at.checked_div(window.thinning).unwrap_or(0)).max(window.period);
            }
        }
        place - start
    }

    #[test]
    fn phases_agree_with_their_definition() {
        for (skip, limit, period, sample, thinning) in [
            (0, 0, 0, 0, 0),
            (7, 0, 0, 0, 0),
            (7, 5, 0, 0, 0),
            (0, 25, 10, 3, 0),
            (4, 12, 10, 3, 0),
            (4, 0, 10, 10, 0),
            (0, 0, 5, 5, 4),
            (4, 0, 5, 3, 1),
            (4, 50, 2, 2, 3),
        ] {
            let window = Window {
                in_instructions: false,
                skip,
                limit,
                period,
                sample,
                thinning,
            };
            for at in 0..100 {
                let (open, until) = window.phase(at);
                assert_eq!(open, recorded(&window, at), "{window:?} at {at}");
                assert!((at..until.min(100)).all(|at| recorded(&window, at) == open));
            }
        }
    }
}
