use crate::lanes::Lanes;
use crate::modulo::Modulo;
use crate::simd::{EMPTY, FLAG, Simd};
use pagelab_addr::LINE_BYTES;
use serde::{Deserialize, Serialize};

/// Geometry and latency of one cache level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Capacity in KiB.
    pub kib: u32,
    /// Associativity.
    pub ways: u32,
    /// Load-to-use latency in cycles when this level serves a reference.
    pub cycles: u32,
}

/// Why a geometry cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Capacity, associativity and line size leave no whole number of sets.
    #[error("{kib} KiB in {ways} ways is not a whole number of sets of 64-byte lines")]
    Sets {
        /// As configured.
        kib: u32,
        /// As configured.
        ways: u32,
    },
}

/// One level of cache over physical lines: set-associative, exact LRU, write-back,
/// write-allocate. Keeps tags only; lines of page-table entries and of data share it.
///
/// A line number is a physical address divided by 64 and must be below `0x7fff_ffff`, which
/// reaches 128 GiB.
#[derive(Clone, Debug)]
pub struct Cache {
    lines: Lanes,
    ways: usize,
    index: Modulo,
}

/// What a reference found in one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAccess {
    /// Whether the line was there.
    pub hit: bool,
    /// Whether a modified line had to leave for it: [`CacheAccess::evicted`].
    pub evicts_modified: bool,
    /// The line that left; means nothing unless `evicts_modified`.
    pub evicted: u32,
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    /// [`GeometryError`] when the geometry leaves no whole number of sets.
    pub fn new(config: &CacheConfig) -> Result<Self, GeometryError> {
        let lines = u64::from(config.kib) * 1024 / LINE_BYTES;
        let ways = u64::from(config.ways);
        if ways == 0 || lines == 0 || lines % ways != 0 {
            return Err(GeometryError::Sets {
                kib: config.kib,
                ways: config.ways,
            });
        }
        let sets = (lines / ways) as usize;
        Ok(Cache {
            lines: Lanes::new(sets, ways as usize, EMPTY),
            ways: ways as usize,
            index: Modulo::new(sets as u32),
        })
    }

    /// References a line, for a store or a write-back with `modify`; a miss enters it.
    #[inline(always)]
    pub fn access<S: Simd>(&mut self, line: u32, modify: bool) -> CacheAccess {
        debug_assert!(line < EMPTY);
        let set = self.index.of(line);
        match self.lines.per_set() {
            4 => self.access_in::<S, 4>(set, line, modify),
            8 => self.access_in::<S, 8>(set, line, modify),
            16 => self.access_in::<S, 16>(set, line, modify),
            _ => self.access_wide(set, line, modify),
        }
    }

    #[inline(always)]
    fn access_in<S: Simd, const N: usize>(
        &mut self,
        set: usize,
        line: u32,
        modify: bool,
    ) -> CacheAccess {
        let last = (self.ways - 1) & (N - 1);
        let lines = self.lines.exactly::<N>(set);
        // SAFETY: whoever names S has checked that the processor has its features.
        let found = unsafe { S::find(lines, line) };
        let hit = found != 0;
        // A miss shifts the last line out. No branch depends on `found`: which references hit is
        // what a branch predictor cannot know.
        let way = (found.trailing_zeros() as usize).min(last);
        let old = lines[way];
        let modified = old & FLAG;
        let kept = if hit { modified } else { 0 };
        // SAFETY: as above, and way < N.
        unsafe { S::shift_in(lines, line | u32::from(modify) << 31 | kept, way) };
        CacheAccess {
            hit,
            evicts_modified: modified != kept,
            evicted: old & !FLAG,
        }
    }

    #[inline(never)]
    fn access_wide(&mut self, set: usize, line: u32, modify: bool) -> CacheAccess {
        let lines = self.lines.ways_mut(set, self.ways);
        let found = lines.iter().position(|&l| l & !FLAG == line);
        let way = found.unwrap_or(self.ways - 1);
        lines[..=way].rotate_right(1);
        let old = lines[0];
        let kept = if found.is_some() { old & FLAG } else { 0 };
        lines[0] = line | u32::from(modify) << 31 | kept;
        CacheAccess {
            hit: found.is_some(),
            evicts_modified: old & FLAG != kept,
            evicted: old & !FLAG,
        }
    }

    /// Hints to the host that a line will soon be referenced.
    #[inline(always)]
    pub fn prefetch(&self, line: u32) {
        self.lines.prefetch(self.index.of(line));
    }
}
