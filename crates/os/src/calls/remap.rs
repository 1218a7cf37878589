use crate::OsError;
use crate::pages::mapper::Mapper;
use crate::spaces::vma::Vma;
use crate::system::Call;
use pagelab_addr::{Asid, PageSize, Vpn};
use pagelab_translation::{Page, PageTable};
use std::ops::Range;

impl<T: PageTable> Call<'_, T> {
    /// mremap: shrinks, grows or moves; pages keep their frames (`mremap_to`, `move_vma`).
    pub(crate) fn remap(
        &mut self,
        asid: Asid,
        old: Range<u64>,
        new: Range<u64>,
    ) -> Result<(), OsError> {
        let overlap = old.start < new.end && new.start < old.end;
        if new.is_empty() || (overlap && old.start != new.start) {
            self.mapper.statistics.ignored_events += 1;
            return Ok(());
        }
        let kept = (old.end - old.start).min(new.end - new.start);
        // Model of the new pages past the old end: the last of the old ones, or for an old length
        // of 0 the one there.
        let last = old.end.max(old.start + 1) - 1;
        let model = self.space(asid).vmas.find(Vpn(last));
        if old.is_empty() {
            return self.duplicate(asid, old.start, new);
        }
        self.unmap(asid, old.start + kept..old.end)?;
        if old.start == new.start {
            self.unmap(asid, new.start + kept..new.end)?;
        } else {
            self.unmap(asid, new.clone())?;
            let moved = old.start..old.start + kept;
            self.relocate(asid, moved, new.start)?;
        }
        if new.start + kept == new.end {
            return Ok(());
        }
        let (start, end) = (new.start + kept, new.end);
        let grown = match model {
            // The new pages go on where the model's last page has gone.
            Some(model) => model.at(old.end, start, end),
            None => Vma::anonymous(start..end),
        };
        self.add_vma(asid, grown)
    }

    /// mremap with an old length of 0: the same shared memory at a second place.
    fn duplicate(&mut self, asid: Asid, old: u64, new: Range<u64>) -> Result<(), OsError> {
        let source = self.space(asid).vmas.find(Vpn(old));
        let Some(source) = source.filter(Vma::is_shared) else {
            self.mapper.statistics.ignored_events += 1;
            return Ok(());
        };
        let twin = source.at(old, new.start, new.end);
        // The object must not go when the new place was the only other one to show it.
        let object = twin.object.map(|(object, _)| object);
        if let Some(object) = object {
            self.mapper.frames.shared.show(object, 1);
        }
        let done = self
            .unmap(asid, new)
            .and_then(|()| self.add_vma(asid, twin));
        if let Some(object) = object {
            self.mapper.frames.hide(object, 1);
        }
        done
    }

    /// Moves the VMAs of a range, and their pages.
    fn relocate(&mut self, asid: Asid, old: Range<u64>, to: u64) -> Result<(), OsError> {
        self.mapper.split_at(asid, old.start)?;
        self.mapper.split_at(asid, old.end)?;
        let vmas: Vec<Vma> = self.space(asid).vmas.within(old.clone()).collect();
        for vma in &vmas {
            let start = vma.start - old.start + to;
            let moved = vma.at(vma.start, start, start + vma.pages());
            self.add_vma(asid, moved)?;
        }
        self.mapper.move_pages(asid, old.clone(), to)?;
        let removed = self.space(asid).vmas.remove(old);
        self.release(asid, &removed)
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Moves the pages of a range to where nothing is mapped.
    fn move_pages(&mut self, asid: Asid, old: Range<u64>, to: u64) -> Result<(), OsError> {
        self.frames.move_swapped(asid, old.clone(), to);
        self.frames.move_stores(asid, &old, to);
        let mut at = old.start;
        while let Some(run) = self.table.next_mapped(asid, at..old.end) {
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
        self.effects.invalidate(from.id, size);
        self.effects.narrowed = true;
        self.effects.entries_moved += 1;
        Ok(())
    }
}
