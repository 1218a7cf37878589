use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of the POM-TLB. Each technique can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PomTlbConfig {
    /// Its size, half of it for pages of 4 KiB and half for those of 2 MiB; 0 for none.
    pub kib: u32,
    /// Neighbouring pages that share a set, which has four entries.
    pub neighbours: u32,
    /// The second and the last level of cache hold its lines.
    pub cached: bool,
    /// The size of a page is predicted; without, 4 KiB is tried first.
    pub size_predictor: bool,
    /// Lines that are predicted to be in no cache are asked of memory at once.
    pub bypass_predictor: bool,
    /// Entries of the predictors, of which each core has its own.
    pub predictor_entries: u32,
}

impl Default for PomTlbConfig {
    fn default() -> Self {
        PomTlbConfig {
            kib: 16 << 10,
            neighbours: 4,
            cached: true,
            size_predictor: true,
            bypass_predictor: true,
            predictor_entries: 512,
        }
    }
}

impl PomTlbConfig {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.kib != 0 && !(self.kib.is_power_of_two() && (1..=1 << 20).contains(&self.kib)) {
            return Err("kib is 0 or a power of two to 1048576 (1 GiB)");
        }
        if ![1, 2, 4].contains(&self.neighbours) {
            return Err("neighbours are 1, 2 or 4");
        }
        if !self.predictor_entries.is_power_of_two() || self.predictor_entries > 1 << 20 {
            return Err("predictor_entries is a power of two to 1048576");
        }
        Ok(())
    }
}
