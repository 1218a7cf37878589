use crate::geometry::GeometryError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replacement policy: the entry of a set that leaves for a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The least recently used one.
    #[default]
    Lru,
    /// A binary tree over the ways, each of whose nodes points away from the half that was used
    /// last (Handy, "The Cache Memory Book", 1993): the entry that they point to.
    TreePlru,
    /// The first that was not used since all were (Jaleel et al., ISCA 2010, section 2: one bit an
    /// entry).
    Nru,
    /// Any.
    Random,
    /// Re-reference interval prediction with two bits an entry and frequency priority (Jaleel et
    /// al., ISCA 2010, section 4): an entry comes in with 2, a hit takes one off, and the first
    /// with 3 leaves; when none has, all have one more.
    Srrip,
}

/// The most that SRRIP predicts, and what an entry comes in with.
const DISTANT: u128 = 3;
const LONG: u128 = 2;
/// The lower bit of each entry's two.
const EACH: u128 = u128::MAX / 3;

/// The most ways that policies other than LRU have.
const MAX_WAYS: usize = 128;

impl Replacement {
    /// True for the default.
    pub fn is_lru(&self) -> bool {
        *self == Replacement::Lru
    }

    /// Refuses numbers of ways for which sets cannot have it.
    ///
    /// # Errors
    /// [`GeometryError::Replacement`].
    pub fn check(self, ways: u32) -> Result<(), GeometryError> {
        let good = match self {
            Replacement::Lru => true,
            Replacement::TreePlru => ways.is_power_of_two() && ways as usize <= MAX_WAYS,
            Replacement::Nru | Replacement::Random => ways as usize <= MAX_WAYS,
            Replacement::Srrip => ways as usize <= MAX_WAYS / 2,
        };
        good.then_some(())
            .ok_or(GeometryError::Replacement { ways })
    }
}

/// State of sets under a policy other than LRU, where entries stay in their places.
#[derive(Clone, Debug)]
pub(crate) struct Victims {
    policy: Replacement,
    ways: usize,
    /// A bit a node of the tree, from bit 1 on as in a heap; or a bit an entry, or two.
    state: Vec<u128>,
    random: u64,
}

impl Victims {
    /// None for LRU, which is the order of the entries themselves.
    pub(crate) fn new(policy: Replacement, sets: usize, ways: usize) -> Option<Self> {
        assert!(policy.check(ways as u32).is_ok(), "checked before");
        (!policy.is_lru()).then(|| Victims {
            policy,
            ways,
            state: vec![0; sets],
            random: 1,
        })
    }

    /// Seeds choices that are left to chance.
    pub(crate) fn seed(&mut self, seed: u64) {
        // Xorshift has no state 0; a multiplicative hash parts seeds that are neighbours.
        self.random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    }

    /// A place of a set was used.
    pub(crate) fn touch(&mut self, set: usize, way: usize) {
        let state = &mut self.state[set];
        match self.policy {
            Replacement::TreePlru => {
                let mut node = self.ways + way;
                while node > 1 {
                    let (parent, right) = (node / 2, node % 2 == 1);
                    // Away from the half in which `way` is.
                    if right {
                        *state &= !(1 << parent);
                    } else {
                        *state |= 1 << parent;
                    }
                    node = parent;
                }
            }
            Replacement::Nru => *state |= 1 << way,
            Replacement::Srrip => {
                if *state >> (2 * way) & DISTANT != 0 {
                    *state -= 1 << (2 * way);
                }
            }
            Replacement::Lru | Replacement::Random => {}
        }
    }

    /// A place of a set has a new entry.
    pub(crate) fn enter(&mut self, set: usize, way: usize) {
        if self.policy == Replacement::Srrip {
            self.predict(set, way, LONG);
        } else {
            self.touch(set, way);
        }
    }

    /// The entry of a place is to stay as long as any: what SRRIP calls near-immediate.
    pub(crate) fn keep(&mut self, set: usize, way: usize) {
        if self.policy == Replacement::Srrip {
            self.predict(set, way, 0);
        } else {
            self.touch(set, way);
        }
    }

    fn predict(&mut self, set: usize, way: usize, interval: u128) {
        let state = &mut self.state[set];
        *state = *state & !(DISTANT << (2 * way)) | interval << (2 * way);
    }

    /// Under SRRIP, another place whose entry could have left as well as that of the victim, of
    /// those that may.
    pub(crate) fn other_victim(&self, set: usize, may: impl Fn(usize) -> bool) -> Option<usize> {
        let state = self.state[set];
        let srrip = self.policy == Replacement::Srrip;
        (0..self.ways).find(|&way| srrip && state >> (2 * way) & DISTANT == DISTANT && may(way))
    }

    /// The place whose entry leaves a full set.
    pub(crate) fn victim(&mut self, set: usize) -> usize {
        let state = &mut self.state[set];
        match self.policy {
            Replacement::TreePlru => {
                let mut node = 1;
                while node < self.ways {
                    node = node * 2 + (*state >> node & 1) as usize;
                }
                node - self.ways
            }
            Replacement::Nru => {
                let first = state.trailing_ones() as usize;
                if first < self.ways {
                    return first;
                }
                *state = 0;
                0
            }
            Replacement::Srrip => {
                let all = EACH & (u128::MAX >> (128 - 2 * self.ways));
                loop {
                    let distant = *state & *state >> 1 & all;
                    if distant != 0 {
                        return distant.trailing_zeros() as usize / 2;
                    }
                    *state += all;
                }
            }
            Replacement::Lru | Replacement::Random => {
                // Xorshift (Marsaglia, Journal of Statistical Software 2003).
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                (self.random >> 32) as usize % self.ways
            }
        }
    }
}
