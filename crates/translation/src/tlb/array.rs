//! An array of entries as it is configured, and what their values share.

use pagelab_memory::{GeometryError, Replacement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Set in a value when stores are not allowed; frames have 31 bits.
pub(super) const READ_ONLY: u32 = 1 << 31;

/// Geometry of one TLB array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbArrayConfig {
    /// Entries.
    pub entries: u32,
    /// Associativity.
    pub ways: u32,
    /// Replacement policy of a set.
    #[serde(default, skip_serializing_if = "Replacement::is_lru")]
    pub replacement: Replacement,
    /// Number of 4 KiB pages, contiguous and aligned, that an entry can cover where their frames
    /// are contiguous, too, and all may be written or none. 1, 4, 8 or 16.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub coalesce: u32,
    /// An entry of several pages may cover a part of its group, of any alignment in memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_one(pages: &u32) -> bool {
    *pages == 1
}

impl TlbArrayConfig {
    /// An array of entries for a page each.
    pub const fn new(entries: u32, ways: u32) -> Self {
        TlbArrayConfig {
            entries,
            ways,
            replacement: Replacement::Lru,
            coalesce: 1,
            partial: false,
        }
    }
}

/// Reason for which a TLB cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlbError {
    /// The geometry of an array.
    #[error("a TLB array of {entries} entries in {ways} ways is not a whole number of sets")]
    Sets {
        /// As configured.
        entries: u32,
        /// As configured.
        ways: u32,
    },
    /// A policy that sets of so many ways cannot have.
    #[error(transparent)]
    Replacement(#[from] GeometryError),
    /// The pages of an entry.
    #[error("`coalesce` is {coalesce}: it is 1, 4, 8 or 16, with `partial` 4 or 8")]
    Coalesce {
        /// As configured.
        coalesce: u32,
    },
    /// Entries for several pages where there are none.
    #[error("`coalesce` and `partial` belong to `l1_4k` and `l2_4k`, and `partial` to `coalesce`")]
    NotCoalescing,
}
