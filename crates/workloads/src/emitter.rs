//! Loads and stores of a program's kernel.

use pagelab_events::{Access, Batch, Control, Op, dependence};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

/// Accesses of one batch.
const BATCH: u64 = 4096;

/// Accesses left out after which an empty batch says that the program is still running.
const SIGN_OF_LIFE: u64 = 1 << 22;

/// A load, as what made an address: its place in program order, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loaded(u64);

impl Loaded {
    /// No load: the address was known.
    pub(crate) const NONE: Loaded = Loaded(0);
}

/// The payload of the unwinding that ends a kernel early: nobody wants more of it.
struct Stop;

/// Channels to which full batches go and from which empty ones come.
pub(crate) struct Output {
    pub(crate) batches: SyncSender<Batch>,
    pub(crate) used: Receiver<Batch>,
}

/// Takes a kernel's accesses, in program order, and makes events of those that are wanted.
///
/// A kernel calls [`Emitter::load`] and [`Emitter::store`] for every access, wanted or not: leaving
/// one out costs two additions. Once nothing more is wanted, the call does not return; the kernel
/// is unwound.
pub(crate) struct Emitter {
    output: Output,
    /// Windows that are wanted later, in order.
    windows: VecDeque<(u64, u64)>,
    /// The window that is open or next.
    window: (u64, u64),
    batch: Batch,
    emitting: bool,
    /// Accesses so far.
    count: u64,
    /// The count at which [`Emitter::turn`] has something to do.
    turn: u64,
    /// The last access that was left out: no dependence reaches back to it.
    hidden: u64,
    skipped_instructions: u64,
}

impl Emitter {
    /// One that makes events of the accesses of each `(start, end)`, counted from 0.
    pub(crate) fn new(output: Output, windows: Vec<(u64, u64)>) -> Self {
        Emitter {
            output,
            windows: windows.into(),
            window: (0, 0),
            batch: Batch::default(),
            emitting: false,
            count: 0,
            turn: 0,
            hidden: 0,
            skipped_instructions: 0,
        }
    }

    /// One that only counts, up to `limit`.
    pub(crate) fn counting(output: Output, limit: u64) -> Self {
        Self::new(output, vec![(limit, limit)])
    }

    /// Runs a program from its start, to its end or until nothing more of it is wanted. Returns
    /// whether it came to its end.
    pub(crate) fn run(&mut self, kernel: &dyn Fn(&mut Emitter)) -> bool {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            self.next_window();
            self.turn();
            kernel(self);
        }));
        match ended {
            Ok(()) => true,
            Err(payload) if payload.is::<Stop>() => false,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Accesses so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// A load of `size` bytes, `gap` instructions after the last access, from an address that
    /// `from` made.
    #[inline(always)]
    pub(crate) fn load(&mut self, addr: u64, size: u16, gap: u32, from: Loaded) -> Loaded {
        self.access(addr, Op::load(size), gap, from)
    }

    /// A store; see [`Emitter::load`].
    #[inline(always)]
    pub(crate) fn store(&mut self, addr: u64, size: u16, gap: u32, from: Loaded) {
        self.access(addr, Op::store(size), gap, from);
    }

    #[inline(always)]
    fn access(&mut self, addr: u64, op: Op, gap: u32, from: Loaded) -> Loaded {
        self.count += 1;
        if self.emitting {
            let back = self.count - from.0;
            // A load that lies farther back has long been answered.
            let known = from.0 > self.hidden && back <= dependence::FARTHEST.into();
            let dep = if known { back as u32 } else { 0 };
            self.batch.push(Access { addr, op, gap, dep });
        } else {
            self.skipped_instructions += u64::from(gap) + 1;
        }
        if self.count == self.turn {
            self.turn();
        }
        Loaded(self.count)
    }

    #[cold]
    #[inline(never)]
    fn turn(&mut self) {
        if self.emitting {
            self.send();
            if self.count < self.window.1 {
                self.begin_batch();
                return;
            }
            self.emitting = false;
            self.hidden = self.count;
            self.next_window();
        }
        if self.count < self.window.0 {
            self.turn = self.window.0.min(self.count + SIGN_OF_LIFE);
            if let Err(TrySendError::Disconnected(_)) =
                self.output.batches.try_send(Batch::default())
            {
                resume_unwind(Box::new(Stop));
            }
            return;
        }
        if self.window.0 == self.window.1 {
            self.next_window();
        }
        self.emitting = true;
        self.begin_batch();
        self.batch.push_control(Control::Skipped {
            instructions: std::mem::take(&mut self.skipped_instructions),
            accesses: self.count - self.hidden,
        });
        self.hidden = self.count;
    }

    fn next_window(&mut self) {
        match self.windows.pop_front() {
            Some(window) => self.window = window,
            None => resume_unwind(Box::new(Stop)),
        }
    }

    fn begin_batch(&mut self) {
        self.batch = self.output.used.try_recv().unwrap_or_default();
        self.batch.clear();
        self.batch.push_control(Control::Thread { thread: 0 });
        // A dependence is 32 bits: none reaches as far back as that.
        self.hidden = self.hidden.max(self.count.saturating_sub(1 << 31));
        self.turn = self.window.1.min(self.count + BATCH);
    }

    fn send(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if self.output.batches.send(batch).is_err() {
            resume_unwind(Box::new(Stop));
        }
    }

    /// The program's end. Returns what it wrote to.
    pub(crate) fn finish(mut self) -> Output {
        if !self.emitting {
            self.batch = Batch::default();
            self.batch.push_control(Control::Thread { thread: 0 });
        }
        self.batch.push_control(Control::Exit { status: 0 });
        // Whoever does not listen any more needs no end either.
        let _ = self.output.batches.send(self.batch);
        self.output
    }

    /// Ends a count. Returns what batches would be written to.
    pub(crate) fn into_output(self) -> Output {
        self.output
    }
}
