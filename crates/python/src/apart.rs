//! One run of the simulator, in pieces that other processes simulate.

use crate::error::error;
use crate::lines::WithLines;
use crate::progress::Callback;
use crate::source::{Programs, SourceSpec};
use pagelab_events::Divisible;
use pagelab_machine::{
    MachineConfig, PieceApart, PiecesApart, SurveyFile, check_in_pieces, look_at_interval,
    simulate_piece,
};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Bounds of a piece: accesses before what is measured, before what is simulated, and to its end; and the number of
/// parts of the events before it that its memory is made of.
type PieceBounds = (u64, u64, Option<u64>, usize);

/// Each piece with the lines that are brought in before it; and events before them, in parts.
type Pieces = (Vec<(PieceBounds, Vec<u8>)>, Vec<Vec<u8>>);

fn spec(source: &str) -> Result<SourceSpec, String> {
    match Programs::from_json(source) {
        Ok(Programs::One(spec)) => Ok(spec),
        Ok(Programs::PerCore(_)) => Err(
            "several programs at once share caches and memory and cannot be simulated in pieces"
                .to_owned(),
        ),
        Err(error) => Err(error.to_string()),
    }
}

fn divided(source: &str) -> Result<Box<dyn Divisible + Send>, String> {
    spec(source)?.divide()
}

/// Cut of a source for a design on a machine.
#[pyclass(frozen, module = "pagelab._core")]
pub(crate) struct Plan {
    design: String,
    config: MachineConfig,
    source: String,
    accesses: u64,
    survey: Option<PathBuf>,
    seen: Vec<Vec<u8>>,
    /// Once it is made: the survey that it is from may be deleted while its pieces are simulated.
    planned: OnceLock<Arc<PiecesApart>>,
}

impl Plan {
    fn planned(&self) -> Result<Arc<PiecesApart>, String> {
        if let Some(planned) = self.planned.get() {
            return Ok(Arc::clone(planned));
        }
        let file = self.survey.clone().map(SurveyFile);
        let planned = PiecesApart::plan(self.accesses, &self.config, &self.seen, file.as_ref())
            .map_err(|error| error.to_string())?;
        Ok(Arc::clone(self.planned.get_or_init(|| Arc::new(planned))))
    }
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(signature = (design, machine, overrides, source, seen, survey=None))]
    fn new(
        py: Python<'_>,
        design: String,
        machine: &str,
        overrides: Vec<String>,
        source: String,
        seen: Vec<Vec<u8>>,
        survey: Option<PathBuf>,
    ) -> PyResult<Self> {
        let config = MachineConfig::load(machine, &overrides).map_err(error)?;
        let accesses = py.detach(|| divided(&source).map(|stream| stream.accesses()));
        Ok(Plan {
            design,
            config,
            accesses: accesses.map_err(error)?,
            source,
            survey,
            seen,
            planned: OnceLock::new(),
        })
    }

    /// Bounds of the pieces, each with the lines that are brought in before it; and the events that
    /// their memory is made from, in parts.
    fn pieces(&self, py: Python<'_>) -> PyResult<Pieces> {
        let found = py.detach(|| {
            let plan = self.planned()?;
            let events = plan.events().map_err(|error| error.to_string())?;
            let pieces = plan.pieces().map_err(|error| error.to_string())?;
            let places = pieces.into_iter().map(|piece| {
                let place = (piece.start, piece.from, piece.to, piece.events);
                (place, piece.lines)
            });
            Ok::<_, String>((places.collect(), events))
        });
        found.map_err(error)
    }

    /// The JSON of the run, from that of each piece.
    fn join(&self, py: Python<'_>, pieces: Vec<String>) -> PyResult<String> {
        let joined = py.detach(|| {
            let stream = divided(&self.source)?;
            let plan = self.planned()?;
            let result = plan.join(&self.config, &self.design, &*stream, &pieces);
            let result = result.map_err(|error| error.to_string())?;
            serde_json::to_string(&WithLines::of(&result)).map_err(|error| error.to_string())
        });
        joined.map_err(error)
    }
}

/// Number of intervals of a source to look at; refuses what cannot be cut.
pub(crate) fn intervals(
    py: Python<'_>,
    design: &str,
    machine: &str,
    overrides: &[String],
    source: &str,
) -> PyResult<u64> {
    let config = MachineConfig::load(machine, overrides).map_err(error)?;
    let stream = py.detach(|| divided(source)).map_err(error)?;
    check_in_pieces(&config, design).map_err(error)?;
    Ok(PiecesApart::intervals(stream.accesses(), &config))
}

/// Survey of an interval; `None` when `progress` breaks it off.
pub(crate) fn look(
    py: Python<'_>,
    source: &str,
    interval: u64,
    progress: Py<PyAny>,
) -> PyResult<Option<Vec<u8>>> {
    let mut callback = Callback::new(progress);
    let seen = py.detach(|| {
        let stream = divided(source)?;
        let mut report =
            |now: pagelab_machine::Progress| callback.report(now.accesses, now.remaining);
        look_at_interval(&*stream, interval, &mut report).map_err(|error| error.to_string())
    });
    callback.finish()?;
    seen.map_err(error)
}

/// The JSON of what came of a piece.
#[allow(clippy::too_many_arguments)] // one for each of Python's
pub(crate) fn piece(
    py: Python<'_>,
    design: &str,
    machine: &str,
    overrides: &[String],
    source: &str,
    (start, from, to, events): PieceBounds,
    before: &[Vec<u8>],
    lines: Vec<u8>,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let config = MachineConfig::load(machine, overrides).map_err(error)?;
    let piece = PieceApart {
        start,
        from,
        to,
        events,
        lines,
    };
    let mut callback = Callback::new(progress);
    let ended = py.detach(|| {
        let stream = divided(source)?;
        let mut report =
            |now: pagelab_machine::Progress| callback.report(now.accesses, now.remaining);
        simulate_piece(&config, design, &*stream, &piece, before, &mut report)
            .map_err(|error| error.to_string())
    });
    callback.finish()?;
    ended.map_err(error)
}
