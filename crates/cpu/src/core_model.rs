use crate::Stalls;
use crate::config::{CoreConfig, CoreError, WINDOW};
use crate::front_end::{FrontEnd, HeldBack};
use crate::servers::{Grant, Idle, Servers};
use crate::store_buffer::StoreBuffer;
use crate::under_way::UnderWay;
use crate::waits::Waits;
use crate::wrong_paths::WrongPaths;

mod branches;

/// Not known yet.
pub const UNKNOWN: u64 = u64::MAX;

/// The state of one access between its dispatch and its completion. Times are in slots.
#[derive(Clone, Copy, Debug, Default)]
pub struct RobEntry {
    /// When it could start: dispatched, and its address known.
    pub start: u64,
    /// The number of its instruction.
    pub number: u64,
    /// Instructions that retire with it at the latest: its gap and itself.
    instructions: u64,
    /// When what these compute is done.
    computed: u64,
}

/// Part of an access's time that the kernel took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trapped {
    /// In faults, without migrations.
    pub fault: u64,
    /// In migrations.
    pub migration: u64,
}

/// One core's clock.
///
/// Time is counted in *slots*, `width` to a cycle, so that dispatching an instruction takes one
/// slot and everything stays an integer. Every access goes through [`Core::dispatch`], is timed
/// by the caller from [`RobEntry::start`] on, and ends in [`Core::complete`].
#[derive(Clone, Debug)]
pub struct Core {
    /// Instructions that it holds, the one that is dispatched next among them.
    reorder_buffer: u64,
    width: u64,
    /// Instructions so far, and further accesses of one, each of which takes a slot of its own.
    instructions: u64,
    /// Further accesses of an instruction, part of `instructions`.
    continued: u64,
    /// When the last instruction was dispatched.
    dispatched: u64,
    /// When the last instruction retired.
    retired: u64,
    /// Accesses dispatched so far: the next one's place in `completed` is this modulo the window.
    accesses: usize,
    /// Accesses of those that have ended, and stores that have not.
    ended: usize,
    stores_under_way: usize,
    /// When each of the last accesses had its data, or [`UNKNOWN`].
    completed: Box<[u64; WINDOW]>,
    /// The last accesses as (instruction number, retirement), the oldest that is still in the
    /// reorder buffer at `oldest`.
    retirements: Box<[(u64, u64); WINDOW]>,
    oldest: usize,
    /// The instruction and time that left the reorder buffer last.
    left: (u64, u64),
    last_start: u64,
    stores: StoreBuffer,
    miss_buffers: Servers,
    l2_miss_buffers: Option<Servers>,
    walkers: Servers,
    /// Lines and translations that were asked for and may not be there yet.
    pub under_way: UnderWay,
    /// Cost of a mispredicted branch, in slots.
    misprediction: u64,
    /// Time of a load that hits the first level, in slots.
    hit: u64,
    /// Front end, which may hold dispatch back.
    front_end: FrontEnd,
    wrong_paths: WrongPaths,
    /// Slots in which retirement waited for arithmetic.
    waited: u64,
    stalls: Stalls,
}

impl Core {
    /// A core at time 0, of which a load takes `hit` slots that hits the first level.
    ///
    /// # Errors
    /// What [`CoreConfig::check`] finds.
    pub fn new(config: &CoreConfig, hit: u64) -> Result<Self, CoreError> {
        config.check()?;
        Ok(Core {
            reorder_buffer: u64::from(config.reorder_buffer),
            width: u64::from(config.width),
            instructions: 0,
            continued: 0,
            dispatched: 0,
            retired: 0,
            accesses: 0,
            ended: 0,
            stores_under_way: 0,
            completed: Box::new([0; WINDOW]),
            retirements: Box::new([(0, 0); WINDOW]),
            oldest: 0,
            left: (0, 0),
            last_start: 0,
            stores: StoreBuffer::new(config),
            miss_buffers: Servers::new(config.miss_buffers),
            l2_miss_buffers: config.l2_miss_buffers.map(Servers::new),
            walkers: Servers::new(config.walkers),
            under_way: UnderWay::new(),
            misprediction: u64::from(config.misprediction) * u64::from(config.width),
            hit,
            front_end: FrontEnd::new(),
            wrong_paths: WrongPaths::new(),
            waited: 0,
            stalls: Stalls::default(),
        })
    }

    /// With the access that is dispatched next the core holds so many instructions: all that its reorder
    /// buffer takes, until something else runs out before.
    #[inline(always)]
    pub fn look_ahead(&mut self, instructions: u32) {
        self.reorder_buffer = instructions.into();
    }

    /// Dispatches the instructions of a gap and the access after it.
    #[inline(always)]
    pub fn dispatch(&mut self, gap: u32, waits: Waits, store: bool) -> RobEntry {
        let instructions = u64::from(gap) + 1;
        self.instructions += instructions;
        let time = self.dispatch_time(instructions, self.instructions, store);
        self.dispatched = time;
        let start = self.loaded(self.accesses, waits, time);
        self.completed[self.accesses % WINDOW] = UNKNOWN;
        self.accesses += 1;
        self.stores_under_way += usize::from(store);
        self.last_start = start;
        RobEntry {
            start,
            number: self.instructions,
            instructions,
            computed: waits.computed.done,
        }
    }

    /// When instruction `number` is dispatched, so many after the last one.
    #[inline(always)]
    fn dispatch_time(&mut self, instructions: u64, number: u64, store: bool) -> u64 {
        let mut time = self.dispatched + instructions;
        // The reorder buffer takes this instruction when the one `reorder_buffer` before it
        // has retired; between two accesses, instructions retire one a slot.
        let leaving = number.saturating_sub(self.reorder_buffer);
        while self.oldest < self.ended && self.retirements[self.oldest % WINDOW].0 <= leaving {
            self.left = self.retirements[self.oldest % WINDOW];
            self.oldest += 1;
        }
        if leaving > 0 {
            time = time.max(self.left.1 + (leaving - self.left.0));
        }
        if store {
            time = time.max(self.stores.free_after(self.stores_under_way));
        }
        time
    }

    /// The start of an access that was just dispatched, once what it waits for may have ended.
    #[inline(always)]
    pub fn started(&mut self, entry: RobEntry, waits: Waits) -> RobEntry {
        let mut entry = entry;
        if entry.start == UNKNOWN {
            entry.start = self.loaded(self.accesses - 1, waits, self.dispatched);
            self.last_start = entry.start;
        }
        entry
    }

    /// When access `access` has what it waits for, at `time` at the earliest; [`UNKNOWN`] while one of its
    /// loads is under way.
    #[inline(always)]
    pub fn loaded(&self, access: usize, waits: Waits, time: u64) -> u64 {
        let ([near, far], [near_arithmetic, far_arithmetic]) = (waits.loads, waits.arithmetic);
        let mut time = time.max(waits.computed.address);
        // A time that is not known is so after any arithmetic.
        let ends = |load: usize, arithmetic: u16| {
            self.completed[load % WINDOW].saturating_add(arithmetic.into())
        };
        if let Some(load) = self.remembered(access, near) {
            time = time.max(ends(load, near_arithmetic));
        }
        // Few accesses wait for two.
        if far != 0
            && let Some(load) = self.remembered(access, far)
        {
            time = time.max(ends(load, far_arithmetic));
        }
        time
    }

    /// One of the loads so many accesses before access `access` that has not brought its data.
    #[inline(always)]
    pub fn waits_for(&self, access: usize, loads: [u32; 2]) -> Option<u32> {
        loads.into_iter().find(|&distance| {
            self.remembered(access, distance)
                .is_some_and(|load| self.completed[load % WINDOW] == UNKNOWN)
        })
    }

    /// The access so many before access `access`, if it may still be under way: what is not remembered
    /// has retired.
    #[inline(always)]
    fn remembered(&self, access: usize, distance: u32) -> Option<usize> {
        let load = access.wrapping_sub(distance as usize);
        (load < access && self.accesses - load <= WINDOW).then_some(load)
    }

    /// When the next access can be dispatched, as far as that is known.
    pub fn next_dispatch(&mut self, gap: u32, store: bool) -> u64 {
        let number = self.instructions + u64::from(gap) + 1;
        self.dispatch_time(u64::from(gap) + 1, number, store)
    }

    /// The instructions before the access that is dispatched next, `gap` of them, and it are in a
    /// line that comes at `arrives`: nothing more is dispatched before.
    pub fn fetched(&mut self, arrives: u64, gap: u32) {
        if arrives > self.dispatched {
            let delay = arrives - self.dispatched;
            self.dispatched = arrives;
            let earliest = arrives + u64::from(gap) + 1;
            self.front_end.delay(self.accesses, delay, earliest);
        }
    }

    /// The store that is dispatched next is a locked instruction's.
    #[inline]
    pub fn locked(&mut self) {
        self.stores.lock(self.accesses);
    }

    /// Traps into the kernel at `time` since an instruction cannot be fetched: everything older has
    /// retired first. Returns when it is fetched again; waiting for that is for the next
    /// [`Core::fetched`] to charge.
    pub fn trap_fetch(&mut self, time: u64, trapped: Trapped) -> u64 {
        let Trapped { fault, migration } = trapped;
        let again = self.dispatched_again(self.accesses, self.instructions + 1);
        let back = time.max(self.retired).max(again) + fault + migration;
        self.retired += fault + migration;
        self.stalls.faults += fault;
        self.stalls.migrations += migration;
        // Nothing retires in the kernel either, so that what follows is not late for that.
        self.dispatched += fault + migration;
        back
    }

    /// True if it is known when the next access can be dispatched: everything has ended that has to
    /// retire before.
    #[inline(always)]
    pub fn knows_dispatch(&self, gap: u32, store: bool, oldest: u64) -> bool {
        let leaving = (self.instructions + u64::from(gap) + 1).saturating_sub(self.reorder_buffer);
        oldest > leaving && (!store || self.stores_under_way < self.stores.places())
    }

    /// When the last access was dispatched.
    #[inline(always)]
    pub fn dispatched(&self) -> u64 {
        self.dispatched
    }

    /// Number of accesses that were dispatched.
    #[inline(always)]
    pub fn dispatched_accesses(&self) -> usize {
        self.accesses
    }

    /// An access has its data, so that others may start.
    #[inline(always)]
    pub fn has_data(&mut self, access: usize, done: u64) {
        self.completed[access % WINDOW] = done;
    }

    /// The second and later lines of an access that straddles lines: they start with the first.
    #[inline]
    pub fn dispatch_rest(&mut self, store: bool, ended: bool) -> RobEntry {
        if ended {
            self.stores_under_way += usize::from(store);
            self.ended -= 1;
        }
        RobEntry {
            start: self.last_start,
            number: self.instructions,
            instructions: 0,
            computed: 0,
        }
    }

    /// When an instruction that traps is dispatched at the last: on a wrong path it is thrown away before
    /// it gets into the kernel. Whatever the branches before it wait for has ended.
    fn dispatched_again(&mut self, access: usize, number: u64) -> u64 {
        if !self.on_wrong_path() {
            return 0;
        }
        self.decide();
        self.wrong_paths.again(access, number)
    }

    /// Traps into the kernel at `time` for `fault + migration` slots: everything older retires
    /// first, nothing younger starts before. Returns when the access starts again.
    pub fn trap(&mut self, entry: &mut RobEntry, time: u64, trapped: Trapped) -> u64 {
        let entered = time.max(self.retired + entry.instructions);
        let entered = entered.max(entry.computed);
        let entered = entered.max(self.dispatched_again(self.accesses - 1, entry.number));
        // Waiting for older instructions is not its own latency.
        entry.start += entered - time;
        let back = entered + trapped.fault + trapped.migration;
        self.dispatched = self.dispatched.max(back);
        back
    }

    /// When a page walk that is asked for at `time` and takes about `length` finds a free walker.
    #[inline(always)]
    pub fn walker(&self, time: u64, length: impl FnOnce() -> u64) -> Grant {
        self.walkers.grant(time, length)
    }

    /// The walker is busy until `time`.
    #[inline(always)]
    pub fn walked(&mut self, walker: Grant, time: u64, idle: Idle) {
        self.walkers.hold(walker, time, idle);
    }

    /// When a first-level miss at `time` that takes about `length` finds a free miss buffer.
    #[inline(always)]
    pub fn miss_buffer(&self, time: u64, length: impl FnOnce() -> u64) -> Grant {
        self.miss_buffers.grant(time, length)
    }

    /// The miss buffer is busy until `time`.
    #[inline(always)]
    pub fn missed(&mut self, buffer: Grant, time: u64, idle: Idle) {
        self.miss_buffers.hold(buffer, time, idle);
    }

    /// True if the second level's misses take buffers that are counted: to be asked first, since a call for each miss
    /// costs a machine without the key 1 % of its instructions.
    #[inline(always)]
    pub fn bounds_l2_misses(&self) -> bool {
        self.l2_miss_buffers.is_some()
    }

    /// When a second-level miss at `time` that takes about `length` finds a free buffer, where these
    /// are counted.
    #[inline]
    pub fn l2_miss_buffer(&self, time: u64, length: impl FnOnce() -> u64) -> Option<Grant> {
        let buffers = self.l2_miss_buffers.as_ref();
        buffers.map(|buffers| buffers.grant(time, length))
    }

    /// The buffer is busy until `time`.
    #[inline]
    pub fn l2_missed(&mut self, buffer: Grant, time: u64, idle: Idle) {
        if let Some(buffers) = &mut self.l2_miss_buffers {
            buffers.hold(buffer, time, idle);
        }
    }

    /// Ends an access whose translation was there at `translated` and whose data at `done`.
    ///
    /// A load retires when it has its data; a store when it has its translation, and then waits
    /// in the store buffer, which drains in order, for its line.
    #[inline(always)]
    pub fn complete(
        &mut self,
        entry: RobEntry,
        trapped: Trapped,
        store: bool,
        translated: u64,
        done: u64,
    ) {
        let ready = if store { translated } else { done };
        let mut earliest = self.retired + entry.instructions;
        if self.ended >= self.wrong_paths.next() {
            earliest = self.retire_again(entry.number, store, earliest, ready);
        }
        // Computation before it is no stall but the time that computing takes.
        let unstalled = earliest.max(entry.computed);
        let retired = unstalled.max(ready);
        if retired > earliest {
            let mut computing = unstalled - earliest;
            let mut stall = retired - unstalled;
            if self.ended >= self.front_end.next() {
                // An instruction that is dispatched late is computed late.
                let late = retired - earliest;
                let held = self.charge_front_end(earliest, late, entry.start, trapped);
                stall -= held.saturating_sub(computing);
                computing = computing.saturating_sub(held);
            }
            self.waited += computing;
            let Trapped { fault, migration } = trapped;
            let translation = translated - entry.start - fault - migration;
            self.stalls
                .charge(stall, translation, ready - translated, fault, migration);
        }
        self.retired = retired;
        if store {
            self.stores.write(self.ended, retired, done);
            self.stores_under_way -= 1;
        }
        let place = self.ended % WINDOW;
        self.completed[place] = if entry.instructions == 0 {
            self.completed[place].max(done)
        } else {
            done
        };
        self.retirements[place] = (entry.number, retired);
        self.ended += 1;
    }

    /// Charges what of a stall the front end brought about; returns it.
    #[cold]
    fn charge_front_end(
        &mut self,
        unstalled: u64,
        stall: u64,
        start: u64,
        trapped: Trapped,
    ) -> u64 {
        let HeldBack {
            mispredictions,
            fetch,
        } = self
            .front_end
            .held_back(self.ended, unstalled, stall, start);
        // A fault on the access itself counts in full.
        let own = trapped.fault + trapped.migration;
        let fetch = fetch.min(stall.saturating_sub(mispredictions + own));
        self.stalls.mispredictions += mispredictions;
        self.stalls.fetch += fetch;
        mispredictions + fetch
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

    /// Time for which retirement has waited for arithmetic, in slots.
    #[inline]
    pub fn waited_for_arithmetic(&self) -> u64 {
        self.waited
    }

    /// Takes `accesses` of those dispatched out of the count of instructions: each is one more of its instruction.
    #[inline]
    pub fn count_as_continued(&mut self, accesses: u64) {
        self.continued += accesses;
    }

    /// Instructions retired so far.
    #[inline]
    pub fn instructions(&self) -> u64 {
        self.instructions - self.continued
    }

    /// Slots in a cycle.
    #[inline]
    pub fn slots_per_cycle(&self) -> u64 {
        self.width
    }

    /// Stalls of retirement so far, by cause.
    pub fn stalls(&self) -> Stalls {
        self.stalls
    }
}
