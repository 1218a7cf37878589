//! Messages of a thread between its accesses: system calls, mappings, forks, allocations.

use std::io;

use pagelab_events::Control;
use pagelab_recorder_wire::syscall::{Call, call};
use pagelab_recorder_wire::word::{Kind, SYSCALL_ARGS, Word};

use super::Recording;
use crate::controls::{Memory, Returned};
use crate::following::FORK_CALLS;
use crate::in_order::WordReader;
use crate::left_out::LeftOut;
use crate::output::Sink;
use crate::process::Process;
use crate::{elf, kernel, maps};

impl<S: Sink + 'static> Recording<'_, S> {
    /// Reads one message that is neither a block nor an access.
    pub(super) fn message(&mut self, index: usize) -> io::Result<()> {
        let start = self.output.mark();
        let active = &mut self.rings[index];
        active.thread.finish_block(&self.plans, self.output.batch());
        self.keep(index, start);
        let active = &mut self.rings[index];
        let word = active.reader.decode();
        let Word::Message(kind, payload) = word else {
            self.notes.push(format!("a ring is damaged: {word:x?}"));
            active.reader.give_up();
            return Ok(());
        };
        let words = 1 + Word::tail(kind, payload);
        match kind {
            // No thread is ahead of all; the words of one that says so would be waited for for ever.
            Kind::Epoch => active.epoch = payload.min(self.shared.epoch()),
            Kind::Syscall => {
                let arguments =
                    std::array::from_fn::<u64, SYSCALL_ARGS, _>(|at| active.reader.word(1 + at));
                active.call = Some((payload, arguments));
                active.vectors.clear();
            }
            Kind::Vector => {
                let vector = (active.reader.word(1), active.reader.word(2));
                active.vectors.push(vector);
            }
            Kind::Maps => {
                let text = active.text(payload);
                match active.maps.take() {
                    None => active.maps = Some(text),
                    Some(before) => {
                        if let Some(process) = self.processes.get_mut(&active.process) {
                            for (start, len, offset, path) in maps::files(&text) {
                                let told = self.mapped.add(process.number(), start, len, &path);
                                self.output.batch().definitions.extend(told);
                                process.files.map(start, len, offset, Some(path));
                            }
                        }
                        let number = (self.processes.get(&active.process)).map(Process::number);
                        for control in maps::loaded(&before, &text, elf::segments) {
                            self.touches.load(number.unwrap_or_default(), control);
                            self.output.control(control);
                        }
                    }
                }
            }
            Kind::Path => active.path = Some(active.text(payload)),
            Kind::Note => self.notes.push(active.text(payload)),
            Kind::Refused => {
                let error = active.reader.word(1) as i32;
                self.refusals.refused(payload, error);
            }
            Kind::Unrecorded => (self.programs).leave_out(active.index, active.text(payload)),
            Kind::SyscallReturn => {
                let (result, fact) = (active.reader.word(1), active.reader.word(2));
                if self.waits_for_an_end(index, result, fact) {
                    self.rings[index].reader.postpone();
                    return Ok(());
                }
                let active = &mut self.rings[index];
                if call(payload) == Call::Exec {
                    self.programs.failed(active.index);
                }
                self.returned(index, result, fact);
            }
            Kind::Skipped => {
                let left_out = LeftOut {
                    instructions: active.reader.word(1),
                    accesses: active.reader.word(2),
                    begun: false,
                };
                active.thread.leave_out(left_out);
                active.left_out.add(left_out);
                self.windows.left_out(left_out, self.shared.header());
            }
            Kind::Forked => {
                let (parent, pid) = (active.process, active.child);
                self.forked(parent, payload as u32, pid);
            }
            Kind::ThreadEnd => self.thread_ends(index),
            Kind::Present | Kind::Faults => self.found(index, kind, payload as usize),
            Kind::Allocation => self.allocation(index, payload as usize),
            Kind::Replaced => self.programs.follow(),
            Kind::Block | Kind::Wrap | Kind::Define => {}
        }
        self.rings[index].reader.advance_by(words);
        Ok(())
    }

    /// Pages are there or were faulted, as so many words say, that may have been touched first
    /// where nothing was reported.
    fn found(&mut self, index: usize, kind: Kind, words: usize) {
        self.say_left_out(index);
        let active = &self.rings[index];
        let Some(process) = self.processes.get(&active.process) else {
            return;
        };
        let runs: Vec<u64> = (1..=words).map(|at| active.reader.word(at)).collect();
        let faults = kind == Kind::Faults;
        (self.touches).found(process.number(), &runs, faults, self.output.batch());
    }

    /// A thread calls an allocator, or one returns: as so many words say.
    fn allocation(&mut self, index: usize, words: usize) {
        let active = &self.rings[index];
        let Some(process) = self.processes.get(&active.process) else {
            return;
        };
        let words: Vec<u64> = (1..=words).map(|at| active.reader.word(at)).collect();
        let batch = self.output.batch();
        let control = (self.allocations).control(&words, process, &mut self.code, batch);
        if let Some(control) = control.filter(|_| self.output.with_code) {
            self.output.control(control);
        }
    }

    fn returned(&mut self, index: usize, result: u64, fact: u64) {
        let active = &mut self.rings[index];
        let Some(call) = active.call.take() else {
            return;
        };
        let (number, arguments) = call;
        let returned = Returned::of(call, result, fact);
        self.refusals.returned(&returned);
        let path = active.path.take();
        active.thread.forget_stores();
        let start = self.output.mark();
        let with_code = self.output.with_code;
        kernel::accesses(
            &mut active.thread,
            &returned,
            &active.vectors,
            self.output.batch(),
            with_code,
        );
        self.keep(index, start);
        self.say_left_out(index);
        let active = &mut self.rings[index];
        let Some(process) = self.processes.get_mut(&active.process) else {
            return;
        };
        if let Some(control) = process.memory.control(&returned) {
            match control {
                Control::Map { addr, len, .. } => {
                    if let Some(path) = &path {
                        let told = self.mapped.add(process.number(), addr, len, path);
                        self.output.batch().definitions.extend(told);
                        let pid = process.pid();
                        self.code.generated.mapped(process.number(), pid, path);
                    }
                    process.files.map(addr, len, arguments[5], path);
                }
                Control::Unmap { addr, len } => process.files.map(addr, len, 0, None),
                _ => {}
            }
            let number = process.number();
            for control in [Some(control), Memory::left(&returned)]
                .into_iter()
                .flatten()
            {
                self.touches.control(number, &control);
                self.output.control(control);
            }
        }
        if returned.failed() {
            return;
        }
        if FORK_CALLS.contains(&number) {
            active.child = result as u32;
            if is_thread(number, arguments[0]) {
                let thread = process.announce(result as u32);
                self.output.control(Control::ThreadStart { thread });
                self.admit();
            }
        }
    }

    /// Process `parent` has forked process `key`, which the system knows by `pid`.
    pub(super) fn forked(&mut self, parent: u32, key: u32, pid: u32) {
        let number = self.processes.len() as u32;
        let Some(parent) = self.processes.get(&parent) else {
            return;
        };
        let process = parent.fork(number, pid);
        for (start, len, path) in process.files.all() {
            let told = self.mapped.add(number, start, len, path);
            self.output.batch().definitions.extend(told);
        }
        let parent = parent.number();
        self.code.generated.forked(parent, number);
        self.processes.insert(key, process);
        self.say(parent, Control::Fork { child: number });
        self.admit();
    }

    fn thread_ends(&mut self, index: usize) {
        self.say_left_out(index);
        let active = &mut self.rings[index];
        let Some(process) = self.processes.get_mut(&active.process) else {
            return;
        };
        if let Some((number, arguments)) = active.call
            && matches!(call(number), Call::Exit | Call::ExitGroup)
        {
            process.leaves(arguments[0] as i32 & 0xff, call(number) == Call::ExitGroup);
        }
        if let Some(thread) = active.number
            && active
                .call
                .is_some_and(|(number, _)| call(number) == Call::Exit)
        {
            process.forget_thread(active.tid);
            self.output.control(Control::ThreadEnd { thread });
        }
    }
}

/// True if a call of the clone family made a thread: as the plugin decides.
fn is_thread(number: u64, flags: u64) -> bool {
    number == 56 && flags & libc::CLONE_VM as u64 != 0 && flags & libc::CLONE_VFORK as u64 == 0
}
