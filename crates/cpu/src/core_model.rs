use crate::Stalls;
use serde::{Deserialize, Serialize};

/// Parameters of a core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreConfig {
    /// Clock frequency in GHz.
    pub ghz: f64,
    /// Instructions dispatched and retired per cycle.
    pub width: u32,
    /// Entries of the reorder buffer.
    pub reorder_buffer: u32,
    /// Entries of the store buffer.
    pub store_buffer: u32,
    /// First-level misses under way at a time (line-fill buffers).
    pub miss_buffers: u32,
    /// Page walks under way at a time.
    pub walkers: u32,
}

/// Why a core cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CoreError {
    /// A count is 0 or too large.
    #[error("core.{key} = {value} is not between 1 and {limit}")]
    Count {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u32,
        /// The largest value.
        limit: u32,
    },
    /// The frequency is not a positive number.
    #[error("core.ghz = {0} is not a positive number")]
    Frequency(f64),
}

impl CoreConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// [`CoreError`] names the first key that is out of range.
    pub fn check(&self) -> Result<(), CoreError> {
        for (key, value, limit) in [
            ("width", self.width, 64),
            ("reorder_buffer", self.reorder_buffer, WINDOW as u32 - 1),
            ("store_buffer", self.store_buffer, 4096),
            ("miss_buffers", self.miss_buffers, 4096),
            ("walkers", self.walkers, 64),
        ] {
            if value == 0 || value > limit {
                return Err(CoreError::Count { key, value, limit });
            }
        }
        if !(self.ghz.is_finite() && self.ghz > 0.0) {
            return Err(CoreError::Frequency(self.ghz));
        }
        Ok(())
    }
}

/// Accesses remembered: more than any reorder buffer holds, so that whatever lies further back
/// has retired.
const WINDOW: usize = 1024;

/// The state of one access between its dispatch and its completion. Times are in slots.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// When it could start: dispatched, and its address known.
    pub start: u64,
    /// Instructions that retire with it at the latest: its gap and itself.
    instructions: u64,
    /// Time of `start..` that went into faults, without migrations.
    pub fault: u64,
    /// Time of `start..` that went into migrations.
    pub migration: u64,
}

/// One core's clock.
///
/// Time is counted in *slots*, `width` to a cycle, so that dispatching an instruction takes one
/// slot and everything stays an integer. Every access goes through [`Core::dispatch`], is timed
/// by the caller from [`Part::start`] on, and ends in [`Core::complete`].
#[derive(Clone, Debug)]
pub struct Core {
    reorder_buffer: u64,
    width: u64,
    /// Instructions so far.
    instructions: u64,
    /// When the last instruction was dispatched.
    dispatched: u64,
    /// When the last instruction retired.
    retired: u64,
    /// Accesses so far: the next one's place in `completed` is this modulo the window.
    accesses: usize,
    /// When each of the last accesses had its data.
    completed: Box<[u64; WINDOW]>,
    /// The last accesses as (instruction number, retirement), the oldest that is still in the
    /// reorder buffer at `oldest`.
    retirements: Box<[(u64, u64); WINDOW]>,
    oldest: usize,
    /// The instruction and time that left the reorder buffer last.
    left: (u64, u64),
    last_start: u64,
    stores: Ring,
    last_commit: u64,
    misses: Ring,
    walkers: Vec<u64>,
    stalls: Stalls,
}

/// The times at which the last few users of a resource give it back, oldest first.
#[derive(Clone, Debug)]
struct Ring {
    free_at: Vec<u64>,
    next: usize,
}

impl Ring {
    fn new(places: u32) -> Self {
        Ring {
            free_at: vec![0; places as usize],
            next: 0,
        }
    }

    /// When the place that the next user takes is free.
    #[inline(always)]
    fn free(&self) -> u64 {
        self.free_at[self.next]
    }

    #[inline(always)]
    fn take_until(&mut self, time: u64) {
        self.free_at[self.next] = time;
        self.next += 1;
        if self.next == self.free_at.len() {
            self.next = 0;
        }
    }
}

impl Core {
    /// A core at time 0.
    ///
    /// # Errors
    /// What [`CoreConfig::check`] finds.
    pub fn new(config: &CoreConfig) -> Result<Self, CoreError> {
        config.check()?;
        Ok(Core {
            reorder_buffer: u64::from(config.reorder_buffer),
            width: u64::from(config.width),
            instructions: 0,
            dispatched: 0,
            retired: 0,
            accesses: 0,
            completed: Box::new([0; WINDOW]),
            retirements: Box::new([(0, 0); WINDOW]),
            oldest: 0,
            left: (0, 0),
            last_start: 0,
            stores: Ring::new(config.store_buffer),
            last_commit: 0,
            misses: Ring::new(config.miss_buffers),
            walkers: vec![0; config.walkers as usize],
            stalls: Stalls::default(),
        })
    }

    /// Dispatches the instructions of a gap and the access after it, whose address was made by
    /// the load `dep` accesses back (0: by none that is still under way).
    #[inline(always)]
    pub fn dispatch(&mut self, gap: u32, dep: u32, store: bool) -> Part {
        let instructions = u64::from(gap) + 1;
        self.instructions += instructions;
        let mut time = self.dispatched + instructions;
        // The reorder buffer takes this instruction when the one `reorder_buffer` before it
        // has retired; between two accesses, instructions retire one a slot.
        let leaving = self.instructions.saturating_sub(self.reorder_buffer);
        while self.oldest < self.accesses && self.retirements[self.oldest % WINDOW].0 <= leaving {
            self.left = self.retirements[self.oldest % WINDOW];
            self.oldest += 1;
        }
        if leaving > 0 {
            time = time.max(self.left.1 + (leaving - self.left.0));
        }
        if store {
            time = time.max(self.stores.free());
        }
        self.dispatched = time;
        let dep = dep as usize;
        let start = if dep == 0 || dep > self.accesses.min(WINDOW - 1) {
            time
        } else {
            time.max(self.completed[(self.accesses - dep) % WINDOW])
        };
        self.last_start = start;
        Part {
            start,
            instructions,
            fault: 0,
            migration: 0,
        }
    }

    /// The second and later lines of an access that straddles lines: they start with the first.
    #[inline]
    pub fn dispatch_rest(&mut self) -> Part {
        self.accesses -= 1;
        Part {
            start: self.last_start,
            instructions: 0,
            fault: 0,
            migration: 0,
        }
    }

    /// Traps into the kernel at `time` for `fault + migration` slots: everything older retires
    /// first, nothing younger starts before. Returns when the access starts again.
    pub fn trap(&mut self, part: &mut Part, time: u64, fault: u64, migration: u64) -> u64 {
        let entered = time.max(self.retired + part.instructions);
        // What it waits for older instructions is not its own latency.
        part.start += entered - time;
        part.fault += fault;
        part.migration += migration;
        let back = entered + fault + migration;
        self.dispatched = self.dispatched.max(back);
        back
    }

    /// When a page walk that is asked for at `time` finds a free walker, and which.
    #[inline]
    pub fn walker(&self, time: u64) -> (usize, u64) {
        let mut first = 0;
        for walker in 1..self.walkers.len() {
            if self.walkers[walker] < self.walkers[first] {
                first = walker;
            }
        }
        (first, time.max(self.walkers[first]))
    }

    /// A walker is busy until `time`.
    #[inline]
    pub fn walked(&mut self, walker: usize, time: u64) {
        self.walkers[walker] = time;
    }

    /// When a first-level miss at `time` finds a free miss buffer.
    #[inline(always)]
    pub fn miss_buffer(&self, time: u64) -> u64 {
        time.max(self.misses.free())
    }

    /// The miss buffer is busy until `time`.
    #[inline(always)]
    pub fn missed(&mut self, time: u64) {
        self.misses.take_until(time);
    }

    /// Ends an access whose translation was there at `translated` and whose data at `done`.
    ///
    /// A load retires when it has its data; a store when it has its translation, and then waits
    /// in the store buffer, which drains in order, for its line.
    #[inline(always)]
    pub fn complete(&mut self, part: Part, store: bool, translated: u64, done: u64) {
        let unstalled = self.retired + part.instructions;
        let ready = if store { translated } else { done };
        let retired = unstalled.max(ready);
        if retired > unstalled {
            let translation = translated - part.start - part.fault - part.migration;
            self.stalls.charge(
                retired - unstalled,
                translation,
                ready - translated,
                part.fault,
                part.migration,
            );
        }
        self.retired = retired;
        if store {
            self.last_commit = (self.last_commit + self.width).max(retired).max(done);
            self.stores.take_until(self.last_commit);
        }
        let place = self.accesses % WINDOW;
        self.completed[place] = if part.instructions == 0 {
            self.completed[place].max(done)
        } else {
            done
        };
        self.retirements[place] = (self.instructions, retired);
        self.accesses += 1;
    }

    /// Spends time in the kernel between two accesses (a system call): nothing overlaps it.
    pub fn kernel(&mut self, time: u64, migration: u64) {
        self.retired += time + migration;
        self.dispatched = self.dispatched.max(self.retired);
        self.stalls.faults += time;
        self.stalls.migrations += migration;
    }

    /// The time at which the last instruction retired, in slots.
    #[inline]
    pub fn now(&self) -> u64 {
        self.retired
    }

    /// Instructions retired so far.
    #[inline]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Slots in a cycle.
    #[inline]
    pub fn slots_per_cycle(&self) -> u64 {
        self.width
    }

    /// Where retirement stood still so far.
    pub fn stalls(&self) -> Stalls {
        self.stalls
    }
}
