//! Large folios of anonymous memory: who maps them, and memory of theirs that nobody maps any more.
//!
//! Here are those that entries of 4 KiB map, and those of 2 MiB that several address spaces map. A folio of
//! which a part is unmapped keeps that part until memory is short (`deferred_split_folio` and its shrinker in
//! mm/huge_memory.c).

use crate::accounting::{Accounting, Sharing};
use pagelab_addr::{Asid, Pfn};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub(crate) struct Folio {
    pub(crate) order: u32,
    /// Mappings by entries of any size (`folio_large_mapcount`).
    mappings: u32,
    sharing: Sharing,
    /// Pages that nobody maps any more, or maps yet.
    unmapped: u32,
    /// Its pages are for a region of an address space, which this is the first page of.
    reserved: Option<(Asid, u64)>,
}

/// The large folios, by their first frames.
#[derive(Clone, Debug)]
pub(crate) struct Folios {
    scheme: Accounting,
    by_head: BTreeMap<u32, Folio>,
    /// Folios with pages that nobody maps. (Linux has a queue; memory that is short takes all of it here.)
    partly_mapped: BTreeSet<u32>,
    unmapped: u32,
    /// First frames of reservations, by their regions.
    regions: BTreeMap<(Asid, u64), u32>,
    /// Folios that ever came to have such pages.
    deferred: u64,
}

impl Folios {
    pub(crate) fn new(scheme: Accounting) -> Self {
        Folios {
            scheme,
            by_head: BTreeMap::new(),
            partly_mapped: BTreeSet::new(),
            unmapped: 0,
            regions: BTreeMap::new(),
            deferred: 0,
        }
    }

    /// Accounting of all folios.
    pub(crate) fn scheme(&self) -> Accounting {
        self.scheme
    }

    /// Frames of folios that nobody maps any more.
    pub(crate) fn unmapped_frames(&self) -> u32 {
        self.unmapped
    }

    /// Folios of which a part was ever unmapped.
    pub(crate) fn deferred(&self) -> u64 {
        self.deferred
    }

    pub(crate) fn insert(&mut self, head: Pfn, order: u32) {
        let folio = Folio {
            order,
            mappings: 0,
            sharing: Sharing::new(self.scheme, order),
            unmapped: 0,
            reserved: None,
        };
        self.by_head.insert(head.0, folio);
    }

    /// Reserves a folio that nobody maps yet for a region.
    pub(crate) fn reserve(&mut self, head: Pfn, region: (Asid, u64)) {
        let folio = self.get_mut(head);
        folio.unmapped = 1 << folio.order;
        folio.reserved = Some(region);
        self.partly_mapped.insert(head.0);
        self.regions.insert(region, head.0);
    }

    /// The block that is reserved for a region.
    pub(crate) fn reservation(&self, region: (Asid, u64)) -> Option<Pfn> {
        self.regions.get(&region).map(|&head| Pfn(head))
    }

    /// Notes that a page of a reservation is mapped. How many are.
    pub(crate) fn fill(&mut self, head: Pfn) -> u32 {
        let folio = self.get_mut(head);
        folio.unmapped -= 1;
        let used = (1 << folio.order) - folio.unmapped;
        if folio.unmapped == 0 {
            self.partly_mapped.remove(&head.0);
        }
        used
    }

    /// True if a folio is a reservation.
    pub(crate) fn is_reserved(&self, head: Pfn) -> bool {
        let folio = self.by_head.get(&head.0);
        folio.is_some_and(|folio| folio.reserved.is_some())
    }

    /// True if a folio has pages that nobody maps.
    pub(crate) fn is_partly_mapped(&self, head: Pfn) -> bool {
        let folio = self.by_head.get(&head.0);
        folio.is_some_and(|folio| folio.unmapped > 0)
    }

    pub(crate) fn has(&self, head: Pfn) -> bool {
        self.by_head.contains_key(&head.0)
    }

    fn get_mut(&mut self, head: Pfn) -> &mut Folio {
        match self.by_head.get_mut(&head.0) {
            Some(folio) => folio,
            None => unreachable!("no folio begins at frame {}", head.0),
        }
    }

    pub(crate) fn add(&mut self, head: Pfn, mm: Asid, count: u32) {
        let folio = self.get_mut(head);
        folio.mappings += count;
        folio.sharing.add(mm, count, folio.mappings);
    }

    pub(crate) fn subtract(&mut self, head: Pfn, mm: Asid, count: u32) {
        let folio = self.get_mut(head);
        folio.mappings -= count;
        folio.sharing.remove(mm, count, folio.mappings);
    }

    /// Notes that nobody maps one more page of a folio. True if that was the last.
    pub(crate) fn unmap(&mut self, head: Pfn) -> bool {
        let folio = self.get_mut(head);
        folio.unmapped += 1;
        let (all, first) = (folio.unmapped == 1 << folio.order, folio.unmapped == 1);
        if folio.reserved.is_none() {
            self.unmapped += 1;
            self.deferred += u64::from(first && !all);
        }
        if first && !all {
            self.partly_mapped.insert(head.0);
        }
        all
    }

    pub(crate) fn remove(&mut self, head: Pfn) -> Option<Folio> {
        let folio = self.by_head.remove(&head.0)?;
        match folio.reserved {
            Some(region) => _ = self.regions.remove(&region),
            None => self.unmapped -= folio.unmapped,
        }
        self.partly_mapped.remove(&head.0);
        Some(folio)
    }

    /// A folio of 2 MiB has moved.
    pub(crate) fn moved(&mut self, from: Pfn, to: Pfn) {
        if let Some(folio) = self.by_head.remove(&from.0) {
            self.by_head.insert(to.0, folio);
        }
    }

    /// True if a store of an address space may keep its page of a folio.
    pub(crate) fn may_be_reused(&self, head: Pfn, mm: Asid) -> Option<bool> {
        let folio = self.by_head.get(&head.0)?;
        Some(folio.sharing.may_reuse(mm, folio.mappings))
    }

    /// True if other address spaces may have a part of a folio; `None` where only pages are counted.
    pub(crate) fn maybe_shared(&self, head: Pfn, mm: Asid) -> Option<bool> {
        let folio = self.by_head.get(&head.0)?;
        folio.sharing.maybe_shared(mm, folio.mappings)
    }

    /// Folios with pages that nobody maps, which it forgets to be such.
    pub(crate) fn take_partly_mapped(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.partly_mapped)
    }
}
