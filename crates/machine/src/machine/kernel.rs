//! Work of the operating system on a machine: control events, page faults, invalidations.

use super::{CoreState, Machine, port};
use crate::count::memory::Memory;
use crate::error::RunError;
use crate::machine::gib_cache::GibCache;
use crate::mmu::Mmu;
use pagelab_addr::{Asid, PAGE_BYTES, PAGE_SHIFT, PageDirectory, PageSize, VirtAddr, Vpn};
use pagelab_events::{Control, Op, Touch};
use pagelab_os::{Effects, Invalidation, KernelThread, Os};
use pagelab_translation::Page;

impl<M: Mmu> Machine<M> {
    /// Lets a thread run on its core; new threads go round the cores, unless all run on one.
    pub(super) fn switch(&mut self, process: u32, thread: u32) {
        let core = self.pinned.unwrap_or_else(|| {
            let next = self.threads.len() % self.cores.len();
            *self.threads.entry((process, thread)).or_insert(next)
        });
        self.current = Some((process, core));
        let CoreState {
            sharing, accesses, ..
        } = &mut self.cores[core];
        if let Some(allocations) =
            (self.timing.by_code.as_mut()).and_then(|tallies| tallies.allocations.as_mut())
        {
            allocations.switch(process, thread);
        }
        let before = sharing.process();
        sharing.switch((process, thread), *accesses);
        if self.flushes
            && let Some(before) = before.filter(|&before| before != process)
        {
            self.flush(core, before);
        }
    }

    /// Has a core forget the address space that it leaves, which its entries do not name.
    #[cold]
    fn flush(&mut self, core: usize, process: u32) {
        if let Ok(asid) = Os::asid(process) {
            let all: Vec<_> = whole(&self.directory, asid).collect();
            self.forget(core, &all);
        }
    }

    pub(crate) fn control(&mut self, process: u32, control: &Control) -> Result<(), RunError> {
        match *control {
            Control::Thread { thread } => {
                self.switch(process, thread);
                return Ok(());
            }
            Control::Skipped {
                instructions,
                accesses,
            } => {
                let core = self.current_core();
                self.left_out(process, core, instructions | accesses != 0);
                self.counts.skipped_instructions += instructions;
            }
            Control::ThreadStart { .. } | Control::ThreadEnd { .. } => return Ok(()),
            Control::Allocating { .. } | Control::Allocated { .. } | Control::Freed { .. } => {
                self.note_allocations(process, control);
                return Ok(());
            }
            // As in windows, code is fetched only where that is simulated.
            Control::Touched {
                touch: Touch::Executed,
                ..
            } if self.fetch.is_none() || self.timing.by_code.is_none() => return Ok(()),
            // One event speaks of several pages, or several do: what comes of it is the same.
            Control::Touched { addr, len, touch } if len > PAGE_BYTES => {
                for page in addr >> PAGE_SHIFT..addr.saturating_add(len).div_ceil(PAGE_BYTES) {
                    let addr = Vpn(page).address().0;
                    let len = PAGE_BYTES;
                    self.control(process, &Control::Touched { addr, len, touch })?;
                }
                return Ok(());
            }
            Control::Exit { .. } if self.at_exit.is_none() => {
                self.at_exit = Some(Memory::of(&self.os));
            }
            _ => {}
        }
        if let Some(heat_map) = &mut self.heat_map {
            heat_map.forget_mappings();
        }
        self.effects.clear();
        self.os.control(
            self.mmu.table_mut(),
            &mut self.directory,
            process,
            control,
            &mut self.effects,
        )?;
        self.invalidate();
        self.note_allocations(process, control);
        if let Control::Touched {
            addr,
            len: 1..,
            touch,
        } = *control
        {
            let (asid, vpn) = (Os::asid(process)?, VirtAddr(addr).vpn());
            self.fill_touched(asid, vpn);
            if touch != Touch::Executed {
                self.note_resident(asid, addr);
                let id = self.page_id(asid, addr)?;
                self.translate_touched(Page { id, asid, vpn });
            }
        }
        let (mut kernel, migration) = self.costs.of(&self.effects);
        kernel += self.effects.faults * self.costs.fault + self.shootdown(process);
        // Another thread's window may be open: what this one has left out is not in it.
        let counts = !matches!(control, Control::Touched { .. }) || !self.measures();
        if counts && kernel + migration > 0 {
            let core = self.current_core();
            self.cores[core].zeroing += self.costs.zeroing(&self.effects);
            self.kernel(core, kernel, migration);
        }
        Ok(())
    }

    /// Takes a page fault on a core; returns its cost in slots: (in the kernel at large, on migrations).
    #[inline(never)]
    pub(crate) fn fault(
        &mut self,
        core: usize,
        page: Page,
        store: bool,
    ) -> Result<(u64, u64), RunError> {
        self.effects.clear();
        self.os.fault(
            self.mmu.table_mut(),
            &mut self.directory,
            page,
            store,
            &mut self.effects,
        )?;
        let (kernel, migration) = self.faulted(core, page);
        if !self.os.has_threads() {
            return Ok((kernel, migration));
        }
        self.in_faults += kernel + migration;
        Ok((kernel, migration + self.work_aside(core)))
    }

    /// The same of an instruction that is fetched.
    pub(crate) fn fault_code(&mut self, core: usize, page: Page) -> Result<(u64, u64), RunError> {
        self.effects.clear();
        self.os.fault_code(
            self.mmu.table_mut(),
            &mut self.directory,
            page,
            &mut self.effects,
        )?;
        Ok(self.faulted(core, page))
    }

    #[inline(always)]
    fn faulted(&mut self, core: usize, page: Page) -> (u64, u64) {
        self.invalidate();
        self.cores[core].zeroing += self.costs.zeroing(&self.effects);
        let (kernel, migration) = self.costs.of(&self.effects);
        let shootdown = self.shootdown(u32::from(page.asid.0));
        (self.costs.fault + kernel + shootdown, migration)
    }

    /// Tells the operating system which pages a chunk stores to.
    #[cold]
    pub(super) fn note_stores(&mut self, asid: Asid, addr: &[u64], op: &[Op]) {
        for (&addr, op) in addr.iter().zip(op).filter(|(_, op)| op.is_store()) {
            let last = addr.saturating_add(u64::from(op.size()).saturating_sub(1));
            for page in addr >> PAGE_SHIFT..=last >> PAGE_SHIFT {
                self.os.note_store(asid, Vpn(page));
            }
        }
    }

    /// Lets threads of the kernel work until a core's time, each on a processor of its own. Time that the core pays for
    /// translations that it loses.
    #[cold]
    pub(super) fn work_aside(&mut self, core: usize) -> u64 {
        let now = self.cores[core].clock.now() + self.in_faults;
        // The fault that is under way is not accounted for yet.
        let of_fault = std::mem::take(&mut self.effects);
        let mut paid = 0;
        for (number, thread) in KernelThread::ALL.into_iter().enumerate() {
            if self.os.wake(thread) {
                self.threads_until[number] = self.threads_until[number].max(now);
            }
            while self.os.is_awake(thread) && self.threads_until[number] <= now {
                self.effects.clear();
                let (table, effects) = (self.mmu.table_mut(), &mut self.effects);
                self.os.work(thread, table, &mut self.directory, effects);
                self.invalidate();
                let (busy, interrupts) = self.costs.of(&self.effects);
                self.threads_until[number] += busy;
                paid += interrupts;
            }
        }
        self.effects = of_fault;
        paid
    }

    /// Has a page moved that is costly to walk for.
    #[cold]
    pub(super) fn move_in(&mut self, core: usize, page: Page) {
        self.effects.clear();
        let table = self.mmu.table_mut();
        (self.os).move_in(table, &mut self.directory, page, &mut self.effects);
        self.invalidate();
        let (kernel, migration) = self.costs.of(&self.effects);
        self.kernel(core, kernel, migration);
    }

    /// Time of having other cores drop what the last operation took away from a program.
    fn shootdown(&self, process: u32) -> u64 {
        if !self.costs.shoots_down(&self.effects) {
            return 0;
        }
        let threads = self.threads.iter();
        let mut cores = threads
            .filter(|((of, _), _)| *of == process)
            .map(|(_, core)| core);
        let first = cores.next();
        if cores.any(|core| Some(core) != first) {
            self.costs.shootdown()
        } else {
            0
        }
    }

    /// Drops what the operating system's last operation made stale.
    pub(super) fn invalidate(&mut self) {
        let Effects {
            invalidations,
            flushed,
            ..
        } = &self.effects;
        if !flushed.is_empty() {
            // Numbers of an address space that has ended may be given out again.
            self.gibs = GibCache::new();
        }
        if invalidations.is_empty() && flushed.is_empty() {
            return;
        }
        let flushed = flushed
            .iter()
            .flat_map(|&asid| whole(&self.directory, asid));
        let stale: Vec<_> = invalidations.iter().copied().chain(flushed).collect();
        for core in 0..self.cores.len() {
            self.forget(core, &stale);
        }
    }

    /// Drops translations from all TLBs of a core.
    fn forget(&mut self, core: usize, stale: &[Invalidation]) {
        let port = &mut port!(self, core);
        for &Invalidation { first, pages } in stale {
            let (asid, vpn) = self.directory.resolve(first);
            let page = Page {
                id: first,
                asid,
                vpn,
            };
            self.mmu.invalidate(core, page, pages, port);
            if let Some(fetch) = &mut self.fetch {
                fetch.cores[core].forget(first.0, pages);
            }
        }
    }
}

/// All of an address space.
fn whole(directory: &PageDirectory, asid: Asid) -> impl Iterator<Item = Invalidation> {
    let pages = PageSize::Huge1G.base_pages();
    directory
        .gibs(asid)
        .map(move |first| Invalidation { first, pages })
}
