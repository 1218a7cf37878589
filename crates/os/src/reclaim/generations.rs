//! Generations of pages by their last use (`struct lru_gen_folio` in include/linux/mmzone.h, Linux 6.12).
//!
//! Each generation has a list for each kind of memory. A unit counts for a generation and is in the list of that one,
//! or still of an older one where aging found it used: it moves when eviction comes upon it. Units that came back soon
//! after they left are of tier 1; tiers above are of files that are read by system calls, which are not modelled.

use super::kind::Kind;
use pagelab_addr::Pfn;

/// Fewest generations of a kind, and most (`MIN_NR_GENS`, `MAX_NR_GENS`).
pub(super) const FEWEST: u64 = 2;
const MOST: u64 = 4;
/// Lists: of all generations, and of units that eviction looks at.
pub(super) const LISTS: usize = MOST as usize * 2 + 2;
/// Refaults below which a tier is evicted in any case (`MIN_LRU_BATCH`).
pub(super) const BATCH: u64 = 64;
/// The largest `vm.swappiness`.
const MAX_SWAPPINESS: u64 = 200;

/// The list of a kind's units that eviction looks at.
pub(super) fn isolated(kind: Kind) -> usize {
    MOST as usize * 2 + kind as usize
}

/// Kind of a list's units.
pub(super) fn kind_of(list: usize) -> Kind {
    Kind::ALL[list % 2]
}

/// Evictions of a kind and refaults, by tier: since its oldest generation began, and means of those before.
#[derive(Clone, Copy, Debug, Default)]
struct Control {
    evicted: [u64; 2],
    refaulted: [u64; 2],
    protected: u64,
    mean_total: [u64; 2],
    mean_refaulted: [u64; 2],
}

/// Refaults of a tier beside what was evicted of it (`struct ctrl_pos`).
struct Position {
    refaulted: u64,
    total: u64,
    gain: u64,
}

impl Position {
    /// True if another one's refaults are few, or no larger a share (`positive_ctrl_err`).
    fn lets_evict(&self, other: &Position) -> bool {
        let product = |factors: [u64; 3]| factors.into_iter().map(u128::from).product::<u128>();
        other.refaulted < BATCH
            || product([other.refaulted, self.total + BATCH, self.gain])
                <= product([self.refaulted + 1, other.total, other.gain])
    }
}

/// Numbers of the generations, and the one of each unit.
#[derive(Clone, Debug)]
pub(super) struct Generations {
    /// Number of the youngest generation, and by kind of the oldest one (`max_seq`, `min_seq`).
    youngest: u64,
    oldest: [u64; 2],
    /// By frame: the list of the generation for which a unit counts.
    counted: Vec<u8>,
    /// By frame: whether a unit came back soon after it left (`PG_workingset`).
    refaulted: Vec<bool>,
    control: [Control; 2],
}

impl Generations {
    pub(super) fn new(frames: u32) -> Self {
        Generations {
            youngest: FEWEST + 1,
            oldest: [0; 2],
            counted: vec![0; frames as usize],
            refaulted: vec![false; frames as usize],
            control: [Control::default(); 2],
        }
    }

    fn list(number: u64, kind: Kind) -> usize {
        (number % MOST) as usize * 2 + kind as usize
    }

    /// The list of the youngest generation, to which what a fault brings goes.
    pub(super) fn youngest(&self, kind: Kind) -> usize {
        Self::list(self.youngest, kind)
    }

    pub(super) fn oldest(&self, kind: Kind) -> usize {
        Self::list(self.oldest[kind as usize], kind)
    }

    pub(super) fn second_oldest(&self, kind: Kind) -> usize {
        Self::list(self.oldest[kind as usize] + 1, kind)
    }

    /// The list of a unit that its program calls cold (`lru_gen_add_folio`).
    pub(super) fn cold(&self, kind: Kind) -> usize {
        let oldest = self.oldest[kind as usize];
        let number = match kind {
            Kind::Anonymous => self.youngest - 1,
            Kind::File if oldest + FEWEST >= self.youngest => oldest,
            Kind::File => oldest + 1,
        };
        Self::list(number, kind)
    }

    /// Generations of a kind (`get_nr_gens`).
    pub(super) fn count(&self, kind: Kind) -> u64 {
        self.youngest - self.oldest[kind as usize] + 1
    }

    pub(super) fn counted(&self, head: Pfn) -> usize {
        usize::from(self.counted[head.0 as usize])
    }

    pub(super) fn set_counted(&mut self, head: Pfn, list: usize) {
        self.counted[head.0 as usize] = list as u8;
    }

    pub(super) fn tier(&self, head: Pfn) -> usize {
        usize::from(self.refaulted[head.0 as usize])
    }

    pub(super) fn set_refaulted(&mut self, head: Pfn, refaulted: bool) {
        self.refaulted[head.0 as usize] = refaulted;
    }

    pub(super) fn moved(&mut self, from: Pfn, to: Pfn) {
        let [from, to] = [from, to].map(|pfn| pfn.0 as usize);
        self.counted[to] = self.counted[from];
        self.refaulted[to] = self.refaulted[from];
    }

    /// Notes that a unit leaves. By the result it is known when it comes back (`lru_gen_eviction`).
    pub(super) fn note_eviction(&mut self, head: Pfn, kind: Kind, pages: u64) -> u64 {
        let tier = self.tier(head);
        self.control[kind as usize].evicted[tier] += pages;
        self.oldest[kind as usize] * 2 + tier as u64
    }

    /// Notes that a page comes back, and whether that was soon: before the oldest generation of its kind was used up
    /// (`lru_gen_refault`).
    pub(super) fn refault(&mut self, head: Pfn, kind: Kind, evicted: u64) -> bool {
        let soon = evicted / 2 == self.oldest[kind as usize];
        if soon {
            self.control[kind as usize].refaulted[(evicted % 2) as usize] += 1;
            self.set_refaulted(head, true);
        }
        soon
    }

    pub(super) fn note_protected(&mut self, kind: Kind, pages: u64) {
        self.control[kind as usize].protected += pages;
    }

    /// The oldest generation of a kind has no unit any more: counts of it become means (`reset_ctrl_pos`).
    fn end_oldest(&mut self, kind: Kind, oldest: u64) {
        self.oldest[kind as usize] = oldest;
        let control = &mut self.control[kind as usize];
        for tier in 0..2 {
            let protected = if tier == 1 { control.protected } else { 0 };
            let total = control.mean_total[tier] + control.evicted[tier] + protected;
            control.mean_total[tier] = total / 2;
            let refaulted = control.mean_refaulted[tier] + control.refaulted[tier];
            control.mean_refaulted[tier] = refaulted / 2;
        }
        (control.evicted, control.refaulted, control.protected) = ([0; 2], [0; 2], 0);
    }

    /// Has the second oldest generation of a kind be the oldest, where there are the most (`inc_min_seq`).
    pub(super) fn drop_oldest(&mut self, kind: Kind) {
        self.end_oldest(kind, self.oldest[kind as usize] + 1);
    }

    /// Begins a generation (`inc_max_seq`).
    pub(super) fn begin(&mut self) {
        self.youngest += 1;
    }

    /// Kinds that have as many generations as there can be.
    pub(super) fn full(&self) -> impl Iterator<Item = Kind> + use<> {
        let full = Kind::ALL.map(|kind| (self.count(kind) == MOST).then_some(kind));
        full.into_iter().rev().flatten()
    }

    /// Forgets old generations that have no unit (`try_to_inc_min_seq`). Whether any was.
    pub(super) fn forget_empty(&mut self, swaps: bool, is_empty: impl Fn(usize) -> bool) -> bool {
        let kinds = evictable(swaps);
        let before = self.oldest;
        let mut oldest = self.oldest;
        for &kind in kinds {
            let number = &mut oldest[kind as usize];
            while *number + FEWEST <= self.youngest && is_empty(Self::list(*number, kind)) {
                *number += 1;
            }
        }
        if swaps {
            let [anonymous, file] = &mut oldest;
            *anonymous = (*anonymous).min(*file);
            *file = (*anonymous).max(before[Kind::File as usize]);
        }
        for &kind in kinds {
            let number = oldest[kind as usize];
            if number != before[kind as usize] {
                self.end_oldest(kind, number);
            }
        }
        self.oldest != before
    }

    /// Pages that could be evicted, and whether a generation is to begin before (`should_run_aging`).
    pub(super) fn due(&self, swaps: bool, pages: &[u64]) -> (u64, bool) {
        let kinds = evictable(swaps);
        let oldest = self.oldest[kinds[0] as usize];
        if oldest + FEWEST > self.youngest {
            return (0, true);
        }
        let (mut total, mut young, mut old) = (0, 0, 0);
        for &kind in kinds {
            for number in self.oldest[kind as usize]..=self.youngest {
                let size = pages[Self::list(number, kind)];
                total += size;
                young += if number == self.youngest { size } else { 0 };
                old += if number + FEWEST == self.youngest {
                    size
                } else {
                    0
                };
            }
        }
        let is_uneven = young * FEWEST > total || old * (FEWEST + 2) < total;
        (total, oldest + FEWEST == self.youngest && is_uneven)
    }

    fn position(&self, kind: Kind, tier: usize, gain: u64) -> Position {
        let control = &self.control[kind as usize];
        let protected = if tier == 1 { control.protected } else { 0 };
        Position {
            refaulted: control.mean_refaulted[tier] + control.refaulted[tier],
            total: control.mean_total[tier] + control.evicted[tier] + protected,
            gain,
        }
    }

    /// The last tier of a kind that is evicted (`get_tier_idx`).
    pub(super) fn last_tier(&self, kind: Kind) -> usize {
        let first = self.position(kind, 0, 1);
        usize::from(first.lets_evict(&self.position(kind, 1, 2)))
    }

    /// The kind to evict, and its last tier if refaults decided (`isolate_folios`, `get_type_to_scan`).
    pub(super) fn kind_to_evict(&self, swappiness: u64) -> (Kind, Option<usize>) {
        let [anonymous, file] = self.oldest;
        if swappiness == 0 {
            return (Kind::File, None);
        }
        if anonymous < file || swappiness == MAX_SWAPPINESS {
            return (Kind::Anonymous, None);
        }
        if swappiness == 1 {
            return (Kind::File, None);
        }
        let gains = [swappiness, MAX_SWAPPINESS - swappiness];
        let [one, other] = Kind::ALL.map(|kind| self.position(kind, 0, gains[kind as usize]));
        let (kind, against) = if one.lets_evict(&other) {
            (Kind::File, one)
        } else {
            (Kind::Anonymous, other)
        };
        let tier = self.position(kind, 1, gains[kind as usize]);
        (kind, Some(usize::from(against.lets_evict(&tier))))
    }
}

/// Kinds that may be evicted: anonymous memory if there is a swap device.
pub(super) fn evictable(swaps: bool) -> &'static [Kind] {
    if swaps { &Kind::ALL } else { &Kind::ALL[1..] }
}
