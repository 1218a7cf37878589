use crate::OsError;
use crate::pages::mapper::{Mapper, first_of, offset_by};
use pagelab_addr::{Asid, PageSize, Pfn};
use pagelab_translation::{Page, PageTable};

/// The size next below that of a page that can be split.
fn below(size: PageSize) -> PageSize {
    match size {
        PageSize::Base4K => unreachable!("a base page cannot be split"),
        PageSize::Large2M => PageSize::Base4K,
        PageSize::Huge1G => PageSize::Large2M,
    }
}

/// Places of the 512 pieces of a page of this size, in base pages.
fn pieces(size: PageSize) -> impl DoubleEndedIterator<Item = u32> {
    (0..size.base_pages()).step_by(below(size).base_pages() as usize)
}

impl<T: PageTable> Mapper<'_, T> {
    /// Splits pages until none has `boundary` inside: afterwards a page ends or begins there.
    pub(crate) fn split_at(&mut self, asid: Asid, boundary: u64) -> Result<(), OsError> {
        while let Some(run) = self.table.next_mapped(asid, boundary..boundary + 1) {
            if run.size == PageSize::Base4K || run.first.vpn.0 == boundary {
                break;
            }
            self.split(run.first, run.size)?;
        }
        Ok(())
    }

    /// Splits the page larger than 4 KiB around `page` until `page` is a 4 KiB page.
    pub(crate) fn split_down(&mut self, page: Page) -> Result<(), OsError> {
        while let Some(size) = self.size_at(page)
            && size != PageSize::Base4K
        {
            self.split(first_of(page, size), size)?;
        }
        Ok(())
    }

    /// Makes 512 pages out of one, in every address space that maps it. (Linux splits a mapping in
    /// one address space at once and the folio later, in `split_folio`; here both are one step.)
    /// On an error the page is whole again.
    pub(crate) fn split(&mut self, page: Page, size: PageSize) -> Result<(), OsError> {
        let head = self.translation(page).pfn;
        if self.frames.is_zeros(head) {
            return self.split_zeros(page, head, size);
        }
        self.frames.pin(head, size);
        let split = self.split_mappings(head, size);
        self.frames.unpin();
        split?;
        let owners = self.owners(head);
        if size == PageSize::Large2M {
            self.account_split(head, &owners);
        }
        self.frames.split(head, size, below(size), &owners);
        for owner in owners {
            self.note_split(owner, size);
        }
        self.statistics.splits.count(size);
        Ok(())
    }

    /// Makes 512 pages of zeros out of one, in one address space: no others are known
    /// (`__split_huge_zero_page_pmd`).
    fn split_zeros(&mut self, page: Page, head: Pfn, size: PageSize) -> Result<(), OsError> {
        let Some(zeros) = self.frames.zeros(below(size)) else {
            return Err(self.out_of_memory("the page of zeros"));
        };
        self.split_mapping(page, head, size, |_| zeros)?;
        self.note_split(page, size);
        self.statistics.splits.count(size);
        Ok(())
    }

    fn note_split(&mut self, page: Page, size: PageSize) {
        self.effects.invalidate(page.id, size);
        self.effects.narrowed = true;
    }

    fn split_mappings(&mut self, head: Pfn, size: PageSize) -> Result<(), OsError> {
        let owners = self.owners(head);
        for (done, &owner) in owners.iter().enumerate() {
            let piece = |offset| Pfn(head.0 + offset);
            if let Err(error) = self.split_mapping(owner, head, size, piece) {
                for &owner in &owners[..done] {
                    self.join_mapping(owner, head, size, size.base_pages());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Maps 512 pieces where there was a page; `piece` says where each lies.
    fn split_mapping(
        &mut self,
        owner: Page,
        head: Pfn,
        size: PageSize,
        piece: impl Fn(u32) -> Pfn,
    ) -> Result<(), OsError> {
        let writable = self.take_out(owner, size).writable;
        for offset in pieces(size) {
            let at = offset_by(owner, offset);
            let entered = self.enter(at, piece(offset), below(size), writable);
            if let Err(error) = entered {
                self.join_mapping_as(owner, head, size, offset, writable);
                return Err(error);
            }
        }
        Ok(())
    }

    fn join_mapping(&mut self, owner: Page, head: Pfn, size: PageSize, done: u32) {
        let writable = self.translation(owner).writable;
        self.join_mapping_as(owner, head, size, done, writable);
    }

    /// Undoes the splitting of a mapping, of which the pieces below `done` are mapped. There is
    /// nearly always a place for the large page's entry, since it was there a moment ago;
    /// should there be none, the mapping is lost.
    fn join_mapping_as(
        &mut self,
        owner: Page,
        head: Pfn,
        size: PageSize,
        done: u32,
        writable: bool,
    ) {
        for offset in pieces(size).take_while(|&offset| offset < done) {
            self.take_out(offset_by(owner, offset), below(size));
        }
        if self.enter(owner, head, size, writable).is_err() {
            self.frames.remove_page(head, size, owner);
            self.effects.invalidate(owner.id, size);
        }
    }
}
