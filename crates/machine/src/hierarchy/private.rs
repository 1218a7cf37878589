use crate::config::{CachesConfig, WalksEnter};
use pagelab_memory::{Cache, GeometryError, Prefetcher, Strides};

/// One core's private caches.
#[derive(Clone, Debug)]
pub(crate) struct PrivateCaches {
    pub(crate) l1: Cache,
    pub(crate) l2: Cache,
    pub(crate) walks_enter: WalksEnter,
    pub(super) prefetcher: Option<Prefetcher>,
    /// What follows instructions; its lines are in the chunk when the caches take it.
    pub(crate) strides: Option<Strides>,
}

impl PrivateCaches {
    pub(crate) fn new(config: &CachesConfig, seed: u64) -> Result<Self, GeometryError> {
        Ok(PrivateCaches {
            l1: Cache::new(&config.l1)?.seeded(seed),
            l2: Cache::new(&config.l2)?.seeded(seed.wrapping_add(1)),
            walks_enter: config.walks_enter,
            prefetcher: (config.prefetch.as_ref())
                .map(Prefetcher::new)
                .transpose()?,
            strides: (config.prefetch.and_then(|prefetch| prefetch.strides))
                .filter(|strides| strides.ahead > 0)
                .map(|strides| Strides::new(&strides))
                .transpose()?,
        })
    }

    /// Whether prefetchers go on in the pages beside those that are accessed.
    pub(crate) fn crosses_pages(&self) -> bool {
        let prefetcher = self.prefetcher.as_ref();
        prefetcher.is_some_and(Prefetcher::crosses_pages)
    }

    /// Whether the prefetchers want to know what was missed, chunk by chunk.
    pub(crate) fn wants_answers(&self) -> bool {
        let prefetcher = self.prefetcher.as_ref();
        prefetcher.is_some_and(Prefetcher::wants_answers)
    }
}
