use crate::lanes::{Lanes, shift_in};
use crate::replacement::{Access, Kind, Placed, Replacement};
use crate::simd::{Baseline, EMPTY, Simd};

/// A set-associative store of 31-bit keys with a 32-bit value each, exact least-recently-used
/// unless another policy is asked for.
///
/// Serves TLBs, walk caches and anything else that is small and looked up by a key. The caller
/// chooses the set, so that non-power-of-two and hashed indexing are possible. Keys must be
/// below `0x7fff_ffff`.
#[derive(Clone, Debug)]
pub struct LruSets {
    ways: usize,
    /// Lanes of a set, for the fast ways; 0 for another policy than LRU.
    shape: usize,
    keys: Lanes,
    values: Lanes,
    placed: Option<Placed>,
    /// Description of what follows, for a policy other than LRU.
    access: Access,
}

impl LruSets {
    /// `sets` empty sets of `ways` places.
    ///
    /// # Panics
    /// When either is 0.
    pub fn new(sets: usize, ways: usize) -> Self {
        Self::replaced_by(sets, ways, Replacement::Lru)
    }

    /// The same under a policy that can be had with so many ways ([`Replacement::check`]).
    ///
    /// # Panics
    /// When it cannot, or there are no sets or ways.
    pub fn replaced_by(sets: usize, ways: usize, policy: Replacement) -> Self {
        assert!(sets > 0 && ways > 0, "a store needs sets and ways");
        let keys = Lanes::new(sets, ways, EMPTY);
        let placed = Placed::new(policy, sets, ways);
        LruSets {
            ways,
            shape: if placed.is_none() { keys.per_set() } else { 0 },
            keys,
            values: Lanes::new(sets, ways, 0),
            placed,
            access: Access::new(0, Kind::Load),
        }
    }

    /// Seeds a policy that leaves something to chance.
    pub fn seed(&mut self, seed: u64) {
        if let Some(placed) = &mut self.placed {
            placed.seed(seed);
        }
    }

    /// Describes the look-ups and insertions that follow, for a policy other than LRU. Each has its
    /// own key.
    pub fn describe(&mut self, access: Access) {
        self.access = access;
    }

    /// Number of sets.
    pub fn sets(&self) -> usize {
        self.keys.sets()
    }

    /// Number of places of a set.
    pub fn ways(&self) -> usize {
        self.ways
    }

    /// Looks a key up; a hit makes it the most recently used of its set.
    #[inline]
    pub fn get(&mut self, set: usize, key: u32) -> Option<u32> {
        self.get_at::<Baseline>(set, key)
    }

    /// Enters a key that is not there as the most recently used; returns the key and value that
    /// it evicted.
    #[inline]
    pub fn insert(&mut self, set: usize, key: u32, value: u32) -> Option<(u32, u32)> {
        self.insert_at::<Baseline>(set, key, value)
    }

    /// [`LruSets::get`] at a SIMD level that the processor has.
    #[inline(always)]
    pub fn get_at<S: Simd>(&mut self, set: usize, key: u32) -> Option<u32> {
        match self.shape {
            4 => self.get_in::<S, 4>(set, key),
            8 => self.get_in::<S, 8>(set, key),
            16 => self.get_in::<S, 16>(set, key),
            0 => self.get_wide(set, key),
            // Keys of a fully associative TLB are mostly among the sixteen that were used last.
            _ => {
                let (keys, values) = (&mut self.keys, &mut self.values);
                match used_in::<S, 16>(keys.front(set), || values.front(set), key) {
                    None => self.get_wide(set, key),
                    found => found,
                }
            }
        }
    }

    #[inline(always)]
    fn get_in<S: Simd, const N: usize>(&mut self, set: usize, key: u32) -> Option<u32> {
        let (keys, values) = (&mut self.keys, &mut self.values);
        used_in::<S, N>(keys.exactly(set), || values.exactly(set), key)
    }

    #[inline(never)]
    fn get_wide(&mut self, set: usize, key: u32) -> Option<u32> {
        let way = self.keys.find(set, self.ways, key)?;
        if let Some(policy) = &mut self.placed {
            policy.hit(set, way, &self.access.to(key));
            return Some(self.values.ways(set, self.ways)[way]);
        }
        shift_in(self.keys.ways_mut(set, self.ways), key, way);
        let values = self.values.ways_mut(set, self.ways);
        let value = values[way];
        shift_in(values, value, way);
        Some(value)
    }

    /// [`LruSets::insert`] at a SIMD level that the processor has.
    #[inline(always)]
    pub fn insert_at<S: Simd>(&mut self, set: usize, key: u32, value: u32) -> Option<(u32, u32)> {
        debug_assert!(key < EMPTY);
        match self.shape {
            4 => self.insert_in::<S, 4>(set, key, value),
            8 => self.insert_in::<S, 8>(set, key, value),
            16 => self.insert_in::<S, 16>(set, key, value),
            _ => self.insert_wide(set, key, value),
        }
    }

    #[inline(always)]
    fn insert_in<S: Simd, const N: usize>(
        &mut self,
        set: usize,
        key: u32,
        value: u32,
    ) -> Option<(u32, u32)> {
        let last = (self.ways - 1) & (N - 1);
        let keys = self.keys.exactly::<N>(set);
        let values = self.values.exactly::<N>(set);
        let evicted = (keys[last], values[last]);
        // SAFETY: whoever names S has checked that the processor has its features; last < N.
        unsafe {
            S::shift_in(keys, key, last);
            S::shift_in(values, value, last);
        }
        (evicted.0 != EMPTY).then_some(evicted)
    }

    #[inline(never)]
    fn insert_wide(&mut self, set: usize, key: u32, value: u32) -> Option<(u32, u32)> {
        let keys = self.keys.ways_mut(set, self.ways);
        let values = self.values.ways_mut(set, self.ways);
        let evicted = if let Some(policy) = &mut self.placed {
            let way = policy.place(set, keys, &self.access.to(key));
            (
                std::mem::replace(&mut keys[way], key),
                std::mem::replace(&mut values[way], value),
            )
        } else {
            let last = self.ways - 1;
            (shift_in(keys, key, last), shift_in(values, value, last))
        };
        (evicted.0 != EMPTY).then_some(evicted)
    }

    /// Hints to the host that a set will soon be used.
    #[inline(always)]
    pub fn host_prefetch(&self, set: usize) {
        self.keys.host_prefetch(set);
        self.values.host_prefetch(set);
    }

    /// Forgets every key (with its value) that is stale.
    pub fn forget(&mut self, mut stale: impl FnMut(u32, u32) -> bool) {
        for set in 0..self.sets() {
            let keys = self.keys.ways_mut(set, self.ways);
            let values = self.values.ways_mut(set, self.ways);
            if self.placed.is_some() {
                for (key, &value) in keys.iter_mut().zip(&*values) {
                    if *key != EMPTY && stale(*key, value) {
                        *key = EMPTY;
                    }
                }
                continue;
            }
            let mut kept = 0;
            for way in 0..keys.len() {
                if keys[way] != EMPTY && !stale(keys[way], values[way]) {
                    keys[kept] = keys[way];
                    values[kept] = values[way];
                    kept += 1;
                }
            }
            keys[kept..].fill(EMPTY);
        }
    }

    /// The value of a key, which is not used by that.
    pub fn peek(&self, set: usize, key: u32) -> Option<u32> {
        let way = self
            .keys
            .ways(set, self.ways)
            .iter()
            .position(|&k| k == key)?;
        Some(self.values.ways(set, self.ways)[way])
    }

    /// Gives a key another value, if it is there; it is not used by that.
    pub fn set_value(&mut self, set: usize, key: u32, value: u32) {
        let place = self
            .keys
            .ways(set, self.ways)
            .iter()
            .position(|&k| k == key);
        if let Some(way) = place {
            self.values.ways_mut(set, self.ways)[way] = value;
        }
    }

    /// Forgets one key of a set, if it is there.
    pub fn remove(&mut self, set: usize, key: u32) {
        let keys = self.keys.ways_mut(set, self.ways);
        if let Some(way) = keys.iter().position(|&k| k == key) {
            if self.placed.is_some() {
                keys[way] = EMPTY;
                return;
            }
            keys[way..].rotate_left(1);
            keys[self.ways - 1] = EMPTY;
            self.values.ways_mut(set, self.ways)[way..].rotate_left(1);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.keys.clear();
    }
}

/// The value of a key among the first of a set in the order of their last uses; it is the first then.
#[inline(always)]
fn used_in<'a, S: Simd, const N: usize>(
    keys: &mut [u32; N],
    values: impl FnOnce() -> &'a mut [u32; N],
    key: u32,
) -> Option<u32> {
    // SAFETY: whoever names S has checked that the processor has its features.
    let found = unsafe { S::find(keys, key) };
    if found == 0 {
        return None;
    }
    let values = values();
    if found & 1 != 0 {
        return Some(values[0]);
    }
    let way = found.trailing_zeros() as usize & (N - 1);
    let value = values[way];
    // SAFETY: as above, and way < N.
    unsafe {
        S::shift_in(keys, key, way);
        S::shift_in(values, value, way);
    }
    Some(value)
}
