//! Free translation: the bound that no page table can beat. See docs/designs/ideal.md.

use crate::leaf::{NO_SLOT, PageMap, Pte};
use crate::{Frames, MapError, Page, PageTable, Translation, Walk, Work};
use pagelab_addr::{PageId, PageSize, Pfn};

/// A page table that is read in no time and lies nowhere.
#[derive(Clone, Debug, Default)]
pub struct Ideal {
    map: PageMap,
}

impl Ideal {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PageTable for Ideal {
    fn release<F: Frames>(&mut self, _: &mut F, first: Page, pages: u64) {
        for region in self.map.regions_in(first, pages) {
            self.map.remove_empty_page(region.id);
        }
    }

    fn map<F: Frames>(
        &mut self,
        _: &mut F,
        page: Page,
        translation: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let Translation {
            pfn,
            size,
            writable,
        } = translation;
        self.map.prepare(page, size);
        if size != PageSize::Base4K {
            for offset in (0..size.base_pages()).step_by(512) {
                self.map.remove_empty_page(PageId(page.id.0 + offset));
            }
        } else if self.map.region(page.id).slot == NO_SLOT {
            self.map.add_page(page.id, Pfn(0));
        }
        self.map.set(page.id, size, Pte::new(pfn, writable));
        work.entries_written += 1;
        Ok(())
    }

    fn unmap<F: Frames>(
        &mut self,
        _: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Option<Translation> {
        let old = self.map.get(page.id, size).translate(page.vpn.0, size)?;
        self.map.set(page.id, size, Pte::ABSENT);
        work.entries_written += 1;
        Some(old)
    }

    fn update(&mut self, page: Page, translation: Translation) -> bool {
        self.map.update(page.id, translation)
    }

    fn lookup(&self, page: Page) -> Option<Translation> {
        self.map.lookup(page.id)
    }

    #[inline]
    fn walk(&mut self, _: usize, page: Page, _: &mut Walk) -> Option<Translation> {
        self.map.lookup(page.id)
    }

    #[inline]
    fn host_prefetch(&self, page: Page) {
        self.map.host_prefetch(page.id);
    }

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
