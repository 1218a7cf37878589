use pagelab_addr::PageSize;

/// The place of a page of PTEs, relative to the hash: 2 bits of stride, 4 bits of step
/// (DPT paper, figure 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metadata(u8);

impl Metadata {
    /// There is no such page: the stride that stands for none.
    pub(super) const INVALID: Metadata = Metadata(0x3f);
    /// It is in none of the frames that stride and step name: the table of exceptions has its frame.
    pub(super) const ELSEWHERE: Metadata = Metadata(0b11);
    /// The largest step that four bits hold.
    pub(super) const MAX_STEP: u32 = 15;

    /// The metadata of six bits.
    pub(super) fn from_code(code: u8) -> Metadata {
        Metadata(code & 0x3f)
    }

    /// `step` strides of one page of `stride` away from the hash.
    pub(super) fn new(stride: PageSize, step: u32) -> Metadata {
        debug_assert!(step <= Self::MAX_STEP);
        let code = match stride {
            PageSize::Base4K => 0b00,
            PageSize::Large2M => 0b01,
            PageSize::Huge1G => 0b10,
        };
        Metadata(code | (step as u8) << 2)
    }

    /// Stride and step; `None` when invalid, or elsewhere.
    pub(super) fn decode(self) -> Option<(PageSize, u32)> {
        let stride = match self.0 & 0b11 {
            0b00 => PageSize::Base4K,
            0b01 => PageSize::Large2M,
            0b10 => PageSize::Huge1G,
            _ => return None,
        };
        Some((stride, u32::from(self.0 >> 2)))
    }

    /// The frame it names, counted from the frame that the hash chose and wrapping around at the
    /// end of memory (equation 1).
    pub(super) fn frame(self, base: u32, frames: u32) -> Option<u32> {
        let (stride, step) = self.decode()?;
        let sum = u64::from(base) + u64::from(stride.base_pages()) * u64::from(step);
        Some((sum % u64::from(frames)) as u32)
    }
}
