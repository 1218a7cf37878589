//! The `tiered` manager: pages in use near the processors, the others in the second node.
//!
//! After TieredMFS (Tabatabai et al., "FBMM", USENIX ATC 2024, section 5.1). Each node has a list
//! of hot and one of cold pages. Every interval the accessed bits of all pages move them between
//! the two. Then, as long as the near node has less free memory than one threshold, the page that
//! has been cold longest leaves it; as long as it has more than the other, lower one, a hot page of
//! the far node comes. Only pages that were faulted in as 4 KiB are in the lists.

use crate::OsConfigError;
use crate::buddy::Buddy;
use crate::mapper::Mapper;
use pagelab_addr::{PageSize, Pfn};
use pagelab_translation::{PageTable, Translation};
use serde::{Deserialize, Serialize};

/// Parameters of the `tiered` manager. The paper has administrators choose them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    pub(crate) fn validate(&self, nodes: usize) -> Result<(), OsConfigError> {
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

/// What the `tiered` manager has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
/// No frame.
const NONE: u32 = u32::MAX;

/// One of the four lists: twice the node, one more for its hot pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct List(u8);

impl List {
    /// The list of a frame that is in none.
    const NONE: List = List(u8::MAX);

    fn of(node: usize, hot: bool) -> List {
        List(node as u8 * 2 + u8::from(hot))
    }

    fn number(self) -> usize {
        usize::from(self.0)
    }

    fn is_hot(self) -> bool {
        self.0 & 1 != 0
    }
}

/// The lists, and what was accessed since the last tick.
#[derive(Clone, Debug)]
pub(crate) struct Tiers {
    pages: u32,
    /// Free frames of the near node below which it takes no page, and below which pages leave it.
    allocation: u32,
    reclamation: u32,
    /// By frame: the next towards the top of its list, and towards the bottom.
    links: Vec<[u32; 2]>,
    /// By frame: the list that it is in.
    lists: Vec<List>,
    accessed: Vec<bool>,
    /// Top and bottom of each list, and its length.
    ends: [[u32; 2]; 4],
    lengths: [u64; 4],
    pub(crate) statistics: TierStatistics,
}

const UP: usize = 0;
const DOWN: usize = 1;

impl Tiers {
    pub(crate) fn new(config: &TieredConfig, near_frames: u32, frames: u32) -> Self {
        let share = |share: f64| (share * f64::from(near_frames)).round() as u32;
        let frames = frames as usize;
        Tiers {
            pages: config.pages,
            allocation: share(config.allocation),
            reclamation: share(config.reclamation),
            links: vec![[NONE; 2]; frames],
            lists: vec![List::NONE; frames],
            accessed: vec![false; frames],
            ends: [[NONE; 2]; 4],
            lengths: [0; 4],
            statistics: TierStatistics::default(),
        }
    }

    /// Where a new page goes.
    pub(crate) fn node(&self, buddy: &Buddy) -> usize {
        if buddy.free_frames_of(NEAR) > self.allocation {
            NEAR
        } else {
            FAR
        }
    }

    /// A page was accessed by a translation that was not cached: its accessed bit is set.
    #[inline]
    pub(crate) fn access(&mut self, pfn: Pfn) {
        self.accessed[pfn.0 as usize] = true;
    }

    /// A new page, which is hot.
    pub(crate) fn add(&mut self, pfn: Pfn, node: usize) {
        self.push(pfn.0, List::of(node, true));
    }

    /// A frame that is freed, or that its page leaves: whether its page was hot, if it was in a
    /// list.
    pub(crate) fn remove(&mut self, pfn: Pfn) -> Option<bool> {
        let list = std::mem::replace(&mut self.lists[pfn.0 as usize], List::NONE);
        if list == List::NONE {
            return None;
        }
        let [up, down] = self.links[pfn.0 as usize];
        let ends = &mut self.ends[list.number()];
        match up {
            NONE => ends[UP] = down,
            _ => self.links[up as usize][DOWN] = down,
        }
        match down {
            NONE => ends[DOWN] = up,
            _ => self.links[down as usize][UP] = up,
        }
        self.lengths[list.number()] -= 1;
        self.accessed[pfn.0 as usize] = false;
        Some(list.is_hot())
    }

    /// A page has moved to another frame.
    pub(crate) fn follow(&mut self, from: Pfn, to: Pfn, node: usize) {
        if let Some(hot) = self.remove(from) {
            self.push(to.0, List::of(node, hot));
        }
    }

    /// Puts a frame on top of a list.
    fn push(&mut self, frame: u32, list: List) {
        let ends = &mut self.ends[list.number()];
        let below = std::mem::replace(&mut ends[UP], frame);
        match below {
            NONE => ends[DOWN] = frame,
            _ => self.links[below as usize][UP] = frame,
        }
        self.links[frame as usize] = [NONE, below];
        self.lists[frame as usize] = list;
        self.lengths[list.number()] += 1;
    }

    fn end(&self, node: usize, hot: bool, end: usize) -> Option<Pfn> {
        let frame = self.ends[List::of(node, hot).number()][end];
        (frame != NONE).then_some(Pfn(frame))
    }

    /// Moves pages between the lists by their accessed bits, and clears those.
    fn age(&mut self) {
        let mut changed = Vec::new();
        for node in [NEAR, FAR] {
            for hot in [true, false] {
                let list = List::of(node, hot);
                let mut frame = self.ends[list.number()][DOWN];
                while frame != NONE {
                    let accessed = std::mem::take(&mut self.accessed[frame as usize]);
                    if accessed != hot {
                        changed.push((frame, List::of(node, !hot)));
                    }
                    frame = self.links[frame as usize][UP];
                }
            }
        }
        for (frame, list) in changed {
            self.remove(Pfn(frame));
            self.push(frame, list);
        }
        self.statistics.ticks += 1;
        let length = |node, hot| self.lengths[List::of(node, hot).number()];
        self.statistics.hot = [length(NEAR, true), length(FAR, true)];
        self.statistics.cold = [length(NEAR, false), length(FAR, false)];
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// What the `tiered` manager does every interval.
    pub(crate) fn tick(&mut self) {
        let Some(tiers) = self.frames.tiers_mut() else {
            return;
        };
        tiers.age();
        let Tiers {
            pages,
            allocation,
            reclamation,
            ..
        } = *tiers;
        let mut demoted = 0;
        while demoted < pages
            && self.frames.buddy().free_frames_of(NEAR) < reclamation
            && self.move_end(NEAR, false, DOWN)
        {
            demoted += 1;
        }
        let mut promoted = 0;
        while promoted < pages
            && self.frames.buddy().free_frames_of(NEAR) > allocation
            && self.move_end(FAR, true, UP)
        {
            promoted += 1;
        }
        if let Some(tiers) = self.frames.tiers_mut() {
            tiers.statistics.demoted += u64::from(demoted);
            tiers.statistics.promoted += u64::from(promoted);
        }
    }

    /// Moves the page at the end of a list to the other node; whether there was one, and a frame
    /// for it.
    fn move_end(&mut self, node: usize, hot: bool, end: usize) -> bool {
        let Some(from) = self
            .frames
            .tiers_mut()
            .and_then(|tiers| tiers.end(node, hot, end))
        else {
            return false;
        };
        let Some(to) = self.frames.move_to_node(from, 1 - node) else {
            return false;
        };
        for page in self.owners(to) {
            let old = self.translation(page);
            let updated = self.table.update(page, Translation { pfn: to, ..old });
            debug_assert!(updated);
            self.effects.work.entries_written += 1;
            self.effects.invalidate(page.id, PageSize::Base4K);
        }
        self.effects.pages_migrated += 1;
        self.effects.shootdowns += 1;
        self.statistics.pages_migrated += 1;
        true
    }
}
