use super::{HUGE, Orders};
use pagelab_addr::PageSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Page sizes that a fault may use: `4K`, `2M`, `64K`, several with `+` between them (`2M+64K-madvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum PagePolicy {
    /// Sizes as Linux has them, but for memory with MADV_NOHUGEPAGE; 4 KiB where none fits. Bits of their orders.
    Linux {
        /// Sizes for all memory.
        always: u32,
        /// Sizes for memory with MADV_HUGEPAGE, besides.
        madvise: u32,
    },
    /// 4 KiB pages in blocks of 2 MiB that are reserved at the first touch.
    Reserved {
        /// Pages of a block that are used when it becomes one page.
        promotes_at: u32,
    },
}

/// The bit of 1 GiB.
const GIGANTIC: Orders = 1 << PageSize::Huge1G.order();

/// The names, the usual one of each first.
const NAMES: [(&str, PagePolicy); 22] = [
    ("base", PagePolicy::BASE),
    ("4K", PagePolicy::BASE),
    ("16K", PagePolicy::folio(2)),
    ("32K", PagePolicy::folio(3)),
    ("64K", PagePolicy::folio(4)),
    ("128K", PagePolicy::folio(5)),
    ("256K", PagePolicy::folio(6)),
    ("512K", PagePolicy::folio(7)),
    ("1M", PagePolicy::folio(8)),
    ("16K-madvise", PagePolicy::folio_madvise(2)),
    ("32K-madvise", PagePolicy::folio_madvise(3)),
    ("64K-madvise", PagePolicy::folio_madvise(4)),
    ("128K-madvise", PagePolicy::folio_madvise(5)),
    ("256K-madvise", PagePolicy::folio_madvise(6)),
    ("512K-madvise", PagePolicy::folio_madvise(7)),
    ("1M-madvise", PagePolicy::folio_madvise(8)),
    ("thp", PagePolicy::THP),
    ("2M", PagePolicy::THP),
    ("thp-madvise", PagePolicy::THP_MADVISE),
    ("reserved", PagePolicy::RESERVED),
    ("quicksilver", PagePolicy::QUICKSILVER),
    ("1G", PagePolicy::HUGE_1G),
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
        let parsed = name.split('+').map(Self::named).collect::<Option<Vec<_>>>();
        let policy = match parsed.as_deref() {
            Some(&[one]) => Some(one),
            Some(several) => Self::several(several),
            None => None,
        };
        policy.ok_or(UnknownPagePolicy { name })
    }
}

impl fmt::Display for PagePolicy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let Some((name, _)) = NAMES.iter().find(|(_, policy)| policy == self) {
            return f.write_str(name);
        }
        let PagePolicy::Linux { always, madvise } = *self else {
            return write!(f, "{self:?}");
        };
        let orders = (0..=PageSize::Large2M.order()).rev();
        let one = |order: u32| match madvise >> order & 1 {
            0 => Self::folio(order),
            _ => Self::folio_madvise(order),
        };
        let sizes = orders.filter(|order| (always | madvise) >> order & 1 == 1);
        let names: Vec<String> = sizes.map(|order| one(order).to_string()).collect();
        f.write_str(&names.join("+"))
    }
}

impl From<PagePolicy> for String {
    fn from(policy: PagePolicy) -> String {
        policy.to_string()
    }
}

impl Default for PagePolicy {
    fn default() -> Self {
        PagePolicy::BASE
    }
}

impl PagePolicy {
    /// 4 KiB pages only.
    pub const BASE: Self = PagePolicy::Linux {
        always: 0,
        madvise: 0,
    };
    /// Transparent 2 MiB pages (transparent_hugepage=always).
    pub const THP: Self = PagePolicy::folio(PageSize::Large2M.order());
    /// Transparent 2 MiB pages only after MADV_HUGEPAGE (transparent_hugepage=madvise).
    pub const THP_MADVISE: Self = PagePolicy::folio_madvise(PageSize::Large2M.order());
    /// 1 GiB pages where a VMA covers one, else as `THP`.
    pub const HUGE_1G: Self = PagePolicy::Linux {
        always: GIGANTIC | HUGE,
        madvise: 0,
    };
    /// Reserved blocks that become one page when all their pages were touched (FreeBSD).
    pub const RESERVED: Self = PagePolicy::Reserved {
        promotes_at: PageSize::Large2M.base_pages(),
    };
    /// Reserved blocks that become one page when 64 were (Quicksilver's Sync-64).
    pub const QUICKSILVER: Self = PagePolicy::Reserved { promotes_at: 64 };

    /// Pages of 2^`order` 4 KiB, `order` 2 to 9: a size set to `always`, and no other.
    pub const fn folio(order: u32) -> Self {
        PagePolicy::Linux {
            always: 1 << order,
            madvise: 0,
        }
    }

    /// Pages of that size only after MADV_HUGEPAGE (that size set to `madvise`).
    pub const fn folio_madvise(order: u32) -> Self {
        PagePolicy::Linux {
            always: 0,
            madvise: 1 << order,
        }
    }

    fn named(name: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|&(_, policy)| policy)
    }

    /// Several sizes at once, each given once.
    fn several(policies: &[Self]) -> Option<Self> {
        let (mut all, mut asked) = (0, 0);
        for policy in policies {
            let PagePolicy::Linux { always, madvise } = *policy else {
                return None;
            };
            let size = always | madvise;
            if size.count_ones() != 1 || (all | asked) & size != 0 {
                return None;
            }
            all |= always;
            asked |= madvise;
        }
        Some(PagePolicy::Linux {
            always: all,
            madvise: asked,
        })
    }

    /// Sizes between 4 KiB and 2 MiB.
    fn folios(self) -> Orders {
        match self {
            PagePolicy::Linux { always, madvise } => (always | madvise) & (HUGE - 1),
            PagePolicy::Reserved { .. } => 0,
        }
    }

    /// Pages of 4 KiB that a fault maps at most, but for pages of 2 MiB.
    pub fn most_folio_pages(self) -> u64 {
        1 << self.folios().checked_ilog2().unwrap_or(0)
    }

    /// True if its pages are parts of larger blocks: folios between 4 KiB and 2 MiB, or reservations.
    pub fn is_of_folios(self) -> bool {
        matches!(self, PagePolicy::Reserved { .. }) || self.folios() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str) -> Result<PagePolicy, UnknownPagePolicy> {
        PagePolicy::try_from(name.to_owned())
    }

    #[test]
    fn several_sizes_are_written_as_they_are_read() {
        for name in [
            "thp+64K",
            "thp-madvise+64K+32K",
            "1M-madvise+16K",
            "thp+64K-madvise",
        ] {
            assert_eq!(policy(name).unwrap().to_string(), name);
        }
        assert_eq!(policy("64K+2M"), policy("thp+64K"));
    }

    #[test]
    fn sizes_that_do_not_go_together_are_refused() {
        for name in [
            "64K+64K",
            "64K+64K-madvise",
            "1G+64K",
            "4K+64K",
            "64K+reserved",
            "64K+",
            "+",
            "",
        ] {
            assert!(policy(name).is_err(), "{name}");
        }
    }
}
