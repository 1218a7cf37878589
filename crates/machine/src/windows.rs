use crate::histogram::Histogram;
use crate::machine::Machine;
use crate::totals::{CoreTotals, Totals};
use pagelab_translation::{PageTable, Tlb};

/// Which parts of a stream are measured.
///
/// A window is what lies between two places at which accesses were left out. Its first accesses
/// may be there to warm the machine up; it is measured from then on. What the kernel does where
/// accesses are left out (system calls, the initialisation of a built-in workload) takes place but
/// is not measured. A stream that leaves nothing out is measured whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    /// Accesses of each window that are not measured.
    warm_up: u64,
    /// The number of accesses after which to measure on; `None` while measuring.
    resume_at: Option<u64>,
    /// How things stood when the window began to be measured.
    begun: Totals,
    /// The process and the core on which accesses were first left out. Where others leave some out
    /// no window ends: each thread of a program leaves its own out.
    leader: Option<(u32, usize)>,
    /// The windows that have ended.
    ended: Vec<(Totals, Walks)>,
    /// Their sum.
    measured: Totals,
    /// The same for each core; and where the window that is being measured began.
    measured_cores: Vec<CoreTotals>,
    begun_cores: Vec<CoreTotals>,
    walk_latency: Histogram,
    /// All of what comes before the first access, if nothing of it is measured.
    initialisation: Totals,
}

/// Page walks of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walks {
    pub(crate) count: u64,
    pub(crate) cycles: u64,
}

/// What was measured.
pub(crate) struct Measured {
    pub(crate) totals: Totals,
    pub(crate) cores: Vec<CoreTotals>,
    pub(crate) walk_latency: Histogram,
    /// Each window by itself, unless the stream was measured whole.
    pub(crate) windows: Vec<(Totals, Walks)>,
    /// What came before the first access.
    pub(crate) initialisation: Totals,
}

impl<P: PageTable, T: Tlb> Machine<P, T> {
    /// From the next window on, so many accesses at its beginning are not measured.
    pub fn set_warm_up(&mut self, accesses: u64) {
        self.windows.warm_up = accesses;
    }

    /// Accesses were left out here by what runs on a core.
    pub(crate) fn left_out(&mut self, process: u32, core: usize) {
        let leader = *self.windows.leader.get_or_insert((process, core));
        if leader != (process, core) {
            return;
        }
        self.end_window();
        self.windows.resume_at = Some(self.counts.accesses + self.windows.warm_up);
    }

    /// How many accesses may follow before [`Machine::left_to_warm_up`] is to be asked again.
    /// Begins to measure when the time has come.
    #[inline]
    pub(crate) fn left_to_warm_up(&mut self) -> u64 {
        match self.windows.resume_at {
            None => u64::MAX,
            Some(place) if place > self.counts.accesses => place - self.counts.accesses,
            Some(_) => {
                self.timing.walk_latency = Histogram::default();
                self.windows.begun = self.totals();
                self.windows.begun_cores = self.core_totals();
                self.windows.resume_at = None;
                u64::MAX
            }
        }
    }

    fn end_window(&mut self) {
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
        self.windows.ended.push((totals, walks));
    }

    /// What was measured so far.
    pub(crate) fn measured_totals(&self) -> Totals {
        let ended = self.windows.measured;
        if self.windows.resume_at.is_some() {
            return ended;
        }
        ended.and(&self.totals().since(&self.windows.begun))
    }

    /// What was measured on each core up to now, in a window that is being measured.
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

    /// What was measured in all.
    pub(crate) fn measured(&mut self) -> Measured {
        if self.windows.leader.is_none() {
            return Measured {
                totals: self.totals(),
                cores: self.core_totals(),
                walk_latency: std::mem::take(&mut self.timing.walk_latency),
                windows: Vec::new(),
                initialisation: Totals::default(),
            };
        }
        self.end_window();
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
