use pagelab_translation::Tiers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of Revelator. Each technique can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RevelatorConfig {
    /// Hashes 4 KiB pages to frames, and fetches their lines by that.
    pub data: bool,
    /// Hashes pages of PTEs to frames, and fetches their lines by that.
    pub entries: bool,
    /// Hash functions, each of which names one frame.
    pub functions: u32,
    /// Guesses only by functions that have named frames often enough of late.
    pub filtered: bool,
    /// Least share of a window's walks that is often enough.
    pub least_share: f64,
    /// Walks over which it is counted.
    pub window: u32,
    /// Cycles that hashing takes.
    pub cycles: u32,
}

impl Default for RevelatorConfig {
    fn default() -> Self {
        RevelatorConfig {
            data: true,
            entries: true,
            functions: 4,
            filtered: true,
            least_share: 0.1,
            window: 256,
            cycles: 2,
        }
    }
}

impl RevelatorConfig {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if !(1..=Tiers::MAX_FUNCTIONS).contains(&self.functions) {
            return Err("functions are 1 to 8");
        }
        if !(0.0..=1.0).contains(&self.least_share) {
            return Err("least_share is 0 to 1");
        }
        if self.window == 0 {
            return Err("window is 0");
        }
        Ok(())
    }
}
