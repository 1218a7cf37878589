use super::Machine;
use crate::caches::unknown::Unknown;
use crate::count::histogram::Histogram;
use crate::count::sums::Sums;
use crate::count::totals::{CoreTotals, Totals};
use crate::count::windows::{Gap, Measured, Walks, Window, Windows};
use crate::machine::chunk::CHUNK;
use crate::mmu::Mmu;
use pagelab_addr::{LINE_BYTES, PAGE_BYTES};
use pagelab_events::{Op, Unit, WarmUp};

impl<M: Mmu> Machine<M> {
    /// From the next window on, so much of its beginning is not measured.
    pub fn set_warm_up(&mut self, warm_up: WarmUp) {
        self.windows.warm_up = warm_up;
    }

    /// A window of what runs on a core ends here: `anything` was left out, or nothing, as where a program marks
    /// what it measures.
    pub(crate) fn left_out(&mut self, process: u32, core: usize, anything: bool) {
        let leader = *self.windows.leader.get_or_insert((process, core));
        if leader != (process, core) {
            return;
        }
        self.begin_window(anything);
    }

    /// Ends the window, and begins the next one with what of it is not measured.
    fn begin_window(&mut self, anything: bool) {
        self.end_window();
        // A stream that leaves out its beginning alone is no sample, and has nothing to pay for one.
        if self.windows.cut && anything {
            self.begin_to_estimate();
        }
        let WarmUp { length, unit } = self.windows.warm_up;
        self.windows.cut = true;
        self.windows.resume_at = Some(WarmUp {
            length: self.units(unit) + length,
            unit,
        });
    }

    /// Has caches and TLBs know that a window begins.
    fn begin_to_estimate(&mut self) {
        let frames = self.os.frames();
        let data = frames.data_frames();
        let lines = u64::from(data + frames.table_frames()) * (PAGE_BYTES / LINE_BYTES);
        let seen = self.units(Unit::Instructions).max(1);
        let spread = 1.0 + self.counts.skipped_instructions as f64 / seen as f64;
        self.shared.begin_window(lines as f64, spread);
        for caches in &mut self.caches {
            caches.begin_window(lines as f64, spread);
        }
        if !M::FREE {
            for core in &mut self.cores {
                let new = || Box::new(Unknown::new(self.tlb_entries));
                (core.unknown.get_or_insert_with(new)).begin_window(f64::from(data), spread);
            }
        }
    }

    /// Number of the accesses with these gaps and operations that may follow before [`Machine::left_to_warm_up`] is
    /// to be asked again. Begins to measure when the time has come.
    #[inline]
    pub(crate) fn left_to_warm_up(&mut self, gaps: &[u32], ops: &[Op]) -> u64 {
        if self.counts.accesses == 0 && !self.windows.cut {
            // Tables that are there before the first access are none of the first window's doing.
            self.windows.begun_own = self.own_counters();
            if self.windows.warm_up.length > 0 {
                // The stream begins with what is not measured.
                self.begin_window(true);
            }
        }
        match self.windows.resume_at {
            None => u64::MAX,
            Some(place) => self.warm_up_to(place, gaps, ops),
        }
    }

    #[cold]
    fn warm_up_to(&mut self, place: WarmUp, gaps: &[u32], ops: &[Op]) -> u64 {
        let left = place.length.saturating_sub(self.units(place.unit));
        let accesses = match place.unit {
            Unit::Accesses => left,
            Unit::Instructions => accesses_within(left, gaps, ops),
        };
        if accesses > 0 {
            return accesses;
        }
        self.measure_from_here();
        u64::MAX
    }

    /// Measures from here on.
    pub(crate) fn measure_from_here(&mut self) {
        self.finish_all();
        self.end_gap();
        self.timing.walk_latency = Histogram::default();
        self.windows.begun = self.totals();
        self.windows.begun_cores = self.core_totals();
        self.windows.begun_own = self.own_counters();
        self.windows.resume_at = None;
    }

    /// True if what comes next is measured.
    pub(crate) fn measures(&self) -> bool {
        self.windows.resume_at.is_none()
    }

    /// Number of them so far.
    fn units(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Accesses => self.counts.accesses,
            Unit::Instructions => {
                let cores = self.cores.iter();
                cores.map(|core| core.clock.instructions()).sum()
            }
        }
    }

    fn end_window(&mut self) {
        self.finish_all();
        if self.windows.resume_at.is_some() {
            return;
        }
        let totals = self.totals().since(&self.windows.begun);
        if totals.accesses == 0 {
            self.windows.initialisation = self.windows.initialisation.and(&totals);
            return;
        }
        let latency = std::mem::take(&mut self.timing.walk_latency);
        let walks = Walks {
            count: latency.count(),
            cycles: latency.sum(),
        };
        self.windows.walk_latency.merge(&latency);
        self.windows.measured = self.windows.measured.and(&totals);
        self.windows.measured_cores = self.measured_cores();
        let own = self.own_counters().since(&self.windows.begun_own);
        self.windows.gap_begun = Some((self.totals(), self.counts.skipped_instructions));
        let after = Gap::default();
        (self.windows.ended).push(Window {
            totals,
            walks,
            own,
            after,
        });
    }

    /// The window that ended last stands for what has not been measured since, too.
    fn end_gap(&mut self) {
        let Some((begun, skipped)) = self.windows.gap_begun.take() else {
            return;
        };
        let since = self.totals().since(&begun);
        let skipped = self.counts.skipped_instructions - skipped;
        if let Some(window) = self.windows.ended.last_mut() {
            window.after = Gap {
                instructions: since.instructions + skipped,
                stalls: since.stalls,
                zeroing: since.zeroing,
            };
        }
    }

    /// Totals measured so far.
    pub(crate) fn measured_totals(&self) -> Totals {
        let ended = self.windows.measured;
        if self.windows.resume_at.is_some() {
            return ended;
        }
        ended.and(&self.totals().since(&self.windows.begun))
    }

    /// Totals measured on each core up to now, in a window that is being measured.
    fn measured_cores(&self) -> Vec<CoreTotals> {
        let at = |totals: &Vec<CoreTotals>, core| totals.get(core).copied().unwrap_or_default();
        let Windows {
            measured_cores,
            begun_cores,
            ..
        } = &self.windows;
        let now = self.core_totals().into_iter().enumerate();
        now.map(|(core, now)| {
            now.since(&at(begun_cores, core))
                .and(&at(measured_cores, core))
        })
        .collect()
    }

    /// All windows that have ended; the whole where nothing is cut.
    pub(crate) fn measured_so_far(&self) -> Measured {
        let ended = &self.windows;
        if !ended.cut {
            return Measured {
                totals: self.totals(),
                cores: self.core_totals(),
                walk_latency: self.timing.walk_latency.clone(),
                windows: Vec::new(),
                initialisation: Totals::default(),
            };
        }
        Measured {
            totals: ended.measured,
            cores: ended.measured_cores.clone(),
            walk_latency: ended.walk_latency.clone(),
            windows: ended.ended.clone(),
            initialisation: ended.initialisation,
        }
    }

    /// Everything that was measured.
    pub(crate) fn measured(&mut self) -> Measured {
        if !self.windows.cut {
            return Measured {
                totals: self.totals(),
                cores: self.core_totals(),
                walk_latency: std::mem::take(&mut self.timing.walk_latency),
                windows: Vec::new(),
                initialisation: Totals::default(),
            };
        }
        self.end_window();
        self.end_gap();
        let windows = std::mem::take(&mut self.windows);
        Measured {
            totals: windows.measured,
            cores: windows.measured_cores,
            walk_latency: windows.walk_latency,
            windows: windows.ended,
            initialisation: windows.initialisation,
        }
    }
}

/// Number of the accesses with these gaps and operations that have fewer than so many instructions before their own,
/// as far as a chunk reaches.
fn accesses_within(instructions: u64, gaps: &[u32], ops: &[Op]) -> u64 {
    let ends = gaps.iter().zip(ops).take(CHUNK).scan(0, |end, (&gap, op)| {
        *end += op.instructions(gap);
        Some(*end)
    });
    ends.take_while(|&end| end <= instructions).count() as u64
}
