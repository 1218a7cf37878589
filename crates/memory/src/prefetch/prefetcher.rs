use crate::GeometryError;

/// A load, as a prefetcher sees it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Instruction: its number in the source's code.
    pub instruction: u32,
    /// Virtual address.
    pub address: u64,
}

/// A prefetcher: it sees loads, or the lines that the first level misses, or both.
pub(super) trait Prefetcher: Sized {
    /// Keys in a machine's description.
    type Keys;

    /// It wants to see loads.
    const SEES_LOADS: bool = false;

    /// The most lines that it fetches on an access's account.
    const MOST: usize;

    /// A prefetcher that has seen nothing.
    fn new(keys: &Self::Keys) -> Result<Self, GeometryError>;

    /// True if it would do nothing with such keys.
    fn is_off(_keys: &Self::Keys) -> bool {
        false
    }

    /// An instruction loads. Adds the virtual addresses whose lines are to be fetched; those that
    /// are not mapped will not be.
    fn loaded(&mut self, _load: Load, _next: &mut Vec<u64>) {}

    /// The first level misses a physical line. Fetches others; `beside` finds the frame of the page
    /// after the line's in the address space (with `true`), or before it.
    fn missed(
        &mut self,
        _line: u32,
        _beside: &mut impl FnMut(bool) -> Option<u32>,
        _fetch: &mut impl FnMut(u32),
    ) {
    }
}
