use std::fmt::Debug;

/// A miss, as a prefetcher is told of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    /// The virtual number of the page, in pages of its size.
    pub(super) page: i64,
    /// The instruction that missed, if that is known.
    pub(super) instruction: Option<u32>,
}

/// Says which pages will miss.
pub(super) trait Prefetcher: Debug + Send {
    /// A page has missed, in the buffer or not: adds those that come next, at most
    /// [`crate::machine::requests::MOST_AHEAD`].
    fn missed(&mut self, miss: Miss, next: &mut Vec<i64>);
}
