use crate::buddy::Buddy;
use crate::statistics::{BySize, SegmentStatistics};
use crate::tag;
use pagelab_addr::{PAGE_BYTES, PageId, PageSize, Pfn};
use pagelab_translation::{RestSeg, RestSegs};

/// Prediction of a page that has just come: it is expected back after long, one that was used soon
/// (SRRIP with two bits; Jaleel et al., ISCA 2010).
const NEW: u8 = 2;
const OLDEST: u8 = 3;

/// Places pages in restrictive segments, whose frames the buddy allocator never has: between uses
/// they have the tag [`tag::RESTRICTED`].
#[derive(Clone, Debug)]
pub(crate) struct Segments {
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

impl Segments {
    pub(crate) fn new(places: RestSegs, at_faults: bool, evicting: bool) -> Self {
        let of = |size| {
            let ways = |segment: RestSeg| (segment.sets() * segment.ways()) as usize;
            vec![Way::default(); places.of(size).map_or(0, ways)]
        };
        Segments {
            places,
            at_faults,
            evicting,
            ways: [of(PageSize::Base4K), of(PageSize::Large2M)],
            statistics: SegmentStatistics::default(),
        }
    }

    /// Tags of all frames, given those of the flexible segment.
    pub(crate) fn add_tags(places: &RestSegs, tags: &mut Vec<u8>, frames: u32) {
        let segments = places.iter().map(|segment| segment.frames().len());
        tags.resize(tags.len() + segments.sum::<usize>(), tag::RESTRICTED);
        tags.resize(tags.len() + places.metadata().len(), tag::UNMOVABLE);
        tags.resize(frames as usize, 0);
    }

    /// Frames of all segments.
    pub(crate) fn frames(&self) -> u32 {
        let segments = self.places.iter();
        segments.map(|segment| segment.frames().len() as u32).sum()
    }

    pub(crate) fn statistics(&self) -> SegmentStatistics {
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
        SegmentStatistics {
            places: by_size(false),
            used: by_size(true),
            metadata_bytes: self.places.metadata().len() as u64 * PAGE_BYTES,
            ..self.statistics
        }
    }

    fn way(&mut self, segment: &RestSeg, set: u32, way: u32) -> &mut Way {
        &mut self.ways[segment.size() as usize][(set * segment.ways() + way) as usize]
    }

    /// True if a frame lies in the set of a page.
    pub(crate) fn in_set(&self, pfn: Pfn, page: PageId, size: PageSize) -> bool {
        let place = |segment: RestSeg| Some((segment, segment.place(pfn)?));
        let place = self.places.of(size).and_then(place);
        place.is_some_and(|(segment, (set, _))| set == segment.set(page))
    }

    /// Takes a free way of a page's set.
    pub(crate) fn take(&mut self, buddy: &mut Buddy, page: PageId, size: PageSize) -> Option<Pfn> {
        let segment = self.places.of(size)?;
        let set = segment.set(page);
        let free = (0..segment.ways()).find(|&way| self.way(&segment, set, way).used == 0)?;
        *self.way(&segment, set, free) = Way {
            used: size.base_pages(),
            age: NEW,
        };
        let head = segment.frame(set, free);
        buddy.set_tag(head, size.order(), tag::data(size));
        Some(head)
    }

    /// The same at a page's first touch.
    pub(crate) fn place(&mut self, buddy: &mut Buddy, page: PageId, size: PageSize) -> Option<Pfn> {
        if !self.at_faults || self.places.of(size).is_none() {
            return None;
        }
        let taken = self.take(buddy, page, size);
        match taken {
            Some(_) => self.statistics.placed.count(size),
            None => self.statistics.full.count(size),
        }
        taken
    }

    /// The page, by its first frame, that has to leave a page's set for it; `None` where there is room
    /// or where all of them have to stay.
    pub(crate) fn victim(
        &mut self,
        buddy: &Buddy,
        page: PageId,
        size: PageSize,
        stays: impl Fn(Pfn) -> bool,
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
        let whole = |head: Pfn| buddy.tag(head) == tag::data(size) && !stays(head);
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

    /// True if a page that is first touched pushes another out of a full set.
    pub(crate) fn evicts_at_faults(&self) -> bool {
        self.at_faults && self.evicting
    }

    /// Gives back frames, if they are of a segment; whether they are.
    pub(crate) fn release(&mut self, buddy: &mut Buddy, head: Pfn, order: u32) -> bool {
        let Some(segment) = self.places.around(head) else {
            return false;
        };
        if let Some((set, way)) = segment.place(head) {
            self.way(&segment, set, way).used -= 1 << order;
        }
        buddy.set_tag(head, order, tag::RESTRICTED);
        true
    }

    /// A walk has found a page in a frame.
    pub(crate) fn accessed(&mut self, pfn: Pfn) {
        if let Some(segment) = self.places.around(pfn)
            && let Some((set, way)) = segment.place(pfn)
        {
            self.way(&segment, set, way).age = 0;
        }
    }

    pub(crate) fn note_eviction(&mut self, size: PageSize) {
        self.statistics.evicted.count(size);
    }

    /// Notes whether a page that a walk had wanted moved into its set was.
    pub(crate) fn note_move(&mut self, size: PageSize, moved: bool) {
        let count = if moved {
            &mut self.statistics.moved_in
        } else {
            &mut self.statistics.refused
        };
        count.count(size);
    }
}
