use super::recent::Recent;
use super::{Miss, Prefetcher};

/// The distances that have followed a distance between two misses before (DP: Kandiraju and
/// Sivasubramaniam, ISCA 2002).
#[derive(Debug, Default)]
pub(super) struct Distance {
    /// By distance: those that came after it last, the latest first.
    table: Recent<[Option<i64>; 2], 64>,
    page: Option<i64>,
    distance: Option<i64>,
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
