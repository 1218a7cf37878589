use crate::count::histogram::Histogram;
use crate::count::own_counters::{Changes, OwnCounters};
use crate::count::sums::sums;
use crate::count::totals::{CoreTotals, Totals};
use pagelab_cpu::Stalls;
use pagelab_events::WarmUp;

/// Measured parts of a stream.
///
/// A window is what lies between two places at which accesses were left out, or between one and an
/// end of the stream. Its beginning may be there to warm the machine up; it is measured from then
/// on. What the kernel does where
/// accesses are left out (system calls, the initialisation of a built-in workload) takes place but
/// is not measured. A stream that leaves nothing out, and warms nothing up, is measured whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    /// Part of each window that is not measured.
    pub(crate) warm_up: WarmUp,
    /// Number of units there will have been in all when measuring goes on; `None` while measuring.
    pub(crate) resume_at: Option<WarmUp>,
    /// Anything is not measured.
    pub(crate) cut: bool,
    /// Totals when the window began to be measured.
    pub(crate) begun: Totals,
    /// The same of what only the design counts.
    pub(crate) begun_own: OwnCounters,
    /// The process and the core on which accesses were first left out. Where others leave some out
    /// no window ends: each thread of a program leaves its own out.
    pub(crate) leader: Option<(u32, usize)>,
    /// The windows that have ended.
    pub(crate) ended: Vec<Window>,
    /// Their sum.
    pub(crate) measured: Totals,
    /// The same for each core; and where the window that is being measured began.
    pub(crate) measured_cores: Vec<CoreTotals>,
    pub(crate) begun_cores: Vec<CoreTotals>,
    pub(crate) walk_latency: Histogram,
    /// All of what comes before the first access, if nothing of it is measured.
    pub(crate) initialisation: Totals,
    /// Totals when the last window ended, with the instructions skipped by then; `None` while
    /// measuring.
    pub(crate) gap_begun: Option<(Totals, u64)>,
}

/// A window that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) totals: Totals,
    pub(crate) walks: Walks,
    pub(crate) own: Changes,
    pub(crate) after: Gap,
}

sums! {
    /// The part not measured between a window and the next one. Times are in slots.
    pub(crate) struct Gap {
        /// Left out, or simulated to warm the machine up.
        pub(crate) instructions: u64,
        pub(crate) stalls: Stalls,
        pub(crate) zeroing: u64,
    }
}

sums! {
    /// Page walks of a window.
    pub(crate) struct Walks {
        pub(crate) count: u64,
        pub(crate) cycles: u64,
    }
}

/// A measured part.
pub(crate) struct Measured {
    pub(crate) totals: Totals,
    pub(crate) cores: Vec<CoreTotals>,
    pub(crate) walk_latency: Histogram,
    /// Each window by itself, unless the stream was measured whole.
    pub(crate) windows: Vec<Window>,
    /// Totals before the first access.
    pub(crate) initialisation: Totals,
}
