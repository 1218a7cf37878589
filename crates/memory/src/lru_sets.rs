/// A set-associative store of 31-bit keys with a 32-bit value each, exact least-recently-used.
///
/// Serves TLBs, walk caches and anything else that is small and looked up by a key. The caller
/// chooses the set, so that non-power-of-two and hashed indexing are possible.
#[derive(Clone, Debug)]
pub struct LruSets {
    ways: usize,
    keys: Vec<u32>,
    values: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl LruSets {
    /// `sets` empty sets of `ways` places.
    pub fn new(sets: usize, ways: usize) -> Self {
        LruSets {
            ways,
            keys: vec![EMPTY; sets * ways],
            values: vec![0; sets * ways],
        }
    }

    /// Number of sets.
    pub fn sets(&self) -> usize {
        self.keys.len() / self.ways
    }

    /// Looks a key up; a hit makes it the most recently used of its set.
    #[inline]
    pub fn get(&mut self, set: usize, key: u32) -> Option<u32> {
        let keys = &mut self.keys[set * self.ways..][..self.ways];
        let values = &mut self.values[set * self.ways..][..self.ways];
        let way = keys.iter().position(|&k| k == key)?;
        keys[..=way].rotate_right(1);
        values[..=way].rotate_right(1);
        Some(values[0])
    }

    /// Enters a key that is not there as the most recently used; returns what it evicted.
    #[inline]
    pub fn insert(&mut self, set: usize, key: u32, value: u32) -> Option<(u32, u32)> {
        let keys = &mut self.keys[set * self.ways..][..self.ways];
        let values = &mut self.values[set * self.ways..][..self.ways];
        keys.rotate_right(1);
        values.rotate_right(1);
        let evicted = (keys[0] != EMPTY).then_some((keys[0], values[0]));
        keys[0] = key;
        values[0] = value;
        evicted
    }

    /// Forgets every key for which `stale` says so.
    pub fn forget(&mut self, mut stale: impl FnMut(u32, u32) -> bool) {
        for set in 0..self.sets() {
            let range = set * self.ways..(set + 1) * self.ways;
            let (mut kept, keys, values) =
                (0, &mut self.keys[range.clone()], &mut self.values[range]);
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

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.keys.fill(EMPTY);
    }
}
