use crate::address_space::AddressSpace;
use crate::fault::likely_size;
use crate::vma::{HugeAdvice, Vma};
use crate::{Effects, Os, OsError};
use pagelab_addr::{Asid, PAGE_BYTES, PageDirectory, PageSize, Vpn};
use pagelab_events::{Advice, Backing, Control, Protection};
use pagelab_translation::PageTable;
use std::ops::Range;

/// Pages of a 2 MiB region.
const REGION: u64 = PageSize::Large2M.base_pages() as u64;

/// The pages that a range of bytes touches. No address is so high that `end` overflows.
pub(crate) fn pages(addr: u64, len: u64) -> Range<u64> {
    let end = addr.saturating_add(len);
    addr / PAGE_BYTES..end.div_ceil(PAGE_BYTES)
}

impl Os {
    pub(crate) fn carry_out<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        event: &Control,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        match *event {
            Control::Map {
                addr,
                len,
                prot,
                backing,
                populate,
            } => {
                let range = pages(addr, len);
                self.space(asid).announced = true;
                self.map(
                    table,
                    directory,
                    asid,
                    range.clone(),
                    (prot, backing),
                    effects,
                )?;
                if populate {
                    self.populate(table, directory, asid, range, effects)?;
                }
                Ok(())
            }
            Control::Unmap { addr, len } => {
                self.unmap(table, directory, asid, pages(addr, len), effects)
            }
            Control::Protect { addr, len, prot } => {
                self.protect(table, directory, asid, pages(addr, len), prot, effects)
            }
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => {
                let (old, new) = (pages(old_addr, old_len), pages(new_addr, new_len));
                self.remap(table, directory, asid, old, new, effects)
            }
            Control::Advise { addr, len, advice } => {
                self.advise(table, directory, asid, pages(addr, len), advice, effects)
            }
            Control::Brk { end } => self.brk(table, directory, asid, end, effects),
            Control::Fork { child } => {
                let child = Self::asid(child)?;
                self.fork(table, directory, asid, child, effects)
            }
            Control::Exec => {
                self.empty(table, directory, asid, effects)?;
                self.spaces[usize::from(asid.0)] = Some(AddressSpace::default());
                Ok(())
            }
            Control::Exit { .. } => {
                self.empty(table, directory, asid, effects)?;
                self.spaces[usize::from(asid.0)] = None;
                Ok(())
            }
            Control::Thread { .. }
            | Control::ThreadStart { .. }
            | Control::ThreadEnd { .. }
            | Control::Skipped { .. } => Ok(()),
        }
    }

    fn map<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        range: Range<u64>,
        (prot, backing): (Protection, Backing),
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        if range.is_empty() {
            self.statistics.ignored_events += 1;
            return Ok(());
        }
        self.unmap(table, directory, asid, range.clone(), effects)?;
        let shared = matches!(backing, Backing::SharedAnonymous | Backing::SharedFile);
        let vma = Vma {
            prot,
            backing,
            object: shared.then(|| (self.frames.shared.create(), 0)),
            ..Vma::anonymous(range)
        };
        self.add_vma(table, directory, asid, vma, effects)
    }

    /// Adds a VMA where there is none, and tells the page table of it.
    pub(crate) fn add_vma<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        vma: Vma,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        if let Some((object, _)) = vma.object {
            self.frames.shared.show(object, vma.pages());
        }
        self.space(asid).vmas.insert(vma);
        let size = likely_size(&vma, self.config.page_policy);
        let mapper = &mut self.mapper(table, directory, effects);
        let first = mapper.page(asid, Vpn(vma.start))?;
        let work = &mut mapper.effects.work;
        mapper
            .table
            .reserve(mapper.frames, first, vma.pages(), size, work);
        Ok(())
    }

    pub(crate) fn unmap<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        range: Range<u64>,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        if range.is_empty() {
            return Ok(());
        }
        self.zap(table, directory, asid, range.clone(), effects)?;
        let removed = self.space(asid).vmas.remove(range);
        self.release(table, directory, asid, &removed, effects)
    }

    /// Unmaps the pages of a range and leaves its VMAs.
    fn zap<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        range: Range<u64>,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let mut mapper = self.mapper(table, directory, effects);
        mapper.split_at(asid, range.start)?;
        mapper.split_at(asid, range.end)?;
        mapper.unmap(asid, range);
        Ok(())
    }

    /// Gives back what removed VMAs kept: shared memory that nobody shows any more, and the page
    /// tables of the 2 MiB regions that no VMA touches any more (`free_pgtables` with its floor
    /// and ceiling in mm/memory.c).
    pub(crate) fn release<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        removed: &[Vma],
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let mut released = 0;
        for vma in removed {
            if let Some((object, _)) = vma.object {
                effects.frames_freed += u64::from(self.frames.hide(object, vma.pages()));
            }
            let vmas = &self.space(asid).vmas;
            let mut start = vma.start / REGION * REGION;
            let mut end = vma.end.div_ceil(REGION) * REGION;
            if vmas.touch(start..vma.start) {
                start += REGION;
            }
            if vmas.touch(vma.end..end) {
                end -= REGION;
            }
            start = start.max(released);
            if start >= end {
                continue;
            }
            released = end;
            let mapper = &mut self.mapper(table, directory, effects);
            let first = mapper.page(asid, Vpn(start))?;
            mapper.table.release(mapper.frames, first, end - start);
        }
        Ok(())
    }

    fn protect<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        range: Range<u64>,
        prot: Protection,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        if range.is_empty() {
            return Ok(());
        }
        let mut mapper = self.mapper(table, directory, effects);
        mapper.split_at(asid, range.start)?;
        mapper.split_at(asid, range.end)?;
        self.change_vmas(asid, range.clone(), |vma| vma.prot = prot);
        let writable = prot.0 & Protection::WRITE != 0;
        let vmas = &self.spaces[usize::from(asid.0)];
        let shared: Vec<Vma> = vmas
            .iter()
            .flat_map(|space| space.vmas.within(range.clone()))
            .collect();
        for vma in shared {
            let mut mapper = self.mapper(table, directory, effects);
            mapper.protect(asid, vma.start..vma.end, writable, vma.object.is_some());
        }
        Ok(())
    }

    /// Changes the VMAs of a range; they part from or merge with their neighbours.
    fn change_vmas(&mut self, asid: Asid, range: Range<u64>, change: impl Fn(&mut Vma)) {
        let vmas = &mut self.space(asid).vmas;
        for mut vma in vmas.remove(range) {
            change(&mut vma);
            vmas.insert(vma);
        }
    }

    fn advise<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        range: Range<u64>,
        advice: Advice,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        if range.is_empty() {
            return Ok(());
        }
        let huge = match advice {
            Advice::DontNeed => return self.zap(table, directory, asid, range, effects),
            Advice::Populate => return self.populate(table, directory, asid, range, effects),
            // Pages advised free go when memory is short; here a run that is short of memory ends.
            Advice::Free | Advice::Other(_) => return Ok(()),
            Advice::HugePage => HugeAdvice::Wanted,
            Advice::NoHugePage => HugeAdvice::Unwanted,
        };
        // VMAs part here, and no page reaches over the end of its VMA
        // (`vma_adjust_trans_huge`).
        let mut mapper = self.mapper(table, directory, effects);
        mapper.split_at(asid, range.start)?;
        mapper.split_at(asid, range.end)?;
        self.change_vmas(asid, range, |vma| vma.advice = huge);
        Ok(())
    }

    /// Maps all pages of a range that are in a VMA, as stores would.
    fn populate<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        range: Range<u64>,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let policy = self.config.page_policy;
        let vmas: Vec<Vma> = self.space(asid).vmas.within(range.clone()).collect();
        for clipped in vmas {
            let Some(vma) = self.space(asid).vmas.find(Vpn(clipped.start)) else {
                continue;
            };
            let mut mapper = self.mapper(table, directory, effects);
            let mut at = clipped.start;
            while at < clipped.end {
                let page = mapper.page(asid, Vpn(at))?;
                let size = match mapper.presence.size_at(page.id) {
                    Some(size) => size,
                    None => {
                        let size = mapper.fault_unmapped(&vma, page, false, policy)?;
                        mapper.statistics.populated.count(size);
                        size
                    }
                };
                at = page.vpn.align_down(size).0 + u64::from(size.base_pages());
            }
        }
        Ok(())
    }

    fn brk<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        end: u64,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let new = end.div_ceil(PAGE_BYTES);
        let space = self.space(asid);
        space.announced = true;
        let (start, old) = space.heap.unwrap_or((new, new));
        if new < start {
            self.statistics.ignored_events += 1;
            return Ok(());
        }
        space.heap = Some((start, new));
        if new < old {
            return self.unmap(table, directory, asid, new..old, effects);
        }
        // A trace may have something mapped there, where a kernel would have refused.
        self.unmap(table, directory, asid, old..new, effects)?;
        if old < new {
            let vma = Vma::anonymous(old..new);
            self.add_vma(table, directory, asid, vma, effects)?;
        }
        Ok(())
    }

    /// Unmaps everything (exec, exit).
    fn empty<T: PageTable>(
        &mut self,
        table: &mut T,
        directory: &mut PageDirectory,
        asid: Asid,
        effects: &mut Effects,
    ) -> Result<(), OsError> {
        let removed = self.space(asid).vmas.remove(0..u64::MAX);
        let stale = effects.invalidations.len();
        let mut mapper = self.mapper(table, directory, effects);
        mapper.unmap(asid, 0..u64::MAX);
        mapper.presence.forget(asid);
        // The whole address space is invalidated; its pages need not be one by one.
        effects.invalidations.truncate(stale);
        effects.flush(asid);
        self.release(table, directory, asid, &removed, effects)
    }
}
