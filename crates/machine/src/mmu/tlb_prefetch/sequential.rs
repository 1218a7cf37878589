use super::{Miss, Prefetcher};

/// The next page (SP).
#[derive(Debug, Default)]
pub(super) struct Sequential;

impl Prefetcher for Sequential {
    fn missed(&mut self, miss: Miss, next: &mut Vec<i64>) {
        next.push(miss.page + 1);
    }
}
