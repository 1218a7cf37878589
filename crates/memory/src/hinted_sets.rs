use crate::lru_sets::LruSets;
use crate::modulo::Modulo;
use crate::replacement::Replacement;
use crate::simd::EMPTY;
use std::ops::Range;

/// Places remembered, by the low bits of a key.
const HINTS: usize = 1024;

/// A set-associative store of 31-bit keys with a 32-bit value each, for few keys that are looked up very
/// often: it remembers where a key was found last, and a use leaves a time where [`LruSets`] moves
/// keys and values. Does what that does, under any policy.
#[derive(Clone, Debug)]
pub struct HintedSets {
    ways: usize,
    sets: Modulo,
    /// By set; one that is empty where another policy than LRU has what there is.
    places: Box<[Place]>,
    hints: Box<[u32; HINTS]>,
    uses: u64,
    other: Option<LruSets>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    key: u32,
    value: u32,
    /// When it was used last; 0 where there is no entry.
    used: u64,
}

const NOTHING: Place = Place {
    key: EMPTY,
    value: 0,
    used: 0,
};

impl HintedSets {
    /// `sets` empty sets of `ways` places, under a policy that can be had with so many ways
    /// ([`Replacement::check`]); what it leaves to chance starts from `seed`.
    ///
    /// # Panics
    /// When it cannot, or there are no sets or ways.
    pub fn new(sets: u32, ways: u32, policy: Replacement, seed: u64) -> Self {
        assert!(sets > 0 && ways > 0, "a store needs sets and ways");
        let (ways, count) = (ways as usize, sets as usize);
        let other = (!policy.is_lru()).then(|| {
            let mut sets = LruSets::replaced_by(count, ways, policy);
            sets.seed(seed);
            sets
        });
        let places = other.as_ref().map_or(count * ways, |_| 1);
        HintedSets {
            ways,
            sets: Modulo::new(sets),
            places: vec![NOTHING; places].into(),
            hints: Box::new([0; HINTS]),
            uses: 0,
            other,
        }
    }

    /// Looks a key up and uses it.
    #[inline(always)]
    pub fn get(&mut self, key: u32) -> Option<u32> {
        let found = self.get_hinted(key);
        found.or_else(|| self.search(key))
    }

    /// The same for a key that is where one of its hint was found last; `None` for others, which may be
    /// there.
    #[inline(always)]
    pub fn get_hinted(&mut self, key: u32) -> Option<u32> {
        let hint = self.hints[key as usize % HINTS] as usize;
        let place = self.places.get_mut(hint)?;
        if place.key != key {
            return None;
        }
        self.uses += 1;
        place.used = self.uses;
        Some(place.value)
    }

    #[inline(never)]
    fn search(&mut self, key: u32) -> Option<u32> {
        if let Some(other) = &mut self.other {
            return other.get(self.sets.of(key), key);
        }
        let place = self.find(key)?;
        self.uses += 1;
        self.places[place].used = self.uses;
        self.hints[key as usize % HINTS] = place as u32;
        Some(self.places[place].value)
    }

    fn set(&self, key: u32) -> Range<usize> {
        let first = self.sets.of(key) * self.ways;
        first..first + self.ways
    }

    /// The place of a key.
    fn find(&self, key: u32) -> Option<usize> {
        let set = self.set(key);
        let mut places = self.places[set.clone()].iter();
        Some(set.start + places.position(|place| place.key == key)?)
    }

    /// Enters a key that is not there, and uses it.
    pub fn insert(&mut self, key: u32, value: u32) {
        debug_assert!(key < EMPTY);
        if let Some(other) = &mut self.other {
            other.insert(self.sets.of(key), key, value);
            return;
        }
        self.uses += 1;
        let used = self.uses;
        let set = self.set(key);
        // An empty place was never used.
        if let Some(oldest) = self.places[set].iter_mut().min_by_key(|place| place.used) {
            *oldest = Place { key, value, used };
        }
    }

    /// The value of a key, which is not used by that.
    pub fn peek(&self, key: u32) -> Option<u32> {
        if let Some(other) = &self.other {
            return other.peek(self.sets.of(key), key);
        }
        self.find(key).map(|place| self.places[place].value)
    }

    /// Gives a key another value, if it is there; it is not used by that.
    pub fn set_value(&mut self, key: u32, value: u32) {
        if let Some(other) = &mut self.other {
            other.set_value(self.sets.of(key), key, value);
        } else if let Some(place) = self.find(key) {
            self.places[place].value = value;
        }
    }

    /// Forgets a key, if it is there.
    pub fn remove(&mut self, key: u32) {
        if let Some(other) = &mut self.other {
            other.remove(self.sets.of(key), key);
        } else if let Some(place) = self.find(key) {
            self.places[place] = NOTHING;
        }
    }

    /// Forgets every key that is stale.
    pub fn forget(&mut self, stale: impl Fn(u32) -> bool) {
        if let Some(other) = &mut self.other {
            other.forget(|key, _| stale(key));
        }
        for place in &mut self.places {
            if place.key != EMPTY && stale(place.key) {
                *place = NOTHING;
            }
        }
    }
}
