use crate::caches::unknown::Unknown;
use crate::config::{CachesConfig, WalksEnter};
use pagelab_memory::{Cache, GeometryError, Prefetchers};

/// One core's private caches.
#[derive(Clone, Debug)]
pub(crate) struct PrivateCaches {
    pub(crate) l1: Cache,
    pub(crate) l2: Cache,
    pub(crate) walks_enter: WalksEnter,
    /// Lines that they fetch for loads are in the chunk when the caches take it.
    pub(crate) prefetchers: Option<Prefetchers>,
    /// Unknown references to the second level, once a sample has left accesses out.
    pub(super) unknown: Option<Box<Unknown>>,
}

impl PrivateCaches {
    pub(crate) fn new(config: &CachesConfig, seed: u64) -> Result<Self, GeometryError> {
        Ok(PrivateCaches {
            l1: Cache::new(&config.l1)?.seeded(seed),
            l2: Cache::new(&config.l2)?.seeded(seed.wrapping_add(1)),
            walks_enter: config.walks_enter,
            prefetchers: (config.prefetch.as_ref())
                .map(Prefetchers::new)
                .transpose()?,
            unknown: None,
        })
    }

    /// Accesses have been left out of programs that have so many lines of memory.
    pub(crate) fn begin_window(&mut self, lines: f64, spread: f64) {
        let new = || Box::new(Unknown::new(self.l2.capacity()));
        (self.unknown.get_or_insert_with(new)).begin_window(lines, spread);
    }

    /// True if prefetchers go on in the pages beside those that are accessed.
    pub(crate) fn crosses_pages(&self) -> bool {
        let prefetchers = self.prefetchers.as_ref();
        prefetchers.is_some_and(Prefetchers::crosses_pages)
    }

    /// True if a prefetcher wants to see loads.
    pub(crate) fn follows_loads(&self) -> bool {
        let prefetchers = self.prefetchers.as_ref();
        prefetchers.is_some_and(Prefetchers::sees_loads)
    }

    /// True if the prefetchers want to know what was missed, chunk by chunk.
    pub(crate) fn wants_answers(&self) -> bool {
        let prefetchers = self.prefetchers.as_ref();
        prefetchers.is_some_and(Prefetchers::wants_answers)
    }
}
