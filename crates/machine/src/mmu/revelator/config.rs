use pagelab_translation::Tiers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What Revelator does. Each technique can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RevelatorConfig {
    /// Whether 4 KiB pages are hashed to frames, and their lines fetched by that.
    pub data: bool,
    /// Whether pages of PTEs are hashed to frames, and their lines fetched by that.
    pub entries: bool,
    /// Hash functions, each of which names one frame.
    pub functions: u32,
    /// Whether only functions are guessed by that have named frames often enough of late.
    pub filtered: bool,
    /// How often that is: a share of the walks of a window.
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
