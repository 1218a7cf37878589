//! Runs kernels in tests.

use crate::emitter::{Emitter, Output};
use crate::{Workload, memory::Memory};
use pagelab_events::{Access, Batch, Control, Source};
use std::cell::Cell;
use std::sync::mpsc::{channel, sync_channel};

/// Runs a kernel whole; returns its result and its accesses.
pub(crate) fn run<R>(kernel: impl Fn(&mut Emitter) -> R) -> (R, Vec<Access>) {
    let (batches, received) = sync_channel(1 << 16);
    let (_, used) = channel();
    let mut emitter = Emitter::new(Output { batches, used }, vec![(0, u64::MAX)]);
    let result = Cell::new(None);
    emitter.run(&|out| result.set(Some(kernel(out))));
    drop(emitter.finish());
    let batches: Vec<Batch> = received.iter().collect();
    (
        result.take().expect("the kernel has run"),
        accesses(&batches),
    )
}

/// All batches of a workload.
pub(crate) fn batches(workload: &Workload, parameters: &[(&str, &str)]) -> Vec<Batch> {
    let parameters: Vec<(String, String)> = parameters
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let mut source = workload.start(&parameters).expect("valid parameters");
    let mut all = Vec::new();
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).expect("programs do not fail") {
        all.push(std::mem::take(&mut batch));
    }
    all
}

pub(crate) fn accesses(batches: &[Batch]) -> Vec<Access> {
    let rows = |batch: &Batch| {
        (0..batch.len())
            .map(|at| batch.access(at))
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(rows).collect()
}

/// What is mapped, as (first byte, length).
pub(crate) fn mapped(batches: &[Batch]) -> Vec<(u64, u64)> {
    let controls = batches.iter().flat_map(|batch| &batch.controls);
    controls
        .filter_map(|(_, control)| match *control {
            Control::Map { addr, len, .. } => Some((addr, len)),
            _ => None,
        })
        .collect()
}

/// Checks that all accesses lie in memory that is mapped.
pub(crate) fn check_places(memory: &Memory, accesses: &[Access]) {
    let mapped = memory.mappings();
    for access in accesses {
        let end = access.addr + u64::from(access.op.size());
        assert!(
            mapped
                .iter()
                .any(|m| m.addr <= access.addr && end <= m.addr + m.len),
            "{access:?}"
        );
    }
}
