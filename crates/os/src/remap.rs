use crate::mapper::Mapper;
use crate::vma::Vma;
use crate::{Effects, Os, OsError};
use pagelab_addr::{Asid, PageDirectory, PageSize, Vpn};
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

impl Os {
    /// mremap: shrinks, grows or moves; pages keep their frames (`mremap_to`, `move_vma`).
    pub(crate) fn remap<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        old: Range<u64>,
        new: Range<u64>,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let overlap = old.start < new.end && new.start < old.end;
        if new.is_empty() || (overlap && old.start != new.start) {
            self.statistics.ignored_events += 1;
            return Ok(());
        }
        let kept = (old.end - old.start).min(new.end - new.start);
        // What the new pages past the old end are like: the last of the old ones, or for an
        // old length of 0 the one there.
        let last = old.end.max(old.start + 1) - 1;
        let model = self.space(asid).vmas.find(Vpn(last));
        if old.is_empty() {
            return self.duplicate(table, directory, asid, old.start, new, effects);
        }
        self.unmap(table, directory, asid, old.start + kept..old.end, effects)?;
        if old.start == new.start {
            self.unmap(table, directory, asid, new.start + kept..new.end, effects)?;
        } else {
            self.unmap(table, directory, asid, new.clone(), effects)?;
            let moved = old.start..old.start + kept;
            self.relocate(table, directory, asid, moved, new.start, effects)?;
        }
        if new.start + kept == new.end {
            return Ok(());
        }
        let (start, end) = (new.start + kept, new.end);
        let grown = match model {
            // Where the model's last page has gone, it goes on.
            Some(model) => model.at(old.end, start, end),
            None => Vma::anonymous(start..end),
        };
        self.add_vma(table, directory, asid, grown, effects)
    }

    /// mremap with an old length of 0: the same shared memory at a second place.
    fn duplicate<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        old: u64,
        new: Range<u64>,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let source = self.space(asid).vmas.find(Vpn(old));
        let Some(source) = source.filter(|vma| vma.object.is_some()) else {
            self.statistics.ignored_events += 1;
            return Ok(());
        };
        let twin = source.at(old, new.start, new.end);
        // The object must not go when the new place was the only other one to show it.
        let object = twin.object.map(|(object, _)| object);
        if let Some(object) = object {
            self.frames.shared.show(object, 1);
        }
        self.unmap(table, directory, asid, new, effects)?;
        self.add_vma(table, directory, asid, twin, effects)?;
        if let Some(object) = object {
            self.frames.hide(object, 1);
        }
        Ok(())
    }

    /// Moves the VMAs of a range, and their pages.
    fn relocate<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        old: Range<u64>,
        to: u64,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let mut mapper = self.mapper(table, directory, effects);
        mapper.split_at(asid, old.start)?;
        mapper.split_at(asid, old.end)?;
        let vmas: Vec<Vma> = self.space(asid).vmas.within(old.clone()).collect();
        for vma in &vmas {
            let start = vma.start - old.start + to;
            let moved = vma.at(vma.start, start, start + vma.pages());
            self.add_vma(table, directory, asid, moved, effects)?;
        }
        let mut mapper = self.mapper(table, directory, effects);
        mapper.move_pages(asid, old.clone(), to)?;
        let removed = self.space(asid).vmas.remove(old);
        self.release(table, directory, asid, &removed, effects)
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Allows or forbids stores to the mapped pages of a range, all `shared` memory or all
    /// private. Private pages that others map too must be copied first: they stay read-only
    /// (`can_change_pte_writable`).
    pub(crate) fn protect(&mut self, asid: Asid, pages: Range<u64>, writable: bool, shared: bool) {
        let mut at = pages.start;
        while let Some(run) = self.presence.next(asid, at..pages.end) {
            for page in run.pages() {
                let translation = self.translation(page);
                let alone = shared || self.frames.map_count(translation.pfn) == 1;
                if translation.writable != (writable && alone) {
                    self.set_writable(page, translation, writable && alone);
                }
            }
            at = run.end();
        }
    }

    /// Moves the pages of a range to where nothing is mapped.
    fn move_pages(&mut self, asid: Asid, old: Range<u64>, to: u64) -> Result<(), OsError> {
        let mut at = old.start;
        while let Some(run) = self.presence.next(asid, at..old.end) {
            let distance = to.wrapping_sub(old.start);
            if !distance.is_multiple_of(u64::from(run.size.base_pages())) {
                self.split(run.first, run.size)?;
                continue;
            }
            for page in run.pages() {
                let target = self.page(asid, Vpn(page.vpn.0 - old.start + to))?;
                self.move_page(page, target, run.size)?;
            }
            at = run.end();
        }
        Ok(())
    }

    fn move_page(&mut self, from: Page, to: Page, size: PageSize) -> Result<(), OsError> {
        let translation = self.translation(from);
        self.frames.pin(translation.pfn, size);
        let entered = self.enter(to, translation.pfn, size, translation.writable);
        self.frames.unpin();
        entered?;
        self.take_out(from, size);
        self.frames.replace_page(translation.pfn, from.id, to.id);
        self.presence.remove(from.id, size);
        self.presence.insert(to, size);
        self.effects.invalidate(from.id, size);
        self.effects.entries_moved += 1;
        Ok(())
    }
}
