use pagelab_addr::PageSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Page sizes that a fault may use. Written as the size of the largest: `4K`, `2M`, `64K`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum PagePolicy {
    /// 4 KiB pages only.
    #[default]
    Base,
    /// Folios of 2^`order` 4 KiB pages where a VMA covers one, but for MADV_NOHUGEPAGE: a size
    /// under /sys/kernel/mm/transparent_hugepage/ set to `always`, and no other.
    Folio {
        /// 2 to 8: 16 KiB to 1 MiB.
        order: u8,
    },
    /// The same only after MADV_HUGEPAGE (that size set to `madvise`).
    FolioMadvise {
        /// As of `Folio`.
        order: u8,
    },
    /// Transparent 2 MiB pages where a VMA covers one, but for MADV_NOHUGEPAGE
    /// (transparent_hugepage=always).
    Thp,
    /// The same only after MADV_HUGEPAGE (transparent_hugepage=madvise).
    ThpMadvise,
    /// 1 GiB pages where a VMA covers one, else as `thp`.
    Huge1G,
}

/// The names, the usual one of each first.
const NAMES: [(&str, PagePolicy); 20] = [
    ("base", PagePolicy::Base),
    ("4K", PagePolicy::Base),
    ("16K", PagePolicy::Folio { order: 2 }),
    ("32K", PagePolicy::Folio { order: 3 }),
    ("64K", PagePolicy::Folio { order: 4 }),
    ("128K", PagePolicy::Folio { order: 5 }),
    ("256K", PagePolicy::Folio { order: 6 }),
    ("512K", PagePolicy::Folio { order: 7 }),
    ("1M", PagePolicy::Folio { order: 8 }),
    ("16K-madvise", PagePolicy::FolioMadvise { order: 2 }),
    ("32K-madvise", PagePolicy::FolioMadvise { order: 3 }),
    ("64K-madvise", PagePolicy::FolioMadvise { order: 4 }),
    ("128K-madvise", PagePolicy::FolioMadvise { order: 5 }),
    ("256K-madvise", PagePolicy::FolioMadvise { order: 6 }),
    ("512K-madvise", PagePolicy::FolioMadvise { order: 7 }),
    ("1M-madvise", PagePolicy::FolioMadvise { order: 8 }),
    ("thp", PagePolicy::Thp),
    ("2M", PagePolicy::Thp),
    ("thp-madvise", PagePolicy::ThpMadvise),
    ("1G", PagePolicy::Huge1G),
];

/// A name that stands for no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown page policy {name:?}: there are {}", names())]
pub struct UnknownPagePolicy {
    name: String,
}

fn names() -> String {
    NAMES.map(|(name, _)| name).join(", ")
}

impl TryFrom<String> for PagePolicy {
    type Error = UnknownPagePolicy;

    fn try_from(name: String) -> Result<Self, UnknownPagePolicy> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found
            .map(|&(_, policy)| policy)
            .ok_or(UnknownPagePolicy { name })
    }
}

impl fmt::Display for PagePolicy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match NAMES.iter().find(|(_, policy)| policy == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{self:?}"),
        }
    }
}

impl From<PagePolicy> for String {
    fn from(policy: PagePolicy) -> String {
        policy.to_string()
    }
}

impl PagePolicy {
    /// Order of the folios that a fault takes, if memory may have any between 4 KiB and 2 MiB.
    pub(crate) fn folio_order(self, wanted: bool) -> Option<u32> {
        match self {
            PagePolicy::Folio { order } => Some(order.into()),
            PagePolicy::FolioMadvise { order } if wanted => Some(order.into()),
            _ => None,
        }
    }

    /// Order of the pages that it is of; `None` for 4 KiB pages only.
    pub(crate) fn order(self) -> Option<u32> {
        self.large_size()
            .map(PageSize::order)
            .or_else(|| self.folio_order(true))
    }

    /// The size that it is of, if page tables have entries of that size.
    pub(crate) fn large_size(self) -> Option<PageSize> {
        match self {
            PagePolicy::Thp | PagePolicy::ThpMadvise => Some(PageSize::Large2M),
            PagePolicy::Huge1G => Some(PageSize::Huge1G),
            PagePolicy::Base | PagePolicy::Folio { .. } | PagePolicy::FolioMadvise { .. } => None,
        }
    }

    /// True if it is for memory with MADV_HUGEPAGE only.
    pub(crate) fn asks_for_advice(self) -> bool {
        matches!(
            self,
            PagePolicy::FolioMadvise { .. } | PagePolicy::ThpMadvise
        )
    }

    /// True if it is one of folios between 4 KiB and 2 MiB.
    pub fn is_of_folios(self) -> bool {
        self.folio_order(true).is_some()
    }

    /// The size of the pieces in which memory appears that no event announced.
    pub(crate) fn implicit_unit(self) -> PageSize {
        match self {
            PagePolicy::Huge1G => PageSize::Huge1G,
            _ => PageSize::Large2M,
        }
    }
}
