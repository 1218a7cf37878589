//! The machine's knowledge of the code that its accesses come from.

use super::{CoreState, Machine};
use crate::mmu::Mmu;
use pagelab_events::Batch;
use pagelab_execution::Next;
use std::ops::Range;

impl<M: Mmu> Machine<M> {
    /// Takes in what a batch says of the code.
    pub(crate) fn define_code(&mut self, batch: &Batch) {
        let program = self.program();
        if let Some(fetch) = &mut self.fetch {
            fetch.define(program, &batch.definitions);
        }
        if let Some(execution) = &mut self.execution {
            execution.define(program, &batch.definitions);
        }
        let Some(tallies) = &mut self.timing.by_code else {
            return;
        };
        for definition in &batch.definitions {
            tallies.program(program).define(definition);
        }
    }

    /// Executes what a batch says of code behind its last access.
    pub(crate) fn run_on(&mut self, batch: &Batch) {
        let flow = (batch.flow).partition_point(|entry| (entry.0 as usize) < batch.len());
        let runs = |(process, _)| process == batch.process;
        if !self.current.is_some_and(runs) || flow == batch.flow.len() {
            return;
        }
        let place = (self.current_core(), self.program());
        if let Some(execution) = &mut self.execution {
            let CoreState { clock, sharing, .. } = &mut self.cores[place.0];
            let thread = sharing.running(batch.process).unwrap_or(0);
            execution.run_on(place, thread, &batch.flow[flow..], clock);
        }
    }

    /// Has what is executed up to each of the next accesses at hand.
    pub(crate) fn execute(&mut self, batch: &Batch, of: Range<usize>, dep: &[u32]) {
        let (core, program) = (self.current_core(), self.program());
        let CoreState {
            clock, accesses, ..
        } = &self.cores[core];
        let flow = (batch.flow).partition_point(|entry| (entry.0 as usize) < of.start);
        let next = Next {
            core,
            program,
            at: of.start,
            before: *accesses,
            gap: &batch.gap[of.clone()],
            dep,
            site: batch.site.get(of).unwrap_or_default(),
            flow: &batch.flow[flow..],
        };
        if let Some(execution) = &mut self.execution {
            execution.chunk(&next, clock);
        }
    }
}
