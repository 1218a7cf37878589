//! Threads and processes that have ended.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use pagelab_events::Control;
use pagelab_recorder_wire::region::State;

use super::Recording;
use super::active::Active;
use crate::controls::Returned;
use crate::following::{Following, waited_for};
use crate::output::Sink;
use crate::process::{PATIENCE, Process};

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
        self.admit_replacements()
    }

    /// Ends every process that is no more. The recorder's own child, process 0, has ended when
    /// `root` is its status. `false` while any lives.
    pub(super) fn bury_ended(&mut self, root: Option<i32>) -> io::Result<bool> {
        // Rounds within read what the dead have left.
        if std::mem::replace(&mut self.burying, true) {
            return Ok(false);
        }
        let keys: Vec<u32> = self.processes.keys().copied().collect();
        let mut buried = Ok(());
        for key in keys {
            let process = self.processes.get_mut(&key);
            let forking = || self.shared.is_forking(key);
            if let Some(status) = process.and_then(|process| process.gone(root, forking)) {
                buried = buried.and(self.gone(key, status));
            }
        }
        self.burying = false;
        buried?;
        Ok(self.processes.values().all(Process::ended))
    }

    /// True if a call that returns has waited for a process whose end has not been told. The parent goes on behind it:
    /// memory that both had is the parent's alone.
    pub(super) fn waits_for_an_end(&mut self, index: usize, result: u64, fact: u64) -> bool {
        let active = &mut self.rings[index];
        let returned = (active.call).map(|call| Returned::of(call, result, fact));
        let Some((pid, status)) = returned.as_ref().and_then(waited_for) else {
            return false;
        };
        for process in self.processes.values_mut() {
            process.waited_for(pid, status);
        }
        let waits = (self.processes.values())
            .any(|process| process.pid() == pid && process.is_to_be_buried());
        let since = *active.waiting_since.get_or_insert_with(Instant::now);
        let waits = waits && since.elapsed() < 2 * PATIENCE;
        if !waits {
            active.waiting_since = None;
        }
        self.burials |= waits;
        waits
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
            let begins = active.number.is_some() || active.is_replacement();
            active.process == key && begins && !active.reader.has_caught_up()
        };
        while self.rings.iter().any(is_unread) && self.round()? {}
        if self.processes.get(&key).is_some_and(Process::ended) {
            return Ok(());
        }
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
        if let Some(process) = self.processes.get(&key) {
            self.output.select(process.number(), thread)?;
            self.adopt(key);
        }
        if let Some(process) = self.processes.get_mut(&key) {
            process.end();
            let note = (self.code.generated).name(process.number(), process.pid(), self.began);
            self.notes.extend(note);
            let number = process.number();
            self.say(number, Control::Exit { status });
        }
        Ok(())
    }

    /// Children of which process `key` has not come to say that it has forked them: it was killed before.
    fn adopt(&mut self, key: u32) {
        let orphan = |active: &Active<'_>, processes: &HashMap<u32, Process>| {
            active.parent == key && active.is_first() && !processes.contains_key(&active.process)
        };
        while let Some(first) = (self.rings.iter()).find(|ring| orphan(ring, &self.processes)) {
            let (child, pid) = (first.process, first.pid);
            self.forked(key, child, pid);
        }
    }
}
