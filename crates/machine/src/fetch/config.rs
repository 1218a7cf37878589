use crate::error::BuildError;
use pagelab_addr::LINE_BYTES;
use pagelab_memory::{GeometryError, Replacement};
use pagelab_translation::{TlbArrayConfig, TlbError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The instruction side of each core. Without, instructions are there when they are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchConfig {
    /// First-level TLB for instructions, of 4 KiB pages; larger ones enter it in pieces of that
    /// size. The second level is that of data.
    pub tlb: TlbArrayConfig,
    /// First-level instruction cache. The second level is that of data.
    pub l1: FetchCacheConfig,
    /// Lines behind the one fetched, in its page, that are fetched with it when it was not there,
    /// or was fetched so itself and is used for the first time.
    #[serde(default)]
    pub next_lines: u32,
}

/// Geometry of an instruction cache: what it has costs nothing, so it has no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchCacheConfig {
    /// Capacity in KiB.
    pub kib: u32,
    /// Associativity.
    pub ways: u32,
    /// Replacement policy of a set.
    #[serde(default, skip_serializing_if = "Replacement::is_lru")]
    pub replacement: Replacement,
}

/// The most lines fetched ahead: a page has 64.
const MAX_NEXT_LINES: u32 = 63;
const LINES_PER_KIB: u32 = 1024 / LINE_BYTES as u32;

impl FetchConfig {
    /// Checks every value; returns how many sets the TLB and the cache have.
    pub(super) fn sets(&self) -> Result<(u32, u32), BuildError> {
        let TlbArrayConfig { entries, ways, .. } = self.tlb;
        if ways == 0 || entries == 0 || !entries.is_multiple_of(ways) {
            return Err(TlbError::Sets { entries, ways }.into());
        }
        self.tlb.replacement.check(ways)?;
        if self.tlb.coalesce != 1 || self.tlb.partial {
            return Err(BuildError::Fetch(
                "the entries of fetch.tlb cover a page each: it has neither coalesce nor partial",
            ));
        }
        let FetchCacheConfig {
            kib,
            ways,
            replacement,
        } = self.l1;
        let lines = kib.saturating_mul(LINES_PER_KIB);
        if ways == 0 || lines == 0 || !lines.is_multiple_of(ways) {
            return Err(GeometryError::Sets { kib, ways }.into());
        }
        replacement.check(ways)?;
        if self.next_lines > MAX_NEXT_LINES {
            return Err(BuildError::Value {
                key: "fetch.next_lines",
                value: self.next_lines.to_string(),
                expected: "at most 63",
            });
        }
        Ok((entries / self.tlb.ways, lines / ways))
    }
}
