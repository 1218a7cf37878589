use crate::pages::mapper::{Mapper, offset_by};
use crate::spaces::address_space::{AddressSpace, Stage};
use crate::spaces::vma::{AtFork, Vma};
use crate::system::Call;
use crate::{ForkStatistics, OsError};
use pagelab_addr::Asid;
use pagelab_events::Control;
use pagelab_translation::{Page, PageTable, Translation};

impl<T: PageTable> Call<'_, T> {
    /// A child with the parent's VMAs, private pages shared copy-on-write (`dup_mmap`,
    /// `copy_page_range`).
    pub(crate) fn fork(&mut self, parent: Asid, child: Asid) -> Result<(), OsError> {
        if child == parent {
            self.mapper.statistics.ignored_events += 1;
            return Ok(());
        }
        if self
            .spaces
            .get(usize::from(child.0))
            .is_some_and(Option::is_some)
        {
            // A process number that is used again; its last user never said that it ended.
            self.carry_out(child, &Control::Exit { status: 0 })?;
        }
        self.mapper.statistics.forks += 1;
        let before = self.mapper.work_of_fork();
        let AddressSpace {
            heap,
            stack,
            announced,
            skipped,
            told,
            huge_pages,
            ..
        } = *self.space(parent);
        let vmas: Vec<Vma> = self.space(parent).vmas.iter().collect();
        let space = self.space(child);
        (space.heap, space.announced) = (heap, announced);
        space.stack = stack;
        (space.skipped, space.told) = (skipped, told);
        space.huge_pages = huge_pages;
        space.stage = Stage::Running;
        for vma in vmas {
            if vma.at_fork == AtFork::Left {
                continue;
            }
            self.add_vma(child, vma)?;
            if vma.at_fork == AtFork::Copied && self.mapper.is_copied(parent, &vma) {
                self.mapper.share(parent, child, &vma)?;
            }
        }
        self.mapper.note_fork(before);
        Ok(())
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Work of forks in this event so far.
    fn work_of_fork(&self) -> ForkStatistics {
        ForkStatistics {
            entries: self.effects.entries_forked,
            table_pages: self.effects.work.table_frames,
        }
    }

    /// Notes a fork, if it is the largest yet.
    fn note_fork(&mut self, before: ForkStatistics) {
        let after = self.work_of_fork();
        let entries = after.entries - before.entries;
        let largest = &mut self.statistics.largest_fork;
        if largest.is_none_or(|largest| entries > largest.entries) {
            *largest = Some(ForkStatistics {
                entries,
                table_pages: after.table_pages - before.table_pages,
            });
        }
    }

    /// True if fork copies entries. Shared memory, and files of which no page was written, are left
    /// for the child to fault in (`vma_needs_copy` in mm/memory.c).
    fn is_copied(&self, parent: Asid, vma: &Vma) -> bool {
        if vma.is_shared() || vma.object.is_none() {
            return !vma.is_shared();
        }
        if self.frames.any_swapped(parent, vma.start..vma.end) {
            return true;
        }
        let mut at = vma.start;
        while let Some(run) = self.table.next_mapped(parent, at..vma.end) {
            let in_cache = |page| self.frames.is_in_slot(self.translation(page).pfn);
            if !run.pages().all(in_cache) {
                return true;
            }
            at = run.end();
        }
        false
    }

    /// Maps the parent's pages of a private VMA in the child too, read-only in both.
    fn share(&mut self, parent: Asid, child: Asid, vma: &Vma) -> Result<(), OsError> {
        self.frames.share_swapped(parent, child, vma.start..vma.end);
        (self.frames).share_stores(parent, child, &(vma.start..vma.end));
        let mut entries = self.forked(child);
        let mut at = vma.start;
        while let Some(run) = self.table.next_mapped(parent, at..vma.end) {
            let first = self.page(child, run.first.vpn)?;
            for page in run.pages() {
                let translation = self.translation(page);
                if translation.writable {
                    let read_only = Translation {
                        writable: false,
                        ..translation
                    };
                    self.table.update(page, read_only);
                    self.effects.work.entries_written += 1;
                    // Linux flushes all of the parent's translations (`flush_tlb_mm`).
                    self.effects.flush(parent);
                    self.effects.narrowed = true;
                }
                self.push_forked(&mut entries, page, translation.pfn, run.size);
                self.frames.note_alone(translation.pfn, run.size, parent);
                self.frames.set_forked(translation.pfn, true);
                let twin: Page = offset_by(first, page.id.0 - run.first.id.0);
                self.map_shared(twin, translation.pfn, run.size, false)?;
                self.statistics.entries_forked += 1;
                self.effects.entries_forked += 1;
            }
            at = run.end();
        }
        self.account_forked(entries);
        Ok(())
    }
}
