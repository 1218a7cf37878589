use crate::geometry::GeometryError;
use crate::lanes::{Lanes, shift_in};
use crate::modulo::Modulo;
use crate::replacement::{Access, Kind, Placed, Replacement};
use crate::simd::{EMPTY, FLAG, Simd};
use pagelab_addr::LINE_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bit 31 of a reference: it modifies the line. The lines of a set carry it in the same place.
pub const MODIFY: u32 = FLAG;

/// No line has this number, nor a larger one.
pub const NO_LINE: u32 = EMPTY;

/// The line of somebody else who shares the cache; several may be in a set.
const FOREIGN: u32 = EMPTY - 1;

/// Geometry and latency of one cache level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Capacity in KiB.
    pub kib: u32,
    /// Associativity.
    pub ways: u32,
    /// Load-to-use latency in cycles when this level serves a reference.
    pub cycles: u32,
    /// Replacement policy of a set.
    #[serde(default, skip_serializing_if = "Replacement::is_lru")]
    pub replacement: Replacement,
}

impl CacheConfig {
    /// A level with exact LRU.
    pub const fn new(kib: u32, ways: u32, cycles: u32) -> Self {
        CacheConfig {
            kib,
            ways,
            cycles,
            replacement: Replacement::Lru,
        }
    }
}

/// One level of cache over physical lines: set-associative, exact LRU unless its configuration
/// has another policy, write-back, write-allocate. Keeps tags only; lines of page-table entries and of data share it.
///
/// A line number is a physical address divided by 64 and must be below `0x7fff_ffff`, which
/// reaches 128 GiB.
#[derive(Clone, Debug)]
pub struct Cache {
    lines: Lanes,
    ways: usize,
    /// Lanes of a set, for the fast ways; 0 for another policy than LRU.
    shape: usize,
    index: Modulo,
    /// Another policy than LRU.
    placed: Option<Placed>,
}

/// Outcome of a reference to one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAccess {
    /// The line was there.
    pub hit: bool,
    /// A modified line had to leave for it: [`CacheAccess::evicted`].
    pub evicts_modified: bool,
    /// The line that left; means nothing unless `evicts_modified`.
    pub evicted: u32,
}

/// Receiver of the outcome of each reference of [`Cache::access_all`]. A trait and not a closure:
/// the body of a closure cannot be made to be inlined, and this one is where a simulation spends
/// its time.
pub trait Outcome {
    /// Takes what the reference at a place in the order found. Implement it `#[inline(always)]`.
    fn of(&mut self, place: usize, access: CacheAccess);

    /// Describes the reference at a place before it is made, for a policy that asks.
    fn describe(&self, place: usize, reference: u32) -> Access {
        let _ = place;
        Access::of_data(reference)
    }
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    /// [`GeometryError`] when the geometry leaves no whole number of sets.
    pub fn new(config: &CacheConfig) -> Result<Self, GeometryError> {
        let lines = u64::from(config.kib) * 1024 / LINE_BYTES;
        let ways = u64::from(config.ways);
        if ways == 0 || lines == 0 || !lines.is_multiple_of(ways) {
            return Err(GeometryError::Sets {
                kib: config.kib,
                ways: config.ways,
            });
        }
        config.replacement.check(config.ways)?;
        let sets = (lines / ways) as usize;
        let lines = Lanes::new(sets, ways as usize, EMPTY);
        let placed = Placed::new(config.replacement, sets, ways as usize);
        Ok(Cache {
            shape: if placed.is_none() { lines.per_set() } else { 0 },
            lines,
            ways: ways as usize,
            index: Modulo::new(sets as u32),
            placed,
        })
    }

    /// True if its policy asks who makes a reference, so that references have to be described.
    pub fn wants_descriptions(&self) -> bool {
        let placed = self.placed.as_ref();
        placed.is_some_and(Placed::wants_descriptions)
    }

    /// Seeds a policy that leaves something to chance.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        if let Some(placed) = &mut self.placed {
            placed.seed(seed);
        }
        self
    }

    /// From now on favours lines from this number on, under SRRIP: they come in as what is needed
    /// at once, a hit makes them that again, and another leaves in their place if it could leave
    /// as well. None for [`NO_LINE`].
    pub fn favour(&mut self, first: u32) {
        if let Some(placed) = &mut self.placed {
            placed.favour(first);
        }
    }

    /// References lines in order, each with [`MODIFY`] for a store or a write-back; a miss enters
    /// the line. Tells `outcome` what each found.
    ///
    /// Many at a time, so that the geometry is looked at once and not for each.
    #[inline(always)]
    pub fn access_all<S: Simd>(
        &mut self,
        references: impl Iterator<Item = u32>,
        outcome: &mut impl Outcome,
    ) {
        match self.shape {
            4 => self.access_all_in::<S, 4>(references, outcome),
            8 => self.access_all_in::<S, 8>(references, outcome),
            16 => self.access_all_in::<S, 16>(references, outcome),
            0 => self.access_all_placed(references, outcome),
            _ => self.access_all_wide(references, outcome),
        }
    }

    #[inline(always)]
    fn access_all_in<S: Simd, const N: usize>(
        &mut self,
        references: impl Iterator<Item = u32>,
        outcome: &mut impl Outcome,
    ) {
        let last = (self.ways - 1) & (N - 1);
        let index = self.index;
        let sets = self.lines.sets_of::<N>();
        for (place, reference) in references.enumerate() {
            let set = index.of(reference & !MODIFY);
            outcome.of(place, access_set::<S, N>(&mut sets[set], last, reference));
        }
    }

    #[inline(always)]
    fn access_all_wide(
        &mut self,
        references: impl Iterator<Item = u32>,
        outcome: &mut impl Outcome,
    ) {
        for (place, reference) in references.enumerate() {
            outcome.of(place, self.access_wide(reference));
        }
    }

    #[inline(never)]
    fn access_wide(&mut self, reference: u32) -> CacheAccess {
        let line = reference & !MODIFY;
        let lines = self.lines.ways_mut(self.index.of(line), self.ways);
        let found = lines.iter().position(|&l| l & !FLAG == line);
        let way = found.unwrap_or(self.ways - 1);
        let kept = if found.is_some() {
            lines[way] & FLAG
        } else {
            0
        };
        let old = shift_in(lines, reference | kept, way);
        CacheAccess {
            hit: found.is_some(),
            evicts_modified: old & FLAG != kept,
            evicted: old & !FLAG,
        }
    }

    #[inline(always)]
    fn access_all_placed(
        &mut self,
        references: impl Iterator<Item = u32>,
        outcome: &mut impl Outcome,
    ) {
        let described = self.wants_descriptions();
        for (place, reference) in references.enumerate() {
            let access = if described {
                outcome.describe(place, reference)
            } else {
                Access::of_data(reference)
            };
            outcome.of(place, self.access_placed(reference, &access));
        }
    }

    #[inline(never)]
    fn access_placed(&mut self, reference: u32, access: &Access) -> CacheAccess {
        let set = self.index.of(access.line);
        let lines = self.lines.ways_mut(set, self.ways);
        let Some(policy) = &mut self.placed else {
            unreachable!("sets without LRU have a policy");
        };
        let found = lines.iter().position(|&l| l & !FLAG == access.line);
        let (way, kept) = match found {
            Some(way) => {
                policy.hit(set, way, access);
                (way, lines[way] & FLAG)
            }
            None => (policy.place(set, lines, access), 0),
        };
        let old = std::mem::replace(&mut lines[way], reference | kept);
        CacheAccess {
            hit: found.is_some(),
            evicts_modified: old & FLAG != kept,
            evicted: old & !FLAG,
        }
    }

    /// Somebody else who shares the cache brings a line of their own into a set; which modified line
    /// left for it.
    pub fn intrude(&mut self, set: usize) -> Option<u32> {
        let lines = self.lines.ways_mut(set, self.ways);
        let way = match &mut self.placed {
            None => {
                lines.rotate_right(1);
                0
            }
            Some(policy) => policy.place(set, lines, &Access::new(FOREIGN, Kind::Load)),
        };
        let old = std::mem::replace(&mut lines[way], FOREIGN);
        (old & FLAG != 0).then_some(old & !FLAG)
    }

    /// Number of sets.
    pub fn sets(&self) -> usize {
        self.lines.sets()
    }

    /// Number of lines in a set.
    pub fn ways(&self) -> usize {
        self.ways
    }

    /// Hints to the host that a set will soon be used.
    pub fn host_prefetch_set(&self, set: usize) {
        self.lines.host_prefetch(set);
    }

    /// State of a line that is here: `Some(true)` if it is modified.
    pub fn modified(&self, line: u32) -> Option<bool> {
        let lines = self.lines.ways(self.index.of(line), self.ways);
        let found = lines.iter().find(|&&l| l & !FLAG == line)?;
        Some(found & FLAG != 0)
    }

    /// A line is no longer modified: another cache has it, too.
    pub fn clean(&mut self, line: u32) {
        let lines = self.lines.ways_mut(self.index.of(line), self.ways);
        if let Some(found) = lines.iter_mut().find(|l| **l & !FLAG == line) {
            *found &= !FLAG;
        }
    }

    /// Takes a line out, modified or not.
    pub fn remove(&mut self, line: u32) {
        let lines = self.lines.ways_mut(self.index.of(line), self.ways);
        if let Some(way) = lines.iter().position(|l| l & !FLAG == line) {
            if self.placed.is_some() {
                lines[way] = EMPTY;
                return;
            }
            lines[way..].rotate_left(1);
            lines[lines.len() - 1] = EMPTY;
        }
    }

    /// Number of lines that there is room for.
    pub fn capacity(&self) -> usize {
        self.lines.sets() * self.ways
    }

    /// The lines that are here.
    pub fn held(&self) -> impl Iterator<Item = u32> {
        let sets = (0..self.lines.sets()).map(|set| self.lines.ways(set, self.ways));
        sets.flatten()
            .filter(|&&line| line != EMPTY && line != FOREIGN)
            .map(|line| line & !FLAG)
    }

    /// Hints to the host that a line will soon be referenced.
    #[inline(always)]
    pub fn host_prefetch(&self, line: u32) {
        self.lines.host_prefetch(self.index.of(line));
    }
}

/// References a line in its set, whose most recently used line is first and whose least recently
/// used is at `last`.
#[inline(always)]
fn access_set<S: Simd, const N: usize>(
    lines: &mut [u32; N],
    last: usize,
    reference: u32,
) -> CacheAccess {
    debug_assert!(reference & !MODIFY < EMPTY);
    // SAFETY: whoever names S has checked that the processor has its features.
    let found = unsafe { S::find(lines, reference) };
    if found & 1 != 0 {
        // The most recent line: the order stays.
        lines[0] |= reference & MODIFY;
        return CacheAccess {
            hit: true,
            evicts_modified: false,
            evicted: 0,
        };
    }
    let hit = found != 0;
    // A miss shifts the last line out. No branch depends on whether this is one: in the larger
    // caches no predictor could know.
    let way = (found.trailing_zeros() as usize).min(last);
    let old = lines[way];
    let modified = old & FLAG;
    let kept = if hit { modified } else { 0 };
    // SAFETY: as above, and way < N.
    unsafe { S::shift_in(lines, reference | kept, way) };
    CacheAccess {
        hit,
        evicts_modified: modified != kept,
        evicted: old & !FLAG,
    }
}
