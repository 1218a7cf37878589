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
    /// Whether a page larger than 4 KiB was ever entered: until then none need be looked for.
    larger_seen: bool,
    counters: TlbCounters,
}

/// One level: an array for 4 KiB pages, and for the larger ones where they have their own.
#[derive(Clone, Debug)]
struct Level {
    /// Of 4 KiB pages.
    base: Array,
    larger: Vec<Array>,
    /// For 2 MiB and 1 GiB pages, the array in `larger`; `None` for `base`.
    larger_of: [Option<usize>; 2],
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
const LARGER: [PageSize; 2] = [PageSize::Large2M, PageSize::Huge1G];

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
}

impl Level {
    fn new(
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
    fn get<S: Simd>(&mut self, page: PageId, size: PageSize, refused: u32) -> Option<u32> {
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

    #[inline(always)]
    fn insert<S: Simd>(&mut self, page: PageId, size: PageSize, value: u32) {
        let (key, number) = key(page, size);
        let array = self.array(size);
        let set = array.index.of(number);
        array.entries.insert_at::<S>(set, key, value);
    }

    fn invalidate(&mut self, first: PageId, pages: u32) {
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

impl ConventionalTlb {
    /// An empty TLB.
    ///
    /// # Errors
    /// [`TlbError`] when an array is not a whole number of sets.
    pub fn new(config: &TlbConfig) -> Result<Self, TlbError> {
        Ok(ConventionalTlb {
            l1: Level::new(config.l1_4k, config.l1_2m, config.l1_1g)?,
            l2: Level::new(config.l2_4k, config.l2_2m, config.l2_1g)?,
            larger_seen: false,
            counters: TlbCounters::default(),
        })
    }
}

impl Tlb for ConventionalTlb {
    #[inline(always)]
    fn lookup_first<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn> {
        let refused = if store { READ_ONLY } else { 0 };
        self.counters.lookups += 1;
        if let Some(value) = self.l1.get::<S>(page, PageSize::Base4K, refused) {
            return Some(frame(value, page, PageSize::Base4K));
        }
        if self.larger_seen {
            for size in LARGER {
                if let Some(value) = self.l1.get::<S>(page, size, refused) {
                    return Some(frame(value, page, size));
                }
            }
        }
        self.counters.l1_misses += 1;
        None
    }

    #[inline(always)]
    fn lookup_second<S: Simd>(&mut self, page: PageId, store: bool) -> Option<Pfn> {
        let refused = if store { READ_ONLY } else { 0 };
        if let Some(value) = self.l2.get::<S>(page, PageSize::Base4K, refused) {
            self.l1.insert::<S>(page, PageSize::Base4K, value);
            return Some(frame(value, page, PageSize::Base4K));
        }
        if self.larger_seen {
            for size in LARGER {
                if let Some(value) = self.l2.get::<S>(page, size, refused) {
                    self.l1.insert::<S>(page, size, value);
                    return Some(frame(value, page, size));
                }
            }
        }
        self.counters.l2_misses += 1;
        None
    }

    #[inline(always)]
    fn fill<S: Simd>(&mut self, page: PageId, translation: Translation) {
        let size = translation.size;
        self.larger_seen |= size != PageSize::Base4K;
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
        let array = &self.l2.base;
        array.entries.prefetch(array.index.of(number));
    }

    fn counters(&self) -> TlbCounters {
        self.counters
    }
}
