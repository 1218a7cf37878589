//! Memory that is touched where accesses are left out.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use pagelab_addr::{VirtAddr, Vpn};
use pagelab_events::{Backing, Batch, Control, Protection, Touch, Touched, pages, say_touched};
use pagelab_recorder_wire::word::Run;

use crate::left_out::LeftOut;
use crate::memory_map::MemoryMap;

/// State of the memory of all processes. It is followed only where something may be left out.
#[derive(Debug, Default)]
pub(crate) struct Touches {
    /// By accesses that were left out.
    accessed: Touched,
    /// By these, and by asking the kernel; `None` where nothing is left out.
    present: Option<Touched>,
    /// By code whose execution was reported, and left out.
    executed: Touched,
    /// The pages of each block of code, by its number in the recording.
    code: Vec<Range<u64>>,
    mappings: HashMap<u32, MemoryMap>,
    /// The address spaces of which it has been said that first touches are told.
    told: HashSet<u32>,
    /// Processes that have memory in common with a parent or a child.
    forked: HashSet<u32>,
}

impl Touches {
    /// Nothing yet; nothing ever unless it is `wanted`.
    pub(crate) fn new(wanted: bool) -> Touches {
        Touches {
            present: wanted.then(Touched::presence),
            ..Touches::default()
        }
    }

    /// Takes in what a control event makes of a process's memory.
    pub(crate) fn control(&mut self, process: u32, control: &Control) {
        let Some(present) = self.present.as_mut() else {
            return;
        };
        present.control(process, control);
        self.accessed.control(process, control);
        self.executed.control(process, control);
        if matches!(control, Control::Exec) {
            self.told.remove(&process);
            self.forked.remove(&process);
        }
        if let Control::Fork { child } = *control {
            let copy = self.mappings.entry(process).or_default().clone();
            self.mappings.insert(child, copy);
            self.forked.extend([process, child]);
            if self.told.contains(&process) {
                self.told.insert(child);
            }
            return;
        }
        self.mappings.entry(process).or_default().control(control);
    }

    /// A mapping has come with the program. QEMU's own mapping of it does not say what of it is code.
    pub(crate) fn load(&mut self, process: u32, mut control: Control) {
        if let Control::Map { prot, backing, .. } = &mut control
            && *backing == Backing::PrivateFile
        {
            prot.0 |= Protection::EXEC;
        }
        self.control(process, &control);
    }

    /// That first touches are told of a process from here on, once for each address space.
    pub(crate) fn tell(&mut self, process: u32) -> Option<Control> {
        (self.present.is_some() && self.told.insert(process)).then_some(Control::TOUCHES_TOLD)
    }

    /// Access `index` of a batch is left out, and would come before access number `kept`: says so, if it
    /// touches memory anew.
    pub(crate) fn leave_out(
        &mut self,
        batch: &mut Batch,
        index: usize,
        kept: usize,
        left_out: &mut LeftOut,
    ) {
        let (addr, op) = (batch.addr[index], batch.op[index]);
        if op.is_prefetch() {
            return;
        }
        let Some(present) = &mut self.present else {
            return;
        };
        let process = batch.process;
        let copies = self.forked.contains(&process);
        let accessed = &mut self.accessed;
        let store = op.is_store();
        let last = addr.saturating_add(u64::from(op.size()).max(1) - 1);
        for page in VirtAddr(addr).vpn().0..=VirtAddr(last).vpn().0 {
            if is_new(accessed, present, copies, process, Vpn(page), store) {
                let touch = if store { Touch::Stored } else { Touch::Loaded };
                let tells = self.told.insert(process);
                say(batch, kept, tells, left_out, Vpn(page), touch);
            }
        }
    }

    /// Notes code of so many bytes, block `number` of the recording, perhaps not for the first time.
    pub(crate) fn define(&mut self, number: u32, pc: u64, bytes: u64) {
        if self.present.is_some() && self.code.len() == number as usize {
            self.code.push(pages(pc, bytes));
        }
    }

    /// The execution of a block is left out, and would come before access number `kept`: says so, if it is a
    /// page's first. Faults taken where code is reported are not asked for.
    pub(crate) fn leave_out_code(
        &mut self,
        batch: &mut Batch,
        block: u32,
        kept: usize,
        left_out: &mut LeftOut,
    ) {
        let process = batch.process;
        for page in self.code.get(block as usize).cloned().unwrap_or_default() {
            if self.executed.touch(process, Vpn(page), false) {
                let tells = self.told.insert(process);
                say(batch, kept, tells, left_out, Vpn(page), Touch::Executed);
            }
        }
    }

    /// A process's memory was found to hold so much, or so many faults have brought it: says it in the batch, as far as
    /// that is new.
    pub(crate) fn found(&mut self, process: u32, runs: &[u64], faults: bool, batch: &mut Batch) {
        let (Some(present), Some(mappings)) = (&mut self.present, self.mappings.get(&process))
        else {
            return;
        };
        if self.told.insert(process) {
            batch.push_control(Control::TOUCHES_TOLD);
        }
        let at = batch.len() as u32;
        let copies = self.forked.contains(&process);
        for run in runs.iter().filter_map(|&word| Run::of(word)) {
            let pages = run.first..run.first + run.pages;
            for (pages, mapping) in mappings.within(pages) {
                let touch = match mapping.touch(run.behind) {
                    Some(Touch::Present) if faults && !mapping.shared() => Touch::Stored,
                    Some(touch) => touch,
                    None => continue,
                };
                for page in pages.map(Vpn) {
                    let store = matches!(touch, Touch::Stored | Touch::Present);
                    let new = if touch == Touch::Stored {
                        is_new(&mut self.accessed, present, copies, process, page, store)
                    } else {
                        present.touch(process, page, store)
                    };
                    if new {
                        say_touched(&mut batch.controls, at, page, touch);
                    }
                }
            }
        }
    }
}

/// Says before access number `kept` that a page was touched; before that, that something was left out, and with
/// `first` that all is told from here on.
fn say(
    batch: &mut Batch,
    kept: usize,
    first: bool,
    left_out: &mut LeftOut,
    page: Vpn,
    touch: Touch,
) {
    let at = kept as u32;
    let begins = if left_out.begun {
        None
    } else {
        left_out.take()
    };
    let tells = first.then_some(Control::TOUCHES_TOLD);
    let before = begins.into_iter().chain(tells);
    batch.controls.extend(before.map(|control| (at, control)));
    say_touched(&mut batch.controls, at, page, touch);
}

/// True if a touch of a page takes a fault that is yet to be told.
fn is_new(
    accessed: &mut Touched,
    present: &mut Touched,
    copies: bool,
    process: u32,
    page: Vpn,
    store: bool,
) -> bool {
    // A store to what is there may yet have to copy it.
    accessed.touch(process, page, store) && (present.touch(process, page, store) || copies)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: u32 = 0;

    /// Events when a block is executed that lies in pages 1 and 2.
    fn told(touches: &mut Touches, process: u32) -> Vec<Control> {
        let mut batch = Batch {
            process,
            ..Batch::default()
        };
        let mut left_out = LeftOut {
            instructions: 5,
            ..LeftOut::default()
        };
        touches.define(CODE, 0x1ff0, 0x20);
        touches.leave_out_code(&mut batch, CODE, 0, &mut left_out);
        batch
            .controls
            .into_iter()
            .map(|(_, control)| control)
            .collect()
    }

    fn executed(addr: u64, len: u64) -> Control {
        Control::Touched {
            addr,
            len,
            touch: Touch::Executed,
        }
    }

    #[test]
    fn code_that_is_executed_outside_windows_is_told_once() {
        let skipped = Control::Skipped {
            instructions: 5,
            accesses: 0,
        };
        let mut touches = Touches::new(true);
        for process in 0..2 {
            let expected = [skipped, Control::TOUCHES_TOLD, executed(0x1000, 0x2000)];
            assert_eq!(told(&mut touches, process), expected);
            assert_eq!(told(&mut touches, process), []);
        }
        let (addr, len) = (0x2000, 0x1000);
        touches.control(0, &Control::Unmap { addr, len });
        assert_eq!(told(&mut touches, 0), [skipped, executed(addr, len)]);
        assert_eq!(told(&mut touches, 1), []);
        assert_eq!(told(&mut Touches::new(false), 0), []);
    }
}
