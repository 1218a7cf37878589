//! The machine's knowledge of the code that its accesses come from.

use super::{CoreState, Machine};
use crate::mmu::Mmu;
use pagelab_events::Batch;
use std::ops::Range;

impl<M: Mmu> Machine<M> {
    /// Takes in what a batch says of the code.
    pub(crate) fn define_code(&mut self, batch: &Batch) {
        let program = self.program();
        if let Some(fetch) = &mut self.fetch {
            fetch.define(program, &batch.definitions);
        }
        if let Some(look_ahead) = &mut self.look_ahead {
            look_ahead.define(program, &batch.definitions);
        }
        if let Some(computing) = &mut self.computing {
            computing.define(program, &batch.definitions);
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
        if let Some(computing) = &mut self.computing {
            let CoreState { clock, sharing, .. } = &mut self.cores[place.0];
            let thread = sharing.running(batch.process).unwrap_or(0);
            computing.run_on(place, thread, &batch.flow[flow..], clock);
        }
    }

    /// Has what is computed up to each of the next accesses at hand.
    pub(crate) fn compute(&mut self, batch: &Batch, of: Range<usize>, dep: &[u32]) {
        let place = (self.current_core(), self.program());
        let state = &self.cores[place.0];
        let clock = &state.clock;
        let known = (state.accesses, clock.now(), clock.waited_for_arithmetic());
        let flow = (batch.flow).partition_point(|entry| (entry.0 as usize) < of.start);
        let site = batch.site.get(of.clone()).unwrap_or_default();
        if let Some(computing) = &mut self.computing {
            computing.sample(place.0, known);
            computing.chunk(place, of.start, dep, site, &batch.flow[flow..]);
        }
    }
}
