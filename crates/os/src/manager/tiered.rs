//! The `tiered` manager: pages in use near the processors, the others in the second node.
//!
//! After TieredMFS (Tabatabai et al., "FBMM", USENIX ATC 2024, section 5.1). Each node has a list
//! of hot and one of cold pages. Every interval the accessed bits of all pages move them between
//! the two. Then, as long as the near node has less free memory than one threshold, the page that
//! has been cold longest leaves it; as long as it has more than the other, lower one, a hot page of
//! the far node comes. Only pages that were faulted in as 4 KiB are in the lists.

use super::{About, Manager, Run, take};
use crate::OsConfigError;
use crate::frames::buddy::Buddy;
use crate::frames::frame_lists::FrameLists;
use pagelab_addr::{PageSize, Pfn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: About = (
    "tiered",
    "pages in use in the near node, others moved to the far one: interval_us, allocation, \
     reclamation, pages (TieredMFS of the FBMM paper)",
);

/// Parameters of the `tiered` manager. The paper has administrators choose them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TieredConfig {
    /// Time between two looks at the accessed bits, in microseconds of simulated time.
    pub interval_us: f64,
    /// Share of the near node that stays free of new and of promoted pages.
    pub allocation: f64,
    /// Share of the near node that is free after demotion; above `allocation`.
    pub reclamation: f64,
    /// The most pages that are demoted, and promoted, at a time.
    pub pages: u32,
}

impl Default for TieredConfig {
    fn default() -> Self {
        TieredConfig {
            interval_us: 10_000.0,
            allocation: 0.02,
            reclamation: 0.04,
            pages: 256,
        }
    }
}

impl TieredConfig {
    fn validate(&self, nodes: usize) -> Result<(), OsConfigError> {
        let refuse = |key, reason| Err(OsConfigError { key, reason });
        let TieredConfig {
            interval_us,
            allocation,
            reclamation,
            ..
        } = *self;
        if nodes != 2 {
            let reason = format!("tiered is for memory of 2 nodes, not of {nodes}");
            return refuse("manager", reason);
        }
        if !(0.001..1e12).contains(&interval_us) {
            let reason = format!("{interval_us} is not a time from 0.001 to 10^12 us");
            return refuse("manager.interval_us", reason);
        }
        if !(0.0..=1.0).contains(&reclamation) || !(0.0..=reclamation).contains(&allocation) {
            let reason = format!(
                "{allocation} and reclamation = {reclamation} are not shares, the second the larger"
            );
            return refuse("manager.allocation", reason);
        }
        Ok(())
    }
}

/// Counts of the `tiered` manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TierStatistics {
    /// Looks at the accessed bits.
    pub ticks: u64,
    /// Pages that were moved to the far node.
    pub demoted: u64,
    /// Pages that were moved to the near node.
    pub promoted: u64,
    /// Hot pages of the near node, then of the far one, at the last tick.
    pub hot: [u64; 2],
    /// Cold pages.
    pub cold: [u64; 2],
}

const NEAR: usize = 0;
const FAR: usize = 1;
/// One of the four lists: twice the node, one more for its hot pages.
fn list(node: usize, hot: bool) -> usize {
    node * 2 + usize::from(hot)
}

/// The lists, and what was accessed since the last tick.
#[derive(Clone, Debug)]
pub(super) struct Tiered {
    interval_ns: f64,
    pages: u32,
    /// The far node's first frame.
    far: Pfn,
    /// Free frames of the near node below which it takes no page, and below which pages leave it.
    allocation: u32,
    reclamation: u32,
    /// Moves that this tick may still make: demotions, promotions.
    left: [u32; 2],
    lists: FrameLists,
    accessed: Vec<bool>,
    statistics: TierStatistics,
}

const DEMOTE: usize = 0;
const PROMOTE: usize = 1;

impl Tiered {
    pub(super) fn new(
        config: &TieredConfig,
        starts: &[u32],
        frames: u32,
    ) -> Result<Self, OsConfigError> {
        config.validate(starts.len())?;
        let share = |share: f64| (share * f64::from(starts[FAR])).round() as u32;
        Ok(Tiered {
            interval_ns: config.interval_us * 1000.0,
            pages: config.pages,
            far: Pfn(starts[FAR]),
            allocation: share(config.allocation),
            reclamation: share(config.reclamation),
            left: [0; 2],
            lists: FrameLists::new(4, frames),
            accessed: vec![false; frames as usize],
            statistics: TierStatistics::default(),
        })
    }

    fn node(&self, pfn: Pfn) -> usize {
        if pfn < self.far { NEAR } else { FAR }
    }

    /// Takes a frame from its list: whether it was a hot one, if it was in any.
    fn remove(&mut self, pfn: Pfn) -> Option<bool> {
        let list = self.lists.remove(pfn)?;
        self.accessed[pfn.0 as usize] = false;
        Some(list & 1 != 0)
    }

    /// Moves pages between the lists by their accessed bits, and clears those.
    fn age(&mut self) {
        let mut changed = Vec::new();
        for node in [NEAR, FAR] {
            for hot in [true, false] {
                for pfn in self.lists.upwards(list(node, hot)) {
                    let accessed = std::mem::take(&mut self.accessed[pfn.0 as usize]);
                    if accessed != hot {
                        changed.push((pfn, list(node, !hot)));
                    }
                }
            }
        }
        for (pfn, list) in changed {
            self.lists.move_to(pfn, list);
        }
        self.statistics.ticks += 1;
        let length = |node, hot| self.lists.length(list(node, hot));
        self.statistics.hot = [length(NEAR, true), length(FAR, true)];
        self.statistics.cold = [length(NEAR, false), length(FAR, false)];
    }
}

impl Manager for Tiered {
    fn boxed(&self) -> Box<dyn Manager> {
        Box::new(self.clone())
    }

    fn alloc(&mut self, memory: &mut Buddy, run: &mut Run) -> Option<Pfn> {
        let has_room = memory.free_frames_of(NEAR) > self.allocation;
        take(memory, if has_room { NEAR } else { FAR }, run.order)
    }

    /// New pages are hot.
    fn added(&mut self, pfn: Pfn, size: PageSize) {
        if size == PageSize::Base4K {
            self.lists.push(pfn, list(self.node(pfn), true));
        }
    }

    fn moved(&mut self, from: Pfn, to: Pfn) {
        if let Some(hot) = self.remove(from) {
            self.lists.push(to, list(self.node(to), hot));
        }
    }

    fn removing(&mut self, pfn: Pfn) {
        self.remove(pfn);
    }

    fn accessed(&mut self, pfn: Pfn) {
        self.accessed[pfn.0 as usize] = true;
    }

    fn interval_ns(&self) -> Option<f64> {
        Some(self.interval_ns)
    }

    fn tick(&mut self) {
        self.age();
        self.left = [self.pages; 2];
    }

    /// First the pages that have been cold longest leave, then hot ones come.
    fn next_move(&mut self, memory: &Buddy) -> Option<(Pfn, usize)> {
        if self.left[DEMOTE] > 0
            && memory.free_frames_of(NEAR) < self.reclamation
            && memory.free_frames_of(FAR) > 0
            && let Some(page) = self.lists.bottom(list(NEAR, false))
        {
            self.left[DEMOTE] -= 1;
            self.statistics.demoted += 1;
            return Some((page, FAR));
        }
        self.left[DEMOTE] = 0;
        if self.left[PROMOTE] > 0
            && memory.free_frames_of(NEAR) > self.allocation
            && let Some(page) = self.lists.top(list(FAR, true))
        {
            self.left[PROMOTE] -= 1;
            self.statistics.promoted += 1;
            return Some((page, NEAR));
        }
        None
    }

    fn tiers(&self) -> Option<TierStatistics> {
        Some(self.statistics)
    }
}
