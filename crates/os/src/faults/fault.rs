use crate::OsError;
use crate::accounting::Accounting;
use crate::faults::memory_file::LARGEST_BLOCK;
use crate::page_size::{HUGE, Orders};
use crate::pages::mapper::{Mapper, first_of};
use crate::spaces::address_space::Stage;
use crate::spaces::vma::{HugeAdvice, Vma};
use crate::system::Call;
use pagelab_addr::{Asid, PAGE_SHIFT, PageSize, Pfn, Vpn};
use pagelab_events::Backing;
use pagelab_translation::{Page, PageTable, Translation};

/// Purpose for which a page that is not mapped is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A load from memory that was never written: zeros will do, wherever they are.
    Zeros,
    /// A frame of its own.
    Frame,
    /// A store: the same, and it may be written whatever its VMA says.
    Store,
}

impl<T: PageTable> Call<'_, T> {
    #[inline]
    pub(crate) fn fault(&mut self, page: Page, store: bool) -> Result<(), OsError> {
        let space = self.space(page.asid);
        space.stage = Stage::Running;
        let (vma, seen) = match space.vmas.find(page.vpn) {
            Some(vma) => (vma, space.is_seen()),
            None => (self.appear(page)?, false),
        };
        let vma = self.space(page.asid).seen(vma);
        self.mapper.count_fault(&vma);
        if store && !vma.writable() {
            self.mapper.statistics.stray_touches += 1;
        }
        if let Some(size) = self.mapper.size_at(page) {
            return self.mapper.fault_mapped(&vma, page, size, store);
        }
        let need = match (store, seen && self.reads_zeros(page.asid, &vma)) {
            (true, _) => Need::Store,
            (false, true) => Need::Zeros,
            (false, false) => Need::Frame,
        };
        self.mapper.fault_unmapped(&vma, page, need).map(|_| ())
    }

    /// True if a load from what is not mapped of a VMA finds zeros. Only what was seen from its beginning is known to
    /// be zero. The kernel itself writes a program's arguments to its stack.
    pub(crate) fn reads_zeros(&mut self, asid: Asid, vma: &Vma) -> bool {
        let space = self.space(asid);
        space.is_seen() && vma.backing == Backing::Anonymous && self.zero_page
    }

    pub(crate) fn fault_code(&mut self, page: Page) -> Result<(), OsError> {
        let space = self.space(page.asid);
        space.stage = Stage::Running;
        let vma = match space.vmas.find(page.vpn) {
            Some(vma) => vma,
            None => {
                let vma = Vma::code(page.vpn.0..page.vpn.0 + 1);
                self.add_vma(page.asid, vma)?;
                vma
            }
        };
        self.mapper.count_fault(&vma);
        if let Some(size) = self.mapper.size_at(page) {
            return self.mapper.fault_mapped(&vma, page, size, false);
        }
        // Executed memory has been written, even where that was not seen.
        self.mapper
            .fault_unmapped(&vma, page, Need::Frame)
            .map(|_| ())
    }

    /// Memory where there is no VMA: a stack that grows, or memory that no event announces.
    #[cold]
    fn appear(&mut self, page: Page) -> Result<Vma, OsError> {
        let limit = self.config.stack_limit >> PAGE_SHIFT;
        let unit = self.mapper.sizes.implicit_unit();
        let at = page.vpn;
        let space = self.space(page.asid);
        let announced = space.announced;
        let above = space.vmas.next_above(at);
        let floor = space.stack.unwrap_or(u64::MAX);
        let grows = |vma: &Vma| vma.end - at.0 <= limit || floor <= at.0;
        let stack = above.filter(|vma| vma.backing == Backing::Stack && grows(vma));
        let vma = if let Some(stack) = stack {
            stack.at(stack.start, at.0, stack.start)
        } else {
            let size = if announced { PageSize::Base4K } else { unit };
            let start = at.align_down(size).0;
            let end = start + u64::from(size.base_pages());
            // The rest of the piece beside the VMAs that reach into it.
            let below = space.vmas.within(start..at.0).last();
            Vma::anonymous(
                below.map_or(start, |vma| vma.end)..above.map_or(end, |vma| vma.start.min(end)),
            )
        };
        self.mapper.statistics.stray_touches += u64::from(announced && stack.is_none());
        if !announced {
            self.mapper.frames.note_unseen_stores(page.asid);
        }
        self.add_vma(page.asid, vma)?;
        self.place_eagerly(page.asid, &vma)?;
        Ok(self.space(page.asid).vmas.find(at).unwrap_or(vma))
    }
}

/// True if larger pages than 4 KiB may back a VMA at all.
pub(crate) fn takes_folios(vma: &Vma) -> bool {
    let anonymous = matches!(vma.backing, Backing::Anonymous | Backing::Stack);
    anonymous && !matches!(vma.advice, HugeAdvice::Unwanted | HugeAdvice::Forbidden)
}

/// Page sizes with entries of their own among these, largest first.
fn entries(orders: Orders) -> impl Iterator<Item = PageSize> {
    let sizes = [PageSize::Huge1G, PageSize::Large2M].into_iter();
    sizes.filter(move |size| orders >> size.order() & 1 == 1)
}

/// Orders between 4 KiB and 2 MiB among these, largest first.
fn folios(orders: Orders) -> impl Iterator<Item = u32> {
    let mut left = orders & (HUGE - 1);
    std::iter::from_fn(move || {
        let order = left.checked_ilog2()?;
        left &= !(1 << order);
        Some(order)
    })
}

impl<T: PageTable> Mapper<'_, T> {
    /// Sizes above 4 KiB that faults may map in a VMA.
    #[inline]
    pub(crate) fn orders(&self, vma: &Vma) -> Orders {
        if self.sizes.largest().is_some() && takes_folios(vma) {
            self.sizes.orders(vma)
        } else {
            0
        }
    }

    /// The size of most pages that faults will map in a VMA, as far as can be known.
    pub(crate) fn likely_size(&self, vma: &Vma) -> PageSize {
        let covered = |size: &PageSize| {
            let pages = u64::from(size.base_pages());
            let start = vma.start.next_multiple_of(pages);
            vma.covers(start..start + pages)
        };
        let largest = entries(self.orders(vma)).find(covered);
        largest.unwrap_or(PageSize::Base4K)
    }

    /// Maps a page that is not mapped. Returns the size of the page that was mapped around it.
    #[inline]
    pub(crate) fn fault_unmapped(
        &mut self,
        vma: &Vma,
        page: Page,
        need: Need,
    ) -> Result<PageSize, OsError> {
        let untouched = self.untouched(page);
        let size = self.map_around(vma, page, need)?;
        if let Some(before) = untouched {
            self.count_block(vma, page, before);
        }
        Ok(size)
    }

    #[inline]
    fn map_around(&mut self, vma: &Vma, page: Page, need: Need) -> Result<PageSize, OsError> {
        // A store to memory that may not be written happens all the same (a trace has it), so
        // it must find a page that it can write.
        let writable = vma.writable() || need == Need::Store;
        if self.frames.is_swapped(page.asid, page.vpn) {
            return self.swap_in(vma, page, writable);
        }
        if let Some(object) = vma.object {
            self.fault_object(vma, object, page, need == Need::Store)?;
            return Ok(PageSize::Base4K);
        }
        let orders = self.orders(vma);
        for size in entries(orders) {
            let first = first_of(page, size);
            let range = first.vpn.0..first.vpn.0 + u64::from(size.base_pages());
            let empty = self.table.is_unmapped(page, size)
                && !self.frames.any_swapped(page.asid, range.clone());
            if !vma.covers(range) || !empty {
                continue;
            }
            if vma.advice == HugeAdvice::Wanted && size == PageSize::Large2M {
                self.make_room(size.base_pages());
            }
            if need == Need::Zeros && size == PageSize::Large2M {
                if self.map_zero(first, size)? {
                    return Ok(size);
                }
            } else if self.map_large(vma, first, size, writable)? {
                if size == PageSize::Large2M && vma.backing == Backing::Anonymous {
                    self.defer_split(first);
                }
                self.count_mapped(vma, size);
                return Ok(size);
            }
            match size {
                PageSize::Huge1G => self.statistics.fallbacks_1g += 1,
                _ => self.statistics.fallbacks_2m += 1,
            }
        }
        if self.frames.fills_holes() && vma.is_private() {
            if self.fill_hole(vma, page, LARGEST_BLOCK, writable)? > 0 {
                return Ok(PageSize::Base4K);
            }
            return Err(self.out_of_memory("a page of data"));
        }
        if self.sizes.reserves()
            && takes_folios(vma)
            && let Some(size) = self.map_reserved(vma, page, writable)?
        {
            self.count_mapped(vma, PageSize::Base4K);
            return Ok(size);
        }
        if need == Need::Zeros {
            if self.map_zero(page, PageSize::Base4K)? {
                return Ok(PageSize::Base4K);
            }
            return Err(self.out_of_memory("the page of zeros"));
        }
        for order in folios(orders) {
            if self.map_folio(vma, page, order, writable)? {
                return Ok(PageSize::Base4K);
            }
        }
        if self
            .map_new(vma, page, PageSize::Base4K, writable)?
            .is_none()
        {
            return Err(self.out_of_memory("a page of data"));
        }
        self.count_mapped(vma, PageSize::Base4K);
        Ok(PageSize::Base4K)
    }

    /// Maps a large page to a free block, or to one that is made by moving pages. Whether there was one.
    fn map_large(
        &mut self,
        vma: &Vma,
        first: Page,
        size: PageSize,
        writable: bool,
    ) -> Result<bool, OsError> {
        if self.map_new(vma, first, size, writable)?.is_some() {
            return Ok(true);
        }
        Ok(self.makes_block(vma, size) && self.map_new(vma, first, size, writable)?.is_some())
    }

    /// Maps the page of zeros of a size that all share, until a store (`do_anonymous_page`,
    /// `do_huge_pmd_anonymous_page`). Whether there is one.
    fn map_zero(&mut self, page: Page, size: PageSize) -> Result<bool, OsError> {
        let Some(zeros) = self.frames.zeros(size) else {
            return Ok(false);
        };
        self.map_shared(page, zeros, size, false)?;
        self.statistics.zero_pages += 1;
        self.effects.pages_mapped[size as usize] += 1;
        Ok(true)
    }

    /// Maps the aligned 2^`order` pages around one to contiguous frames, if a VMA covers them and
    /// none is mapped (`alloc_anon_folio` in mm/memory.c). Whether it did.
    fn map_folio(
        &mut self,
        vma: &Vma,
        page: Page,
        order: u32,
        writable: bool,
    ) -> Result<bool, OsError> {
        let first = page.vpn.0 & !((1 << order) - 1);
        let range = first..first + (1 << order);
        let empty = self.table.next_mapped(page.asid, range.clone()).is_none()
            && !self.frames.any_swapped(page.asid, range.clone());
        if !vma.covers(range) || !empty {
            return Ok(false);
        }
        if vma.advice == HugeAdvice::Wanted {
            self.make_room(1 << order);
        }
        let first = self.page(page.asid, Vpn(first))?;
        let mapped = self.map_block(vma, first, order..=order, writable, true)?;
        if mapped == 0 {
            self.statistics.fallbacks_folio += 1;
        }
        // Page tables may have ended before the folio did.
        Ok(mapped > page.id.0 - first.id.0)
    }

    /// Counts a fault of the program.
    #[inline]
    fn count_fault(&mut self, vma: &Vma) {
        if vma.is_file() {
            self.statistics.files.get_or_insert_default().faults += 1;
        }
    }

    /// Counts a page that is given data of its own or of a file.
    #[inline]
    fn count_mapped(&mut self, vma: &Vma, size: PageSize) {
        self.effects.blocks_given += 1;
        self.count_page(vma, size);
    }

    /// The same of one of several that are given together.
    #[inline]
    pub(crate) fn count_page(&mut self, vma: &Vma, size: PageSize) {
        let pages = u64::from(size.base_pages());
        self.effects.pages_mapped[size as usize] += 1;
        if vma.is_file() {
            self.statistics.files.get_or_insert_default().pages += pages;
        } else {
            self.effects.count_zeroed(size);
        }
        match vma.backing {
            Backing::Anonymous | Backing::Stack => self.statistics.anonymous.count(size),
            Backing::PrivateFile => self.statistics.file.count(size),
            Backing::SharedAnonymous | Backing::SharedFile => self.statistics.shared_new += 1,
        }
    }

    /// An access to a mapped page: a store without permission, or one that a stale translation
    /// made fault.
    pub(crate) fn fault_mapped(
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
        if vma.is_shared() {
            self.statistics.permission_faults += 1;
            self.set_writable(page, head, true);
            return Ok(());
        }
        // Private memory: copy-on-write (`do_wp_page` in mm/memory.c).
        if self.frames.may_reuse(head.pfn, page.asid) {
            self.account_reuse(head.pfn, size);
            self.frames.set_forked(head.pfn, false);
            self.statistics.cow_reuses += 1;
            self.set_writable(first_of(page, size), head, true);
            return Ok(());
        }
        if self.frames.is_zeros(head.pfn) {
            return self.replace_zeros(vma, page, head);
        }
        // A store to a large page copies only the 4 KiB around it (`do_huge_pmd_wp_page`).
        self.split_down(page)?;
        self.account_copy(page, self.translation(page).pfn);
        self.copy_page(vma, page)?;
        self.effects.pages_copied += 1;
        self.statistics.cow_copies += 1;
        Ok(())
    }

    /// A store to a page of zeros: one of 2 MiB is replaced by a page of that size (`do_huge_zero_wp_pmd`,
    /// since Linux 6.13), or is split, before 6.13 or where there is no block.
    fn replace_zeros(&mut self, vma: &Vma, page: Page, zeros: Translation) -> Result<(), OsError> {
        let mut size = zeros.size;
        let first = first_of(page, size);
        let splits = size != PageSize::Base4K && self.frames.folios.scheme() == Accounting::PerPage;
        let parts = !splits
            && (self.part_from(vma, first, zeros)
                || self.makes_block(vma, size) && self.part_from(vma, first, zeros));
        if !parts {
            if size == PageSize::Base4K {
                return Err(self.out_of_memory("a page of data"));
            }
            self.statistics.fallbacks_2m += u64::from(!splits);
            self.take_back_block(zeros.size);
            self.split_down(page)?;
            size = PageSize::Base4K;
            if !self.part_from(vma, page, self.translation(page)) {
                return Err(self.out_of_memory("a page of data"));
            }
        }
        if size == PageSize::Large2M {
            self.defer_split(first);
        }
        self.effects.blocks_given += 1;
        self.effects.count_zeroed(size);
        self.statistics.anonymous.count(size);
        Ok(())
    }

    /// Gives a 4 KiB page a frame of its own with what it has.
    fn copy_page(&mut self, vma: &Vma, page: Page) -> Result<(), OsError> {
        if self.part_from(vma, page, self.translation(page)) {
            Ok(())
        } else {
            Err(self.out_of_memory("a copy of a page"))
        }
    }
}
