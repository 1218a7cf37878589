//! Programs that recorded ones have started by execve.

use std::collections::BTreeMap;

/// Programs seen so far.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    followed: u64,
    /// With the ring of the thread that started each: its execve may yet fail.
    left_out: Vec<(usize, String)>,
}

impl Programs {
    /// One runs on recorded.
    pub(crate) fn follow(&mut self) {
        self.followed += 1;
    }

    /// The thread of `ring` is about to start one that will not be recorded.
    pub(crate) fn leave_out(&mut self, ring: usize, path: String) {
        self.left_out.push((ring, path));
    }

    /// The thread is still there: its execve has failed.
    pub(crate) fn failed(&mut self, ring: usize) {
        if let Some(at) = self.left_out.iter().rposition(|(of, _)| *of == ring) {
            self.left_out.remove(at);
        }
    }

    /// Number of those that were recorded.
    pub(crate) fn followed(&self) -> u64 {
        self.followed
    }

    /// The others: how often each was started.
    pub(crate) fn unrecorded(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (_, path) in &self.left_out {
            *counts.entry(path.clone()).or_default() += 1;
        }
        counts
    }
}
