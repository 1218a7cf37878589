use crate::cache::GeometryError;
use serde::{Deserialize, Serialize};

/// Which entry of a set leaves for a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// The most ways that policies other than LRU have.
const MAX_WAYS: usize = 128;

impl Replacement {
    /// Whether it is the default.
    pub fn is_lru(&self) -> bool {
        *self == Replacement::Lru
    }

    /// Whether sets of so many ways can have it.
    ///
    /// # Errors
    /// [`GeometryError::Replacement`].
    pub fn check(self, ways: u32) -> Result<(), GeometryError> {
        let good = match self {
            Replacement::Lru => true,
            Replacement::TreePlru => ways.is_power_of_two() && ways as usize <= MAX_WAYS,
            Replacement::Nru | Replacement::Random => ways as usize <= MAX_WAYS,
        };
        good.then_some(())
            .ok_or(GeometryError::Replacement { ways })
    }
}

/// What sets remember under a policy other than LRU, where entries stay in their places.
#[derive(Clone, Debug)]
pub(crate) struct Victims {
    policy: Replacement,
    ways: usize,
    /// A bit a node of the tree, from bit 1 on as in a heap; or a bit an entry.
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

    /// Where what is left to chance starts from.
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
            Replacement::Lru | Replacement::Random => {}
        }
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
