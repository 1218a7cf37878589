use super::crew::{Crew, lock};
use super::join;
use super::kept::SurveyFile;
use super::piece::{self, Ended, Extent, OnePiece, Run};
use super::plan::{self, Plan};
use super::state::{Leader, MemoryState, Warmth};
use super::survey::Survey;
use crate::config::MachineConfig;
use crate::count::result::RunResult;
use crate::design::name::DesignName;
use crate::error::BuildError;
use crate::mmu::{ConfiguredMmu, ConfiguredTable};
use crate::run::progress::Progress;
use pagelab_addr::PageDirectory;
use pagelab_events::Divisible;
use pagelab_os::Os;
use pagelab_translation::PageTable;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// A stream to be simulated in pieces.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'a> {
    pub(crate) stream: &'a dyn Divisible,
    /// Number of pieces that are simulated at once.
    pub(crate) workers: usize,
    /// Number of pieces, where the length of the stream and the caches are not to decide.
    pub(crate) count: Option<u64>,
    /// File that keeps the survey between runs.
    pub(crate) survey: Option<&'a SurveyFile>,
}

/// Simulates a stream in pieces. The result depends on the stream and the machine alone, not on how
/// many workers there are.
pub(crate) fn run<M: ConfiguredMmu>(
    config: &MachineConfig,
    design: DesignName,
    pieces: Pieces,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, BuildError> {
    let config = &*M::machine_of(design, config)?;
    let state = first_memory::<M>(config)?;
    let crew = Crew::new(pieces.workers);
    let (survey, plan) = prepare(config, pieces, &crew, progress);
    if survey.leaves_out {
        return Err(BuildError::Uncuttable(LEAVES_OUT));
    }
    let work = Work {
        config,
        stream: pieces.stream,
        survey: &survey,
        plan: &plan,
        order: &plan.order(),
        crew: &crew,
    };
    let ended = work.simulate::<M>(state, progress)?;
    put_together::<M>(config, design, &plan, ended)
}

pub(super) const LEAVES_OUT: &str =
    "the trace leaves accesses out: it was recorded in windows or samples";

/// The result of all pieces.
pub(crate) fn put_together<M: ConfiguredMmu>(
    config: &MachineConfig,
    design: DesignName,
    plan: &Plan,
    ended: Vec<Option<Ended>>,
) -> Result<RunResult, BuildError> {
    let config = &*M::machine_of(design, config)?;
    let result = join::join(ended.into_iter(), plan, config, design);
    result.ok_or(BuildError::Uncuttable("it was stopped before it began"))
}

/// Simulates a piece by itself. `None` where memory could not be made for it: a piece before it ends
/// early for that.
pub(crate) fn run_one<M: ConfiguredMmu>(
    config: &MachineConfig,
    design: DesignName,
    piece: &OnePiece,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Option<Ended>, BuildError> {
    let config = &*M::machine_of(design, config)?;
    let OnePiece {
        stream,
        extent,
        events,
        lines,
        crew,
    } = *piece;
    let memory = first_memory::<M>(config)?;
    let mut leader = Leader::new(memory, config, lines.lines.iter());
    let run = Run {
        config,
        stream,
        stop: &crew.stop,
        progress: &crew.done,
    };
    let end = extent.to.unwrap_or_else(|| stream.accesses());
    let result = Mutex::new(None);
    let state = Mutex::new(leader.at(extent.from, events, true));
    let warmth = leader.warmth(lines, extent.from);
    crew.side_by_side(progress, end - extent.from, None, || {
        let state = lock(&state).take();
        let ended = state.map(|state| piece::run::<M>(&run, extent, &warmth, state));
        *lock(&result) = ended;
    });
    let result = result.into_inner();
    result.unwrap_or_else(PoisonError::into_inner).transpose()
}

/// Refuses what cannot be simulated in pieces.
pub(crate) fn check_design<M: ConfiguredMmu>(
    config: &MachineConfig,
    design: DesignName,
) -> Result<(), BuildError> {
    let config = &*M::machine_of(design, config)?;
    first_memory::<M>(config).map(|_| ())
}

/// The memory that a stream begins with, of a machine that can be simulated in pieces.
fn first_memory<M: ConfiguredMmu>(
    config: &MachineConfig,
) -> Result<MemoryState<M::Table>, BuildError> {
    let os = Os::with_placement(config.memory.clone(), M::placement(config), config.seed)?;
    check(config, &os)?;
    if M::LOOKS_INTO_CACHES {
        return Err(BuildError::Uncuttable(
            "the design looks into caches: what it knows of pages comes from all walks before",
        ));
    }
    Ok(MemoryState {
        os,
        table: M::Table::build(config)?,
        directory: PageDirectory::new(),
    })
}

/// Finds out how a stream is to be cut, by what is kept of it or by looking at it.
fn prepare(
    config: &MachineConfig,
    pieces: Pieces,
    crew: &Crew,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> (Survey, Plan) {
    let accesses = pieces.stream.accesses();
    if !plan::may_be_cut(accesses, pieces.count, config) {
        return (Survey::of_nothing(accesses), Plan::of_one_piece(accesses));
    }
    // A kept survey is of the usual intervals alone.
    let file = pieces.survey.filter(|_| pieces.count.is_none());
    let kept = file.and_then(|file| file.read(accesses));
    let survey = kept.unwrap_or_else(|| {
        let survey = Survey::of(pieces.stream, pieces.count, crew, progress);
        if let Some(file) = file.filter(|_| survey.is_complete()) {
            file.write(&survey);
        }
        survey
    });
    let plan = Plan::new(&survey, pieces.count.is_some(), config);
    (survey, plan)
}

/// Refuses machines whose pieces could not be put together.
fn check(config: &MachineConfig, os: &Os) -> Result<(), BuildError> {
    if config.cores != 1 {
        return Err(BuildError::Uncuttable(
            "the machine has several cores, and the order in which they share caches and memory \
             depends on all that was before",
        ));
    }
    if !config.tlb.asids {
        return Err(BuildError::Uncuttable(
            "the TLB is flushed at each switch, and it is not known of a piece when it was last",
        ));
    }
    if os.tick_ns().is_some() {
        return Err(BuildError::Uncuttable(
            "the memory manager or khugepaged moves pages by time: where a page is depends on what \
             caches and TLB hold",
        ));
    }
    Ok(())
}

/// State that workers share.
struct Work<'a> {
    config: &'a MachineConfig,
    stream: &'a dyn Divisible,
    survey: &'a Survey,
    plan: &'a Plan,
    /// Pieces in the order in which they begin.
    order: &'a [u64],
    crew: &'a Crew,
}

impl Work<'_> {
    /// Simulates the pieces, those that begin first before others.
    fn simulate<M: ConfiguredMmu>(
        &self,
        state: MemoryState<M::Table>,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Option<Ended>>, BuildError> {
        let count = self.plan.warm_up.len() as u64;
        let lines = self.plan.lines.iter().flat_map(|past| &past.lines);
        let leader = Mutex::new(Leader::new(state, self.config, lines));
        let results: Vec<_> = (0..count).map(|_| Mutex::new(None)).collect();
        let run = Run {
            config: self.config,
            stream: self.stream,
            stop: &self.crew.stop,
            progress: &self.crew.done,
        };
        let accesses = self.plan.accesses(self.survey);
        let pieces = Some(self.plan.cut.pieces);
        self.crew.side_by_side(progress, accesses, pieces, || {
            while !self.crew.stopped() {
                let Some((piece, extent, warmth, state)) = self.begin(&leader) else {
                    return;
                };
                let ended = piece::run::<M>(&run, extent, &warmth, state);
                *lock(&results[piece as usize]) = Some(ended);
                self.crew.ended.fetch_add(1, Ordering::Relaxed);
            }
        });
        let results = results.into_iter();
        results
            .map(|result| {
                let result = result.into_inner();
                result.unwrap_or_else(PoisonError::into_inner).transpose()
            })
            .collect()
    }

    /// The next piece, where it is, and what it begins with: of caches and of memory.
    fn begin<P: PageTable + Clone>(
        &self,
        leader: &Mutex<Leader<P>>,
    ) -> Option<(u64, Extent, Vec<Warmth>, MemoryState<P>)> {
        let mut leader = lock(leader);
        let &piece = self.order.get(leader.begun)?;
        let extent = self.plan.extent(piece)?;
        leader.begun += 1;
        let last = leader.begun == self.order.len();
        let state = leader.at(extent.from, &self.survey.events, last)?;
        let warmth = leader.warmth(&self.plan.lines[piece as usize], extent.from);
        Some((piece, extent, warmth, state))
    }
}
