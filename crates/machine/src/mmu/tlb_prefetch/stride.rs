use super::lru_table::LruTable;
use super::{Miss, Prefetcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Keys of the prefetcher by instructions' strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StrideKeys {
    /// Instructions that are followed.
    pub instructions: NonZeroU32,
}

impl Default for StrideKeys {
    fn default() -> Self {
        let instructions = const { NonZeroU32::new(64).unwrap() };
        StrideKeys { instructions }
    }
}

/// As far from the page as the last miss of the same instruction was from the one before, once two
/// in a row were as far (ASP, after Baer and Chen, Supercomputing 1991).
#[derive(Debug)]
pub(super) struct Stride {
    /// By instruction: the page that missed last, and its distance from the one before.
    table: LruTable<(i64, i64)>,
}

impl From<StrideKeys> for Stride {
    fn from(keys: StrideKeys) -> Self {
        let table = LruTable::new(keys.instructions);
        Stride { table }
    }
}

impl Prefetcher for Stride {
    fn missed(&mut self, miss: Miss, next: &mut Vec<i64>) {
        let Some(instruction) = miss.instruction else {
            return;
        };
        let (entry, known) = self.table.of(instruction.into());
        let stride = if known { miss.page - entry.0 } else { 0 };
        if stride != 0 && stride == entry.1 {
            next.push(miss.page + stride);
        }
        *entry = (miss.page, stride);
    }
}
