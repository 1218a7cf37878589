use super::prefetcher::Prefetcher;
use crate::GeometryError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prefetcher of the lines after one that the first level misses (Smith, "Cache Memories", ACM
/// Computing Surveys, 1982).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NextLineKeys {
    /// Number of lines, as far as they are in the 4 KiB page.
    pub lines: u32,
}

impl Default for NextLineKeys {
    fn default() -> Self {
        NextLineKeys { lines: 1 }
    }
}

#[derive(Clone, Debug)]
pub(super) struct NextLine {
    lines: u32,
}

const LINES_PER_PAGE: u32 = 64;

impl Prefetcher for NextLine {
    type Keys = NextLineKeys;

    const MOST: usize = 8;

    fn new(keys: &NextLineKeys) -> Result<Self, GeometryError> {
        if !(1..=Self::MOST as u32).contains(&keys.lines) {
            return Err(GeometryError::Prefetcher("next_line: lines are 1 to 8"));
        }
        Ok(NextLine { lines: keys.lines })
    }

    fn missed(
        &mut self,
        line: u32,
        _: &mut impl FnMut(bool) -> Option<u32>,
        fetch: &mut impl FnMut(u32),
    ) {
        let last = line | (LINES_PER_PAGE - 1);
        (line + 1..=last.min(line + self.lines)).for_each(fetch);
    }
}
