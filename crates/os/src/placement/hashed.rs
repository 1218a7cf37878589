use crate::HashedStatistics;
use crate::buddy::Buddy;
use crate::tag;
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_translation::{Iceberg, Tiers, Yard};
use std::ops::Range;

/// Hashes of pages to frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Places {
    /// To the places of a bucket, and some more.
    Iceberg(Iceberg),
    /// To a frame by each of several functions.
    Tiers(Tiers),
}

impl Places {
    fn frames(&self) -> Range<u32> {
        match self {
            Places::Iceberg(iceberg) => iceberg.frames(),
            Places::Tiers(tiers) => tiers.frames(),
        }
    }

    /// A free frame among the places of a page, and whether it is of the first kind.
    fn place(&self, page: PageId, free: impl Fn(Pfn) -> bool) -> Option<(Pfn, bool)> {
        let key = u64::from(page.0);
        match self {
            Places::Iceberg(iceberg) => {
                let (pfn, yard) = iceberg.place(key, free)?;
                Some((pfn, yard == Yard::Front))
            }
            Places::Tiers(tiers) => {
                let (pfn, function) = tiers.place(key, free)?;
                Some((pfn, function == 0))
            }
        }
    }
}

/// Places pages by hashing them, on top of the buddy allocator, which knows the free frames.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    pub(crate) places: Places,
    pub(crate) statistics: HashedStatistics,
}

impl Hashed {
    pub(crate) fn new(places: Places) -> Self {
        Hashed {
            places,
            statistics: HashedStatistics::default(),
        }
    }

    /// Takes a frame for a 4 KiB page of data: one of its places or, when all of them are in use,
    /// any. (Mosaic evicts a page from one of its places then; there is no swap here.)
    pub(crate) fn allocate(&mut self, buddy: &mut Buddy, page: PageId) -> Option<Pfn> {
        let tag = tag::data(PageSize::Base4K);
        let place = self.places.place(page, |pfn| buddy.is_free(pfn));
        let Some((pfn, first)) = place else {
            let pfn = buddy.allocate(0, tag)?;
            self.note_conflict(buddy);
            return Some(pfn);
        };
        let claimed = buddy.claim(pfn, tag);
        debug_assert!(claimed);
        if first {
            self.statistics.front += 1;
        } else {
            self.statistics.back += 1;
        }
        Some(pfn)
    }

    #[cold]
    fn note_conflict(&mut self, buddy: &Buddy) {
        self.statistics.conflicts += 1;
        if self.statistics.conflicts > 1 {
            return;
        }
        let frames = self.places.frames();
        let total = frames.len() as f64;
        let used = frames.filter(|&pfn| !buddy.is_free(Pfn(pfn))).count();
        self.statistics.used_at_first_conflict = Some(used as f64 / total);
    }
}
