//! Free translation: the bound that no page table can beat. See docs/designs/ideal.md.

use crate::{Frames, MapError, Organisation, Page, PageMap, Paged, Translation, Walk, Work};
use pagelab_addr::PageSize;

/// A page table that is read in no time and lies nowhere.
pub type Ideal = Paged<Nowhere>;

/// A page table without a place in memory.
#[derive(Clone, Debug, Default)]
pub struct Nowhere;

impl Ideal {
    /// An empty table.
    pub fn new() -> Self {
        Paged::over(Nowhere)
    }
}

impl Default for Ideal {
    fn default() -> Self {
        Self::new()
    }
}

impl Organisation for Nowhere {
    fn release<F: Frames>(&mut self, _: &mut F, _: &PageMap, _: Page, _: u64) {}

    fn enter<F: Frames>(
        &mut self,
        _: &mut F,
        _: &PageMap,
        _: Page,
        _: PageSize,
        work: &mut Work,
    ) -> Result<(), MapError> {
        work.entries_written += 1;
        Ok(())
    }

    fn leave(&mut self, _: &PageMap, _: Page, _: PageSize, work: &mut Work) {
        work.entries_written += 1;
    }

    #[inline]
    fn walk(&mut self, _: usize, _: Page, _: Option<Translation>, _: &mut Walk) {}

    fn table_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn conforms() {
        conformance::run(57, |_| Ideal::new());
    }
}
