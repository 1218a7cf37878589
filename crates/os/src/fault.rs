use crate::mapper::{Mapper, first_of};
use crate::system::Call;
use crate::vma::{HugeAdvice, Vma};
use crate::{OsError, PagePolicy};
use pagelab_addr::{PAGE_SHIFT, PageSize, Pfn};
use pagelab_events::Backing;
use pagelab_translation::{Page, PageTable, Translation};

impl<T: PageTable> Call<'_, T> {
    #[inline]
    pub(crate) fn fault(&mut self, page: Page, store: bool) -> Result<(), OsError> {
        let vma = match self.space(page.asid).vmas.find(page.vpn) {
            Some(vma) => vma,
            None => self.appear(page)?,
        };
        if store && !vma.writable() {
            self.mapper.statistics.stray_touches += 1;
        }
        let policy = self.config.page_policy;
        match self.mapper.presence.size_at(page.id) {
            Some(size) => self.mapper.fault_mapped(&vma, page, size, store),
            None => self
                .mapper
                .fault_unmapped(&vma, page, store, policy)
                .map(|_| ()),
        }
    }

    /// Memory where there is no VMA: a stack that grows, or memory that no event announces.
    #[cold]
    fn appear(&mut self, page: Page) -> Result<Vma, OsError> {
        let limit = self.config.stack_limit >> PAGE_SHIFT;
        let unit = self.config.page_policy.implicit_unit();
        let at = page.vpn;
        let space = self.space(page.asid);
        let announced = space.announced;
        let above = space.vmas.next_above(at);
        let stack = above.filter(|vma| vma.backing == Backing::Stack && vma.end - at.0 <= limit);
        let vma = if let Some(stack) = stack {
            stack.at(stack.start, at.0, stack.start)
        } else {
            let size = if announced { PageSize::Base4K } else { unit };
            let start = at.align_down(size).0;
            let end = start + u64::from(size.base_pages());
            // What is left of the piece beside the VMAs that reach into it.
            let below = space.vmas.within(start..at.0).last();
            Vma::anonymous(
                below.map_or(start, |vma| vma.end)..above.map_or(end, |vma| vma.start.min(end)),
            )
        };
        self.mapper.statistics.stray_touches += u64::from(announced && stack.is_none());
        self.add_vma(page.asid, vma)?;
        self.place_eagerly(page.asid, &vma)?;
        Ok(self.space(page.asid).vmas.find(at).unwrap_or(vma))
    }
}

/// What a fault would like to map, best first, before it takes a 4 KiB page.
fn large_sizes(vma: &Vma, policy: PagePolicy) -> &'static [PageSize] {
    let anonymous = matches!(vma.backing, Backing::Anonymous | Backing::Stack);
    if !anonymous || vma.advice == HugeAdvice::Unwanted {
        return &[];
    }
    match policy {
        PagePolicy::Base => &[],
        PagePolicy::ThpMadvise if vma.advice != HugeAdvice::Wanted => &[],
        PagePolicy::Thp | PagePolicy::ThpMadvise => &[PageSize::Large2M],
        PagePolicy::Huge1G => &[PageSize::Huge1G, PageSize::Large2M],
    }
}

/// The size of most pages that faults will map in a VMA, as far as can be known.
pub(crate) fn likely_size(vma: &Vma, policy: PagePolicy) -> PageSize {
    let covered = |size: PageSize| {
        let pages = u64::from(size.base_pages());
        let start = vma.start.next_multiple_of(pages);
        vma.covers(start..start + pages)
    };
    let mut sizes = large_sizes(vma, policy).iter().copied();
    sizes
        .find(|&size| covered(size))
        .unwrap_or(PageSize::Base4K)
}

impl<T: PageTable> Mapper<'_, T> {
    /// Maps a page that is not mapped. Returns the size of the page that was mapped around it.
    #[inline]
    pub(crate) fn fault_unmapped(
        &mut self,
        vma: &Vma,
        page: Page,
        store: bool,
        policy: PagePolicy,
    ) -> Result<PageSize, OsError> {
        // A store to memory that may not be written happens all the same (a trace has it), so
        // it must find a page that it can write.
        let writable = vma.writable() || store;
        if vma.object.is_some() {
            return self.fault_shared(vma, page, writable);
        }
        for &size in large_sizes(vma, policy) {
            let first = first_of(page, size);
            let range = first.vpn.0..first.vpn.0 + u64::from(size.base_pages());
            if !vma.covers(range) || !self.presence.is_empty(page.id, size) {
                continue;
            }
            if self.map_new(first, size, writable)?.is_some() {
                self.count_mapped(vma, size);
                return Ok(size);
            }
            match size {
                PageSize::Huge1G => self.statistics.fallbacks_1g += 1,
                _ => self.statistics.fallbacks_2m += 1,
            }
        }
        if self.map_new(page, PageSize::Base4K, writable)?.is_none() {
            return Err(self.out_of_memory("a page of data"));
        }
        self.count_mapped(vma, PageSize::Base4K);
        Ok(PageSize::Base4K)
    }

    fn fault_shared(&mut self, vma: &Vma, page: Page, writable: bool) -> Result<PageSize, OsError> {
        let size = PageSize::Base4K;
        let Some((object, first)) = vma.object else {
            unreachable!("{vma:?} is not shared");
        };
        let slot = self
            .frames
            .shared
            .slot(object, first + page.vpn.0 - vma.start);
        if let Some(pfn) = self.frames.shared.frame(slot) {
            self.map_shared(page, pfn, size, writable)?;
            self.statistics.shared_present += 1;
            self.effects.pages_mapped[size as usize] += 1;
            return Ok(size);
        }
        let Some(pfn) = self.map_new(page, size, writable)? else {
            return Err(self.out_of_memory("a page of shared memory"));
        };
        self.frames.put_in_slot(pfn, slot);
        self.count_mapped(vma, size);
        Ok(size)
    }

    #[inline]
    pub(crate) fn count_mapped(&mut self, vma: &Vma, size: PageSize) {
        let pages = u64::from(size.base_pages());
        self.effects.pages_mapped[size as usize] += 1;
        match vma.backing {
            Backing::PrivateFile | Backing::SharedFile => self.effects.pages_filled += pages,
            _ => self.effects.pages_zeroed += pages,
        }
        match vma.backing {
            Backing::Anonymous | Backing::Stack => self.statistics.anonymous.count(size),
            Backing::PrivateFile => self.statistics.file.count(size),
            Backing::SharedAnonymous | Backing::SharedFile => self.statistics.shared_new += 1,
        }
    }

    /// An access to a mapped page: a store without permission, or one that a stale translation
    /// made fault.
    fn fault_mapped(
        &mut self,
        vma: &Vma,
        page: Page,
        size: PageSize,
        store: bool,
    ) -> Result<(), OsError> {
        let found = self.translation(page);
        if !store || found.writable {
            self.statistics.spurious_faults += 1;
            return Ok(());
        }
        let head = Translation {
            pfn: Pfn(found.pfn.0 & !(size.base_pages() - 1)),
            ..found
        };
        if vma.object.is_some() {
            self.statistics.permission_faults += 1;
            self.set_writable(page, head, true);
            return Ok(());
        }
        // Private memory: copy-on-write (`do_wp_page` in mm/memory.c).
        if self.frames.map_count(head.pfn) == 1 {
            self.statistics.cow_reuses += 1;
            self.set_writable(first_of(page, size), head, true);
            return Ok(());
        }
        // Of a large page only the 4 KiB around the store are copied (`do_huge_pmd_wp_page`).
        self.split_down(page)?;
        self.copy(page, self.translation(page).pfn)?;
        self.statistics.cow_copies += 1;
        Ok(())
    }
}
