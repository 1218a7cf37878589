//! One level of a TLB: an array of entries per page size, or shared between sizes.

use super::array::{READ_ONLY, TlbArrayConfig, TlbError};
use super::groups::{Groups, KEY_GROUP, Run, is_group};
use crate::Translation;
use pagelab_addr::{PageId, PageSize, Pfn};
use pagelab_memory::simd::Simd;
use pagelab_memory::{Access, LruSets, Modulo};

/// One level: an array for 4 KiB pages, and for the larger ones where they have their own.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Array of 4 KiB pages.
    pub(super) base: Array,
    /// Groups of them that an entry may cover.
    pub(super) groups: Groups,
    larger: Vec<Array>,
    /// For 2 MiB and 1 GiB pages, the array in `larger`; `None` for `base`.
    larger_of: [Option<usize>; 2],
    /// An array has another policy than LRU.
    wants_descriptions: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) entries: LruSets,
    pub(super) index: Modulo,
}

/// Keys of the three sizes must differ, since sizes may share an array. A page number has 30
/// bits, the region of a 2 MiB page 21, the 1 GiB region of a 1 GiB page 12.
const KEY_2M: u32 = 1 << 30;
const KEY_1G: u32 = KEY_2M | 1 << 29;
pub(super) const LARGER: [PageSize; 2] = [PageSize::Large2M, PageSize::Huge1G];

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

/// The first base page, and the size, of an entry for one page, from its key.
pub(super) fn page_of(key: u32) -> (PageId, PageSize) {
    let (size, number) = match key & KEY_1G {
        KEY_1G => (PageSize::Huge1G, key & !KEY_1G),
        KEY_2M => (PageSize::Large2M, key & !KEY_2M),
        _ => (PageSize::Base4K, key),
    };
    (PageId(number << size.order()), size)
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
        let TlbArrayConfig {
            entries,
            ways,
            replacement,
            ..
        } = config;
        if ways == 0 || entries == 0 || !entries.is_multiple_of(ways) {
            return Err(TlbError::Sets { entries, ways });
        }
        replacement.check(ways)?;
        let sets = entries / ways;
        Ok(Array {
            entries: LruSets::replaced_by(sets as usize, ways as usize, replacement),
            index: Modulo::new(sets),
        })
    }

    /// Hints to the host that the entry with a number will soon be looked for.
    #[inline(always)]
    pub(super) fn host_prefetch(&self, number: u32) {
        self.entries.host_prefetch(self.index.of(number));
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
            groups: Groups::new(base)?,
            larger: Vec::new(),
            larger_of: [None; 2],
            wants_descriptions: [Some(base), large, huge]
                .iter()
                .flatten()
                .any(|array| !array.replacement.is_lru()),
        };
        for (size, config) in [large, huge].into_iter().enumerate() {
            if let Some(config) = config {
                if config.coalesce != 1 || config.partial {
                    return Err(TlbError::NotCoalescing);
                }
                level.larger.push(Array::new(config)?);
            }
            level.larger_of[size] = level.larger.len().checked_sub(1);
        }
        Ok(level)
    }

    /// Seeds policies that leave something to chance.
    pub(super) fn seed(&mut self, seed: u64) {
        for (array, seed) in self.larger.iter_mut().chain([&mut self.base]).zip(seed..) {
            array.entries.seed(seed);
        }
    }

    /// Describes the look-ups and insertions that follow.
    #[inline(always)]
    pub(super) fn describe(&mut self, access: Access) {
        if self.wants_descriptions {
            self.describe_to_arrays(access);
        }
    }

    #[cold]
    fn describe_to_arrays(&mut self, access: Access) {
        for array in self.larger.iter_mut().chain([&mut self.base]) {
            array.entries.describe(access);
        }
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

    /// Looks up the entry that covers a page among others.
    #[inline(always)]
    pub(super) fn get_run<S: Simd>(&mut self, page: PageId, refused: u32) -> Option<Run> {
        let group = self.groups.of(page);
        let Array { entries, index } = &mut self.base;
        let set = index.of(group);
        // An entry that does not cover the page is not used by being looked at.
        let run = self
            .groups
            .run(group, entries.peek(set, KEY_GROUP | group)?);
        if !run.has(page) {
            return None;
        }
        if run.read_only & refused != 0 {
            entries.remove(set, KEY_GROUP | group);
            return None;
        }
        entries.get_at::<S>(set, KEY_GROUP | group);
        Some(run)
    }

    /// Enters a page that is not there with those of its run that an entry can cover.
    #[inline(always)]
    pub(super) fn insert_run<S: Simd>(&mut self, page: PageId, run: Run) {
        let (group, value) = match self.groups.value(page, run) {
            Some(value) => (self.groups.of(page), value),
            None => {
                self.insert::<S>(page, PageSize::Base4K, run.of(page));
                return;
            }
        };
        let Array { entries, index } = &mut self.base;
        let set = index.of(group);
        // An entry of other pages of the group: the set has one of a group.
        entries.remove(set, KEY_GROUP | group);
        entries.insert_at::<S>(set, KEY_GROUP | group, value);
    }

    /// Forgets the pages of all sizes in a range.
    pub(super) fn invalidate(&mut self, first: PageId, pages: u32) {
        if self.groups.any() {
            self.invalidate_runs(first, pages);
        }
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

    /// Forgets the entries of several pages that cover one of a range: they leave as a whole.
    fn invalidate_runs(&mut self, first: PageId, pages: u32) {
        let groups = self.groups;
        let last = PageId(first.0 + pages - 1);
        let (first_group, last_group) = (groups.of(first), groups.of(last));
        let Array { entries, index } = &mut self.base;
        if first_group == last_group {
            let set = index.of(first_group);
            if let Some(value) = entries.peek(set, KEY_GROUP | first_group)
                && groups.run(first_group, value).meets(first.0, last.0)
            {
                entries.remove(set, KEY_GROUP | first_group);
            }
            return;
        }
        entries.forget(|key, value| {
            let group = key & !KEY_GROUP;
            is_group(key)
                && (first_group..=last_group).contains(&group)
                && groups.run(group, value).meets(first.0, last.0)
        });
    }
}
