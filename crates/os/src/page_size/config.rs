use pagelab_addr::PageSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Page sizes that a fault may use: `4K`, `2M`, `64K`, several with `+` between them (`2M+64K-madvise`).
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
    /// 4 KiB pages in blocks of 2 MiB that are reserved at the first touch, and one page of 2 MiB when all of a
    /// block's were touched (FreeBSD).
    Reserved,
    /// 1 GiB pages where a VMA covers one, else as `thp`.
    Huge1G,
    /// Two or more of the sizes above 4 KiB and below 1 GiB.
    Several {
        /// Sizes set to `always`: bit 2 for 16 KiB, to bit 9 for 2 MiB.
        always: u16,
        /// Sizes set to `madvise`, likewise.
        madvise: u16,
    },
}

/// The bit of 2 MiB among the sizes.
const HUGE: u16 = 1 << PageSize::Large2M.order();

/// The names, the usual one of each first.
const NAMES: [(&str, PagePolicy); 21] = [
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
    ("reserved", PagePolicy::Reserved),
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
        if let PagePolicy::Several { always, madvise } = *self {
            let names: Vec<String> = (0..16)
                .rev()
                .filter(|order| (always | madvise) >> order & 1 == 1)
                .map(|order| Self::single(order, madvise >> order & 1 == 1).to_string())
                .collect();
            return f.write_str(&names.join("+"));
        }
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
    fn named(name: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|&(_, policy)| policy)
    }

    /// The policy of one size.
    fn single(order: u8, madvise: bool) -> Self {
        match (1 << order == HUGE, madvise) {
            (true, false) => PagePolicy::Thp,
            (true, true) => PagePolicy::ThpMadvise,
            (false, false) => PagePolicy::Folio { order },
            (false, true) => PagePolicy::FolioMadvise { order },
        }
    }

    /// Sizes that are for all memory, and for memory with MADV_HUGEPAGE only, below 1 GiB.
    #[inline]
    fn sizes(self) -> (u16, u16) {
        match self {
            PagePolicy::Base | PagePolicy::Reserved => (0, 0),
            PagePolicy::Folio { order } => (1 << order, 0),
            PagePolicy::FolioMadvise { order } => (0, 1 << order),
            PagePolicy::Thp | PagePolicy::Huge1G => (HUGE, 0),
            PagePolicy::ThpMadvise => (0, HUGE),
            PagePolicy::Several { always, madvise } => (always, madvise),
        }
    }

    /// Several sizes at once, each given once.
    fn several(policies: &[Self]) -> Option<Self> {
        let (mut always, mut madvise) = (0, 0);
        for policy in policies {
            let (one, asked) = policy.sizes();
            let single = (one | asked).count_ones() == 1 && *policy != PagePolicy::Huge1G;
            if !single || (always | madvise) & (one | asked) != 0 {
                return None;
            }
            always |= one;
            madvise |= asked;
        }
        Some(PagePolicy::Several { always, madvise })
    }

    /// Sizes, as bits of their orders, that a fault may take in memory that is `wanted` to be large or not
    /// (`thp_vma_allowable_orders` in include/linux/huge_mm.h).
    #[inline]
    fn allowed(self, wanted: bool) -> u16 {
        let (always, madvise) = self.sizes();
        always | if wanted { madvise } else { 0 }
    }

    /// Orders of the folios that a fault takes, of those between 4 KiB and 2 MiB, largest first.
    #[inline]
    pub(crate) fn folio_orders(self, wanted: bool) -> impl Iterator<Item = u32> {
        let mut left = self.allowed(wanted) & !HUGE;
        std::iter::from_fn(move || {
            let order = left.checked_ilog2()?;
            left &= !(1 << order);
            Some(order)
        })
    }

    /// Pages of 4 KiB that a fault maps at most, but for pages of 2 MiB.
    pub fn most_folio_pages(self) -> u64 {
        self.folio_orders(true).next().map_or(1, |order| 1 << order)
    }

    /// True if a fault may take a page of 2 MiB.
    #[inline]
    pub(crate) fn allows_huge(self, wanted: bool) -> bool {
        self.allowed(wanted) & HUGE != 0
    }

    /// Order of the largest pages that it is of; `None` for 4 KiB pages only.
    #[inline]
    pub(crate) fn order(self) -> Option<u32> {
        match self {
            PagePolicy::Huge1G => Some(PageSize::Huge1G.order()),
            PagePolicy::Reserved => Some(PageSize::Large2M.order()),
            _ => self.allowed(true).checked_ilog2(),
        }
    }

    /// The largest size that it is of, if page tables have entries of that size.
    pub(crate) fn large_size(self) -> Option<PageSize> {
        PageSize::ALL
            .into_iter()
            .find(|size| *size != PageSize::Base4K && Some(size.order()) == self.order())
    }

    /// True if the largest pages are for memory with MADV_HUGEPAGE only.
    pub(crate) fn asks_for_advice(self) -> bool {
        let (always, madvise) = self.sizes();
        madvise > always
    }

    /// True if its pages are parts of larger blocks: folios between 4 KiB and 2 MiB, or reservations.
    pub fn is_of_folios(self) -> bool {
        self == PagePolicy::Reserved || self.folio_orders(true).next().is_some()
    }

    /// The size of the pieces in which memory appears that no event announced.
    pub(crate) fn implicit_unit(self) -> PageSize {
        match self {
            PagePolicy::Huge1G => PageSize::Huge1G,
            _ => PageSize::Large2M,
        }
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
            "64K+",
            "+",
            "",
        ] {
            assert!(policy(name).is_err(), "{name}");
        }
    }

    #[test]
    fn sizes_are_asked_for_from_the_largest_on() {
        let sizes = policy("thp-madvise+256K-madvise+64K").unwrap();
        assert_eq!(sizes.folio_orders(false).collect::<Vec<_>>(), [4]);
        assert_eq!(sizes.folio_orders(true).collect::<Vec<_>>(), [6, 4]);
        assert!(sizes.allows_huge(true) && !sizes.allows_huge(false));
        assert_eq!(sizes.large_size(), Some(PageSize::Large2M));
        assert!(sizes.asks_for_advice());
    }
}
