use pagelab_addr::{PAGE_BYTES, PageId, PageSize, Pfn, PhysAddr};
use std::ops::Range;

/// Bytes of a tag: the page's number, its address space and what may be done with it.
pub const TAG_BYTES: u32 = 4;

/// A restrictive segment: frames in which a page can only be in the ways of one set, and where its
/// set filter and its tag array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestSeg {
    size: PageSize,
    first: u32,
    sets: u32,
    ways: u32,
    /// The first bytes of both.
    filter: u64,
    tags: u64,
}

impl RestSeg {
    /// The most ways that a set can have.
    pub const MAX_WAYS: u32 = 32;

    /// The size of its pages.
    pub fn size(&self) -> PageSize {
        self.size
    }

    /// Number of sets, a power of two.
    pub fn sets(&self) -> u32 {
        self.sets
    }

    /// Ways of a set.
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// Its frames.
    pub fn frames(&self) -> Range<u32> {
        self.first..self.first + (self.sets * self.ways) * self.size.base_pages()
    }

    /// Key of a page of its size.
    #[inline]
    pub fn key(&self, page: PageId) -> u32 {
        page.0 >> self.size.order()
    }

    /// The set of a page: the low bits of its number.
    #[inline]
    pub fn set(&self, page: PageId) -> u32 {
        self.key(page) & (self.sets - 1)
    }

    /// The first frame of a way.
    #[inline]
    pub fn frame(&self, set: u32, way: u32) -> Pfn {
        Pfn(self.first + (set * self.ways + way) * self.size.base_pages())
    }

    /// The set and the way that a frame is in.
    #[inline]
    pub fn place(&self, pfn: Pfn) -> Option<(u32, u32)> {
        if !self.frames().contains(&pfn.0) {
            return None;
        }
        let place = (pfn.0 - self.first) >> self.size.order();
        Some((place / self.ways, place % self.ways))
    }

    /// Address of the byte of the set filter with the number of pages of a set.
    #[inline]
    pub fn filter(&self, set: u32) -> PhysAddr {
        PhysAddr(self.filter + u64::from(set))
    }

    /// The tags of a set.
    #[inline]
    pub fn tags(&self, set: u32) -> Range<u64> {
        let bytes = u64::from(self.ways * TAG_BYTES);
        let first = self.tags + u64::from(set) * bytes;
        first..first + bytes
    }

    /// Frames of its set filter and its tag array together.
    fn metadata_frames(sets: u32, ways: u32) -> u32 {
        let frames = |bytes: u64| bytes.div_ceil(PAGE_BYTES) as u32;
        frames(u64::from(sets)) + frames(u64::from(sets) * u64::from(ways * TAG_BYTES))
    }
}

/// The restrictive segments of a memory, at its end: one of 4 KiB pages and one of 2 MiB pages,
/// where there are such. All before is the flexible segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestSegs {
    of_sizes: [Option<RestSeg>; 2],
    flexible: u32,
    end: u32,
}

impl RestSegs {
    /// Segments of at most so many bytes in the sizes 4 KiB and 2 MiB and of sets of so many ways,
    /// each of them at most a quarter of a memory of so many frames. A number of sets is a power of
    /// two; where no set fits there is no segment. The flexible segment is in whole blocks of at least
    /// 2 MiB of so many frames, as the memory is.
    ///
    /// # Panics
    /// When there are no ways, or more than [`RestSeg::MAX_WAYS`], or when a block is not a power of
    /// two of frames.
    pub fn new(frames: u32, bytes: [u64; 2], ways: u32, block: u32) -> Self {
        assert!((1..=RestSeg::MAX_WAYS).contains(&ways) && block.is_power_of_two());
        let block = block.max(PageSize::Large2M.base_pages());
        let sizes = [PageSize::Base4K, PageSize::Large2M];
        let sets = [0, 1].map(|at: usize| {
            let most = (bytes[at] / PAGE_BYTES).min(u64::from(frames / 4)) as u32;
            let sets = most / (ways * sizes[at].base_pages());
            sets.checked_ilog2().map(|log2| 1 << log2)
        });
        let data = |at: usize| sets[at].map_or(0, |sets: u32| sets * ways * sizes[at].base_pages());
        let metadata =
            |sets: Option<u32>| sets.map_or(0, |sets| RestSeg::metadata_frames(sets, ways));
        let all = data(0) + data(1) + metadata(sets[0]) + metadata(sets[1]);
        // Large pages come first, so that they are aligned.
        let flexible = (frames - all) & !(block - 1);
        if flexible == 0 && all > 0 {
            return RestSegs::new(frames, [0; 2], ways, block);
        }
        let firsts = [flexible + data(1), flexible];
        let mut next = flexible + data(0) + data(1);
        let of_sizes = [0, 1].map(|at| {
            let sets = sets[at]?;
            let filter = u64::from(next) * PAGE_BYTES;
            next += RestSeg::metadata_frames(sets, ways);
            let tags = u64::from(next) * PAGE_BYTES - u64::from(sets * ways * TAG_BYTES);
            Some(RestSeg {
                size: sizes[at],
                first: firsts[at],
                sets,
                ways,
                filter,
                // They begin with a frame.
                tags: tags / PAGE_BYTES * PAGE_BYTES,
            })
        });
        RestSegs {
            of_sizes,
            flexible,
            end: flexible + all,
        }
    }

    /// The segments.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = RestSeg> + use<> {
        self.of_sizes.into_iter().flatten()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.of_sizes.iter().all(Option::is_none)
    }

    /// The segment of the pages of a size.
    #[inline]
    pub fn of(&self, size: PageSize) -> Option<RestSeg> {
        self.of_sizes.get(size as usize).copied().flatten()
    }

    /// The segment that a frame is in.
    #[inline]
    pub fn around(&self, pfn: Pfn) -> Option<RestSeg> {
        self.iter()
            .find(|segment| segment.frames().contains(&pfn.0))
    }

    /// Frames of the flexible segment, from the first of the memory on.
    pub fn flexible(&self) -> u32 {
        self.flexible
    }

    /// The first frame behind all that they take.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Frames of set filters and tag arrays.
    pub fn metadata(&self) -> Range<u32> {
        let ends = self.iter().map(|segment| segment.frames().end);
        ends.max().unwrap_or(self.end)..self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_lie_at_the_end_of_memory_and_fit() {
        // 1 GiB with 256 MiB each: 4,096 sets of 16 small pages, 8 of 16 large ones.
        let segments = RestSegs::new(1 << 18, [1 << 30, 1 << 30], 16, 1);
        let small = segments.of(PageSize::Base4K).unwrap();
        let large = segments.of(PageSize::Large2M).unwrap();
        assert_eq!((small.sets(), large.sets()), (4096, 8));
        assert_eq!(small.frames().len(), 1 << 16);
        assert_eq!(large.frames().len(), 1 << 16);
        // A frame and 64 for the small ones, one and one for the large ones; 2 MiB aligned.
        assert_eq!(segments.metadata().len(), 1 + 64 + 2);
        assert_eq!(segments.flexible(), (1 << 18) - (2 << 16) - 512);
        assert_eq!(large.frames().start, segments.flexible());
        assert_eq!(small.frames().start, large.frames().end);
        let first = small.frames().end;
        assert_eq!(segments.metadata().start, first);
        let byte = u64::from(first) * PAGE_BYTES;
        assert_eq!(small.filter(5).0, byte + 5);
        assert_eq!(small.tags(2), byte + 4096 + 128..byte + 4096 + 192);
        assert_eq!(large.filter(0).0, byte + 65 * 4096);
        assert_eq!(large.tags(7).end, byte + 66 * 4096 + 8 * 64);
        assert_eq!(segments.of(PageSize::Huge1G), None);
    }

    #[test]
    fn a_frame_has_a_set_and_a_way_and_they_a_frame() {
        let segments = RestSegs::new(1 << 18, [3 << 20, 40 << 20], 4, 1 << 10);
        let small = segments.of(PageSize::Base4K).unwrap();
        let large = segments.of(PageSize::Large2M).unwrap();
        // Powers of two: 2 MiB and 32 MiB.
        assert_eq!((small.sets(), large.sets()), (128, 4));
        let page = PageId(7 << 18 | 5 << 9 | 3);
        assert_eq!(small.set(page), (5 * 512 + 3) % 128);
        assert_eq!(large.set(page), 1);
        for segment in segments.iter() {
            for pfn in segment.frames().step_by(97) {
                let (set, way) = segment.place(Pfn(pfn)).unwrap();
                let head = segment.frame(set, way);
                assert_eq!(head.0, pfn & !(segment.size().base_pages() - 1));
                assert_eq!(segments.around(Pfn(pfn)), Some(segment));
            }
            assert_eq!(segment.place(Pfn(segment.frames().end)), None);
        }
        assert_eq!(segments.around(Pfn(segments.flexible() - 1)), None);
    }

    #[test]
    fn where_no_set_fits_there_is_no_segment() {
        let none = RestSegs::new(1 << 14, [1 << 15, 1 << 30], 16, 1 << 10);
        assert_eq!(none.iter().count(), 0);
        assert_eq!((none.flexible(), none.metadata().len()), (1 << 14, 0));
        // Nor where nothing would be left beside it.
        let none = RestSegs::new(1 << 10, [1 << 20, 0], 16, 1 << 10);
        assert_eq!(none.iter().count(), 0);
        assert_eq!(none.flexible(), 1 << 10);
    }
}
