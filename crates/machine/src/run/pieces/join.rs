//! One result from those of all pieces.

use super::bound::Bound;
use super::intervals::TIMED;
use super::piece::{Begun, Ended};
use super::plan::Plan;
use crate::config::MachineConfig;
use crate::count::result::{PiecesResult, RunResult, Sample};
use crate::count::statistics::Outcome;
use crate::count::sums::Sums;
use crate::design::name::DesignName;
use crate::run::stopped::Stopped;
use serde_json::{Number, Value};

/// Points of the timeline kept at the most.
const SAMPLES: usize = 400;

/// Puts the results of pieces together, in order, up to the first that ended early or is missing.
pub(super) fn join(
    mut pieces: impl Iterator<Item = Option<Ended>>,
    plan: &Plan,
    config: &MachineConfig,
    design: DesignName,
) -> Option<RunResult> {
    let cut = plan.cut;
    let first = pieces.next()??;
    let mut bound = Bound::new(config);
    let mut stopped = first.stopped;
    let mut all = first.outcome;
    for number in 1..cut.pieces {
        if stopped.is_some() {
            break;
        }
        let Some(piece) = pieces.next().flatten() else {
            stopped = Some(Stopped::interrupted());
            break;
        };
        stopped = piece.stopped;
        let Some(begun) = piece.begun else {
            break;
        };
        if begun.os != all.os {
            stopped = Some(Stopped::inexact(number + 1));
            break;
        }
        bound.add(&begun.empty, &piece.empty);
        add(&mut all, piece.outcome, &begun, config);
    }
    all.timeline = thin(all.timeline);
    let walk = all.measured.walk_latency.max();
    let mut result = all.result(config, design, stopped);
    result.pieces = Some(PiecesResult {
        count: cut.pieces,
        accesses: cut.length,
        warm_up: plan.warm_up.clone(),
        lines: (plan.lines.iter())
            .map(|past| past.lines.len() as u64)
            .collect(),
        timed: TIMED,
        bound: bound.finish(walk, cut.pieces),
    });
    Some(result)
}

/// Adds what came of the next piece.
fn add(all: &mut Outcome, piece: Outcome, begun: &Begun, config: &MachineConfig) {
    let before = all.measured.totals;
    let cycles = before.elapsed / u64::from(config.core.width);
    let measured = piece.measured;
    // A piece's warm-up is measured in others.
    all.simulated += measured.totals.accesses;
    all.skipped_instructions += piece.skipped_instructions - begun.skipped_instructions;
    all.measured.totals = before.and(&measured.totals);
    for (core, more) in all.measured.cores.iter_mut().zip(&measured.cores) {
        *core = core.and(more);
    }
    all.measured.walk_latency.merge(&measured.walk_latency);
    // A window, if there is one, goes on.
    let windows = all.measured.windows.iter_mut();
    for (window, more) in windows.zip(&measured.windows) {
        window.add(more);
    }
    if !all.exited {
        all.memory = piece.memory;
        all.exited = piece.exited;
    }
    if all.by_code.len() < piece.by_code.len() {
        all.by_code
            .resize_with(piece.by_code.len(), Default::default);
    }
    for (mine, more) in all.by_code.iter_mut().zip(piece.by_code) {
        mine.add(more);
        mine.in_cycles(u64::from(config.core.width));
    }
    if let (Some(all), Some(more)) = (&mut all.heat_map, piece.heat_map) {
        all.add(*more);
    }
    let later = piece.timeline.into_iter().filter(|s| s.instructions > 0);
    all.timeline.extend(later.map(|sample| Sample {
        instructions: before.instructions + sample.instructions,
        cycles: cycles + sample.cycles,
        ..sample
    }));
    for (name, count) in piece.own.tlb {
        let begun = begun.own.tlb.get(&name).copied().unwrap_or_default();
        *all.own.tlb.entry(name).or_default() += count - begun;
    }
    // The operating system's figures begin with the stream.
    all.os = piece.os;
    advance(
        &mut all.own.page_table,
        &begun.own.page_table,
        &piece.own.page_table,
    );
}

/// Adds to counters what they gained in a piece: those of what happened since the stream began, and
/// those of the piece alone, whose sizes and peaks go on where the last piece left them.
fn advance(all: &mut Value, begun: &Value, ended: &Value) {
    match (all, begun, ended) {
        (Value::Object(all), Value::Object(begun), Value::Object(ended)) => {
            for (name, ended) in ended {
                let before = begun.get(name).unwrap_or(&Value::Null);
                let sum = all.entry(name.clone()).or_insert_with(|| before.clone());
                advance(sum, before, ended);
            }
        }
        (Value::Array(all), Value::Array(begun), Value::Array(ended))
            if all.len() == ended.len() && begun.len() == ended.len() =>
        {
            for ((all, begun), ended) in all.iter_mut().zip(begun).zip(ended) {
                advance(all, begun, ended);
            }
        }
        (all, begun, ended) => {
            let sum = || {
                let gained = ended.as_i128()? - begun.as_i128()?;
                Number::from_i128(all.as_i128()? + gained)
            };
            *all = sum().map_or_else(|| ended.clone(), Value::Number);
        }
    }
}

/// A whole number, if it is one.
trait Whole {
    fn as_i128(&self) -> Option<i128>;
}

impl Whole for Value {
    fn as_i128(&self) -> Option<i128> {
        let unsigned = self.as_u64().map(i128::from);
        unsigned.or_else(|| self.as_i64().map(i128::from))
    }
}

/// Leaves out every other point, but the last, as long as there are too many.
fn thin(mut timeline: Vec<Sample>) -> Vec<Sample> {
    while timeline.len() > SAMPLES {
        let last = timeline.len() - 1;
        let mut place = 0;
        timeline.retain(|_| {
            place += 1;
            place % 2 == 1 || place == last + 1
        });
    }
    timeline
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counters_go_on() {
        let mut all = json!({ "walks": 5, "tables": [7, 9], "mean": 1.5, "kind": "x" });
        let begun = json!({ "walks": 2, "tables": [7, 9], "mean": 0.5, "kind": "x" });
        let ended = json!({ "walks": 12, "tables": [6, 11], "mean": 2.5, "kind": "x" });
        advance(&mut all, &begun, &ended);
        let expected = json!({ "walks": 15, "tables": [6, 11], "mean": 2.5, "kind": "x" });
        assert_eq!(all, expected);
    }
}
