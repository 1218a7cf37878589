//! Entries for several neighbouring 4 KiB pages: what they cover, and how a level keeps them beside
//! entries of one page.

use super::Mapped;
use super::array::{READ_ONLY, TlbArrayConfig, TlbError};
use crate::{Page, Translation};
use pagelab_addr::{PageId, PageSize, Vpn};

/// Keys of entries of several pages beside those of one (`level.rs`): groups have 28 bits at most.
pub(super) const KEY_GROUP: u32 = 1 << 30 | 1 << 28;

/// True if a key is a group's.
#[inline(always)]
pub(super) fn is_group(key: u32) -> bool {
    key & (1 << 30 | 1 << 29 | 1 << 28) == KEY_GROUP
}

/// In the value of an entry that covers a part of its group: where in the group that begins, and
/// how many pages it has besides the first. Frames need 25 bits of the 31, as memory ends at
/// 128 GiB.
const OFFSET: u32 = 25;
const MORE: u32 = 28;
const THREE_BITS: u32 = 7;

/// Neighbouring pages whose frames are neighbours in the same order, all writable or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    first: u32,
    pages: u32,
    /// Frame of the first.
    pfn: u32,
    pub(super) read_only: u32,
}

impl Run {
    /// The pages of a run around a page, as far as they are in its aligned `1 << shift` pages.
    #[inline(always)]
    pub(super) fn around(
        page: Page,
        translation: Translation,
        shift: u32,
        mapped: &impl Mapped,
    ) -> Run {
        let Translation { pfn, writable, .. } = translation;
        let at = page.id.0 & ((1 << shift) - 1);
        let belongs = |there: u32| {
            let id = PageId(page.id.0 - at + there);
            let vpn = Vpn(page.vpn.0 - u64::from(at) + u64::from(there));
            mapped
                .lookup(Page { id, vpn, ..page })
                .is_some_and(|found| {
                    found.size == PageSize::Base4K
                        && found.writable == writable
                        && found.pfn.0 + at == pfn.0 + there
                })
        };
        let (mut from, mut to) = (at, at + 1);
        while from > 0 && belongs(from - 1) {
            from -= 1;
        }
        while to < 1 << shift && belongs(to) {
            to += 1;
        }
        Run {
            first: page.id.0 - at + from,
            pages: to - from,
            pfn: pfn.0 - (at - from),
            read_only: if writable { 0 } else { READ_ONLY },
        }
    }

    #[inline(always)]
    pub(super) fn has(&self, page: PageId) -> bool {
        page.0.wrapping_sub(self.first) < self.pages
    }

    /// True if it has a page from `first` to `last`.
    pub(super) fn meets(&self, first: u32, last: u32) -> bool {
        self.first <= last && first < self.first + self.pages
    }

    /// The value of an entry for one of its pages alone.
    #[inline(always)]
    pub(super) fn of(&self, page: PageId) -> u32 {
        (self.pfn + (page.0 - self.first)) | self.read_only
    }

    pub(super) fn pages(&self) -> u32 {
        self.pages
    }
}

/// The groups of a level: `1 << shift` pages each, of which an entry covers all or a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    shift: u32,
    partial: bool,
}

impl Groups {
    pub(super) fn new(config: TlbArrayConfig) -> Result<Self, TlbError> {
        let TlbArrayConfig {
            coalesce, partial, ..
        } = config;
        match (coalesce, partial) {
            (1 | 4 | 8 | 16, false) | (4 | 8, true) => Ok(Groups {
                shift: coalesce.ilog2(),
                partial,
            }),
            (1, true) => Err(TlbError::NotCoalescing),
            _ => Err(TlbError::Coalesce { coalesce }),
        }
    }

    /// True if an entry may cover several pages.
    #[inline(always)]
    pub(super) fn any(self) -> bool {
        self.shift != 0
    }

    pub(super) fn shift(self) -> u32 {
        self.shift
    }

    #[inline(always)]
    pub(super) fn of(self, page: PageId) -> u32 {
        page.0 >> self.shift
    }

    /// Run of pages that the value of a group's entry says.
    #[inline(always)]
    pub(super) fn run(self, group: u32, value: u32) -> Run {
        let first = group << self.shift;
        let read_only = value & READ_ONLY;
        if self.partial {
            Run {
                first: first + (value >> OFFSET & THREE_BITS),
                pages: (value >> MORE & THREE_BITS) + 1,
                pfn: value & ((1 << OFFSET) - 1),
                read_only,
            }
        } else {
            Run {
                first,
                pages: 1 << self.shift,
                pfn: value & !READ_ONLY,
                read_only,
            }
        }
    }

    /// The value of the entry that a run has for the group of one of its pages; none where an entry
    /// of one page is all that there can be.
    #[inline(always)]
    pub(super) fn value(self, page: PageId, run: Run) -> Option<u32> {
        if !self.any() {
            return None;
        }
        let group = page.0 >> self.shift << self.shift;
        let from = run.first.max(group);
        let to = (run.first + run.pages).min(group + (1 << self.shift));
        let pfn = run.pfn + (from - run.first);
        if self.partial {
            debug_assert!(pfn < 1 << OFFSET);
            let place = (from - group) << OFFSET | (to - from - 1) << MORE;
            (to - from > 1).then_some(pfn | place | run.read_only)
        } else {
            let whole = to - from == 1 << self.shift && pfn.trailing_zeros() >= self.shift;
            whole.then_some(pfn | run.read_only)
        }
    }
}
