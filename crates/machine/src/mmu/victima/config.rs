use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of Victima. Each technique can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VictimaConfig {
    /// A walk makes a block of the line in which it found its entry.
    pub insert_on_miss: bool,
    /// An entry that leaves the second-level TLB is walked for, and a block made of that.
    pub insert_on_eviction: bool,
    /// Blocks are made only of pages that are predicted to be costly.
    pub predictor: bool,
    /// The second-level cache has SRRIP that favours blocks.
    pub tlb_aware: bool,
    /// A walk begins while the cache is looked into.
    pub parallel: bool,
    /// Bits of the counter of walks, and of that of walks that memory served.
    pub frequency_bits: u32,
    /// See `frequency_bits`.
    pub cost_bits: u32,
    /// Walks, at least and at most, of a page that is costly.
    pub frequency: [u32; 2],
    /// Walks that memory served, at least and at most, of a page that is costly.
    pub cost: [u32; 2],
    /// Misses of the second-level TLB in 1000 instructions above which the cache favours blocks.
    pub tlb_mpki: f64,
    /// Misses of the second-level cache in 1000 instructions above which nothing is predicted.
    pub cache_mpki: f64,
    /// Instructions over which both are counted.
    pub window: u64,
}

impl Default for VictimaConfig {
    fn default() -> Self {
        VictimaConfig {
            insert_on_miss: true,
            insert_on_eviction: true,
            predictor: true,
            tlb_aware: true,
            parallel: true,
            frequency_bits: 3,
            cost_bits: 4,
            frequency: [1, 12],
            cost: [1, 7],
            tlb_mpki: 5.0,
            cache_mpki: 5.0,
            window: 100_000,
        }
    }
}

impl VictimaConfig {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let bits = 1..=4;
        if !bits.contains(&self.frequency_bits) || !bits.contains(&self.cost_bits) {
            return Err("frequency_bits and cost_bits are 1 to 4");
        }
        if self.window == 0 {
            return Err("window is 0");
        }
        if !(self.tlb_mpki >= 0.0 && self.cache_mpki >= 0.0) {
            return Err("tlb_mpki and cache_mpki are not below 0");
        }
        Ok(())
    }
}
