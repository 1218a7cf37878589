//! An elastic cuckoo table: several ways, each with a hash of its own. A key is in one way at a
//! time; a key that is entered where another one is drives that into another way.

use super::counters::Moves;
use super::growth::{Growth, Memory};
use super::way::{Bucket, Met, NONE, Way};
use crate::city::Unseeded;
use crate::{Frames, MapError};
use pagelab_addr::PhysAddr;

/// Shape of a table and its ways.
#[derive(Clone, Debug)]
pub(crate) struct ElasticConfig {
    pub(crate) ways: usize,
    /// Entries of a way at first.
    pub(crate) entries: usize,
    /// Share of the entries in use past which it grows.
    pub(crate) occupancy: f64,
    /// Keys driven out one by another before a table must grow.
    pub(crate) max_displacements: usize,
    /// Keys of a way rehashed for each key entered into it, those driven out of other ways
    /// included, while a resize is under way.
    pub(crate) rehash_per_insertion: u32,
    pub(crate) growth: Growth,
}

/// Keys of a table.
pub(super) trait Keys {
    /// Tag that is hashed.
    fn tag(&self, key: u32) -> u64;

    /// A key is in this way now.
    fn placed(&mut self, key: u32, way: usize);

    /// A key that was in the table has moved.
    fn moved(&mut self, key: u32);
}

#[derive(Clone, Debug)]
pub(super) struct Elastic {
    pub(super) ways: Vec<Way>,
    pub(super) used: usize,
    /// Number that must be used before growing that failed is tried again.
    retry_at: usize,
    random: u64,
}

impl Elastic {
    /// An empty table; smaller than asked for where there is no memory for it.
    pub(super) fn new<F: Frames>(
        config: &ElasticConfig,
        memory: &mut Memory<'_, F>,
    ) -> Result<Elastic, MapError> {
        let ways = (config.growth).first_ways(config.ways, config.entries, memory)?;
        Ok(Elastic {
            ways,
            used: 0,
            retry_at: 0,
            // xorshift needs a state that is not 0; the sequence is the same in every run.
            random: 0x9e37_79b9_7f4a_7c15,
        })
    }

    pub(super) fn free<F: Frames>(self, frames: &mut F) {
        for way in self.ways {
            way.free(frames);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ways.iter().map(Way::bytes).sum()
    }

    /// Entries that there is room for, resizes finished.
    pub(super) fn entries(&self) -> usize {
        self.ways.iter().map(Way::entries).sum()
    }

    /// The address of the line of a way where a key with this hash is, if it is in that way.
    #[inline]
    pub(super) fn address(&self, way: usize, hash: Unseeded) -> PhysAddr {
        self.ways[way].address(hash)
    }

    /// Enters a key that is not there.
    ///
    /// # Errors
    /// When no place is found and the table cannot grow. The table then holds what it held.
    pub(super) fn insert<F: Frames, K: Keys>(
        &mut self,
        config: &ElasticConfig,
        key: u32,
        keys: &mut K,
        memory: &mut Memory<'_, F>,
        moves: &mut Moves,
    ) -> Result<(), MapError> {
        if self.used >= self.retry_at {
            self.grow_if_due(config, keys, memory, moves);
        }
        let first = self.choose(config, None);
        self.ways[first].owed += 1;
        for way in 0..self.ways.len() {
            let owed = std::mem::take(&mut self.ways[way].owed);
            for _ in 0..owed * config.rehash_per_insertion {
                if !self.ways[way].is_resizing() {
                    break;
                }
                self.rehash(config, way, keys, memory, moves);
            }
        }
        if self.place(config, key, first, keys, moves) || {
            moves.insertions_failed += 1;
            self.place_somehow(config, key, keys, memory, moves)
        } {
            self.used += 1;
            Ok(())
        } else {
            Err(MapError::OutOfFrames)
        }
    }

    /// Enters a key that found no place within the displacements allowed: after finishing the
    /// resizes under way, after growing, or by other random choices.
    #[cold]
    fn place_somehow<F: Frames, K: Keys>(
        &mut self,
        config: &ElasticConfig,
        key: u32,
        keys: &mut K,
        memory: &mut Memory<'_, F>,
        moves: &mut Moves,
    ) -> bool {
        const ATTEMPTS: u32 = 8;
        let all: Vec<usize> = (0..self.ways.len()).collect();
        let resizing = self.ways.iter().any(Way::is_resizing);
        if self.finish(config, &all, keys, memory, moves) && !resizing {
            self.grow(config, &all, keys, memory, moves);
            self.finish(config, &all, keys, memory, moves);
        }
        (0..ATTEMPTS).any(|_| {
            let first = self.choose(config, None);
            self.place(config, key, first, keys, moves)
        })
    }

    fn grow_if_due<F: Frames, K: Keys>(
        &mut self,
        config: &ElasticConfig,
        keys: &mut K,
        memory: &mut Memory<'_, F>,
        moves: &mut Moves,
    ) {
        let is_due =
            |&way: &usize| (config.growth).is_due(config.occupancy, &self.ways, self.used, way);
        let due: Vec<usize> = (0..self.ways.len()).filter(is_due).collect();
        if due.is_empty() {
            return;
        }
        self.grow(config, &due, keys, memory, moves);
    }

    /// Starts to grow these ways, with resizes of them that are under way finished first.
    fn grow<F: Frames, K: Keys>(
        &mut self,
        config: &ElasticConfig,
        due: &[usize],
        keys: &mut K,
        memory: &mut Memory<'_, F>,
        moves: &mut Moves,
    ) {
        let started = self.finish(config, due, keys, memory, moves)
            && config.growth.start(&mut self.ways, due, memory, moves);
        if !started {
            moves.resizes_postponed += 1;
            self.retry_at = self.used + self.entries().div_ceil(32);
        }
    }

    /// Finishes the resizes under way of these ways; whether that was possible.
    fn finish<F: Frames, K: Keys>(
        &mut self,
        config: &ElasticConfig,
        ways: &[usize],
        keys: &mut K,
        memory: &mut Memory<'_, F>,
        moves: &mut Moves,
    ) -> bool {
        for &way in ways {
            moves.resizes_rushed += u64::from(self.ways[way].is_resizing());
            while self.ways[way].is_resizing() {
                if !self.rehash(config, way, keys, memory, moves) {
                    return false;
                }
            }
        }
        true
    }

    /// Rehashes the next key of a way; `false` when it finds no place in the resized table.
    fn rehash<F: Frames, K: Keys>(
        &mut self,
        config: &ElasticConfig,
        way: usize,
        keys: &mut K,
        memory: &mut Memory<'_, F>,
        moves: &mut Moves,
    ) -> bool {
        let hash_of = |key| Unseeded::new(keys.tag(key));
        match self.ways[way].rehash(memory.frames, hash_of) {
            Met::End => true,
            Met::Rehashed { moved: false, .. } => {
                moves.kept_in_place += 1;
                true
            }
            Met::Rehashed { key, .. } => {
                moves.rehashed += 1;
                keys.moved(key);
                true
            }
            Met::TakenOut { key, from } => {
                let placed = self.place(config, key, way, keys, moves);
                if placed {
                    moves.rehashed += 1;
                    keys.moved(key);
                } else {
                    self.ways[way].put_back(key, from);
                }
                placed
            }
        }
    }

    /// Enters a key into a way, and whatever it drives out into others; `false`, and everything
    /// is where it was, when that does not end within the displacements allowed.
    fn place<K: Keys>(
        &mut self,
        config: &ElasticConfig,
        key: u32,
        first: usize,
        keys: &mut K,
        moves: &mut Moves,
    ) -> bool {
        let mut path: Vec<(usize, Bucket)> = Vec::with_capacity(config.max_displacements + 1);
        let (mut key, mut way) = (key, first);
        while key != NONE && path.len() <= config.max_displacements {
            let place = self.ways[way].place(Unseeded::new(keys.tag(key)));
            key = self.ways[way].replace(place, key);
            path.push((way, place));
            if key != NONE {
                way = self.choose(config, Some(way));
            }
        }
        if key != NONE {
            for (way, place) in path.into_iter().rev() {
                key = self.ways[way].replace(place, key);
            }
            return false;
        }
        for (number, &(way, place)) in path.iter().enumerate() {
            let key = self.ways[way].get(place);
            keys.placed(key, way);
            if number > 0 {
                moves.displaced += 1;
                self.ways[way].owed += 1;
                keys.moved(key);
            }
        }
        if let Some(&(last, _)) = path.last() {
            self.ways[last].used += 1;
        }
        true
    }

    /// A random way, other than the one that a key was just driven out of.
    fn choose(&mut self, config: &ElasticConfig, except: Option<usize>) -> usize {
        // xorshift64, Marsaglia 2003.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let random = self.random >> 32;
        let weights = self.ways.iter().enumerate().map(|(number, way)| {
            let weight = config.growth.weight(way);
            (number, if Some(number) == except { 0 } else { weight })
        });
        let total: u64 = weights.clone().map(|(_, weight)| weight).sum();
        let mut at = (random * total) >> 32;
        for (number, weight) in weights {
            if at < weight {
                return number;
            }
            at -= weight;
        }
        // All other ways are full.
        except.map_or(0, |way| (way + 1) % self.ways.len())
    }

    /// Takes a key out.
    pub(super) fn remove<K: Keys>(&mut self, key: u32, keys: &K) {
        let hash = Unseeded::new(keys.tag(key));
        for way in &mut self.ways {
            let place = way.place(hash);
            if way.get(place) == key {
                way.replace(place, NONE);
                way.used -= 1;
                self.used -= 1;
                return;
            }
        }
        unreachable!("key {key} is in no way");
    }
}
