//! Reads all rings, and brings the events of all threads into one order.
//!
//! The order: threads count epochs, which begin and end with the system calls that change an
//! address space (see the plugin's syscalls.rs). What a thread did in an earlier epoch comes
//! before what another did in a later one. Within an epoch, threads take turns of a few
//! thousand accesses.
//!
//! Rings are looked at one after the other while threads go on. So a ring may show what was done upon
//! something that a ring looked at before did not show yet, but only in an epoch that began after the
//! first look: a round goes as far as the epoch that it has begun in.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use pagelab_events::Control;
use pagelab_recorder_wire::block::{Block, Reporting};
use pagelab_recorder_wire::region::{RINGS, State};
use pagelab_recorder_wire::word::{Kind, Word};

mod active;
mod ended;
mod messages;

use self::active::Active;
use crate::Progress;
use crate::allocations::Allocations;
use crate::code::CodeBook;
use crate::following::Following;
use crate::in_order::WordReader;
use crate::mapped::Mapped;
use crate::output::{Mark, Output, Sink};
use crate::plan::{Plan, execute};
use crate::process::{Process, living};
use crate::programs::Programs;
use crate::reconvergence::Ways;
use crate::refusals::Refusals;
use crate::shared::{Reader, Shared};
use crate::thread::Stop;
use crate::touches::Touches;
use crate::window::Windows;

/// A thread's turn, in accesses.
const TURN: usize = 4096;

/// Everything read so far.
pub(crate) struct Recording<'a, S> {
    shared: &'a Shared,
    reporting: Reporting,
    output: Output<S>,
    plans: Vec<Plan>,
    ways: Ways,
    code: CodeBook,
    allocations: Allocations,
    mapped: Mapped,
    began: SystemTime,
    rings: Vec<Active<'a>>,
    /// Rings that are among these, by index.
    known: Vec<bool>,
    /// By the number that the plugin gave it.
    processes: HashMap<u32, Process>,
    windows: Windows,
    touches: Touches,
    notes: Vec<String>,
    programs: Programs,
    refusals: Refusals,
    threads: u64,
    instructions: u64,
    /// Its processes run now, and are looked after in the system.
    watches: bool,
    /// A parent waits for the end of a child to be told.
    burials: bool,
    burying: bool,
    /// Number of chains of blocks.
    chains: Arc<AtomicU32>,
}

impl<'a, S: Sink + 'static> Recording<'a, S> {
    /// A recording of the program whose first thread uses ring 0, started then.
    pub(crate) fn new(
        shared: &'a Shared,
        windows: Windows,
        output: Output<S>,
        pid: u32,
        began: SystemTime,
    ) -> Recording<'a, S> {
        let mapped = Mapped::new(output.with_code);
        let touches = Touches::new(windows.cut());
        Recording {
            shared,
            reporting: shared.reporting(),
            output,
            plans: Vec::new(),
            ways: Ways::default(),
            code: CodeBook::default(),
            allocations: Allocations::default(),
            mapped,
            began,
            rings: Vec::new(),
            known: vec![false; RINGS],
            processes: HashMap::from([(0, Process::new(0, pid))]),
            windows,
            touches,
            notes: Vec::new(),
            programs: Programs::default(),
            refusals: Refusals::default(),
            threads: 0,
            instructions: 0,
            watches: false,
            burials: false,
            burying: false,
            chains: Arc::default(),
        }
    }

    /// True if something was read that says that there is this process.
    pub(crate) fn knows(&self, process: u32) -> bool {
        self.processes.contains_key(&process)
    }

    /// The earliest epoch of which something can be read.
    fn earliest(&self) -> Option<u64> {
        self.rings
            .iter()
            .filter(|active| active.ready())
            .map(|active| active.epoch)
            .min()
    }

    /// Notices rings that have come into use.
    fn find_rings(&mut self) {
        let used = self.shared.header().rings_used.0.load(Ordering::Acquire) as usize;
        for index in 0..used {
            let state = self.shared.state(index);
            if self.known[index] || matches!(state, State::Free | State::Claimed) {
                continue;
            }
            self.known[index] = true;
            let (reader, chains) = (self.shared.reader(index), self.chains.clone());
            self.rings.push(Active::new(reader, index, chains));
        }
        self.admit();
    }

    /// Gives numbers to threads that have been announced.
    fn admit(&mut self) {
        for index in 0..self.rings.len() {
            let active = &self.rings[index];
            if active.definitions || active.number.is_some() {
                continue;
            }
            let first = active.is_first();
            let Some(process) = self.processes.get_mut(&active.process) else {
                let parent = self.processes.get(&active.parent);
                if parent.is_some_and(Process::ended) && self.rings[index].reader.give_up() {
                    self.notes.push(
                        "a process was left out whose parent was killed as it was forked"
                            .to_owned(),
                    );
                }
                continue;
            };
            let number = if !first {
                process.announced(active.tid)
            } else if process.started() {
                None
            } else {
                process.start();
                Some(0)
            };
            self.threads += u64::from(number.is_some());
            self.rings[index].number = number;
        }
    }

    /// Goes on with the new programs of processes that have replaced their own.
    fn admit_replacements(&mut self) -> io::Result<()> {
        let new = self.rings.iter().filter(|active| active.is_replacement());
        let new: Vec<usize> = new.map(|active| active.index).collect();
        for ring in new {
            self.admit_replacement(ring)?;
        }
        Ok(())
    }

    /// Goes on with the new program that uses this ring when everything of the old one has been read.
    fn admit_replacement(&mut self, ring: usize) -> io::Result<()> {
        let Some(new) = self.rings.iter().position(|active| active.index == ring) else {
            return Ok(());
        };
        let key = self.rings[new].process;
        let Some(process) = self
            .processes
            .get_mut(&key)
            .filter(|process| process.started())
        else {
            return Ok(());
        };
        let claimed = self.rings[new].claimed;
        let mut old = self.rings.iter_mut();
        if !old.all(|active| {
            active.process != key || active.claimed >= claimed || active.is_read_to_its_end()
        }) {
            return Ok(());
        }
        let number = process.number();
        let note = self.code.generated.name(number, process.pid(), self.began);
        self.notes.extend(note);
        self.code.generated.replaced(number);
        process.replace();
        self.output.select(number, 0)?;
        self.say(number, Control::Exec);
        self.threads += 1;
        self.drop_rings(|active| active.process == key && active.claimed < claimed);
        if let Some(active) = self.rings.iter_mut().find(|active| active.index == ring) {
            active.number = Some(0);
        }
        Ok(())
    }

    /// Frees rings that will not be written to any more.
    fn drop_rings(&mut self, which: impl Fn(&Active<'_>) -> bool) {
        for active in self.rings.extract_if(.., |active| which(active)) {
            self.instructions += active.thread.instructions();
            self.known[active.index] = false;
            self.shared.free(active.index);
        }
    }

    fn read_definitions(&mut self) {
        for active in self.rings.iter_mut().filter(|active| active.definitions) {
            while !active.reader.is_empty() {
                if let Word::Message(Kind::Define, words) = active.reader.decode() {
                    define(
                        &mut self.plans,
                        &active.reader,
                        words as usize,
                        self.reporting,
                    );
                    active.reader.advance_by(1 + words as usize);
                } else {
                    active.reader.advance();
                }
            }
            active.reader.release();
        }
    }

    /// Reads a turn of one ring. `false` if there is nothing in it that can be read yet.
    fn turn(&mut self, index: usize) -> io::Result<bool> {
        let active = &mut self.rings[index];
        let (Some(process), Some(number)) = (self.processes.get(&active.process), active.number)
        else {
            active.reader.postpone();
            return Ok(false);
        };
        let before = active.reader.mark();
        self.output.select(process.number(), number)?;
        let start = self.output.mark();
        let batch = self.output.batch();
        let stop = (active.thread).read(&mut active.reader, &self.plans, batch, TURN);
        self.keep(index, start);
        let met = matches!(stop, Stop::New(_));
        match stop {
            Stop::New(number) => self.meet(index, number),
            Stop::Empty => self.rings[index].reader.postpone(),
            Stop::Full => {}
            Stop::Message => self.message(index)?,
        }
        let reader = &self.rings[index].reader;
        reader.release();
        // An access in pieces may be there with its first piece and not the rest: nothing is taken then, and who goes
        // round while there is progress must not wait for it.
        Ok(met || reader.mark() != before)
    }

    /// A thread executes a block next that none has executed before: finds out what it makes known, and
    /// gives it its place in the recording.
    fn meet(&mut self, index: usize, number: usize) {
        let of = self.rings[index].process;
        let Some(process) = self.processes.get(&of) else {
            return;
        };
        execute(&mut self.plans, &mut self.ways, of, number);
        let plan = &mut self.plans[number];
        if self.output.with_code {
            let (pc, bytes) = (plan.block.pc, plan.code_bytes());
            let file = process.files.at(pc);
            let batch = self.output.batch();
            self.code.define(plan, process.number(), file, batch);
            if let Some(code) = plan.code {
                self.touches.define(code.block, pc, bytes);
            }
        } else {
            plan.take_code();
        }
    }

    /// Keeps of what came after `start`, which one thread has done, what is in a window.
    fn keep(&mut self, index: usize, start: Mark) {
        let active = &mut self.rings[index];
        let batch = self.output.batch();
        let header = self.shared.header();
        if let Some(kept) = self.windows.keep(
            batch,
            start,
            &mut active.left_out,
            &mut self.touches,
            header,
        ) {
            active.thread.forget_all_but(kept);
        }
    }

    /// Says what the thread has left out, if anything, before a control event.
    fn say_left_out(&mut self, index: usize) {
        let active = &mut self.rings[index];
        if let Some(control) = active.left_out.take() {
            self.output.control(control);
            if let Some(process) = self.processes.get(&active.process)
                && let Some(control) = self.touches.tell(process.number())
            {
                self.output.control(control);
            }
        }
    }

    /// Adds a control event of a process.
    fn say(&mut self, process: u32, control: Control) {
        self.touches.control(process, &control);
        self.output.control(control);
    }

    /// Accesses so far.
    pub(crate) fn accesses(&self) -> u64 {
        self.output.accesses()
    }

    /// Instructions so far.
    pub(crate) fn instructions(&self) -> u64 {
        let running: u64 = self
            .rings
            .iter()
            .map(|active| active.thread.instructions())
            .sum();
        self.instructions + running
    }

    /// Threads so far.
    pub(crate) fn threads(&self) -> u64 {
        self.threads
    }

    /// Processes so far.
    pub(crate) fn processes(&self) -> u64 {
        self.processes.len() as u64
    }

    /// The programs that were started.
    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Number of allocation sites.
    pub(crate) fn allocation_sites(&self) -> usize {
        self.allocations.len()
    }

    /// Has the ends of processes be looked for as soon as a parent waits for one.
    pub(crate) fn watch(&mut self) {
        self.watches = true;
    }

    /// The calls that were refused.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The user should know this.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Notes for the user, and the output.
    pub(crate) fn finish(mut self) -> (Vec<String>, Output<S>) {
        // Processes that run on unrecorded have said something as well.
        for process in self.processes.values().filter(|process| !process.ended()) {
            let note = (self.code.generated).name(process.number(), process.pid(), self.began);
            self.notes.extend(note);
        }
        if self.output.with_code {
            let definitions = &mut self.output.batch().definitions;
            definitions.extend(self.code.generated.definitions());
        }
        (self.notes, self.output)
    }
}

impl<S: Sink + 'static> Following for Recording<'_, S> {
    fn round(&mut self) -> io::Result<bool> {
        let settled = self.shared.epoch();
        self.find_rings();
        for active in self.rings.iter_mut().filter(|active| !active.definitions) {
            active.reader.look();
        }
        // A block is defined before it is reported: what the cursors just read lead to has its
        // definitions by now, perhaps in a ring that has come into use since.
        self.find_rings();
        for active in self.rings.iter_mut().filter(|active| active.definitions) {
            active.reader.look();
        }
        // Whoever goes on unrecorded leaves out what others have answers to.
        self.shared.check_written()?;
        self.read_definitions();
        let mut progress = false;
        while let Some(epoch) = self.earliest().filter(|&epoch| epoch <= settled) {
            for index in 0..self.rings.len() {
                if self.rings[index].ready() && self.rings[index].epoch == epoch {
                    progress |= self.turn(index)?;
                }
            }
        }
        self.drop_ended()?;
        // A file of words says itself who ended, and when.
        if std::mem::take(&mut self.burials) && self.watches {
            self.bury_ended(None)?;
        }
        Ok(progress)
    }

    fn bury(&mut self, root: Option<i32>) -> io::Result<bool> {
        self.bury_ended(root)
    }

    fn living(&self) -> Vec<u32> {
        living(self.processes.values())
    }

    fn progress(&self) -> Progress {
        Progress {
            accesses: self.accesses(),
            instructions: self.instructions(),
            ..Progress::default()
        }
    }
}

/// Adds the block of a definition to the table.
fn define(plans: &mut Vec<Plan>, reader: &Reader<'_>, words: usize, reporting: Reporting) {
    let [number, pc, instructions] = [1, 2, 3].map(|index| reader.word(index));
    let bytes = reader.bytes(4..words + 1);
    let Some((lengths, code)) = bytes.split_at_checked(instructions as usize) else {
        return;
    };
    let number = number as usize;
    if plans.len() <= number {
        plans.resize_with(number + 1, Plan::default);
    }
    let block = Block::analyse(pc, lengths, code, reporting);
    plans[number] = Plan::new(block, lengths, code);
}

#[cfg(test)]
mod tests;
