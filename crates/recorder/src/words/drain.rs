//! Takes the words out of the rings and writes them to a file, in the order in which a recording would
//! have read them.
//!
//! It goes round as a [`Recording`](crate::recording::Recording) does, no further than the epoch in which a
//! round has begun, and says where each round ends. Of what the words say it follows only which processes
//! there are, and when they are gone.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagelab_recorder_wire::region::{RINGS, State};
use pagelab_recorder_wire::syscall::{Call, call};
use pagelab_recorder_wire::word::{Kind, PAYLOAD, SYSCALL_ARGS, Word};

use super::codec::{Encoder, Place};
use super::event::{Event, Opened};
use super::file::{Frame, FrameWriter};
use super::limit::Limit;
use crate::controls::Returned;
use crate::following::{FORK_CALLS, Following, waited_for};
use crate::in_order::WordReader;
use crate::process::{Process, living};
use crate::shared::{Reader, Shared};
use crate::{Ended, Progress, Stage, kernel};

/// Words taken from a ring at once: it has room again behind them.
const PART: usize = 16 * 1024;

/// A frame is written when it has so many bytes, or after a while: what is not written is lost if the
/// recorder is killed.
const FULL: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(1);

/// A round that has found less was too early.
const WORTHWHILE: u64 = 16 * 1024;

/// A ring in use.
struct Ring<'a> {
    opened: Opened,
    reader: Reader<'a>,
    place: Place,
    /// Another program runs in its process by now.
    replaced: bool,
    calls: Calls,
}

/// Everything taken so far.
pub(crate) struct Drain<'a> {
    shared: &'a Shared,
    rings: Vec<Ring<'a>>,
    /// Rings that are among these, by index.
    known: Vec<bool>,
    users: u64,
    lives: Lives,
    encoder: Encoder,
    frame: Frame,
    since: Instant,
    writer: FrameWriter,
    limit: Option<Limit>,
    words: u64,
    /// The epoch that a round goes to.
    settled: u64,
}

impl<'a> Drain<'a> {
    /// Drain of the program whose first thread uses ring 0. With a `limit`, nothing is reported
    /// behind it.
    pub(crate) fn new(
        shared: &'a Shared,
        writer: FrameWriter,
        pid: u32,
        limit: Option<Limit>,
    ) -> Drain<'a> {
        Drain {
            shared,
            rings: Vec::new(),
            known: vec![false; RINGS],
            users: 0,
            lives: Lives {
                processes: HashMap::from([(0, Process::new(0, pid))]),
                left: Vec::new(),
                unannounced: HashMap::new(),
            },
            encoder: Encoder::new(),
            frame: Frame::default(),
            since: Instant::now(),
            writer,
            limit,
            words: 0,
            settled: 0,
        }
    }

    /// Takes what there is; how many words there were.
    fn take(&mut self) -> io::Result<u64> {
        let before = self.words;
        self.settled = self.shared.epoch();
        let mut seen = self.find_rings();
        for ring in self
            .rings
            .iter_mut()
            .filter(|ring| !ring.opened.definitions)
        {
            ring.reader.look();
        }
        // A ring that the cursors just read lead to has its definitions by now.
        seen |= self.find_rings();
        for ring in self.rings.iter_mut().filter(|ring| ring.opened.definitions) {
            ring.reader.look();
        }
        // Whoever goes on unrecorded leaves out what others have answers to.
        self.shared.check_written()?;
        // If the file ends in between, blocks are there without what they are reported by, and not the
        // other way round.
        for definitions in [true, false] {
            for index in 0..self.rings.len() {
                if self.rings[index].opened.definitions == definitions {
                    self.take_from(index)?;
                }
            }
        }
        seen |= self.drop_ended()?;
        if self.words > before || seen {
            self.say(&Event::Round)?;
        }
        if self.since.elapsed() > PATIENCE {
            self.write()?;
        }
        if let Some(limit) = &self.limit
            && limit.close(self.shared.header())
        {
            self.limit = None;
        }
        Ok(self.words - before)
    }

    /// Notices rings that have come into use, and what they replace.
    fn find_rings(&mut self) -> bool {
        let used = self.shared.header().rings_used.0.load(Ordering::Acquire) as usize;
        let mut found = false;
        for index in 0..used {
            let state = self.shared.state(index);
            if self.known[index] || matches!(state, State::Free | State::Claimed) {
                continue;
            }
            self.known[index] = true;
            found = true;
            let reader = self.shared.reader(index);
            let header = reader.ring();
            let opened = Opened {
                user: self.users,
                index: index as u32,
                claimed: header.claimed.load(Ordering::Relaxed),
                process: header.process.load(Ordering::Relaxed),
                pid: header.pid.load(Ordering::Relaxed),
                tid: header.tid.load(Ordering::Relaxed),
                parent: header.parent.load(Ordering::Relaxed),
                first: header.first.load(Ordering::Relaxed) != 0,
                definitions: header.definitions.load(Ordering::Relaxed) != 0,
            };
            Event::Open(opened).put(&mut self.frame.events);
            self.users += 1;
            if opened.first {
                (self.lives).seen(opened.process, opened.parent, opened.pid);
                for ring in &mut self.rings {
                    let of = ring.opened;
                    ring.replaced |= of.process == opened.process && of.claimed < opened.claimed;
                }
            }
            self.rings.push(Ring {
                opened,
                reader,
                place: Place::default(),
                replaced: false,
                calls: Calls::default(),
            });
        }
        found
    }

    /// Takes what was seen of a ring.
    fn take_from(&mut self, index: usize) -> io::Result<()> {
        while !self.rings[index].reader.is_empty() {
            let ring = &mut self.rings[index];
            let words = ring.reader.available();
            let part = &words[..words.len().min(PART)];
            let out = &mut self.frame.streams;
            let codes = out.codes.len();
            let (mut done, mut items, mut damaged, mut early) = (0, 0, false, false);
            while done < part.len() {
                let used = self.encoder.words(&mut ring.place, &part[done..], out);
                items += used;
                done += used;
                let Some(&first) = part.get(done) else { break };
                let Word::Message(kind, payload) = Word::decode(first) else {
                    damaged = true;
                    break;
                };
                if kind == Kind::Wrap {
                    break;
                }
                // An epoch that no thread can have seen is none, and nothing to wait for. A program that has replaced
                // itself is read to its end before its rings are let go.
                if kind == Kind::Epoch
                    && payload > self.settled
                    && payload <= self.shared.epoch()
                    && !ring.replaced
                {
                    early = true;
                    break;
                }
                let end = done + 1 + Word::tail(kind, payload);
                let Some(message) = words.get(done..end) else {
                    damaged = true;
                    break;
                };
                self.encoder.message(message, out);
                if let Some(limit) = &mut self.limit {
                    limit.follow(kind, message);
                }
                let returned =
                    (self.lives).follow(&mut ring.calls, ring.opened.process, kind, message);
                let header = self.shared.header();
                if let Some(returned) = returned
                    && header.reporting.0.load(Ordering::Relaxed) == 0
                {
                    // The plugin does not know of what the kernel does, and windows count it.
                    let count = kernel::count(&returned, &ring.calls.vectors);
                    header.left.0.fetch_sub(count as i64, Ordering::AcqRel);
                }
                items += 1;
                done = end;
            }
            self.encoder.end();
            if let Some(limit) = &mut self.limit {
                limit.count(&words[..done]);
            }
            let user = ring.opened.user;
            let codes = (out.codes.len() - codes) as u32;
            ring.reader.advance_by(done);
            self.words += done as u64;
            if damaged {
                let text = format!("a ring is damaged: {:x}", ring.reader.peek());
                Event::Note(text).put(&mut self.frame.events);
            }
            if damaged {
                ring.reader.give_up();
            } else if early {
                ring.reader.postpone();
            }
            ring.reader.release();
            if items > 0 {
                let items = items as u32;
                self.say(&Event::Words { user, items, codes })?;
            }
        }
        Ok(())
    }

    /// Lets rings go that will not be written to any more and were read to their ends. Whether any was.
    fn drop_ended(&mut self) -> io::Result<bool> {
        for index in 0..self.rings.len() {
            if self.rings[index].replaced {
                self.rings[index].reader.look_finally();
                self.take_from(index)?;
            }
        }
        let shared = self.shared;
        let mut any = false;
        for index in 0..self.rings.len() {
            let ring = &self.rings[index];
            // Whatever was written before the state changed is visible now.
            if shared.state(ring.opened.index as usize) == State::Ended
                && !ring.opened.definitions
                && ring.reader.has_caught_up()
            {
                any = true;
                let user = ring.opened.user;
                self.say(&Event::Ended { user })?;
                self.rings[index].replaced = true;
            }
        }
        self.let_go(|ring| ring.replaced);
        Ok(any)
    }

    fn let_go(&mut self, which: impl Fn(&Ring<'_>) -> bool) {
        for ring in self.rings.extract_if(.., |ring| which(ring)) {
            self.known[ring.opened.index as usize] = false;
            self.shared.free(ring.opened.index as usize);
        }
    }

    fn say(&mut self, event: &Event) -> io::Result<()> {
        event.put(&mut self.frame.events);
        if self.frame.len() > FULL {
            self.write()?;
        }
        Ok(())
    }

    pub(super) fn write(&mut self) -> io::Result<()> {
        self.since = Instant::now();
        if self.frame.len() > 0 {
            let frame = std::mem::take(&mut self.frame);
            self.frame = self.writer.write(frame)?;
        }
        Ok(())
    }

    /// A process is gone, with this status: everything it wrote is in the rings, and nothing more will come.
    pub(crate) fn gone(&mut self, process: u32, status: i32) -> io::Result<()> {
        // Others may go on writing for hours.
        let is_unread =
            |ring: &Ring<'_>| ring.opened.process == process && !ring.reader.has_caught_up();
        while self.rings.iter().any(is_unread) && self.take()? > 0 {}
        self.say(&Event::Gone { process, status })?;
        self.let_go(|ring| ring.opened.process == process);
        self.lives.end(process);
        Ok(())
    }

    /// Nothing more comes: what became of the program. Returns the bytes of the file.
    pub(crate) fn finish(mut self, ended: Ended) -> io::Result<u64> {
        match ended {
            Ended::Status(number) => self.say(&Event::End {
                signal: false,
                number,
            })?,
            Ended::Signal(number) => self.say(&Event::End {
                signal: true,
                number,
            })?,
            Ended::Unknown => {}
        }
        self.write()?;
        self.writer.close()
    }
}

impl Following for Drain<'_> {
    fn round(&mut self) -> io::Result<bool> {
        Ok(self.take()? >= WORTHWHILE)
    }

    fn bury(&mut self, root: Option<i32>) -> io::Result<bool> {
        let keys: Vec<u32> = self.lives.processes.keys().copied().collect();
        for key in keys {
            let process = self.lives.processes.get_mut(&key);
            let forking = || self.shared.is_forking(key);
            if let Some(status) = process.and_then(|process| process.gone(root, forking)) {
                self.gone(key, status)?;
            }
        }
        Ok(self.lives.processes.values().all(Process::ended))
    }

    fn living(&self) -> Vec<u32> {
        living(self.lives.processes.values())
    }

    fn progress(&self) -> Progress {
        Progress {
            stage: Stage::Words(self.words),
            ..Progress::default()
        }
    }
}

/// Processes that there are, and how they end, as far as messages say so.
struct Lives {
    /// By the number that the plugin gave it.
    processes: HashMap<u32, Process>,
    /// With which status a thread has left, and whether with all others, of processes of which their parents
    /// have said nothing yet: whose words come first is not known.
    left: Vec<(u32, i32, bool)>,
    /// Processes of which their parents have said nothing yet: their parents, and their numbers in the system.
    unannounced: HashMap<u32, (u32, u32)>,
}

/// The system call of a thread that is in progress, and what the last one of the clone family returned.
#[derive(Clone, Debug, Default)]
struct Calls {
    current: Option<(u64, [u64; 6])>,
    vectors: Vec<(u64, u64)>,
    child: u32,
}

impl Lives {
    /// The first thread of a process does something, or of a new program in it.
    fn seen(&mut self, process: u32, parent: u32, pid: u32) {
        if self.processes.contains_key(&process) {
            return;
        }
        if self.processes.get(&parent).is_some_and(Process::ended) {
            self.begin(process, pid);
        } else {
            self.unannounced.entry(process).or_insert((parent, pid));
        }
    }

    /// There is a process, which the system knows by `pid`.
    fn begin(&mut self, key: u32, pid: u32) {
        let mut process = Process::new(key, pid);
        for (_, status, whole) in self.left.extract_if(.., |(of, ..)| *of == key) {
            process.leaves(status, whole);
        }
        self.unannounced.remove(&key);
        self.processes.insert(key, process);
    }

    /// Process `key` has ended. It was killed before it came to say what it has forked last, if there is such a child.
    fn end(&mut self, key: u32) {
        if let Some(process) = self.processes.get_mut(&key) {
            process.end();
        }
        let orphans = self.unannounced.iter();
        let orphans = orphans.filter(|&(_, &(parent, _))| parent == key);
        let orphans: Vec<_> = orphans.map(|(&child, &(_, pid))| (child, pid)).collect();
        for (child, pid) in orphans {
            self.begin(child, pid);
        }
    }

    /// Takes note of a message of a thread of process `own`. Returns a call that has returned.
    fn follow(
        &mut self,
        calls: &mut Calls,
        own: u32,
        kind: Kind,
        message: &[u64],
    ) -> Option<Returned> {
        let payload = message[0] & PAYLOAD;
        match kind {
            Kind::Syscall => {
                let arguments = std::array::from_fn::<u64, SYSCALL_ARGS, _>(|at| message[1 + at]);
                calls.current = Some((payload, arguments));
                calls.vectors.clear();
            }
            Kind::Vector => calls.vectors.push((message[1], message[2])),
            Kind::SyscallReturn => {
                let returned = Returned::of(calls.current.take()?, message[1], message[2]);
                if FORK_CALLS.contains(&returned.number) && !returned.failed() {
                    calls.child = returned.result as u32;
                } else if let Some((pid, status)) = waited_for(&returned) {
                    for process in self.processes.values_mut() {
                        process.waited_for(pid, status);
                    }
                }
                return Some(returned);
            }
            Kind::Forked => {
                self.begin(payload as u32, calls.child);
            }
            Kind::ThreadEnd => {
                if let Some((number, arguments)) = calls.current
                    && matches!(call(number), Call::Exit | Call::ExitGroup)
                {
                    let (status, whole) =
                        (arguments[0] as i32 & 0xff, call(number) == Call::ExitGroup);
                    match self.processes.get_mut(&own) {
                        Some(process) => process.leaves(status, whole),
                        None => self.left.push((own, status, whole)),
                    }
                }
            }
            _ => {}
        }
        None
    }
}
