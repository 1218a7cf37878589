use super::outcomes::Gone;
use crate::caches::coherence::{CoherenceCounts, Directory};
use crate::caches::unknown::Unknown;
use crate::config::{CachesConfig, FilledPages};
use pagelab_memory::simd::Baseline;
use pagelab_memory::{Cache, GeometryError};

/// The cache that all cores share.
#[derive(Clone, Debug)]
pub(crate) struct SharedCache {
    pub(crate) llc: Cache,
    /// Lines written back to memory.
    pub(crate) writebacks: u64,
    /// The level in which the kernel leaves the lines of a page that it fills.
    pub(crate) filled_pages: FilledPages,
    /// Directory of lines and their holders, where private caches are kept coherent and there are
    /// several.
    pub(crate) directory: Option<Directory>,
    /// Unknown references, once a sample has left accesses out.
    pub(super) unknown: Option<Box<Unknown>>,
}

impl SharedCache {
    pub(crate) fn new(config: &CachesConfig, cores: u32, seed: u64) -> Result<Self, GeometryError> {
        let coherent = config.coherence.is_some() && cores > 1;
        Ok(SharedCache {
            llc: Cache::new(&config.llc)?.seeded(seed.wrapping_add(2)),
            writebacks: 0,
            filled_pages: match config.filled_pages {
                // A line in a private cache has to be known to the directory.
                FilledPages::L2 if coherent => FilledPages::Llc,
                at => at,
            },
            directory: coherent.then(Directory::default),
            unknown: None,
        })
    }

    /// Enters a modified line that a second level has no room for; returns one that goes to memory
    /// for it.
    pub(crate) fn write_back(&mut self, reference: u32) -> Option<u32> {
        let mut gone = Gone(None);
        (self.llc).access_all::<Baseline>(std::iter::once(reference), &mut gone);
        self.writebacks += u64::from(gone.0.is_some());
        gone.0
    }

    /// Accesses have been left out of programs that have so many lines of memory.
    pub(crate) fn begin_window(&mut self, lines: f64, spread: f64) {
        let new = || Box::new(Unknown::new(self.llc.capacity()));
        (self.unknown.get_or_insert_with(new)).begin_window(lines, spread);
    }

    /// Counts of keeping private caches coherent.
    pub(crate) fn coherence(&self) -> CoherenceCounts {
        (self.directory.as_ref()).map_or_else(CoherenceCounts::default, Directory::counts)
    }
}
