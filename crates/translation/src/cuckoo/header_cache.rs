use super::headers::{GROUP, Group, Header};
use crate::{ConfigError, WalkCacheConfig};
use pagelab_memory::LruSets;

/// A cuckoo walk cache of one core: headers of groups as they were when they were read.
#[derive(Clone, Debug)]
pub(super) struct HeaderCache {
    /// By group, with the place of its copy. `None` for no such cache.
    sets: Option<LruSets>,
    mask: u64,
    copies: Vec<Group>,
    /// Places of copies that no group has. There is one more than groups, so one is always free.
    free: Vec<u32>,
}

impl HeaderCache {
    pub(super) fn new(config: &WalkCacheConfig, key: &'static str) -> Result<Self, ConfigError> {
        let sets = config.sets(key)?;
        Ok(HeaderCache {
            mask: sets.saturating_sub(1) as u64,
            sets: (sets > 0).then(|| LruSets::new(sets, config.ways as usize)),
            copies: vec![[Header::EMPTY; GROUP]; config.entries as usize + 1],
            free: (0..=config.entries).collect(),
        })
    }

    #[inline]
    pub(super) fn get(&mut self, index: u64, group: u32) -> Option<&mut Group> {
        let sets = self.sets.as_mut()?;
        let copy = sets.get((index & self.mask) as usize, group)?;
        Some(&mut self.copies[copy as usize])
    }

    /// Takes a group out, if it is there.
    pub(super) fn remove(&mut self, index: u64, group: u32) {
        let set = (index & self.mask) as usize;
        if let Some(sets) = &mut self.sets
            && let Some(copy) = sets.peek(set, group)
        {
            sets.remove(set, group);
            self.free.push(copy);
        }
    }

    /// Enters a group that is not there.
    #[inline]
    pub(super) fn insert(&mut self, index: u64, group: u32, headers: &Group) {
        if let Some(sets) = &mut self.sets
            && let Some(copy) = self.free.pop()
        {
            self.copies[copy as usize] = *headers;
            let evicted = sets.insert((index & self.mask) as usize, group, copy);
            self.free.extend(evicted.map(|(_, copy)| copy));
        }
    }
}
