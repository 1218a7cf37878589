//! Pages in a way of their set in a restrictive segment, or anywhere in the flexible one (Utopia).

use super::{Built, Place, Placer};
use crate::frames::buddy::Buddy;
use crate::frames::preallocate::preallocate;
use crate::frames::tag;
use crate::statistics::{BySize, SegmentStatistics};
use crate::{OsConfig, OsConfigError};
use pagelab_addr::{PAGE_BYTES, PageId, PageSize, Pfn};
use pagelab_translation::{RestSeg, RestSegs};

/// Prediction of a page that has just come: it is expected back after long, one that was used soon
/// (SRRIP with two bits; Jaleel et al., ISCA 2010).
const NEW: u8 = 2;
const OLDEST: u8 = 3;

/// Places pages in restrictive segments, whose frames the buddy allocator never has: between uses
/// they have the tag [`tag::RESTRICTED`].
#[derive(Clone, Debug)]
struct Segments {
    places: RestSegs,
    /// Pages are placed there when they are first touched, and push others out.
    at_faults: bool,
    evicting: bool,
    /// By size, set and way.
    ways: [Vec<Way>; 2],
    statistics: SegmentStatistics,
}

#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Base pages that are in use.
    used: u32,
    age: u8,
}

/// The segments of a memory. What is in use before the programs start is all in the flexible one.
pub(super) fn build(
    config: &OsConfig,
    places: RestSegs,
    at_faults: bool,
    evicting: bool,
    seed: u64,
) -> Result<Built, OsConfigError> {
    if places.end() > config.frames() {
        return Err(OsConfigError {
            key: "memory_bytes",
            reason: format!(
                "{} leave no room for the restrictive segments",
                config.memory_bytes
            ),
        });
    }
    let flexible = OsConfig {
        memory_bytes: u64::from(places.flexible()) * PAGE_BYTES,
        ..config.clone()
    };
    let mut tags = preallocate(&flexible, seed)?;
    let restricted: usize = places.iter().map(|segment| segment.frames().len()).sum();
    tags.resize(tags.len() + restricted, tag::RESTRICTED);
    tags.resize(tags.len() + places.metadata().len(), tag::UNMOVABLE);
    tags.resize(config.frames() as usize, 0);
    let of = |size| {
        let ways = |segment: RestSeg| (segment.sets() * segment.ways()) as usize;
        vec![Way::default(); places.of(size).map_or(0, ways)]
    };
    let segments = Segments {
        ways: [of(PageSize::Base4K), of(PageSize::Large2M)],
        places,
        at_faults,
        evicting,
        statistics: SegmentStatistics::default(),
    };
    Ok((tags, Some(Box::new(segments))))
}

impl Segments {
    fn way(&mut self, segment: &RestSeg, set: u32, way: u32) -> &mut Way {
        &mut self.ways[segment.size() as usize][(set * segment.ways() + way) as usize]
    }

    /// True if a frame lies in the set of a page.
    fn in_set(&self, pfn: Pfn, page: PageId, size: PageSize) -> bool {
        let place = |segment: RestSeg| Some((segment, segment.place(pfn)?));
        let place = self.places.of(size).and_then(place);
        place.is_some_and(|(segment, (set, _))| set == segment.set(page))
    }
}

impl Placer for Segments {
    fn boxed(&self) -> Box<dyn Placer> {
        Box::new(self.clone())
    }

    fn place(&mut self, memory: &mut Buddy, page: PageId, size: PageSize) -> Place {
        if !self.at_faults || self.places.of(size).is_none() {
            return Place::Anywhere;
        }
        match self.take(memory, page, size) {
            Some(head) => {
                self.statistics.placed.count(size);
                Place::At(head)
            }
            None => {
                self.statistics.full.count(size);
                Place::Anywhere
            }
        }
    }

    fn release(&mut self, memory: &mut Buddy, head: Pfn, order: u32) -> bool {
        let Some(segment) = self.places.around(head) else {
            return false;
        };
        if let Some((set, way)) = segment.place(head) {
            self.way(&segment, set, way).used -= 1 << order;
        }
        memory.set_tag(head, order, tag::RESTRICTED);
        true
    }

    fn set_aside(&self) -> u32 {
        let segments = self.places.iter();
        segments.map(|segment| segment.frames().len() as u32).sum()
    }

    fn tells_accesses(&self) -> bool {
        true
    }

    fn accessed(&mut self, pfn: Pfn) {
        if let Some(segment) = self.places.around(pfn)
            && let Some((set, way)) = segment.place(pfn)
        {
            self.way(&segment, set, way).age = 0;
        }
    }

    fn evicts_at_faults(&self) -> bool {
        self.at_faults && self.evicting
    }

    fn victim(
        &mut self,
        memory: &Buddy,
        page: PageId,
        size: PageSize,
        stays: &dyn Fn(Pfn) -> bool,
    ) -> Option<Pfn> {
        let segment = self.places.of(size)?;
        let set = segment.set(page);
        let ways = 0..segment.ways();
        if ways
            .clone()
            .any(|way| self.way(&segment, set, way).used == 0)
        {
            return None;
        }
        // Pieces of a page that was split stay.
        let whole = |head: Pfn| memory.tag(head) == tag::data(size) && !stays(head);
        let mut may: Vec<u32> = ways.collect();
        may.retain(|&way| whole(segment.frame(set, way)));
        let oldest = may
            .iter()
            .map(|&way| self.way(&segment, set, way).age)
            .max()?;
        for &way in &may {
            self.way(&segment, set, way).age += OLDEST - oldest;
        }
        let old = |&way: &u32| self.way(&segment, set, way).age == OLDEST;
        let way = may.iter().copied().find(old)?;
        Some(segment.frame(set, way))
    }

    /// True if a page is not in a set of its own.
    fn wants_to_move(&self, head: Pfn, page: PageId, size: PageSize) -> bool {
        !self.in_set(head, page, size)
    }

    /// Takes a free way of a page's set.
    fn take(&mut self, memory: &mut Buddy, page: PageId, size: PageSize) -> Option<Pfn> {
        let segment = self.places.of(size)?;
        let set = segment.set(page);
        let free = (0..segment.ways()).find(|&way| self.way(&segment, set, way).used == 0)?;
        *self.way(&segment, set, free) = Way {
            used: size.base_pages(),
            age: NEW,
        };
        let head = segment.frame(set, free);
        memory.set_tag(head, size.order(), tag::data(size));
        Some(head)
    }

    fn note_eviction(&mut self, size: PageSize) {
        self.statistics.evicted.count(size);
    }

    fn note_move(&mut self, size: PageSize, moved: bool) {
        let count = if moved {
            &mut self.statistics.moved_in
        } else {
            &mut self.statistics.refused
        };
        count.count(size);
    }

    fn segments(&self) -> Option<SegmentStatistics> {
        let count = |size: PageSize, used: bool| {
            let ways = self.ways.get(size as usize).map_or(&[][..], Vec::as_slice);
            let counted = ways.iter().filter(|way| !used || way.used > 0);
            counted.count() as u64
        };
        let by_size = |used| BySize {
            base: count(PageSize::Base4K, used),
            large: count(PageSize::Large2M, used),
            huge: 0,
        };
        Some(SegmentStatistics {
            places: by_size(false),
            used: by_size(true),
            metadata_bytes: self.places.metadata().len() as u64 * PAGE_BYTES,
            ..self.statistics
        })
    }
}
