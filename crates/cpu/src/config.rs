use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Accesses remembered: more than any reorder buffer holds, so that whatever lies further back
/// has retired.
pub const WINDOW: usize = 1024;

/// Parameters of a core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreConfig {
    /// Clock frequency in GHz.
    pub ghz: f64,
    /// Instructions dispatched and retired per cycle.
    pub width: u32,
    /// Entries of the reorder buffer.
    pub reorder_buffer: u32,
    /// Execution between accesses, of sources that say what is executed. Without, it takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionConfig>,
    /// Entries of the store buffer.
    pub store_buffer: u32,
    /// Stores that the store buffer writes in a cycle.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub store_ports: u32,
    /// First-level misses under way at a time (line-fill buffers).
    pub miss_buffers: u32,
    /// Second-level misses under way at a time, whoever asks: accesses, page walks, prefetchers,
    /// instruction fetch. `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_miss_buffers: Option<u32>,
    /// Page walks under way at a time.
    pub walkers: u32,
    /// Cycles from the end of a mispredicted branch to the dispatch of what follows it; 0 for
    /// branches that cost nothing.
    #[serde(default)]
    pub misprediction: u32,
}

/// A core between accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionConfig {
    /// Integer registers that instructions in the reorder buffer can have taken at a time: what is
    /// renamed to, less the state of the program. `None` for as many as the reorder buffer needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer_registers: Option<u32>,
    /// Arithmetic, which takes what current cores take for each instruction: between a load and an address that is
    /// computed from it, and from register to register. `None` for no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<ArithmeticConfig>,
}

/// Arithmetic of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArithmeticConfig {
    /// Cycles that an address takes more from an index that is scaled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub scaled_index: u32,
    /// Cycles that a locked instruction's store takes the store buffer at least, which writes in order: no
    /// store behind it is written meanwhile.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub atomics: u32,
    /// Cycles from what is stored to what a load of the same makes of it, in integer registers; what a hit of
    /// the first level takes if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<u32>,
    /// Cycles from store to load in vector registers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_forwarding: Option<u32>,
}

fn is_zero(cycles: &u32) -> bool {
    *cycles == 0
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Reason for which a core cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CoreError {
    /// A count is 0 or too large.
    #[error("core.{key} = {value} is not between 1 and {limit}")]
    Count {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u32,
        /// The largest value.
        limit: u32,
    },
    /// Something takes too long.
    #[error("core.{key} = {cycles} is not between 0 and {limit}")]
    Cycles {
        /// The key.
        key: &'static str,
        /// Its value.
        cycles: u32,
        /// The largest value.
        limit: u32,
    },
    /// The frequency is not a positive number.
    #[error("core.ghz = {0} is not a positive number")]
    Frequency(f64),
}

impl CoreConfig {
    /// Integer registers, if they run out.
    pub fn integer_registers(&self) -> Option<u32> {
        self.execution?.integer_registers
    }

    /// Arithmetic, if it takes time.
    pub fn arithmetic(&self) -> Option<ArithmeticConfig> {
        self.execution?.arithmetic
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`CoreError`] names the first key that is out of range.
    pub fn check(&self) -> Result<(), CoreError> {
        let arithmetic = self.arithmetic().unwrap_or_default();
        for (key, value, limit) in [
            ("width", self.width, 64),
            ("reorder_buffer", self.reorder_buffer, WINDOW as u32 - 1),
            (
                "execution.integer_registers",
                self.integer_registers().unwrap_or(1),
                4096,
            ),
            ("store_buffer", self.store_buffer, 4096),
            ("store_ports", self.store_ports, 64),
            ("miss_buffers", self.miss_buffers, 4096),
            ("l2_miss_buffers", self.l2_miss_buffers.unwrap_or(1), 4096),
            ("walkers", self.walkers, 64),
        ] {
            if value == 0 || value > limit {
                return Err(CoreError::Count { key, value, limit });
            }
        }
        for (key, cycles, limit) in [
            (
                "execution.arithmetic.scaled_index",
                arithmetic.scaled_index,
                64,
            ),
            ("execution.arithmetic.atomics", arithmetic.atomics, 4096),
            (
                "execution.arithmetic.forwarding",
                arithmetic.forwarding.unwrap_or(0),
                64,
            ),
            (
                "execution.arithmetic.vector_forwarding",
                arithmetic.vector_forwarding.unwrap_or(0),
                64,
            ),
            ("misprediction", self.misprediction, 4096),
        ] {
            if cycles > limit {
                return Err(CoreError::Cycles { key, cycles, limit });
            }
        }
        if !(self.ghz.is_finite() && self.ghz > 0.0) {
            return Err(CoreError::Frequency(self.ghz));
        }
        Ok(())
    }
}
