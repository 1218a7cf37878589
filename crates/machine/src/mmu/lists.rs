//! TLBs and caches as lists that are looked through from end to end, for the twins of designs.

use crate::caches::served::Served;
use crate::config::CachesConfig;
use pagelab_memory::CacheConfig;

/// Keys in the order of their last use, the latest first, with whether they are modified.
pub(super) struct Lru {
    ways: usize,
    sets: Vec<Vec<(u32, bool)>>,
}

impl Lru {
    pub(super) fn new(entries: u32, ways: u32) -> Self {
        Lru {
            ways: ways as usize,
            sets: vec![Vec::new(); (entries / ways) as usize],
        }
    }

    pub(super) fn of_cache(level: &CacheConfig) -> Self {
        Self::new(level.kib * 16, level.ways)
    }

    fn set(&mut self, key: u32) -> &mut Vec<(u32, bool)> {
        let sets = self.sets.len() as u32;
        &mut self.sets[(key % sets) as usize]
    }

    pub(super) fn has(&mut self, key: u32) -> bool {
        self.set(key).iter().any(|entry| entry.0 == key)
    }

    /// True if it was there, and a modified key that left for it.
    pub(super) fn reference(&mut self, key: u32, modifies: bool) -> (bool, Option<u32>) {
        let ways = self.ways;
        let set = self.set(key);
        let old = set.iter().position(|entry| entry.0 == key);
        let old = old.map(|at| set.remove(at));
        let modified = modifies || old.is_some_and(|entry| entry.1);
        set.insert(0, (key, modified));
        let gone = (set.len() > ways).then(|| set.pop().unwrap());
        (
            old.is_some(),
            gone.filter(|entry| entry.1).map(|entry| entry.0),
        )
    }

    pub(super) fn remove(&mut self, key: u32) {
        self.set(key).retain(|entry| entry.0 != key);
    }

    pub(super) fn keys(&self) -> Vec<u32> {
        let mut keys: Vec<u32> = self.sets.iter().flatten().map(|entry| entry.0).collect();
        keys.sort_unstable();
        keys
    }
}

/// The caches of one core.
pub(super) struct Caches {
    pub(super) l1: Lru,
    pub(super) l2: Lru,
    pub(super) llc: Lru,
}

impl Caches {
    pub(super) fn new(config: &CachesConfig) -> Self {
        Caches {
            l1: Lru::of_cache(&config.l1),
            l2: Lru::of_cache(&config.l2),
            llc: Lru::of_cache(&config.llc),
        }
    }

    /// Place behind the first level that serves a reference.
    pub(super) fn reference_behind(&mut self, line: u32) -> Served {
        let (hit, gone) = self.l2.reference(line, false);
        let served = if hit {
            Served::L2
        } else if self.llc.reference(line, false).0 {
            Served::Llc
        } else {
            Served::Dram
        };
        if let Some(gone) = gone {
            self.llc.reference(gone, true);
        }
        served
    }

    pub(super) fn reference(&mut self, line: u32, modifies: bool) -> Served {
        let (hit, gone) = self.l1.reference(line, modifies);
        let served = if hit {
            Served::L1
        } else {
            self.reference_behind(line)
        };
        if let Some(gone) = gone
            && let (_, Some(gone)) = self.l2.reference(gone, true)
        {
            self.llc.reference(gone, true);
        }
        served
    }
}
