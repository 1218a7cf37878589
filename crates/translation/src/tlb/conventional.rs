use super::{Tlb, TlbCounters};
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

/// Geometry of a two-level TLB. A page size without an array of its own shares that of the
/// next smaller size: `l1_2m` absent means that 2 MiB pages live among the 4 KiB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbConfig {
    /// First level, 4 KiB pages. Its latency hides behind the first-level cache's, which is
    /// indexed by bits that translation does not change.
    pub l1_4k: TlbArrayConfig,
    /// First level, 2 MiB pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1_2m: Option<TlbArrayConfig>,
    /// First level, 1 GiB pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1_1g: Option<TlbArrayConfig>,
    /// Second level, 4 KiB pages.
    pub l2_4k: TlbArrayConfig,
    /// Second level, 2 MiB pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_2m: Option<TlbArrayConfig>,
    /// Second level, 1 GiB pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_1g: Option<TlbArrayConfig>,
    /// Latency of the second level in cycles.
    pub l2_cycles: u32,
}

/// Why a TLB cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a TLB array of {entries} entries in {ways} ways is not a whole number of sets")]
pub struct TlbError {
    entries: u32,
    ways: u32,
}

/// A two-level TLB as processors have it: an array per page size (or shared), exact LRU; a
/// second-level hit enters the first level, a walk enters both.
#[derive(Clone, Debug)]
pub struct ConventionalTlb {
    l1: Level,
    l2: Level,
    /// Page sizes that were ever entered: the others need no look-up.
    seen: [bool; 3],
    counters: TlbCounters,
}

/// One level: an array for each page size, `shared[size]` saying which one it is.
#[derive(Clone, Debug)]
struct Level {
    arrays: Vec<Array>,
    array_of: [usize; 3],
}

#[derive(Clone, Debug)]
struct Array {
    entries: LruSets,
    index: Modulo,
}

/// Keys of the three sizes must differ, since sizes may share an array. A page number has 30
/// bits, the region of a 2 MiB page 21, the stretch of a 1 GiB page 12.
const KEY_2M: u32 = 1 << 30;
const KEY_1G: u32 = KEY_2M | 1 << 29;
/// Set in a value when stores are not allowed; frames have 31 bits.
const READ_ONLY: u32 = 1 << 31;

/// The key of a page's entry of a size, and the number that chooses its set: the page number in
/// units of that size, whose low bits are those of the virtual address.
#[inline(always)]
fn key(page: PageId, size: PageSize) -> (u32, u32) {
    let number = page.0 >> size.order();
    match size {
        PageSize::Base4K => (number, number),
        PageSize::Large2M => (KEY_2M | number, number),
        PageSize::Huge1G => (KEY_1G | number, number),
    }
}

/// The frame of a base page, from the value of an entry of a size.
#[inline(always)]
fn frame(value: u32, page: PageId, size: PageSize) -> Pfn {
    Pfn((value & !READ_ONLY) | (page.0 & (size.base_pages() - 1)))
}

impl Level {
    fn new(
        base: TlbArrayConfig,
        large: Option<TlbArrayConfig>,
        huge: Option<TlbArrayConfig>,
    ) -> Result<Self, TlbError> {
        let mut arrays = Vec::new();
        let mut array_of = [0; 3];
        for (size, config) in [Some(base), large, huge].into_iter().enumerate() {
            if let Some(TlbArrayConfig { entries, ways }) = config {
                if ways == 0 || entries == 0 || entries % ways != 0 {
                    return Err(TlbError { entries, ways });
                }
                let sets = entries / ways;
                arrays.push(Array {
                    entries: LruSets::new(sets as usize, ways as usize),
                    index: Modulo::new(sets),
                });
            }
            array_of[size] = arrays.len() - 1;
        }
        Ok(Level { arrays, array_of })
    }

    /// Looks a page of a size up. An entry that does not allow the access leaves: the walk that
    /// follows enters a new one.
    #[inline(always)]
    fn get<S: Simd>(&mut self, page: PageId, size: PageSize, refused: u32) -> Option<u32> {
        let (key, number) = key(page, size);
        let array = &mut self.arrays[self.array_of[size as usize]];
        let set = array.index.of(number);
        let value = array.entries.get_at::<S>(set, key)?;
        if value & refused != 0 {
            array.entries.remove(set, key);
            return None;
        }
        Some(value)
    }

    #[inline(always)]
    fn insert<S: Simd>(&mut self, page: PageId, size: PageSize, value: u32) {
        let (key, number) = key(page, size);
        let array = &mut self.arrays[self.array_of[size as usize]];
        let set = array.index.of(number);
        array.entries.insert_at::<S>(set, key, value);
    }

    fn invalidate(&mut self, first: PageId, pages: u32) {
        for size in PageSize::ALL {
            let (first_key, _) = key(first, size);
            let (last_key, _) = key(PageId(first.0 + pages - 1), size);
            let array = &mut self.arrays[self.array_of[size as usize]];
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

impl ConventionalTlb {
    /// An empty TLB.
    ///
    /// # Errors
    /// [`TlbError`] when an array is not a whole number of sets.
    pub fn new(config: &TlbConfig) -> Result<Self, TlbError> {
        Ok(ConventionalTlb {
            l1: Level::new(config.l1_4k, config.l1_2m, config.l1_1g)?,
            l2: Level::new(config.l2_4k, config.l2_2m, config.l2_1g)?,
            seen: [false; 3],
            counters: TlbCounters::default(),
        })
    }
}

impl Tlb for ConventionalTlb {
    #[inline(always)]
    fn lookup_first<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn> {
        let refused = if store { READ_ONLY } else { 0 };
        self.counters.lookups += 1;
        for size in PageSize::ALL {
            if self.seen[size as usize]
                && let Some(value) = self.l1.get::<S>(page, size, refused)
            {
                return Some(frame(value, page, size));
            }
        }
        self.counters.l1_misses += 1;
        None
    }

    #[inline(always)]
    fn lookup_second<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn> {
        let refused = if store { READ_ONLY } else { 0 };
        for size in PageSize::ALL {
            if self.seen[size as usize]
                && let Some(value) = self.l2.get::<S>(page, size, refused)
            {
                self.l1.insert::<S>(page, size, value);
                return Some(frame(value, page, size));
            }
        }
        self.counters.l2_misses += 1;
        None
    }

    #[inline(always)]
    fn fill<S: Simd>(&mut self, page: PageId, translation: Translation) {
        let size = translation.size;
        self.seen[size as usize] = true;
        let read_only = if translation.writable { 0 } else { READ_ONLY };
        let value = (translation.pfn.0 & !(size.base_pages() - 1)) | read_only;
        self.l1.insert::<S>(page, size, value);
        self.l2.insert::<S>(page, size, value);
    }

    fn invalidate(&mut self, first: PageId, pages: u32) {
        self.l1.invalidate(first, pages);
        self.l2.invalidate(first, pages);
    }

    #[inline(always)]
    fn prefetch(&self, page: PageId) {
        let (_, number) = key(page, PageSize::Base4K);
        let array = &self.l2.arrays[0];
        array.entries.prefetch(array.index.of(number));
    }

    fn counters(&self) -> TlbCounters {
        self.counters
    }
}
