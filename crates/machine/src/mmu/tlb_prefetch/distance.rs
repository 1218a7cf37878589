use super::lru_table::LruTable;
use super::{Miss, Prefetcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Keys of the prefetcher by distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DistanceKeys {
    /// Distances that are remembered.
    pub distances: NonZeroU32,
}

impl Default for DistanceKeys {
    fn default() -> Self {
        let distances = const { NonZeroU32::new(64).unwrap() };
        DistanceKeys { distances }
    }
}

/// The distances that have followed a distance between two misses before (DP: Kandiraju and
/// Sivasubramaniam, ISCA 2002).
#[derive(Debug)]
pub(super) struct Distance {
    /// By distance: those that came after it last, the latest first.
    table: LruTable<[Option<i64>; 2]>,
    page: Option<i64>,
    distance: Option<i64>,
}

impl From<DistanceKeys> for Distance {
    fn from(keys: DistanceKeys) -> Self {
        Distance {
            table: LruTable::new(keys.distances),
            page: None,
            distance: None,
        }
    }
}

impl Prefetcher for Distance {
    fn missed(&mut self, miss: Miss, next: &mut Vec<i64>) {
        let Some(before) = self.page.replace(miss.page) else {
            return;
        };
        let distance = miss.page - before;
        if let Some(last) = self.distance.replace(distance) {
            let (followers, _) = self.table.of(last);
            if followers[0] != Some(distance) {
                *followers = [Some(distance), followers[0]];
            }
        }
        let (followers, _) = self.table.of(distance);
        next.extend(followers.iter().flatten().map(|by| miss.page + by));
    }
}
