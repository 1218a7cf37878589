//! Threads and processes that have ended.

use std::io;

use pagelab_events::Control;
use pagelab_recorder_wire::region::State;

use super::Recording;
use super::active::Active;
use crate::following::Following;
use crate::output::Sink;
use crate::process::Process;

impl<S: Sink + 'static> Recording<'_, S> {
    /// Frees rings whose threads have ended and that have been read.
    pub(super) fn drop_ended(&mut self) -> io::Result<()> {
        let shared = self.shared;
        let ended = |active: &Active<'_>| {
            // Whatever was written before the state changed is visible now.
            shared.state(active.index) == State::Ended
                && !active.definitions
                && active.reader.has_caught_up()
        };
        self.drop_rings(ended);
        self.admit_replacement()
    }

    /// Ends every process that is no more. The recorder's own child, process 0, has ended when
    /// `root` is its status. `false` while any lives.
    pub(super) fn bury_ended(&mut self, root: Option<i32>) -> io::Result<bool> {
        let keys: Vec<u32> = self.processes.keys().copied().collect();
        for key in keys {
            let process = self.processes.get_mut(&key);
            if let Some(status) = process.and_then(|process| process.gone(root)) {
                self.gone(key, status)?;
            }
        }
        Ok(self.processes.values().all(Process::ended))
    }

    /// Ends process `key`, which is gone with this status.
    pub(crate) fn gone(&mut self, key: u32, status: i32) -> io::Result<()> {
        self.find_rings();
        // Everything it wrote is in the rings, and nothing more will come.
        for active in self.rings.iter_mut().filter(|active| active.process == key) {
            active.reader.look_finally();
        }
        // Others may go on writing for hours.
        let is_unread = |active: &Active<'_>| {
            active.process == key && active.number.is_some() && !active.reader.has_caught_up()
        };
        while self.rings.iter().any(is_unread) && self.round()? {}
        self.end(key, status)
    }

    fn end(&mut self, key: u32, status: i32) -> io::Result<()> {
        let mut thread = 0;
        for index in 0..self.rings.len() {
            let active = &self.rings[index];
            if let Some(number) = active.number.filter(|_| active.process == key) {
                thread = number;
                self.output.select(self.processes[&key].number(), number)?;
                let start = self.output.mark();
                let thread = &mut self.rings[index].thread;
                thread.finish_block(&self.plans, self.output.batch());
                self.keep(index, start);
                self.say_left_out(index);
            }
        }
        self.drop_rings(|active| active.process == key);
        if let Some(process) = self.processes.get_mut(&key) {
            self.output.select(process.number(), thread)?;
            process.end();
            let note = (self.code.generated).name(process.number(), process.pid(), self.began);
            self.notes.extend(note);
            self.output.control(Control::Exit { status });
        }
        Ok(())
    }
}
