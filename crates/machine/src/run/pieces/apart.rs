//! Pieces that are simulated in other processes, perhaps on other machines.
//!
//! Whoever puts them together has the intervals of a stream looked at, anywhere; plans the pieces; has
//! each simulated, anywhere, on memory that is made there from the events before it; and joins what
//! comes back, which is what one process would have made of it.

use super::bad::BadSurvey;
use super::crew::{Crew, lock};
use super::event::Event;
use super::intervals::Intervals;
use super::kept;
use super::kept::SurveyFile;
use super::piece::{Ended, Extent, OnePiece};
use super::plan::{Plan, may_be_cut};
use super::survey::{Joint, Survey, look};
use super::together::LEAVES_OUT;
use crate::config::MachineConfig;
use crate::count::by_code::ByCode;
use crate::count::result::RunResult;
use crate::design::carry_out;
use crate::error::{BuildError, SimulateError};
use crate::run::drive::{Apart, Sources};
use crate::run::progress::Progress;
use pagelab_events::{Batch, Divisible};
use std::ops::ControlFlow;

/// Survey of an interval, as bytes, or the end that somebody asked for.
type Looked = Result<Option<Vec<u8>>, BadSurvey>;

/// Looks at one interval of a stream: [`PiecesApart::intervals`] says how many there are. `None` if
/// `progress` breaks it off.
///
/// # Errors
/// When there is no such interval.
pub fn look_at_interval(
    stream: &dyn Divisible,
    interval: u64,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Looked {
    let intervals = Intervals::of(stream.accesses(), None);
    if interval >= intervals.count {
        return Err(BadSurvey::Impossible);
    }
    let crew = Crew::new(1);
    let end = intervals.end(interval).unwrap_or(intervals.accesses);
    let accesses = end - intervals.start(interval);
    let seen = std::sync::Mutex::new(None);
    crew.side_by_side(progress, accesses, None, || {
        let found = look(stream, intervals, interval, &crew.stop, &crew.done);
        *lock(&seen) = Some(found);
    });
    let seen = lock(&seen).take();
    match seen.filter(|_| !crew.stopped()) {
        Some(seen) => Ok(Some(kept::seen_to_bytes(&seen, intervals, interval)?)),
        None => Ok(None),
    }
}

/// Cut of a stream for a design on a machine, and what each piece needs to know of the others.
#[derive(Debug)]
pub struct PiecesApart {
    survey: Survey,
    plan: Plan,
    /// Pieces in the order of where their simulation begins.
    order: Vec<u64>,
}

/// A piece that is simulated by itself.
#[derive(Clone, Debug)]
pub struct PieceApart {
    /// Accesses before what is measured ...
    pub start: u64,
    /// ... and before what is simulated.
    pub from: u64,
    /// End, if not with the stream.
    pub to: Option<u64>,
    /// Number of [`PiecesApart::events`] that its memory is made from.
    pub events: usize,
    /// Lines that are brought in before, as bytes.
    pub lines: Vec<u8>,
}

impl PiecesApart {
    /// Number of intervals of a stream of so many accesses to look at for a machine: none, if it
    /// will be one piece.
    pub fn intervals(accesses: u64, config: &MachineConfig) -> u64 {
        if may_be_cut(accesses, None, config) {
            Intervals::of(accesses, None).count
        } else {
            0
        }
    }

    /// Plans the pieces of a stream of so many accesses by what was seen of its intervals, in order,
    /// or by what is kept of it; keeps it.
    ///
    /// # Errors
    /// When the bytes are something else, or the stream cannot be cut.
    pub fn plan(
        accesses: u64,
        config: &MachineConfig,
        seen: &[Vec<u8>],
        file: Option<&SurveyFile>,
    ) -> Result<Self, SimulateError> {
        let needed = Self::intervals(accesses, config);
        let (survey, plan) = if needed == 0 {
            (Survey::of_nothing(accesses), Plan::of_one_piece(accesses))
        } else {
            let survey = if seen.is_empty() {
                let kept = file.and_then(|file| file.read(accesses));
                kept.ok_or(BadSurvey::Other)?
            } else {
                let survey = joined(accesses, seen)?;
                if let Some(file) = file.filter(|_| survey.is_complete()) {
                    file.write(&survey);
                }
                survey
            };
            let plan = Plan::new(&survey, false, config);
            (survey, plan)
        };
        if survey.leaves_out {
            return Err(BuildError::Uncuttable(LEAVES_OUT).into());
        }
        let order = plan.order();
        Ok(PiecesApart {
            survey,
            plan,
            order,
        })
    }

    /// Events of the stream that pieces make their memory from, as bytes: those before the piece that
    /// begins first, then those between it and the next, and so on.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn events(&self) -> Result<Vec<Vec<u8>>, SimulateError> {
        let mut rest = self.survey.events.as_slice();
        let mut parts = Vec::new();
        for &piece in &self.order {
            let Some(extent) = self.plan.extent(piece) else {
                break;
            };
            let before = rest.partition_point(|event| event.after < extent.from);
            let (part, later) = rest.split_at(before);
            parts.push(kept::events_to_bytes(part).map_err(BadSurvey::from)?);
            rest = later;
        }
        Ok(parts)
    }

    /// The pieces, in the order of the stream.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn pieces(&self) -> Result<Vec<PieceApart>, SimulateError> {
        let mut pieces = Vec::new();
        for (piece, lines) in (0..).zip(&self.plan.lines) {
            let place = self.order.iter().position(|&at| at == piece);
            let (Some(extent), Some(place)) = (self.plan.extent(piece), place) else {
                break;
            };
            let Extent { start, from, to } = extent;
            pieces.push(PieceApart {
                start,
                from,
                to,
                events: place + 1,
                lines: kept::lines_to_bytes(lines).map_err(BadSurvey::from)?,
            });
        }
        Ok(pieces)
    }

    /// The result of all pieces, in the order of the stream, as [`simulate_piece`] gave them.
    ///
    /// # Errors
    /// When they are something else.
    pub fn join(
        &self,
        config: &MachineConfig,
        design: &str,
        stream: &dyn Divisible,
        pieces: &[String],
    ) -> Result<RunResult, SimulateError> {
        let ended = pieces.iter().map(|piece| serde_json::from_str(piece));
        let mut ended: Vec<Option<Ended>> = ended.collect::<Result<_, _>>()?;
        if ended.len() != self.plan.warm_up.len() {
            return Err(BadSurvey::Impossible.into());
        }
        if stream.has_code() {
            name_code(stream, &mut ended);
        }
        let apart = Sources::Apart(Apart::Join(&self.plan, ended));
        carry_out(config, design, apart, &mut go_on)?.whole()
    }
}

/// Simulates one piece of a stream; returns JSON that [`PiecesApart::join`] takes. `events` are as many
/// of [`PiecesApart::events`] as the piece says.
///
/// # Errors
/// [`SimulateError`] when it cannot be simulated, or the events are something else.
pub fn simulate_piece(
    config: &MachineConfig,
    design: &str,
    stream: &dyn Divisible,
    piece: &PieceApart,
    events: &[Vec<u8>],
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<String, SimulateError> {
    let &PieceApart {
        start,
        from,
        to,
        ref lines,
        ..
    } = piece;
    let accesses = stream.accesses();
    let end = to.unwrap_or(accesses);
    if !(from <= start && start <= end && end <= accesses) {
        return Err(BadSurvey::Impossible.into());
    }
    let mut before: Vec<Event> = Vec::new();
    for bytes in events {
        let first = before.last().map_or(0, |event| event.after);
        before.extend(kept::events_from_bytes(bytes, first, from)?);
    }
    let lines = kept::lines_from_bytes(lines, accesses)?;
    let run = OnePiece {
        stream,
        lines: &lines,
        extent: Extent { start, from, to },
        events: &before,
        crew: &Crew::new(1),
    };
    let ended = carry_out(config, design, Sources::Apart(Apart::Piece(run)), progress)?.piece();
    Ok(serde_json::to_string(&ended)?)
}

/// Refuses what cannot be simulated in pieces, before anything is looked at.
///
/// # Errors
/// [`SimulateError`] that says why.
pub fn check_in_pieces(config: &MachineConfig, design: &str) -> Result<(), SimulateError> {
    let check = Sources::Apart(Apart::Check);
    carry_out(config, design, check, &mut go_on).map(|_| ())
}

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Survey of a stream, from those of its intervals.
fn joined(accesses: u64, seen: &[Vec<u8>]) -> Result<Survey, BadSurvey> {
    let intervals = Intervals::of(accesses, None);
    if seen.len() as u64 != intervals.count {
        return Err(BadSurvey::Impossible);
    }
    let mut joint = Joint::new(intervals);
    for (interval, bytes) in (0..).zip(seen) {
        joint.add(interval, kept::seen_from_bytes(bytes, intervals, interval)?);
    }
    Ok(joint.survey)
}

/// Gives the last piece that counted by instruction the code of the stream: the others' is a part of it.
fn name_code(stream: &dyn Divisible, ended: &mut [Option<Ended>]) {
    let mut named = ByCode::default();
    if let Ok(mut source) = stream.interval(stream.accesses(), None) {
        let mut batch = Batch::default();
        while source.next_batch(&mut batch).unwrap_or(false) {
            batch.definitions.iter().for_each(|one| named.define(one));
        }
    }
    for piece in ended.iter_mut().flatten() {
        if let Some(program) = piece.outcome.by_code.first_mut() {
            program.named_as(&named);
        }
    }
}
