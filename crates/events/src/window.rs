use crate::touched::pages;
use crate::{
    Access, Batch, Control, Definition, Flow, Source, SourceError, Touch, Touched, Unit, WarmUp,
    dependence, say_touched,
};
use pagelab_addr::{VirtAddr, Vpn};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Part of a stream that is wanted, counted over all its processes and threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Unit of the figures below.
    pub unit: Unit,
    /// Leave out so many first.
    pub skip: u64,
    /// Accesses of every `period` ...
    pub period: u64,
    /// ... keep the first so many; 0 for all.
    pub sample: u64,
    /// Periods grow: each is at least one part in so many of the way so far; 0 if they do not.
    pub thinning: u64,
    /// End when so many were kept.
    pub limit: Option<u64>,
}

impl Selection {
    /// True if a place that lies so far behind what was skipped is wanted; `period` is the one that it is in or one
    /// before, and becomes the one that it is in.
    fn wants(&self, place: u64, period: &mut Range<u64>) -> bool {
        if self.sample == 0 || self.period == 0 {
            return true;
        }
        while place >= period.end {
            *period = period_behind(period.end, self.period, self.thinning);
        }
        place - period.start < self.sample
    }

    /// True if all that is wanted has been kept.
    fn ends(&self, kept: u64) -> bool {
        self.limit.is_some_and(|limit| kept >= limit)
    }
}

/// The period of a sample that begins here: it is at least so long, and with `thinning` at least one part in so many
/// of the way so far. A program of unknown length is then sampled in some `thinning` pieces for each time that it
/// becomes e times as long, the later the fewer.
pub fn period_behind(start: u64, period: u64, thinning: u64) -> Range<u64> {
    let grown = start.checked_div(thinning).unwrap_or(0);
    start..start.saturating_add(period.max(grown))
}

/// A part of a source.
///
/// All control events pass, up to where the limit ends the stream: memory is mapped where the
/// program mapped it. Where accesses are left out, [`Control::Skipped`] says how many: once where
/// a thread's interval begins, so that what follows is known to lie in it, and once before the
/// thread's next kept access for the rest of it, however long; and [`Control::Touched`] what memory
/// they touch first. A load that was left out is no
/// longer what a later access depends on. Of the code everything that was defined passes, and the
/// executions whose next access does.
pub struct Window<S> {
    source: S,
    selection: Selection,
    /// Units before the next access.
    position: u64,
    /// The period of the sample that the last access was in, from what is skipped on.
    period: Range<u64>,
    kept: u64,
    input: Batch,
    /// By process and thread.
    threads: BTreeMap<(u32, u32), Thread>,
    memory: Memory,
}

/// Memory that accesses which were left out have touched.
#[derive(Default)]
struct Memory {
    touched: Touched,
    /// By code that was executed there.
    executed: Touched,
    /// The pages of each block of code.
    code: Vec<Range<u64>>,
    /// The processes of which it is told, and those of which the source has left out more than it tells.
    told: HashSet<u32>,
    untold: HashSet<u32>,
}

impl Memory {
    /// Takes in an event of the source.
    fn control(&mut self, process: u32, control: &Control) {
        self.touched.control(process, control);
        self.executed.control(process, control);
        match *control {
            Control::Touched { .. } => {
                self.told.insert(process);
            }
            Control::Skipped { .. } if !self.told.contains(&process) => {
                self.untold.insert(process);
            }
            Control::Exec => {
                self.told.remove(&process);
                self.untold.remove(&process);
            }
            Control::Fork { child } => {
                for processes in [&mut self.told, &mut self.untold] {
                    if processes.contains(&process) {
                        processes.insert(child);
                    } else {
                        processes.remove(&child);
                    }
                }
            }
            _ => {}
        }
    }

    /// Takes in the code that a batch defines.
    fn define(&mut self, definitions: &[Definition]) {
        let blocks = definitions
            .iter()
            .filter_map(|definition| match definition {
                Definition::Block(block) => {
                    let bytes = block.lengths.iter().copied().map(u64::from).sum();
                    Some(pages(block.pc, bytes))
                }
                _ => None,
            });
        self.code.extend(blocks);
    }

    /// Something is left out: says, once, that what it touches first is told.
    fn tell(&mut self, batch: &mut Batch) {
        if !self.untold.contains(&batch.process) && self.told.insert(batch.process) {
            batch.push_control(Control::TOUCHES_TOLD);
        }
    }

    /// The execution of a block is left out: says what code it touches first.
    fn leave_out_code(&mut self, block: u32, batch: &mut Batch) {
        self.tell(batch);
        let at = batch.len() as u32;
        for page in (self.code.get(block as usize).cloned().unwrap_or_default()).map(Vpn) {
            if self.executed.touch(batch.process, page, false) {
                say_touched(&mut batch.controls, at, page, Touch::Executed);
            }
        }
    }

    /// An access is left out: says what it touches first.
    fn leave_out(&mut self, access: Access, batch: &mut Batch) {
        let Access { addr, op, .. } = access;
        let process = batch.process;
        self.tell(batch);
        let at = batch.len() as u32;
        if op.is_prefetch() {
            return;
        }
        let touch = if op.is_store() {
            Touch::Stored
        } else {
            Touch::Loaded
        };
        let last = addr.saturating_add(u64::from(op.size()).max(1) - 1);
        for page in (VirtAddr(addr).vpn().0..=VirtAddr(last).vpn().0).map(Vpn) {
            if self.touched.touch(process, page, op.is_store()) {
                say_touched(&mut batch.controls, at, page, touch);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Thread {
    /// Accesses kept since the last one that was left out.
    run: u32,
    /// Left out and not said yet.
    skipped: LeftOut,
    /// The beginning of the interval that is being left out has been said.
    announced: bool,
}

#[derive(Clone, Copy, Default)]
struct LeftOut {
    instructions: u64,
    accesses: u64,
}

impl Default for Thread {
    fn default() -> Self {
        Thread {
            run: u32::MAX,
            skipped: LeftOut::default(),
            announced: false,
        }
    }
}

impl Thread {
    fn leave_out(&mut self, instructions: u64, accesses: u64) {
        self.run = 0;
        let skipped = &mut self.skipped;
        skipped.instructions = skipped.instructions.saturating_add(instructions);
        skipped.accesses = skipped.accesses.saturating_add(accesses);
    }

    /// Says at once that an interval begins: said at the end of a batch, or before a control event, it would
    /// hang on where batches end what other threads have kept by then.
    fn announce(&mut self, batch: &mut Batch) {
        if !self.announced {
            self.announced = self.say(batch);
        }
    }

    /// True if there was something to say.
    fn say(&mut self, batch: &mut Batch) -> bool {
        let LeftOut {
            instructions,
            accesses,
        } = std::mem::take(&mut self.skipped);
        let any = instructions > 0 || accesses > 0;
        if any {
            batch.push_control(Control::Skipped {
                instructions,
                accesses,
            });
        }
        any
    }
}

impl<S: Source> Window<S> {
    /// Selects a part of `source`.
    pub fn new(source: S, selection: Selection) -> Self {
        Window {
            source,
            selection,
            position: 0,
            period: period_behind(0, selection.period, selection.thinning),
            kept: 0,
            input: Batch::default(),
            threads: BTreeMap::new(),
            memory: Memory::default(),
        }
    }

    /// Copies what is wanted of the input.
    fn select(&mut self, batch: &mut Batch) {
        let mut input = std::mem::take(&mut self.input);
        batch.process = input.process;
        let mut current = self.threads.entry((input.process, 0)).or_default();
        self.memory.define(&input.definitions);
        batch.definitions.append(&mut input.definitions);
        let mut controls = input.controls.iter().peekable();
        let mut flow = input.flow.iter().peekable();
        let mut mispredicted = input.mispredicted.iter().peekable();
        for index in 0..=input.len() {
            // Nothing after the last access that is kept, wherever its batch ends.
            if self.selection.ends(self.kept) {
                break;
            }
            while let Some(&(_, control)) = controls.next_if(|(at, _)| *at as usize == index) {
                self.memory.control(input.process, &control);
                if let Control::Skipped {
                    instructions,
                    accesses,
                } = control
                {
                    current.leave_out(instructions, accesses);
                    current.announce(batch);
                    // With nothing in it, it ends a program's initialisation, here as there.
                    if instructions > 0 || accesses > 0 {
                        continue;
                    }
                }
                batch.push_control(control);
                if let Control::Thread { thread } = control {
                    current = self.threads.entry((input.process, thread)).or_default();
                }
            }
            let started = batch.flow.len();
            while let Some(&(_, entry)) = flow.next_if(|(at, _)| *at as usize <= index) {
                batch.flow.push((batch.len() as u32, entry));
            }
            if index == input.len() {
                break;
            }
            let mut access = input.access(index);
            let instructions = access.op.instructions(access.gap);
            // An access lies where its instruction does.
            let (at, units) = match self.selection.unit {
                Unit::Accesses => (self.position, 1),
                Unit::Instructions => {
                    let end = self.position + instructions;
                    (end.saturating_sub(1), instructions)
                }
            };
            let wanted = (at.checked_sub(self.selection.skip))
                .is_some_and(|place| self.selection.wants(place, &mut self.period));
            self.position += units;
            if wanted {
                self.kept += units;
                access.dep = dependence::within(access.dep, current.run);
                while let Some(&(_, branch)) = mispredicted.next_if(|(at, _)| *at as usize <= index)
                {
                    batch.push_mispredicted(branch.within(current.run));
                }
                current.run = current.run.saturating_add(1);
                if current.say(batch) {
                    self.memory.tell(batch);
                }
                current.announced = false;
                batch.push(access);
                batch.site.extend(input.site.get(index));
            } else {
                while mispredicted
                    .next_if(|(at, _)| *at as usize <= index)
                    .is_some()
                {}
                current.leave_out(instructions, 1);
                current.announce(batch);
                for (at, entry) in batch.flow.split_off(started) {
                    match entry {
                        Flow::Thread(_) => batch.flow.push((at, entry)),
                        Flow::Block(block) => self.memory.leave_out_code(block, batch),
                    }
                }
                self.memory.leave_out(access, batch);
            }
        }
        self.input = input;
    }

    /// Says what a thread has left out and not said, at the end of the stream; one thread a call.
    fn say_rest(&mut self, batch: &mut Batch) -> bool {
        for (&(process, thread), state) in &mut self.threads {
            if state.skipped.accesses > 0 || state.skipped.instructions > 0 {
                batch.process = process;
                batch.push_control(Control::Thread { thread });
                return state.say(batch);
            }
        }
        false
    }
}

impl<S: Source> Source for Window<S> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.selection.ends(self.kept) {
            return Ok(false);
        }
        if !self.source.next_batch(&mut self.input)? {
            return Ok(self.say_rest(batch));
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
            thinning: 0,
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

    fn warm_up(&self) -> WarmUp {
        self.source.warm_up()
    }

    fn has_code(&self) -> bool {
        self.source.has_code()
    }
}
