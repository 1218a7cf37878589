//! Moving pages between nodes, as the memory manager wants it.

use crate::mapper::Mapper;
use pagelab_addr::{PageSize, Pfn};
use pagelab_translation::{PageTable, Translation};

impl<T: PageTable> Mapper<'_, T> {
    /// What the memory manager does every interval.
    pub(crate) fn tick(&mut self) {
        self.frames.manager_mut().tick();
        while let Some((from, node)) = self.frames.next_move() {
            let Some(to) = self.frames.move_to_node(from, node) else {
                debug_assert!(
                    false,
                    "the manager moves pages to node {node}, which is full"
                );
                return;
            };
            self.point_to(to);
        }
    }

    /// Has the page table say where a page is that was moved.
    fn point_to(&mut self, to: Pfn) {
        for page in self.owners(to) {
            let old = self.translation(page);
            let updated = self.table.update(page, Translation { pfn: to, ..old });
            debug_assert!(updated);
            self.effects.work.entries_written += 1;
            self.effects.invalidate(page.id, PageSize::Base4K);
        }
        self.effects.pages_migrated += 1;
        self.effects.shootdowns += 1;
        self.statistics.pages_migrated += 1;
    }
}
