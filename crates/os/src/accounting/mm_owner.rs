//! Two owners for each folio (`_mm_id`, `_mm_id_mapcount` and `folio_add_return_large_mapcount` in
//! include/linux/rmap.h, Linux 6.15).
//!
//! Each of the first two address spaces that map a folio takes a slot with its number of mappings. A third one has
//! none: once it was there, the folio may be shared until one slot has all mappings that are left.

use pagelab_addr::Asid;

/// The two slots of a folio.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// Owner and its mappings, which may be less than nothing: an address space that had no slot at first counts
    /// what it unmaps after it got one.
    owners: [Option<(Asid, i64)>; 2],
    shared: bool,
}

impl Slots {
    pub(crate) fn add(&mut self, mm: Asid, count: u32, total: u32) {
        let count = i64::from(count);
        if let Some((_, mappings)) = self.slot(mm) {
            *mappings += count;
        } else if self.owners[0].is_none() {
            self.owners[0] = Some((mm, count));
            self.shared |= i64::from(total) != count;
        } else if self.owners[1].is_none() {
            self.owners[1] = Some((mm, count));
            self.shared = true;
        }
    }

    pub(crate) fn remove(&mut self, mm: Asid, count: u32, total: u32) {
        if let Some((_, mappings)) = self.slot(mm) {
            *mappings -= i64::from(count);
            if *mappings > 0 {
                return;
            }
            for owner in &mut self.owners {
                owner.take_if(|(owner, _)| *owner == mm);
            }
        }
        // An empty slot has all mappings of a folio that nobody maps.
        let all = |owner: &Option<(Asid, i64)>| {
            owner.map_or(0, |(_, mappings)| mappings) == i64::from(total)
        };
        if self.owners.iter().any(all) {
            self.shared = false;
        }
    }

    fn slot(&mut self, mm: Asid) -> Option<&mut (Asid, i64)> {
        self.owners
            .iter_mut()
            .flatten()
            .find(|(owner, _)| *owner == mm)
    }

    /// `folio_maybe_mapped_shared`.
    pub(crate) fn maybe_shared(&self) -> bool {
        self.shared
    }
}
