use crate::ConfigError;
use pagelab_memory::LruKeys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Geometry and latency of one walk cache (PWC, CWC, DMC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WalkCacheConfig {
    /// Entries; 0 for no such cache.
    pub entries: u32,
    /// Associativity.
    pub ways: u32,
    /// Time of a look-up, in cycles.
    pub cycles: u32,
}

impl WalkCacheConfig {
    /// No cache.
    pub const NONE: WalkCacheConfig = WalkCacheConfig::new(0, 0, 0);

    /// A cache of that many entries and ways, read in that many cycles.
    pub const fn new(entries: u32, ways: u32, cycles: u32) -> WalkCacheConfig {
        WalkCacheConfig {
            entries,
            ways,
            cycles,
        }
    }

    /// Number of sets, 0 for no such cache.
    ///
    /// # Errors
    /// When the entries are not a power of two of whole sets.
    pub(crate) fn sets(&self, key: &'static str) -> Result<usize, ConfigError> {
        let WalkCacheConfig { entries, ways, .. } = *self;
        if entries == 0 {
            return Ok(0);
        }
        if ways == 0 || !entries.is_multiple_of(ways) || !(entries / ways).is_power_of_two() {
            let reason =
                format!("{entries} entries in {ways} ways are not a power of two of whole sets");
            return Err(ConfigError { key, reason });
        }
        Ok((entries / ways) as usize)
    }
}

/// One walk cache of one core. It keeps keys only: what an entry would hold is looked up in the
/// page table itself, so an entry must be removed when that changes.
#[derive(Clone, Debug)]
pub(crate) struct WalkCache {
    sets: Option<LruKeys>,
    mask: u64,
}

impl WalkCache {
    /// # Errors
    /// When the entries are not a power of two of whole sets.
    pub(crate) fn new(config: &WalkCacheConfig, key: &'static str) -> Result<Self, ConfigError> {
        let sets = config.sets(key)?;
        Ok(WalkCache {
            sets: (sets > 0).then(|| LruKeys::new(sets, config.ways as usize)),
            mask: sets.saturating_sub(1) as u64,
        })
    }

    /// True if `key` is there. The low bits of `index` choose the set.
    #[inline]
    pub(crate) fn get(&mut self, index: u64, key: u32) -> bool {
        match &mut self.sets {
            Some(sets) => sets.get((index & self.mask) as usize, key),
            None => false,
        }
    }

    /// Enters a key that is not there.
    #[inline]
    pub(crate) fn insert(&mut self, index: u64, key: u32) {
        if let Some(sets) = &mut self.sets {
            sets.insert((index & self.mask) as usize, key);
        }
    }

    pub(crate) fn remove(&mut self, index: u64, key: u32) {
        if let Some(sets) = &mut self.sets {
            sets.remove((index & self.mask) as usize, key);
        }
    }
}
