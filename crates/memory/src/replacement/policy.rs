use super::Access;

/// The most ways that policies other than LRU have.
pub(super) const MAX_WAYS: u32 = 128;

/// State of all sets of a cache or TLB array under a policy. An entry stays in its place, its way, and may be removed
/// without a word: the way is empty then, and the next [`Policy::fill`] of the set comes to its first empty way.
pub(super) trait Policy {
    /// Keys beside the name, each with a default; `()` for none.
    type Keys;

    /// False where nothing of a reference counts but its line: it then need not be described.
    const DESCRIBED: bool = true;

    /// State of empty sets.
    fn new(keys: &Self::Keys, sets: usize, ways: usize) -> Self;

    /// True if sets can have so many ways.
    fn has(ways: u32) -> bool {
        ways <= MAX_WAYS
    }

    /// Refuses keys that no policy can have.
    fn check(_keys: &Self::Keys) -> Result<(), &'static str> {
        Ok(())
    }

    /// A reference has found its entry in a way.
    fn hit(&mut self, set: usize, way: usize, access: &Access);

    /// The way whose entry leaves a full set for what the reference brings. The entries are lines,
    /// modified ones with [`crate::MODIFY`], or keys of translations.
    fn victim(&mut self, set: usize, entries: &[u32], access: &Access) -> usize;

    /// A reference has brought its entry into a way: an empty one, or its victim's.
    fn fill(&mut self, set: usize, way: usize, access: &Access);

    /// Seeds what is left to chance.
    fn seed(&mut self, _seed: u64) {}

    /// From now on favours lines from a number on ([`crate::Cache::favour`]).
    fn favour(&mut self, _first: u32) {}
}
