//! Moving pages: between nodes, as the memory manager wants it, and into restrictive segments and
//! out of them.

use crate::pages::mapper::{Mapper, first_of};
use pagelab_addr::{PageSize, Pfn};
use pagelab_translation::{Page, PageTable, Translation};

impl<T: PageTable> Mapper<'_, T> {
    /// Lets the memory manager do what it does every interval.
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
            self.point_to(to, PageSize::Base4K);
        }
    }

    /// Has the page table say where a page is that was moved, and counts it.
    fn point_to(&mut self, to: Pfn, size: PageSize) {
        self.retarget(to, size);
        let pages = u64::from(size.base_pages());
        self.effects.pages_migrated += pages;
        self.effects.shootdowns += 1;
        self.statistics.pages_migrated += pages;
    }

    /// Has the page table say where a page is that was moved.
    pub(crate) fn retarget(&mut self, to: Pfn, size: PageSize) {
        for page in self.owners(to) {
            let old = self.translation(page);
            let updated = self.table.update(page, Translation { pfn: to, ..old });
            debug_assert!(updated);
            self.effects.work.entries_written += 1;
            self.effects.invalidate(page.id, size);
        }
    }

    /// Moves a page out of a restrictive segment; whether there was room for it elsewhere.
    #[cold]
    pub(crate) fn move_out(&mut self, victim: Pfn, size: PageSize) -> bool {
        let to = self.frames.move_out(victim, size);
        if let Some(to) = to {
            self.point_to(to, size);
        }
        to.is_some()
    }

    /// Moves the page around this one, which is mapped, into its set of a restrictive segment, and
    /// another out of it if it is full.
    pub(crate) fn move_in(&mut self, page: Page) {
        let Some(Translation { pfn, size, .. }) = self.table.lookup(page) else {
            return;
        };
        let moved = self.try_to_move_in(first_of(page, size), pfn, size);
        self.frames.note_move(size, moved);
    }

    fn try_to_move_in(&mut self, first: Page, pfn: Pfn, size: PageSize) -> bool {
        let head = Pfn(pfn.0 & !(size.base_pages() - 1));
        if !self.frames.wants_to_move(head, first.id, size) {
            return false;
        }
        if let Some(victim) = self.frames.victim(first.id, size)
            && !self.move_out(victim, size)
        {
            return false;
        }
        let to = self.frames.move_in(head, first.id, size);
        if let Some(to) = to {
            self.point_to(to, size);
        }
        to.is_some()
    }
}
