use crate::{Batch, Control, Source, SourceError};
use std::collections::HashMap;

/// What a [`Selection`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Accesses.
    #[default]
    Accesses,
    /// Instructions: an access stands for its gap and itself.
    Instructions,
}

/// Which part of a stream is wanted, counted over all its processes and threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// What the figures below count.
    pub unit: Unit,
    /// Leave out so many first.
    pub skip: u64,
    /// Of every `period` ...
    pub period: u64,
    /// ... keep the first so many; 0 for all.
    pub sample: u64,
    /// End when so many were kept.
    pub limit: Option<u64>,
    /// Accesses kept after each place where some were left out that only warm the machine up.
    pub warm_up: u64,
}

impl Selection {
    /// Whether an access before which there were so many units is wanted.
    fn wants(&self, position: u64) -> bool {
        let Some(place) = position.checked_sub(self.skip) else {
            return false;
        };
        let Selection { period, sample, .. } = *self;
        sample == 0 || period == 0 || place % period < sample
    }
}

/// A part of a source.
///
/// All control events pass, up to where the limit ends the stream: memory is mapped where the
/// program mapped it. Where accesses are left out, [`Control::Skipped`] says how many. A load
/// that was left out is no longer what a later access depends on.
pub struct Window<S> {
    source: S,
    selection: Selection,
    /// Units before the next access.
    position: u64,
    kept: u64,
    input: Batch,
    /// By process and thread: accesses kept since the last one that was left out.
    runs: HashMap<(u32, u32), u32>,
    /// Instructions and accesses left out since the last kept one.
    skipped: (u64, u64),
}

impl<S: Source> Window<S> {
    /// Selects a part of `source`.
    pub fn new(source: S, selection: Selection) -> Self {
        Window {
            source,
            selection,
            position: 0,
            kept: 0,
            input: Batch::default(),
            runs: HashMap::new(),
            skipped: (0, 0),
        }
    }

    fn is_over(&self) -> bool {
        self.selection.limit.is_some_and(|limit| self.kept >= limit)
    }

    /// Copies what is wanted of the input.
    fn select(&mut self, batch: &mut Batch) {
        let input = std::mem::take(&mut self.input);
        batch.process = input.process;
        let mut run = self.runs.entry((input.process, 0)).or_insert(u32::MAX);
        let mut controls = input.controls.iter().peekable();
        for index in 0..=input.len() {
            while let Some(&(_, control)) = controls.next_if(|(at, _)| *at as usize == index) {
                say_skipped(&mut self.skipped, batch);
                batch.push_control(control);
                if let Control::Thread { thread } = control {
                    run = self.runs.entry((input.process, thread)).or_insert(u32::MAX);
                }
            }
            let over = self.selection.limit.is_some_and(|limit| self.kept >= limit);
            if index == input.len() || over {
                break;
            }
            let mut access = input.access(index);
            let instructions = u64::from(access.gap) + 1;
            let (before, units) = match self.selection.unit {
                Unit::Accesses => (0, 1),
                Unit::Instructions => (u64::from(access.gap), instructions),
            };
            let wanted = self.selection.wants(self.position + before);
            self.position += units;
            if wanted {
                self.kept += units;
                if access.dep > *run {
                    access.dep = 0;
                }
                *run = run.saturating_add(1);
                say_skipped(&mut self.skipped, batch);
                batch.push(access);
            } else {
                *run = 0;
                self.skipped.0 += instructions;
                self.skipped.1 += 1;
            }
        }
        say_skipped(&mut self.skipped, batch);
        self.input = input;
    }
}

fn say_skipped(skipped: &mut (u64, u64), batch: &mut Batch) {
    let (instructions, accesses) = std::mem::take(skipped);
    if accesses > 0 {
        batch.push_control(Control::Skipped {
            instructions,
            accesses,
        });
    }
}

impl<S: Source> Source for Window<S> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.is_over() || !self.source.next_batch(&mut self.input)? {
            return Ok(false);
        }
        self.select(batch);
        Ok(true)
    }

    fn remaining(&self) -> Option<u64> {
        let Selection {
            unit: Unit::Accesses,
            skip,
            period,
            sample,
            limit,
            ..
        } = self.selection
        else {
            return None;
        };
        let rest = self.source.remaining()?;
        let mut wanted = rest.saturating_sub(skip.saturating_sub(self.position));
        if sample > 0 && period > sample {
            wanted = (u128::from(wanted) * u128::from(sample) / u128::from(period)) as u64;
        }
        Some(limit.map_or(wanted, |limit| wanted.min(limit - self.kept.min(limit))))
    }

    fn warm_up(&self) -> u64 {
        self.selection.warm_up.max(self.source.warm_up())
    }
}
