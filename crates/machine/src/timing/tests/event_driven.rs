//! A core, its walkers and the memory as a queue of events: slow, and exact.
//!
//! Every event happens at its time and sees only what has happened. What can be used by one at a
//! time is had by whoever asks first, and of those that ask at the same time by the oldest. There
//! are no batches and nothing is reserved ahead of time.
//!
//! Where a reference is served and what a walk reads is given; when it takes place is not.

mod lines;
mod pipeline;
mod translation;
mod wrong_paths;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};
use wrong_paths::WrongPaths;

/// One read or write of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    pub(crate) line: u32,
    /// The level that has it, 0 for the first, 3 for memory, going by the order of the program.
    pub(crate) level: usize,
}

/// Work of a walker for a page, and the fault that follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    /// Fixed time.
    pub(crate) fixed: u64,
    /// Reads that go out together, after those of the step before are back.
    pub(crate) steps: Vec<Vec<Reference>>,
    /// Reads at its beginning that nothing waits for.
    pub(crate) background: Vec<Reference>,
    /// Time in a page fault that it ends in, after which the page is walked to again.
    pub(crate) fault: Option<u64>,
}

/// Place of a translation, going by the order of the program.
#[derive(Clone, Debug)]
pub(crate) enum Translation {
    FirstTlb,
    SecondTlb,
    Walks(Vec<Walk>),
    /// A prefetch's page that is nowhere.
    Unmapped,
}

/// A line of an access.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) page: u32,
    pub(crate) translation: Translation,
    pub(crate) data: Reference,
    /// Lines fetched ahead into the second level when it has its translation.
    pub(crate) prefetches: Vec<Reference>,
}

/// Use of registers by an instruction; there are eight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Instruction {
    /// Registers that its address, if it has one, and its result are made from; the result's, and
    /// how many cycles that takes.
    pub(crate) address: Vec<usize>,
    pub(crate) operands: Vec<usize>,
    pub(crate) result: usize,
    pub(crate) cycles: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The instructions of its gap and its own; none if nothing is known of them.
    pub(crate) instructions: Vec<Instruction>,
    /// Time in the kernel before it.
    pub(crate) kernel: u64,
    pub(crate) gap: u32,
    pub(crate) dep: u32,
    /// From the data of each of these loads to the address.
    pub(crate) arithmetic: [u16; 2],
    /// A mispredicted branch before its gap: which load before the access that waits for.
    pub(crate) mispredicted: Option<(u32, bool)>,
    pub(crate) store: bool,
    pub(crate) prefetch: bool,
    pub(crate) requests: Vec<Request>,
}

/// Times in slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) width: u64,
    pub(crate) reorder_buffer: usize,
    pub(crate) store_buffer: usize,
    pub(crate) miss_buffers: usize,
    pub(crate) l2_miss_buffers: Option<usize>,
    pub(crate) walkers: usize,
    pub(crate) second_tlb: u64,
    /// From the end of a mispredicted branch to the instructions after it.
    pub(crate) misprediction: u64,
    /// Latencies of the four levels; memory's without the transfer of the lines before.
    pub(crate) latency: [u64; 4],
    /// Memory's latencies, if they differ.
    pub(crate) spread: Option<[f64; 16]>,
    /// Time for which memory is busy with a line.
    pub(crate) transfer: u64,
    /// The first level in which walks look.
    pub(crate) walks_enter: usize,
}

/// Something that a few can use at a time: by the order of asking, ties by age.
#[derive(Debug)]
struct Resource<T> {
    free: usize,
    queue: BTreeSet<(u64, usize, T)>,
}

/// Asker of a line that takes a miss buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Miss {
    line: u32,
    waiter: Waiter,
    generation: Option<Generation>,
}

/// An event. `request` counts the lines of all accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A read of a walk is back.
    WalkRead { request: usize },
    /// A line arrives for whoever waits.
    Arrival { line: u32 },
    /// The second level has been asked for a line that it does not have.
    MissesL2 { line: u32, level: usize },
    /// A request has its line.
    Data { request: usize },
    /// An access may start.
    Start { access: usize },
    /// The second-level TLB has answered.
    SecondTlb { request: usize },
    /// A step of a walk begins.
    Step { request: usize },
    /// A page fault has been handled.
    Back { request: usize },
    /// A request has its translation.
    Translated { request: usize },
    /// Something may be dispatched, or a branch be decided.
    Look,
}

/// Waiter for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waiter {
    Data(usize),
    Walk(usize),
    Nobody,
}

/// A translation or line that was brought by some reference: whoever asks first in time brings
/// it for all that follow in the order of the program until it is evicted.
type Generation = usize;

/// State of a request that is being translated.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Generation of the walks that it does: its own, or that of an older one that asks later.
    generation: usize,
    walk: usize,
    step: usize,
    outstanding: usize,
}

pub(crate) struct Twin<'a> {
    parameters: Parameters,
    accesses: &'a [Access],
    /// For each request: its access, and its number there.
    requests: Vec<(usize, usize)>,
    first_request: Vec<usize>,
    /// For each access: how many instructions come before it, and page faults yet to be handled.
    instruction: Vec<usize>,
    faults_left: Vec<usize>,
    kernel_until: Option<(usize, u64)>,
    events: BinaryHeap<Reverse<(u64, usize, Event)>>,
    // Dispatch and retirement, instruction by instruction.
    dispatched: Vec<u64>,
    /// When each of these has its result, and each register.
    results: Vec<u64>,
    registers: [u64; 8],
    next_access: usize,
    retired: Vec<u64>,
    next_request: usize,
    last_retired: u64,
    ready: Vec<Option<u64>>,
    done: Vec<Option<u64>>,
    completed: Vec<Option<u64>>,
    dependants: HashMap<usize, Vec<(usize, u64)>>,
    retired_requests: Vec<u64>,
    stores: Vec<usize>,
    commits: Vec<u64>,
    /// Parts that fault, and since when they wait for everything older to retire.
    trapped: BTreeMap<usize, u64>,
    /// Nothing is dispatched before.
    dispatch_from: u64,
    /// Accesses up to this one are past their mispredicted branches.
    redirected: usize,
    wrong_paths: WrongPaths,
    now: u64,
    // Translation.
    walkers: Resource<()>,
    progress: Vec<Progress>,
    page_generation: Vec<Option<Generation>>,
    page_brought: Vec<bool>,
    pages: HashMap<u32, (usize, Vec<usize>)>,
    // Lines.
    miss_buffers: Resource<Miss>,
    l2_miss_buffers: Resource<(u32, usize)>,
    holds_l2_buffer: HashSet<u32>,
    /// By reference: (line, level) of the generation that it belongs to.
    data_generation: Vec<Option<Generation>>,
    walk_generation: HashMap<(usize, usize, usize, usize), Option<Generation>>,
    prefetch_generation: HashMap<(usize, usize), Option<Generation>>,
    generations: Vec<(usize, bool)>,
    /// Under way: who waits, and from when on each could have it.
    lines: HashMap<u32, Vec<(Waiter, u64)>>,
    holds_buffer: HashSet<u32>,
    memory_free: u64,
}

/// Number of faults of a request.
fn faults(request: &Request) -> usize {
    match &request.translation {
        Translation::Walks(walks) => walks.iter().filter(|walk| walk.fault.is_some()).count(),
        _ => 0,
    }
}

/// The place of a background read among the steps of a walk.
const BACKGROUND: usize = usize::MAX;

impl<'a> Twin<'a> {
    pub(crate) fn new(parameters: Parameters, accesses: &'a [Access]) -> Self {
        let mut requests = Vec::new();
        let mut first_request = Vec::new();
        let (mut instruction, mut instructions) = (Vec::new(), 0);
        let mut faults_left = Vec::new();
        for (number, access) in accesses.iter().enumerate() {
            first_request.push(requests.len());
            instructions += access.gap as usize;
            instruction.push(instructions);
            instructions += 1;
            faults_left.push(access.requests.iter().map(faults).sum());
            requests.extend((0..access.requests.len()).map(|request| (number, request)));
        }
        let count = requests.len();
        let mut twin = Twin {
            parameters,
            accesses,
            requests,
            first_request,
            instruction,
            faults_left,
            kernel_until: None,
            events: BinaryHeap::new(),
            dispatched: Vec::new(),
            results: Vec::new(),
            registers: [0; 8],
            next_access: 0,
            retired: Vec::new(),
            next_request: 0,
            last_retired: 0,
            ready: vec![None; count],
            done: vec![None; count],
            completed: vec![None; accesses.len()],
            dependants: HashMap::new(),
            retired_requests: Vec::new(),
            stores: Vec::new(),
            commits: Vec::new(),
            trapped: BTreeMap::new(),
            dispatch_from: 0,
            redirected: 0,
            wrong_paths: WrongPaths::default(),
            now: 0,
            walkers: Resource {
                free: parameters.walkers,
                queue: BTreeSet::new(),
            },
            progress: vec![Progress::default(); count],
            page_generation: vec![None; count],
            page_brought: vec![false; count],
            pages: HashMap::new(),
            miss_buffers: Resource {
                free: parameters.miss_buffers,
                queue: BTreeSet::new(),
            },
            l2_miss_buffers: Resource {
                free: parameters.l2_miss_buffers.unwrap_or(0),
                queue: BTreeSet::new(),
            },
            holds_l2_buffer: HashSet::new(),
            prefetch_generation: HashMap::new(),
            data_generation: vec![None; count],
            walk_generation: HashMap::new(),
            generations: Vec::new(),
            lines: HashMap::new(),
            holds_buffer: HashSet::new(),
            memory_free: 0,
        };
        twin.find_generations();
        twin
    }

    fn request(&self, request: usize) -> &'a Request {
        let (access, number) = self.requests[request];
        &self.accesses[access].requests[number]
    }

    /// Finds the reference that brings what each one finds.
    fn find_generations(&mut self) {
        let mut pages = HashMap::new();
        let mut lines: HashMap<u32, Generation> = HashMap::new();
        for request in 0..self.requests.len() {
            let what = self.request(request);
            match &what.translation {
                Translation::FirstTlb | Translation::Unmapped => {}
                Translation::SecondTlb => {
                    pages.insert(what.page, request);
                }
                Translation::Walks(walks) => {
                    pages.insert(what.page, request);
                    for (number, walk) in walks.iter().enumerate() {
                        let steps = walk.steps.iter().enumerate();
                        for (step, reads) in steps.chain([(BACKGROUND, &walk.background)]) {
                            for (read, reference) in reads.iter().enumerate() {
                                let entry = self.parameters.walks_enter;
                                let generation = self.generation(&mut lines, *reference, entry);
                                self.walk_generation
                                    .insert((request, number, step, read), generation);
                            }
                        }
                    }
                }
            }
            self.page_generation[request] = pages.get(&what.page).copied();
            self.data_generation[request] = self.generation(&mut lines, what.data, 0);
            for (number, &reference) in what.prefetches.iter().enumerate() {
                let generation = self.generation(&mut lines, reference, 1);
                self.prefetch_generation
                    .insert((request, number), generation);
            }
        }
    }

    fn generation(
        &mut self,
        lines: &mut HashMap<u32, Generation>,
        reference: Reference,
        entry: usize,
    ) -> Option<Generation> {
        if reference.level > entry {
            lines.insert(reference.line, self.generations.len());
            self.generations.push((reference.level, false));
        }
        lines.get(&reference.line).copied()
    }

    /// Runs to the end: when the last instruction retires.
    pub(crate) fn run(mut self) -> u64 {
        self.proceed();
        while let Some(Reverse((now, age, event))) = self.events.pop() {
            self.now = now;
            self.wrong_paths.looking = event == Event::Look;
            self.happens(now, age, event);
            self.proceed();
        }
        assert_eq!(
            self.next_request,
            self.requests.len(),
            "something never happened"
        );
        self.last_retired
    }

    /// Dispatches and retires whatever can be.
    fn proceed(&mut self) {
        loop {
            let before = (
                self.dispatched.len(),
                self.retired.len(),
                self.commits.len(),
            );
            self.dispatch();
            self.retire();
            if before
                == (
                    self.dispatched.len(),
                    self.retired.len(),
                    self.commits.len(),
                )
            {
                return;
            }
        }
    }

    fn at(&mut self, time: u64, age: usize, event: Event) {
        self.events.push(Reverse((time, age, event)));
    }

    fn happens(&mut self, now: u64, age: usize, event: Event) {
        match event {
            Event::Look => {}
            Event::Start { access } if self.again(access, now) => {}
            Event::Start { access } => {
                let first = self.first_request[access];
                for request in first..first + self.accesses[access].requests.len() {
                    self.translate(request, now);
                }
            }
            Event::SecondTlb { request } => self.second_tlb(request, now),
            Event::Step { request } => self.step(request, now),
            Event::WalkRead { request } => {
                self.progress[request].outstanding -= 1;
                if self.progress[request].outstanding == 0 {
                    self.progress[request].step += 1;
                    self.step(request, now);
                }
            }
            Event::Back { request } => {
                self.faults_left[self.requests[request].0] -= 1;
                self.progress[request].walk += 1;
                self.progress[request].step = 0;
                self.ask_walker(request, now);
            }
            Event::Translated { request } => self.translated(request, now),
            Event::Arrival { line } => self.arrives(line, now),
            Event::MissesL2 { line, level } => self.misses_l2(line, level, age, now),
            Event::Data { request } if self.done[request].is_some() => {}
            Event::Data { request } => self.has_data(request, now),
        }
    }
}
