//! Entries as accounting sees them: consecutive ones of a folio are accounted at once (`folio_pte_batch`).

use crate::accounting::{Accounting, AccountingStatistics, AccountingWork, Batch};
use crate::pages::mapper::Mapper;
use crate::statistics::OsStatistics;
use pagelab_addr::{Asid, PageSize, Pfn, Vpn};
use pagelab_translation::{Page, PageTable};

/// Price of a batch, of which so many pages need more, on behalf of an address space.
type Price = fn(Accounting, Batch, u32, Asid) -> AccountingWork;

/// Entries of a walk through page tables, in ascending order.
#[derive(Debug)]
pub(crate) struct Entries {
    scheme: Accounting,
    price: Price,
    mm: Asid,
    batch: Option<Batch>,
    /// Pages of the batch that need more.
    more: u32,
    /// The entry that would continue the batch.
    next: (Vpn, Pfn),
    work: AccountingWork,
}

impl Entries {
    fn new(scheme: Accounting, price: Price, mm: Asid) -> Self {
        Entries {
            scheme,
            price,
            mm,
            batch: None,
            more: 0,
            next: (Vpn(0), Pfn(0)),
            work: AccountingWork::default(),
        }
    }

    /// Adds an entry.
    fn push(&mut self, (vpn, pfn): (Vpn, Pfn), batch: Batch, more: bool) {
        if let (Some(Batch::Part { pages, .. }), Batch::Part { first, .. }) =
            (&mut self.batch, batch)
            && self.next == (vpn, pfn)
            && first != 0
        {
            *pages += 1;
            self.more += u32::from(more);
        } else {
            self.end();
            (self.batch, self.more) = (Some(batch), u32::from(more));
        }
        self.next = (Vpn(vpn.0 + 1), Pfn(pfn.0 + 1));
    }

    /// Accounts the batch under way.
    fn end(&mut self) -> AccountingWork {
        if let Some(batch) = self.batch.take() {
            self.work += (self.price)(self.scheme, batch, self.more, self.mm);
        }
        self.work
    }
}

impl<T: PageTable> Mapper<'_, T> {
    fn accounting(&mut self) -> &mut AccountingStatistics {
        self.statistics.accounting.get_or_insert_default()
    }

    /// The batch of one entry.
    fn batch(&self, pfn: Pfn, size: PageSize) -> Option<Batch> {
        match size {
            PageSize::Base4K => Some(match self.frames.part(pfn) {
                Some((order, first)) => Batch::Part {
                    order,
                    first,
                    pages: 1,
                },
                None => Batch::Small,
            }),
            PageSize::Large2M => Some(Batch::Entire),
            PageSize::Huge1G => None,
        }
    }

    /// Entries that fork copies to a child.
    pub(crate) fn forked(&self, child: Asid) -> Entries {
        Entries::new(self.frames.folios.scheme(), Accounting::fork, child)
    }

    /// Adds an entry that is about to be copied.
    pub(crate) fn push_forked(&self, entries: &mut Entries, page: Page, pfn: Pfn, size: PageSize) {
        if let Some(batch) = self.batch(pfn, size)
            && !self.frames.is_zeros(pfn)
        {
            entries.push((page.vpn, pfn), batch, self.frames.is_exclusive(pfn));
        }
    }

    pub(crate) fn account_forked(&mut self, mut entries: Entries) {
        self.accounting().fork += entries.end();
    }

    /// Entries that an address space loses.
    pub(crate) fn unmapped(&self, mm: Asid) -> Entries {
        Entries::new(self.frames.folios.scheme(), Accounting::unmap, mm)
    }

    /// Adds an entry that is about to be removed.
    pub(crate) fn push_unmapped(
        &self,
        entries: &mut Entries,
        page: Page,
        pfn: Pfn,
        size: PageSize,
    ) {
        if let Some(batch) = self.batch(pfn, size)
            && !self.frames.is_zeros(pfn)
        {
            entries.push((page.vpn, pfn), batch, self.frames.map_count(pfn) == 1);
        }
    }

    pub(crate) fn account_unmapped(&mut self, mut entries: Entries) {
        self.accounting().unmap += entries.end();
    }

    /// Accounts a store that is about to copy a page of 4 KiB.
    pub(crate) fn account_copy(&mut self, page: Page, pfn: Pfn) {
        let scheme = self.frames.folios.scheme();
        let last = u32::from(self.frames.map_count(pfn) == 1);
        if let Some(batch) = self.batch(pfn, PageSize::Base4K) {
            self.accounting().fault += scheme.copy(batch, last, page.asid);
        }
    }

    /// Accounts a store that keeps a page.
    pub(crate) fn account_reuse(&mut self, pfn: Pfn, size: PageSize) {
        let scheme = self.frames.folios.scheme();
        if let Some(batch) = self.batch(pfn, size) {
            self.accounting().fault += scheme.reuse(batch);
        }
    }

    /// Accounts a folio of several pages that was mapped whole: its references beside what each page takes.
    pub(crate) fn account_folio(&mut self) {
        self.accounting().fault.atomics += 1;
    }

    /// Accounts the entries of 2 MiB that are about to be replaced, and what each address space does for it.
    pub(crate) fn account_split(&mut self, head: Pfn, owners: &[Page]) {
        let scheme = self.frames.folios.scheme();
        let exclusive = self.frames.is_exclusive(head);
        for (at, owner) in owners.iter().enumerate() {
            let (first, last) = (at == 0, at + 1 == owners.len());
            let work = scheme.split(exclusive, first, last, owner.asid);
            self.accounting().split += work;
        }
    }
}

/// All accounting of a run: what was counted, and what pages that were given took, by their numbers. `None` where
/// there was neither a fork nor a large folio: then all schemes do the same.
pub(crate) fn statistics(
    counts: &OsStatistics,
    scheme: Accounting,
) -> Option<AccountingStatistics> {
    let mut all = counts.accounting.unwrap_or_default();
    let folios = all.fault.atomics > 0 || counts.anonymous.large > 0;
    if counts.forks == 0 && !folios {
        return None;
    }
    let each = AccountingWork {
        pages: 1,
        atomics: 1,
        lines: 1,
    };
    // PG_anon_exclusive; for a page of a file or of shared memory a reference and a count.
    all.fault += each.times(counts.anonymous.base + counts.file_copies);
    let objects = counts.file.base - counts.file_copies + counts.shared_new + counts.shared_present;
    all.fault += AccountingWork { atomics: 2, ..each }.times(objects);
    all.fault += scheme.new_entire().times(counts.anonymous.large);
    Some(all)
}
