use crate::HashedStatistics;
use crate::buddy::Buddy;
use crate::frame_table::tag;
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_translation::{Iceberg, Yard};

/// Places pages by hashing them, on top of the buddy allocator, which knows the free frames.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    pub(crate) iceberg: Iceberg,
    pub(crate) statistics: HashedStatistics,
}

impl Hashed {
    pub(crate) fn new(iceberg: Iceberg) -> Self {
        Hashed {
            iceberg,
            statistics: HashedStatistics::default(),
        }
    }

    /// Takes a frame for a 4 KiB page of data: one of its places or, when all of them are in use,
    /// any. (Mosaic evicts a page from one of its places then; there is no swap here.)
    pub(crate) fn allocate(&mut self, buddy: &mut Buddy, page: PageId) -> Option<Pfn> {
        let tag = tag::data(PageSize::Base4K);
        let place = self
            .iceberg
            .place(u64::from(page.0), |pfn| buddy.is_free(pfn));
        let Some((pfn, yard)) = place else {
            let pfn = buddy.allocate(0, tag)?;
            self.note_conflict(buddy);
            return Some(pfn);
        };
        let claimed = buddy.claim(pfn, tag);
        debug_assert!(claimed);
        match yard {
            Yard::Front => self.statistics.front += 1,
            Yard::Back => self.statistics.back += 1,
        }
        Some(pfn)
    }

    #[cold]
    fn note_conflict(&mut self, buddy: &Buddy) {
        self.statistics.conflicts += 1;
        if self.statistics.conflicts > 1 {
            return;
        }
        let frames = self.iceberg.frames();
        let total = frames.len() as f64;
        let used = frames.filter(|&pfn| !buddy.is_free(Pfn(pfn))).count();
        self.statistics.used_at_first_conflict = Some(used as f64 / total);
    }
}
