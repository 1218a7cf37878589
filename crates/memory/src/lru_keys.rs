use crate::lanes::{Lanes, shift_in};
use crate::simd::{Baseline, EMPTY, Simd};

/// A set-associative store of 31-bit keys without values, exact least-recently-used.
///
/// Serves walk caches that need to know only what they hold. The caller chooses the set. Keys
/// must be below `0x7fff_ffff`.
#[derive(Clone, Debug)]
pub struct LruKeys {
    ways: usize,
    keys: Lanes,
}

impl LruKeys {
    /// `sets` empty sets of `ways` places.
    ///
    /// # Panics
    /// When either is 0.
    pub fn new(sets: usize, ways: usize) -> Self {
        assert!(sets > 0 && ways > 0, "a store needs sets and ways");
        LruKeys {
            ways,
            keys: Lanes::new(sets, ways, EMPTY),
        }
    }

    /// True if a key is there; it then becomes the most recently used of its set.
    #[inline]
    pub fn get(&mut self, set: usize, key: u32) -> bool {
        match self.keys.per_set() {
            4 => self.get_in::<4>(set, key),
            8 => self.get_in::<8>(set, key),
            16 => self.get_in::<16>(set, key),
            _ => self.get_wide(set, key),
        }
    }

    #[inline(always)]
    fn get_in<const N: usize>(&mut self, set: usize, key: u32) -> bool {
        let keys = self.keys.exactly::<N>(set);
        // SAFETY: every processor has the features of `Baseline`.
        let found = unsafe { Baseline::find(keys, key) };
        if found > 1 {
            let way = found.trailing_zeros() as usize & (N - 1);
            // SAFETY: as above, and way < N.
            unsafe { Baseline::shift_in(keys, key, way) };
        }
        found != 0
    }

    #[inline(never)]
    fn get_wide(&mut self, set: usize, key: u32) -> bool {
        let way = self.keys.find(set, self.ways, key);
        if let Some(way) = way {
            shift_in(self.keys.ways_mut(set, self.ways), key, way);
        }
        way.is_some()
    }

    /// Enters a key that is not there as the most recently used.
    #[inline]
    pub fn insert(&mut self, set: usize, key: u32) {
        debug_assert!(key < EMPTY);
        match self.keys.per_set() {
            4 => self.insert_in::<4>(set, key),
            8 => self.insert_in::<8>(set, key),
            16 => self.insert_in::<16>(set, key),
            _ => {
                shift_in(self.keys.ways_mut(set, self.ways), key, self.ways - 1);
            }
        }
    }

    #[inline(always)]
    fn insert_in<const N: usize>(&mut self, set: usize, key: u32) {
        let last = (self.ways - 1) & (N - 1);
        let keys = self.keys.exactly::<N>(set);
        // SAFETY: every processor has the features of `Baseline`; last < N.
        unsafe { Baseline::shift_in(keys, key, last) };
    }

    /// Forgets one key of a set, if it is there.
    pub fn remove(&mut self, set: usize, key: u32) {
        let keys = self.keys.ways_mut(set, self.ways);
        if let Some(way) = keys.iter().position(|&k| k == key) {
            keys[way..].rotate_left(1);
            keys[self.ways - 1] = EMPTY;
        }
    }
}
