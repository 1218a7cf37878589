//! Sources of events by their JSON description.

use pagelab_events::{Batch, Control, Source, SourceError, TraceReader};
use pagelab_workloads::Workload;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What `pagelab simulate` names: a trace or a workload, and which part of it.
#[derive(Deserialize)]
pub(crate) struct SourceSpec {
    #[serde(flatten)]
    origin: Origin,
    #[serde(default)]
    skip: u64,
    limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Origin {
    Trace {
        path: String,
    },
    Workload {
        name: String,
        #[serde(default)]
        parameters: BTreeMap<String, String>,
    },
}

impl SourceSpec {
    pub(crate) fn open(&self) -> Result<Box<dyn Source + Send>, String> {
        let source: Box<dyn Source + Send> = match &self.origin {
            Origin::Trace { path } => Box::new(TraceReader::open(path).map_err(|e| e.to_string())?),
            Origin::Workload { name, parameters } => {
                let workload =
                    Workload::find(name).ok_or_else(|| format!("unknown workload {name:?}"))?;
                let given: Vec<_> = parameters.clone().into_iter().collect();
                workload
                    .start(&given)
                    .map_err(|error| format!("workload {name}: {error}"))?
            }
        };
        if self.skip == 0 && self.limit.is_none() {
            return Ok(source);
        }
        Ok(Box::new(Window {
            source,
            skip: self.skip,
            left: self.limit.unwrap_or(u64::MAX),
        }))
    }
}

/// A part of a source: without the first accesses, and with so many at most. Control events of
/// what is skipped still happen: memory is mapped where the program mapped it.
struct Window {
    source: Box<dyn Source + Send>,
    skip: u64,
    left: u64,
}

impl Source for Window {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.left == 0 || !self.source.next_batch(batch)? {
            batch.clear();
            return Ok(false);
        }
        if self.skip > 0 {
            let skipped = self.skip.min(batch.len() as u64);
            self.skip -= skipped;
            drop_front(batch, skipped as usize);
        }
        if batch.len() as u64 > self.left {
            truncate(batch, self.left as usize);
        }
        self.left -= batch.len() as u64;
        Ok(true)
    }

    fn remaining(&self) -> Option<u64> {
        let rest = self.source.remaining()?;
        Some(rest.saturating_sub(self.skip).min(self.left))
    }
}

/// Takes the first accesses out and says so with a control event in their place.
fn drop_front(batch: &mut Batch, count: usize) {
    let instructions = batch.gap[..count]
        .iter()
        .map(|&gap| u64::from(gap) + 1)
        .sum();
    batch.addr.drain(..count);
    batch.op.drain(..count);
    batch.gap.drain(..count);
    batch.dep.drain(..count);
    let after = batch
        .controls
        .partition_point(|&(at, _)| (at as usize) < count);
    for (at, _) in &mut batch.controls {
        *at = at.saturating_sub(count as u32);
    }
    let skipped = Control::Skipped {
        instructions,
        accesses: count as u64,
    };
    batch.controls.insert(after, (0, skipped));
}

/// Ends a batch after so many accesses.
fn truncate(batch: &mut Batch, count: usize) {
    batch.addr.truncate(count);
    batch.op.truncate(count);
    batch.gap.truncate(count);
    batch.dep.truncate(count);
    batch.controls.retain(|&(at, _)| at as usize <= count);
}
