use serde::{Deserialize, Serialize};

/// The page sizes of x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PageSize {
    /// 4 KiB, one base page.
    #[serde(rename = "4K")]
    Base4K,
    /// 2 MiB, 512 base pages.
    #[serde(rename = "2M")]
    Large2M,
    /// 1 GiB, 262,144 base pages.
    #[serde(rename = "1G")]
    Huge1G,
}

impl PageSize {
    /// All sizes, smallest first.
    pub const ALL: [PageSize; 3] = [PageSize::Base4K, PageSize::Large2M, PageSize::Huge1G];

    /// log2 of the number of base pages: the buddy order of such a page.
    pub const fn order(self) -> u32 {
        match self {
            PageSize::Base4K => 0,
            PageSize::Large2M => 9,
            PageSize::Huge1G => 18,
        }
    }

    /// Number of base pages.
    pub const fn base_pages(self) -> u32 {
        1 << self.order()
    }

    /// Size in bytes.
    pub const fn bytes(self) -> u64 {
        (self.base_pages() as u64) << crate::PAGE_SHIFT
    }
}
