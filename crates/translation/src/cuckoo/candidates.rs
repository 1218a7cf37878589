use super::headers::Header;
use pagelab_addr::PageSize;

/// Ways of tables that may have a page's entry: a bit for each way in the byte of the page size,
/// the smallest lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Candidates(u32);

/// The lowest bit of a size.
#[inline]
fn shift(size: PageSize) -> u32 {
    8 * size as u32
}

impl Candidates {
    /// All ways of tables, where there is one of a page size.
    #[inline]
    pub(super) fn of<T>(tables: &[Option<T>; 3], ways: usize) -> Candidates {
        let all = (1u32 << ways) - 1;
        let tables = PageSize::ALL.into_iter().zip(tables);
        let present = tables.filter(|(_, table)| table.is_some());
        Candidates(present.fold(0, |bits, (size, _)| bits | all << shift(size)))
    }

    /// Leaves what a header allows.
    #[inline]
    pub(super) fn narrow(&mut self, size: PageSize, header: Header) {
        let way = header.way().map_or(0, |way| 1 << way);
        self.0 &= !(0xff << shift(size)) | way << shift(size);
        for smaller in PageSize::ALL {
            if smaller < size && !header.has(smaller) {
                self.0 &= !(0xff << shift(smaller));
            }
        }
    }

    /// True if a page of this size or a smaller one may be found.
    #[inline]
    pub(super) fn up_to(self, size: PageSize) -> bool {
        self.0 & ((0x100 << shift(size)) - 1) != 0
    }

    /// The ways of a size, a bit each.
    #[inline]
    pub(super) fn ways(self, size: PageSize) -> u32 {
        self.0 >> shift(size) & 0xff
    }

    #[inline]
    pub(super) fn has(self, size: PageSize, way: usize) -> bool {
        self.ways(size) & (1 << way) != 0
    }

    /// Number of lines.
    #[inline]
    pub(super) fn lines(self) -> u32 {
        self.0.count_ones()
    }

    /// Number of page sizes.
    #[inline]
    pub(super) fn sizes(self) -> usize {
        let sizes = PageSize::ALL.into_iter();
        sizes.filter(|&size| self.ways(size) != 0).count()
    }
}
