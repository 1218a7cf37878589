//! One level of a TLB: an array of entries per page size, or shared between sizes.

use crate::Translation;
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_memory::simd::Simd;
use pagelab_memory::{LruSets, Modulo};
use serde::{Deserialize, Serialize};

/// Geometry of one TLB array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbArrayConfig {
    /// Entries.
    pub entries: u32,
    /// Associativity.
    pub ways: u32,
}

/// Why a TLB cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a TLB array of {entries} entries in {ways} ways is not a whole number of sets")]
pub struct TlbError {
    entries: u32,
    ways: u32,
}

/// One level: an array for 4 KiB pages, and for the larger ones where they have their own.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Of 4 KiB pages.
    pub(super) base: Array,
    larger: Vec<Array>,
    /// For 2 MiB and 1 GiB pages, the array in `larger`; `None` for `base`.
    larger_of: [Option<usize>; 2],
}

#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) entries: LruSets,
    pub(super) index: Modulo,
}

/// Keys of the three sizes must differ, since sizes may share an array. A page number has 30
/// bits, the region of a 2 MiB page 21, the stretch of a 1 GiB page 12.
const KEY_2M: u32 = 1 << 30;
const KEY_1G: u32 = KEY_2M | 1 << 29;
pub(super) const LARGER: [PageSize; 2] = [PageSize::Large2M, PageSize::Huge1G];

/// Set in a value when stores are not allowed; frames have 31 bits.
pub(super) const READ_ONLY: u32 = 1 << 31;

/// The key of a page's entry of a size, and the number that chooses its set: the page number in
/// units of that size, whose low bits are those of the virtual address.
#[inline(always)]
pub(super) fn key(page: PageId, size: PageSize) -> (u32, u32) {
    let number = page.0 >> size.order();
    match size {
        PageSize::Base4K => (number, number),
        PageSize::Large2M => (KEY_2M | number, number),
        PageSize::Huge1G => (KEY_1G | number, number),
    }
}

/// The value of an entry.
#[inline(always)]
pub(super) fn value(translation: Translation) -> u32 {
    let read_only = if translation.writable { 0 } else { READ_ONLY };
    (translation.pfn.0 & !(translation.size.base_pages() - 1)) | read_only
}

/// The frame of a base page, from the value of an entry of a size.
#[inline(always)]
pub(super) fn frame(value: u32, page: PageId, size: PageSize) -> Pfn {
    Pfn((value & !READ_ONLY) | (page.0 & (size.base_pages() - 1)))
}

impl Array {
    fn new(config: TlbArrayConfig) -> Result<Self, TlbError> {
        let TlbArrayConfig { entries, ways } = config;
        if ways == 0 || entries == 0 || !entries.is_multiple_of(ways) {
            return Err(TlbError { entries, ways });
        }
        let sets = entries / ways;
        Ok(Array {
            entries: LruSets::new(sets as usize, ways as usize),
            index: Modulo::new(sets),
        })
    }

    /// Hints to the host that the entry with a number will soon be looked for.
    #[inline(always)]
    pub(super) fn prefetch(&self, number: u32) {
        self.entries.prefetch(self.index.of(number));
    }
}

impl Level {
    pub(super) fn new(
        base: TlbArrayConfig,
        large: Option<TlbArrayConfig>,
        huge: Option<TlbArrayConfig>,
    ) -> Result<Self, TlbError> {
        let mut level = Level {
            base: Array::new(base)?,
            larger: Vec::new(),
            larger_of: [None; 2],
        };
        for (size, config) in [large, huge].into_iter().enumerate() {
            if let Some(config) = config {
                level.larger.push(Array::new(config)?);
            }
            level.larger_of[size] = level.larger.len().checked_sub(1);
        }
        Ok(level)
    }

    #[inline(always)]
    fn array(&mut self, size: PageSize) -> &mut Array {
        let larger = match size {
            PageSize::Base4K => None,
            PageSize::Large2M => self.larger_of[0],
            PageSize::Huge1G => self.larger_of[1],
        };
        match larger {
            None => &mut self.base,
            Some(at) => &mut self.larger[at],
        }
    }

    /// Looks a page of a size up. An entry that does not allow the access leaves: the walk that
    /// follows enters a new one.
    #[inline(always)]
    pub(super) fn get<S: Simd>(
        &mut self,
        page: PageId,
        size: PageSize,
        refused: u32,
    ) -> Option<u32> {
        let (key, number) = key(page, size);
        let array = self.array(size);
        let set = array.index.of(number);
        let value = array.entries.get_at::<S>(set, key)?;
        if value & refused != 0 {
            array.entries.remove(set, key);
            return None;
        }
        Some(value)
    }

    /// Enters a page that is not there; returns the key and value that it evicted.
    #[inline(always)]
    pub(super) fn insert<S: Simd>(
        &mut self,
        page: PageId,
        size: PageSize,
        value: u32,
    ) -> Option<(u32, u32)> {
        let (key, number) = key(page, size);
        let array = self.array(size);
        let set = array.index.of(number);
        array.entries.insert_at::<S>(set, key, value)
    }

    /// Forgets the pages of all sizes in a range.
    pub(super) fn invalidate(&mut self, first: PageId, pages: u32) {
        for size in PageSize::ALL {
            let (first_key, _) = key(first, size);
            let (last_key, _) = key(PageId(first.0 + pages - 1), size);
            let array = self.array(size);
            if first_key == last_key {
                let (key, number) = key(first, size);
                array.entries.remove(array.index.of(number), key);
            } else {
                array
                    .entries
                    .forget(|key, _| (first_key..=last_key).contains(&key));
            }
        }
    }
}
