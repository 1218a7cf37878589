//! Runs kernels in tests.

use crate::emitter::{Emitter, Output};
use crate::memory::Memory;
use pagelab_events::{Access, Batch};
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
    let rows = |batch: &Batch| {
        (0..batch.len())
            .map(|at| batch.access(at))
            .collect::<Vec<_>>()
    };
    (
        result.take().expect("the kernel has run"),
        batches.iter().flat_map(rows).collect(),
    )
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
