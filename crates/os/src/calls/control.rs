use crate::faults::fault::Need;
use crate::pages::mapper::Mapper;
use crate::spaces::address_space::{AddressSpace, Stage};
use crate::spaces::vma::{AtFork, HugeAdvice, Vma};
use crate::system::Call;
use crate::{Os, OsError};
use pagelab_addr::{Asid, PAGE_BYTES, PageSize, Vpn};
use pagelab_events::{Advice, Backing, Control, Protection, pages};
use pagelab_translation::PageTable;
use std::ops::Range;

/// Pages of a 2 MiB region.
const REGION: u64 = PageSize::Large2M.base_pages() as u64;

/// Pages of the first thread's stack before the program runs; it grows fault by fault: one of arguments, and 128 KiB
/// (`setup_arg_pages` in fs/exec.c).
const STACK_AT_EXEC: u64 = 33;

impl<T: PageTable> Call<'_, T> {
    pub(crate) fn carry_out(&mut self, asid: Asid, event: &Control) -> Result<(), OsError> {
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
                self.map(asid, range.clone(), prot, backing)?;
                if populate {
                    // Shared memory is not written to for nothing.
                    self.populate(asid, range, |vma| vma.writable() && !vma.is_shared())?;
                }
                Ok(())
            }
            Control::Unmap { addr, len } => self.unmap(asid, pages(addr, len)),
            Control::Protect { addr, len, prot } => self.protect(asid, pages(addr, len), prot),
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => {
                let (old, new) = (pages(old_addr, old_len), pages(new_addr, new_len));
                self.remap(asid, old, new)
            }
            Control::Advise { addr, len, advice } => self.advise(asid, pages(addr, len), advice),
            Control::Brk { end } => self.brk(asid, end),
            Control::Fork { child } => {
                let child = Os::asid(child)?;
                self.fork(asid, child)
            }
            Control::HugePages { allowed } => {
                self.space(asid).huge_pages = allowed;
                Ok(())
            }
            Control::Exec => {
                self.empty(asid)?;
                let huge_pages = self.space(asid).huge_pages;
                self.spaces[usize::from(asid.0)] = Some(AddressSpace {
                    huge_pages,
                    ..AddressSpace::default()
                });
                Ok(())
            }
            Control::Exit { .. } => {
                self.empty(asid)?;
                self.mapper.directory.give_back(asid);
                self.spaces[usize::from(asid.0)] = None;
                Ok(())
            }
            Control::Thread { .. }
            | Control::ThreadStart { .. }
            | Control::ThreadEnd { .. }
            | Control::Allocating { .. }
            | Control::Allocated { .. }
            | Control::Freed { .. } => Ok(()),
            Control::Touched { addr, len, touch } => {
                self.space(asid).told |= len == 0;
                self.touched(asid, pages(addr, len), touch)
            }
            Control::Skipped { .. } => {
                self.space(asid).skipped = true;
                self.mapper.frames.note_unseen_stores(asid);
                Ok(())
            }
        }
    }

    fn map(
        &mut self,
        asid: Asid,
        range: Range<u64>,
        prot: Protection,
        backing: Backing,
    ) -> Result<(), OsError> {
        if range.is_empty() {
            self.mapper.statistics.ignored_events += 1;
            return Ok(());
        }
        self.unmap(asid, range.clone())?;
        let private = matches!(backing, Backing::Anonymous | Backing::Stack);
        let space = self.space(asid);
        if backing == Backing::PrivateFile && space.stage == Stage::Empty {
            space.stage = Stage::Loaded;
        }
        // A program's bss lies behind its file (`load_elf_binary` in fs/binfmt_elf.c).
        let is_execs = private && space.stage == Stage::Loaded;
        let mut vma = Vma {
            prot,
            backing,
            is_execs,
            object: (!private).then(|| (self.mapper.frames.shared.create(), 0)),
            ..Vma::anonymous(range)
        };
        if backing == Backing::Stack {
            let first = &mut self.space(asid).stack;
            if first.is_some() {
                // `calc_vm_flag_bits` in include/linux/mman.h, since Linux 6.7.
                vma.advice = HugeAdvice::Unwanted;
            } else {
                *first = Some(vma.start);
                vma.is_execs = true;
                vma.start = vma.start.max(vma.end.saturating_sub(STACK_AT_EXEC));
            }
        }
        self.add_vma(asid, vma)?;
        self.copy_code(asid, &vma)?;
        self.place_eagerly(asid, &vma)
    }

    /// Adds a VMA where there is none, and tells the page table of it.
    pub(crate) fn add_vma(&mut self, asid: Asid, vma: Vma) -> Result<(), OsError> {
        if let Some((object, _)) = vma.object {
            self.mapper.frames.shared.show(object, vma.pages());
        }
        self.space(asid).vmas.insert(vma);
        let seen = self.space(asid).seen(vma);
        let size = self.mapper.likely_size(&seen);
        self.mapper.reserve(asid, vma.start..vma.end, size)
    }

    pub(crate) fn unmap(&mut self, asid: Asid, range: Range<u64>) -> Result<(), OsError> {
        if range.is_empty() {
            return Ok(());
        }
        self.zap(asid, range.clone())?;
        let removed = self.space(asid).vmas.remove(range);
        self.release(asid, &removed)
    }

    /// Unmaps the pages of a range and leaves its VMAs.
    fn zap(&mut self, asid: Asid, range: Range<u64>) -> Result<(), OsError> {
        self.mapper.split_at(asid, range.start)?;
        self.mapper.split_at(asid, range.end)?;
        self.mapper.frames.forget_stores(asid, &range);
        self.mapper.unmap(asid, range);
        Ok(())
    }

    /// Gives back what removed VMAs kept: objects that nobody shows any more (of files the page
    /// cache keeps what it has, outside of the simulated memory), and the page tables of the 2 MiB
    /// regions that no VMA touches any more (`free_pgtables` with its floor and ceiling in
    /// mm/memory.c).
    pub(crate) fn release(&mut self, asid: Asid, removed: &[Vma]) -> Result<(), OsError> {
        let mut released = 0;
        for vma in removed {
            if let Some((object, _)) = vma.object {
                let freed = self.mapper.frames.hide(object, vma.pages());
                if !vma.is_file() {
                    self.mapper.effects.frames_freed += u64::from(freed);
                }
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
            self.mapper.release(asid, start..end)?;
        }
        Ok(())
    }

    fn protect(&mut self, asid: Asid, range: Range<u64>, prot: Protection) -> Result<(), OsError> {
        if range.is_empty() {
            return Ok(());
        }
        self.mapper.split_at(asid, range.start)?;
        self.mapper.split_at(asid, range.end)?;
        self.change_vmas(asid, range.clone(), |vma| vma.prot = prot);
        let writable = prot.0 & Protection::WRITE != 0;
        let vmas: Vec<Vma> = self.space(asid).vmas.within(range).collect();
        for vma in vmas {
            self.mapper
                .protect(asid, vma.start..vma.end, writable, vma.is_shared());
        }
        Ok(())
    }

    /// Changes the VMAs of a range; they part from or merge with their neighbours.
    pub(super) fn change_vmas(&mut self, asid: Asid, range: Range<u64>, change: impl Fn(&mut Vma)) {
        let vmas = &mut self.space(asid).vmas;
        for mut vma in vmas.remove(range) {
            change(&mut vma);
            vmas.insert(vma);
        }
    }

    fn advise(&mut self, asid: Asid, range: Range<u64>, advice: Advice) -> Result<(), OsError> {
        if range.is_empty() {
            return Ok(());
        }
        let change: fn(&mut Vma) = match advice {
            Advice::DontNeed => return self.zap(asid, range),
            // A memory file system has its pages back at once.
            Advice::Free if self.mapper.frames.manager().is_file_system() => {
                return self.free_at_once(asid, range);
            }
            Advice::Populate => return self.populate(asid, range, Vma::writable),
            Advice::POPULATE_READ => return self.populate(asid, range, |_| false),
            Advice::COLLAPSE => return self.collapse(asid, range),
            // A page of which a part is advised is split (`madvise_free_huge_pmd`,
            // `madvise_cold_or_pageout_pte_range`).
            Advice::Free | Advice::COLD | Advice::PAGE_OUT => |_| {},
            Advice::HugePage => |vma| vma.advice = HugeAdvice::Wanted,
            Advice::NoHugePage => |vma| vma.advice = HugeAdvice::Unwanted,
            Advice::DONT_FORK => |vma| vma.at_fork = AtFork::Left,
            Advice::WIPE_ON_FORK => |vma| vma.at_fork = AtFork::Wiped,
            Advice::DO_FORK | Advice::KEEP_ON_FORK => |vma| vma.at_fork = AtFork::Copied,
            Advice::Other(_) => return Ok(()),
        };
        // VMAs part here, and no page reaches over the end of its VMA
        // (`vma_adjust_trans_huge`).
        self.mapper.split_at(asid, range.start)?;
        self.mapper.split_at(asid, range.end)?;
        self.change_vmas(asid, range.clone(), change);
        match advice {
            Advice::Free => self.free_lazily(asid, range),
            Advice::COLD => self.mapper.page_out(asid, range, false),
            Advice::PAGE_OUT => self.mapper.page_out(asid, range, true),
            _ => {}
        }
        Ok(())
    }

    /// Frees the anonymous memory of a range when memory is short (`madvise_free_single_vma`).
    fn free_lazily(&mut self, asid: Asid, range: Range<u64>) {
        let vmas: Vec<Vma> = self.space(asid).vmas.within(range).collect();
        for vma in vmas {
            if matches!(vma.backing, Backing::Anonymous | Backing::Stack) {
                self.mapper.free_lazily(asid, vma.start..vma.end);
            }
        }
    }

    /// Frees what a memory file system has given of a range (`fbmm_dontneed`).
    fn free_at_once(&mut self, asid: Asid, range: Range<u64>) -> Result<(), OsError> {
        let vmas: Vec<Vma> = self.space(asid).vmas.within(range).collect();
        vmas.iter()
            .filter(|vma| vma.is_private())
            .try_for_each(|vma| self.zap(asid, vma.start..vma.end))
    }

    /// Maps all pages of a range that are in a VMA and accessible: as a store to each would in VMAs that
    /// are for `stores`, else as a load (`populate_vma_page_range`, `faultin_page_range`).
    fn populate(
        &mut self,
        asid: Asid,
        range: Range<u64>,
        stores: fn(&Vma) -> bool,
    ) -> Result<(), OsError> {
        let vmas: Vec<Vma> = self.space(asid).vmas.within(range.clone()).collect();
        for clipped in vmas {
            if clipped.prot == Protection(0) {
                continue;
            }
            let Some(vma) = self.space(asid).vmas.find(Vpn(clipped.start)) else {
                continue;
            };
            let vma = self.space(asid).seen(vma);
            let stores = stores(&vma);
            let need = if !stores && self.reads_zeros(asid, &vma) {
                Need::Zeros
            } else if stores && !vma.is_shared() {
                Need::Store
            } else {
                Need::Frame
            };
            let mut at = clipped.start;
            while at < clipped.end {
                let page = self.mapper.page(asid, Vpn(at))?;
                let size = match self.mapper.size_at(page) {
                    Some(size) => {
                        // Stores must find neither the page of zeros nor what others have, too.
                        if stores && !self.mapper.translation(page).writable {
                            self.mapper.fault_mapped(&vma, page, size, true)?;
                        }
                        self.mapper.size_at(page).unwrap_or(size)
                    }
                    None => {
                        let mapped = |call: &Self| call.mapper.effects.pages_mapped;
                        let before = mapped(self);
                        let size = self.mapper.fault_unmapped(&vma, page, need)?;
                        for _ in before[size as usize]..mapped(self)[size as usize] {
                            self.mapper.statistics.populated.count(size);
                        }
                        size
                    }
                };
                at = page.vpn.align_down(size).0 + u64::from(size.base_pages());
            }
        }
        Ok(())
    }

    fn brk(&mut self, asid: Asid, end: u64) -> Result<(), OsError> {
        let new = end.div_ceil(PAGE_BYTES);
        let space = self.space(asid);
        (space.announced, space.stage) = (true, Stage::Running);
        let (start, old) = space.heap.unwrap_or((new, new));
        if new < start {
            self.mapper.statistics.ignored_events += 1;
            return Ok(());
        }
        space.heap = Some((start, new));
        if new < old {
            return self.unmap(asid, new..old);
        }
        // A trace may have something mapped there, where a kernel would have refused.
        self.unmap(asid, old..new)?;
        if old < new {
            let vma = Vma {
                is_heap: true,
                ..Vma::anonymous(old..new)
            };
            self.add_vma(asid, vma)?;
            self.place_eagerly(asid, &vma)?;
        }
        Ok(())
    }

    /// Unmaps everything (exec, exit).
    fn empty(&mut self, asid: Asid) -> Result<(), OsError> {
        let removed = self.space(asid).vmas.remove(0..u64::MAX);
        let stale = self.mapper.effects.invalidations.len();
        self.mapper.unmap(asid, 0..u64::MAX);
        self.mapper.frames.forget_all_stores(asid);
        // The whole address space is invalidated; its pages need not be one by one.
        self.mapper.effects.invalidations.truncate(stale);
        self.mapper.effects.flush(asid);
        // Nobody runs in it any more.
        self.mapper.effects.narrowed = false;
        self.release(asid, &removed)?;
        self.mapper.end(asid);
        Ok(())
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Allows or forbids stores to the mapped pages of a range, all `shared` memory or all
    /// private. Private pages that others map too must be copied first: they stay read-only
    /// (`can_change_pte_writable`).
    fn protect(&mut self, asid: Asid, pages: Range<u64>, writable: bool, shared: bool) {
        let mut at = pages.start;
        while let Some(run) = self.table.next_mapped(asid, at..pages.end) {
            for page in run.pages() {
                let translation = self.translation(page);
                let alone = shared || self.frames.is_exclusive(translation.pfn);
                if translation.writable != (writable && alone) {
                    self.set_writable(page, translation, writable && alone);
                }
            }
            at = run.end();
        }
    }
}
