use crate::caches::served::Served;
use crate::caches::{Descent, OUT, PrivateCaches};
use crate::count::sums::sums;
use crate::machine::requests::Prefetch;
use pagelab_memory::MODIFY;
use schemars::JsonSchema;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// A bit for each.
pub(crate) const MAX_CORES: usize = 64;

/// Directory of lines and their holders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    lines: HashMap<u32, Holders, BuildHasherDefault<LineHasher>>,
    /// Lines for which the last said that they are shared.
    shared: usize,
    counts: CoherenceCounts,
}

/// The cores that may hold a line.
///
/// A cache drops a line that is not modified without telling anybody, so a core named here is asked
/// before it counts; one that is not named holds nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Holders {
    cores: u64,
    /// Holders have it in the state "shared": until one of them writes it or all have dropped it,
    /// also when only one is left.
    shared: bool,
}

sums! {
    /// Counts of keeping private caches coherent.
    #[derive(PartialEq, Eq, JsonSchema)]
    #[schemars(rename = "CoherenceResult")]
    pub struct CoherenceCounts {
        /// Lines that came from another core's private caches.
        pub transfers: u64,
        /// Stores to a line that was held beside others, and had to be its core's own first.
        pub upgrades: u64,
        /// Copies of lines that other cores' stores took out of a core's private caches.
        pub invalidations: u64,
    }
}

/// Multiplicative hashing (Knuth, TAOCP volume 3, section 6.4), the high bits in front, where the
/// table takes its tags, and below, where it takes places.
#[derive(Clone, Copy, Debug, Default)]
struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, line: u32) {
        self.0 = (self.0 ^ u64::from(line))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
}

/// A chunk of one core's references that have gone through its own levels.
pub(crate) struct CoreReferences<'a> {
    pub(crate) caches: &'a mut [PrivateCaches],
    pub(crate) core: usize,
    pub(crate) references: &'a [u32],
    pub(crate) prefetches: &'a [Prefetch],
    /// Place that served each reference, as far as that is known: not for those in `descents`.
    pub(crate) answers: &'a mut [Served],
    /// References that go on to the last level.
    pub(crate) descents: &'a mut [Descent],
    /// The places of stores that wait until other cores have dropped their line.
    pub(crate) invalidating: &'a mut Vec<u32>,
}

impl Directory {
    pub(crate) fn counts(&self) -> CoherenceCounts {
        self.counts
    }

    /// Changes what the other cores hold as a chunk of references asks. Returns how many of its
    /// descents still go on to the last level: those come first.
    #[inline(never)]
    pub(crate) fn take(&mut self, mut taken: CoreReferences) -> usize {
        taken.invalidating.clear();
        let outgoing = taken.references.len();
        let mut next = 0;
        let mut kept = 0;
        for at in 0..taken.descents.len() {
            let (line, place) = taken.descents[at];
            let number = place as usize;
            if place & OUT != 0 {
                taken.descents[kept] = (line, place);
                kept += 1;
                continue;
            }
            let until = if number > outgoing {
                taken.prefetches[number - outgoing - 1].place as usize + 1
            } else {
                number
            };
            self.stores(&mut taken, next..until);
            next = next.max(until) + usize::from(number < outgoing);
            let goes_on = self.fetch(&mut taken, line, place);
            if let Some(descent) = goes_on {
                taken.descents[kept] = descent;
                kept += 1;
            }
        }
        self.stores(&mut taken, next..outgoing);
        // Not before: what the core has dropped within the chunk it may have written before that.
        self.forget(taken.caches);
        kept
    }

    /// Stores to lines that the core has.
    fn stores(&mut self, taken: &mut CoreReferences, places: Range<usize>) {
        for place in places {
            if self.shared == 0 {
                return;
            }
            let reference = taken.references[place];
            if reference & MODIFY == 0 {
                continue;
            }
            let line = reference & !MODIFY;
            let Some(&holders) = self.lines.get(&line).filter(|holders| holders.shared) else {
                continue;
            };
            self.counts.upgrades += 1;
            let others = others(taken, holders, line);
            self.invalidate(taken, line, others);
            taken.invalidating.push(place as u32);
        }
    }

    /// Fetches a line that the core has not; returns what goes on to the last level.
    fn fetch(&mut self, taken: &mut CoreReferences, line: u32, place: u32) -> Option<Descent> {
        let outgoing = taken.references.len() as u32;
        let store = place < outgoing && taken.references[place as usize] & MODIFY != 0;
        let holders = self.lines.get(&line).copied().unwrap_or_default();
        let others = others(taken, holders, line);
        // Its owner may have written it since, so it is asked, also when it has not.
        let owner = (others != 0 && !holders.shared).then(|| others.trailing_zeros() as usize);
        if store {
            if owner.is_none() && others != 0 {
                taken.invalidating.push(place);
            }
            let modified = owner.is_some();
            self.invalidate(taken, line, others);
            if modified {
                self.transferred(taken, place);
                return None;
            }
            return Some((line, place));
        }
        self.set(line, others | bit(taken.core), others != 0);
        let Some(owner) = owner else {
            return Some((line, place));
        };
        self.transferred(taken, place);
        let owner = &mut taken.caches[owner];
        let modified = owner.modified(line) == Some(true);
        owner.l1.clean(line);
        owner.l2.clean(line);
        // A modified line goes to the last level as well, since both now hold it unmodified.
        modified.then_some((line | MODIFY, place | OUT))
    }

    fn transferred(&mut self, taken: &mut CoreReferences, place: u32) {
        self.counts.transfers += 1;
        taken.answers[place as usize] = Served::OtherCore;
    }

    /// Takes a line out of other cores' caches: the core is to be its owner.
    fn invalidate(&mut self, taken: &mut CoreReferences, line: u32, others: u64) {
        self.counts.invalidations += u64::from(others.count_ones());
        for other in cores(others) {
            taken.caches[other].l1.remove(line);
            taken.caches[other].l2.remove(line);
        }
        self.set(line, bit(taken.core), false);
    }

    fn set(&mut self, line: u32, cores: u64, shared: bool) {
        let before = self.lines.insert(line, Holders { cores, shared });
        self.shared += usize::from(shared);
        self.shared -= usize::from(before.is_some_and(|before| before.shared));
    }

    /// Forgets the lines that nobody holds any more when they have become many. Nothing that is
    /// decided depends on it.
    fn forget(&mut self, caches: &[PrivateCaches]) {
        let room = |caches: &PrivateCaches| caches.l1.capacity() + caches.l2.capacity();
        let held = caches.len() * caches.first().map_or(0, room);
        if self.lines.len() <= 2 * held {
            return;
        }
        self.lines.retain(|&line, holders| {
            cores(holders.cores).any(|core| caches[core].modified(line).is_some())
        });
        self.shared = self.lines.values().filter(|holders| holders.shared).count();
    }
}

impl PrivateCaches {
    /// State of a line in either of the two: `Some(true)` if modified, `None` if in neither.
    fn modified(&self, line: u32) -> Option<bool> {
        match (self.l1.modified(line), self.l2.modified(line)) {
            (None, None) => None,
            (first, second) => Some(first == Some(true) || second == Some(true)),
        }
    }
}

/// The cores that hold a line beside the one whose references are taken.
fn others(taken: &CoreReferences, holders: Holders, line: u32) -> u64 {
    cores(holders.cores & !bit(taken.core))
        .filter(|&other| taken.caches[other].modified(line).is_some())
        .fold(0, |others, other| others | bit(other))
}

fn bit(core: usize) -> u64 {
    1 << core
}

/// The numbers of the bits that are set.
fn cores(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lowest)
    })
}
