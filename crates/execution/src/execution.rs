//! All cores' execution.

use crate::follow::Reached;
use crate::pieces::Times;
use crate::program::Program;
use crate::register_file::RegisterFile;
use crate::registers::Registers;
use crate::sampled::Sampled;
use crate::up_to::{Executed, UpTo};
use pagelab_cpu::{ArithmeticConfig, Core, CoreConfig, WINDOW};
use pagelab_events::{Definition, Flow, NO_SITE, Op, dependence};

/// Blocks for each access above which they are followed without a sample: such code hardly accesses memory,
/// and what it takes is what it computes.
const MOST_BLOCKS: usize = 4;

/// The cores of a machine, between accesses.
#[derive(Debug)]
pub struct Execution {
    cores: Vec<OnCore>,
    programs: Vec<Program>,
    /// None where arithmetic takes no time.
    times: Option<Times>,
    counts_locked: bool,
    /// The last chunk, with each of its accesses: how many instructions the core holds, slots after each of its
    /// loads, and whether a locked instruction makes it.
    holds: Vec<u32>,
    slots: Vec<[u16; 2]>,
    locked: Vec<bool>,
    /// The pieces of code that are executed up to each, and where those of each end.
    pieces: Vec<u32>,
    ends: Vec<u32>,
    /// The program that these are of.
    program: usize,
}

/// The next accesses of a core.
#[derive(Clone, Copy, Debug)]
pub struct Next<'a> {
    /// Number of the core.
    pub core: usize,
    /// Number of the program that it executes.
    pub program: usize,
    /// Number of the first access in its batch.
    pub at: usize,
    /// Accesses of the core before that.
    pub before: u64,
    /// Instructions before each.
    pub gap: &'a [u32],
    /// Loads that made its address.
    pub dep: &'a [u32],
    /// Its instruction.
    pub site: &'a [u32],
    /// Blocks that are executed from the first one on.
    pub flow: &'a [(u32, Flow)],
}

/// A core's last accesses, and its registers.
#[derive(Clone, Debug)]
struct OnCore {
    /// None where integer registers do not run out.
    file: Option<RegisterFile>,
    /// By the machine's clock, and by the one whose translations are free.
    registers: [Registers; 2],
    /// Decides whether pieces of code are wanted.
    sampled: Sampled,
    /// The block that was entered last, where code was executed since the last access.
    entered: Option<u32>,
    /// The thread whose pieces were found last.
    thread: u32,
    /// The sites of the last accesses.
    sites: Box<[u32; WINDOW]>,
    at: usize,
}

impl Execution {
    /// None where `core.execution` says nothing. A load that hits the first level takes `hit` slots.
    pub fn new(config: &CoreConfig, cores: u32, hit: u64) -> Option<Self> {
        config.execution?;
        let registers = Registers::new(config.reorder_buffer);
        let core = OnCore {
            file: RegisterFile::new(config),
            registers: [registers.clone(), registers],
            sampled: Sampled::default(),
            entered: None,
            thread: 0,
            sites: Box::new([NO_SITE; WINDOW]),
            at: 0,
        };
        let times = |arithmetic: ArithmeticConfig| Times {
            width: config.width,
            scaled_index: arithmetic.scaled_index,
            hit,
            forwarded: [arithmetic.forwarding, arithmetic.vector_forwarding].map(|cycles| {
                cycles.map_or(hit, |cycles| u64::from(cycles) * u64::from(config.width))
            }),
        };
        Some(Execution {
            cores: vec![core; cores as usize],
            programs: Vec::new(),
            times: config.arithmetic().map(times),
            counts_locked: config.arithmetic().is_some_and(|of| of.atomics > 0),
            holds: Vec::new(),
            slots: Vec::new(),
            locked: Vec::new(),
            pieces: Vec::new(),
            ends: Vec::new(),
            program: 0,
        })
    }

    /// Takes in what a batch of a program says of its code.
    pub fn define(&mut self, program: usize, definitions: &[Definition]) {
        if self.programs.len() <= program {
            self.programs.resize_with(program + 1, Program::default);
        }
        for definition in definitions {
            if let Definition::Block(block) = definition {
                self.programs[program].define(block, self.times.as_ref());
            }
        }
    }

    /// Takes the next accesses of a core, by its clock.
    pub fn chunk(&mut self, next: &Next, clock: &Core) {
        self.holds.clear();
        self.slots.clear();
        self.locked.clear();
        self.pieces.clear();
        self.ends.clear();
        self.program = next.program;
        let (Some(program), Some(core)) = (
            self.programs.get_mut(next.program),
            self.cores.get_mut(next.core),
        ) else {
            return;
        };
        if let Some(file) = &mut core.file {
            let mut last = core.sites[core.at.wrapping_sub(1) % WINDOW];
            let accesses = next.gap.iter().zip(next.site);
            self.holds.extend(accesses.map(|(&gap, &site)| {
                let taken = program.taken(gap, site, last);
                last = site;
                file.look_ahead(gap, taken)
            }));
        }
        let Some(times) = &self.times else {
            next.site.iter().for_each(|&site| core.push(site));
            return;
        };
        (core.sampled).look(next.before, clock.now(), clock.waited_for_arithmetic());
        let end = next.at + next.site.len();
        let blocks = (next.flow).partition_point(|entry| (entry.0 as usize) < end);
        if core.follows(blocks, next.site.len()) {
            let mut reached = core.reached();
            program.follow(
                next.at,
                next.site,
                &mut reached,
                next.flow,
                &mut self.pieces,
                &mut self.ends,
            );
            core.thread = reached.thread;
        }
        core.entered = None;
        if self.counts_locked {
            (self.locked).extend(next.site.iter().map(|&site| program.locked(site)));
        }
        for (&dep, &site) in next.dep.iter().zip(next.site) {
            let mut slots = [0; 2];
            if dep != 0 {
                let loads = [dependence::near(dep), dependence::far(dep)];
                for (number, distance) in loads.into_iter().enumerate() {
                    let load = core.back(distance);
                    let cycles = program.cycles(load, site, number, times.scaled_index);
                    slots[number] = (u32::from(cycles) * times.width) as u16;
                }
            }
            core.push(site);
            self.slots.push(slots);
        }
    }

    /// Takes the blocks that a thread has executed since its last access, and no other access is known yet.
    pub fn run_on(
        &mut self,
        (core, program): (usize, usize),
        thread: u32,
        flow: &[(u32, Flow)],
        clock: &Core,
    ) {
        let (Some(_), Some(program), Some(core)) = (
            &self.times,
            self.programs.get(program),
            self.cores.get_mut(core),
        ) else {
            return;
        };
        if !core.follows(flow.len(), 1) {
            return;
        }
        self.pieces.clear();
        let mut reached = core.reached();
        let mut runs = true;
        for &(_, entry) in flow {
            if let Flow::Thread(other) = entry {
                runs = other == thread;
            }
            if runs {
                program.enter(entry, &mut reached, &mut self.pieces);
            }
        }
        (core.thread, core.entered) = (reached.thread, reached.entered);
        core.registers[0].run(&program.pieces, &self.pieces, clock.dispatched());
    }

    /// The accesses of the last chunk, with their addresses and what they do, for a clock of their core: the
    /// machine's, or the one whose translations are free.
    pub fn up_to<'a>(
        &'a mut self,
        core: usize,
        free: bool,
        addr: &'a [u64],
        op: &'a [Op],
    ) -> UpTo<'a> {
        let of_program = (self.times.as_ref()).and_then(|_| self.programs.get(self.program));
        let executed = Executed {
            holds: &self.holds,
            slots: &self.slots,
            locked: &self.locked,
            pieces: of_program.map(|program| &program.pieces),
            numbers: &self.pieces,
            ends: &self.ends,
        };
        let registers = &mut self.cores[core].registers[usize::from(free)];
        UpTo::new(executed, registers, addr, op)
    }
}

impl OnCore {
    /// True if so many blocks are followed, up to so many accesses.
    fn follows(&self, blocks: usize, accesses: usize) -> bool {
        self.sampled.follows() || self.entered.is_some() || blocks > MOST_BLOCKS * accesses
    }

    fn reached(&self) -> Reached {
        Reached {
            thread: self.thread,
            last: self.back(1),
            entered: self.entered,
        }
    }

    #[inline(always)]
    fn push(&mut self, site: u32) {
        self.sites[self.at % WINDOW] = site;
        self.at += 1;
    }

    /// The site of the access so many before the next one.
    #[inline(always)]
    fn back(&self, distance: u32) -> u32 {
        let distance = distance as usize;
        if (1..=WINDOW.min(self.at)).contains(&distance) {
            self.sites[(self.at - distance) % WINDOW]
        } else {
            NO_SITE
        }
    }
}
