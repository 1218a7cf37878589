use pagelab_translation::Walk;

/// The walks of one translation.
#[derive(Clone, Debug)]
pub struct Walks {
    /// The one that the access waits for.
    pub asked: Walk,
    /// Walks that begin when the translation is there, and that nothing waits for, one after the
    /// other.
    pub behind: Walk,
    /// List of these walks.
    pub ahead: Vec<PrefetchWalk>,
}

/// A walk that nothing waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchWalk {
    /// The page that is ready when it ends, if it is prefetched and there, and log2 of the base
    /// pages around it that are.
    pub page: Option<(u32, u8)>,
    /// Number of reads that are its own.
    pub reads: u16,
    /// Its fixed time, in cycles.
    pub walk: u32,
}

impl Walks {
    pub(crate) fn new() -> Self {
        Walks {
            asked: Walk::new(),
            behind: Walk::new(),
            ahead: Vec::new(),
        }
    }
}
