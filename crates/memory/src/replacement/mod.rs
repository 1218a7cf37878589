//! Replacement policies: the entry of a full set that leaves for a new one.
//!
//! A policy is a file of this folder with a [`Policy`], and a line of `policies!`, whose doc comment
//! is its reference. LRU has no file: it is the order of a set's entries (`cache.rs`, `lru_sets.rs`),
//! and nothing is asked about its references.

mod access;
mod chirp;
mod drrip;
mod hash;
mod intervals;
mod nru;
mod policy;
mod random;
mod ship;
mod srrip;
mod t_drrip;
mod tree_plru;

pub use access::{Access, Kind};
pub use chirp::ChirpKeys;
pub use drrip::DrripKeys;
pub use ship::{ShipKeys, Signature};

use crate::geometry::GeometryError;
use crate::simd::EMPTY;
use chirp::Chirp;
use drrip::Drrip;
use nru::Nru;
use policy::Policy;
use random::Random;
use ship::Ship;
use srrip::Srrip;
use t_drrip::TDrrip;
use tree_plru::TreePlru;

/// `"NAME": TYPE;` for a policy without keys, else `"NAME": TYPE(KEYS);`.
macro_rules! policies {
    ($($(#[$doc:meta])* $name:literal: $policy:ident $(($keys:ty))?;)*) => {
        crate::choices! {
            /// Replacement policy: the entry of a set that leaves for a new one.
            #[derive(Default)]
            pub enum Replacement {
                /// The least recently used one.
                #[default]
                "lru": Lru;
                $($(#[$doc])* $name: $policy $(($keys))?;)*
            }
        }

        impl Replacement {
            /// Refuses numbers of ways for which sets cannot have it, and impossible keys.
            ///
            /// # Errors
            /// [`GeometryError::Replacement`] and [`GeometryError::Policy`].
            pub fn check(self, ways: u32) -> Result<(), GeometryError> {
                let (has, checked) = match self {
                    Replacement::Lru => (true, Ok(())),
                    $(policies!(@of $policy, keys $(, $keys)?) => (
                        <$policy as Policy>::has(ways),
                        <$policy as Policy>::check(policies!(@keys keys $(, $keys)?)),
                    ),)*
                };
                checked.map_err(|what| GeometryError::Policy { name: self.name(), what })?;
                has.then_some(()).ok_or(GeometryError::Replacement { ways })
            }
        }

        /// The state of sets whose policy is not LRU.
        #[derive(Clone, Debug)]
        pub(crate) enum Placed {
            $($policy($policy),)*
        }

        impl Placed {
            /// None for LRU, which is the order of the entries themselves.
            pub(crate) fn new(policy: Replacement, sets: usize, ways: usize) -> Option<Self> {
                assert!(policy.check(ways as u32).is_ok(), "checked before");
                Some(match policy {
                    Replacement::Lru => return None,
                    $(policies!(@of $policy, keys $(, $keys)?) => Placed::$policy(
                        Policy::new(policies!(@keys keys $(, $keys)?), sets, ways),
                    ),)*
                })
            }

            pub(crate) fn hit(&mut self, set: usize, way: usize, access: &Access) {
                match self {
                    $(Placed::$policy(policy) => policy.hit(set, way, access),)*
                }
            }

            /// The way for what a reference brings: the first empty one, or the victim's.
            pub(crate) fn place(&mut self, set: usize, entries: &[u32], access: &Access) -> usize {
                match self {
                    $(Placed::$policy(policy) => place(policy, set, entries, access),)*
                }
            }

            /// True if references have to be described.
            pub(crate) fn wants_descriptions(&self) -> bool {
                match self {
                    $(Placed::$policy(_) => <$policy as Policy>::DESCRIBED,)*
                }
            }

            pub(crate) fn seed(&mut self, seed: u64) {
                match self {
                    $(Placed::$policy(policy) => policy.seed(seed),)*
                }
            }

            pub(crate) fn favour(&mut self, first: u32) {
                match self {
                    $(Placed::$policy(policy) => policy.favour(first),)*
                }
            }
        }
    };
    (@of $policy:ident, $bound:ident) => { Replacement::$policy };
    (@of $policy:ident, $bound:ident, $keys:ty) => { Replacement::$policy(ref $bound) };
    (@keys $bound:ident) => { &() };
    (@keys $bound:ident, $keys:ty) => { $bound };
}

fn place(policy: &mut impl Policy, set: usize, entries: &[u32], access: &Access) -> usize {
    let free = entries.iter().position(|&entry| entry == EMPTY);
    let way = free.unwrap_or_else(|| policy.victim(set, entries, access));
    policy.fill(set, way, access);
    way
}

policies! {
    /// A binary tree over the ways, each of whose nodes points away from the half that was used
    /// last (Handy, "The Cache Memory Book", 1993): the entry that they point to.
    "tree-plru": TreePlru;
    /// The first that was not used since all were (Jaleel et al., ISCA 2010, section 2: one bit an
    /// entry).
    "nru": Nru;
    /// Any.
    "random": Random;
    /// Re-reference interval prediction with two bits an entry and frequency priority (Jaleel et
    /// al., ISCA 2010, section 4): an entry comes in with 2, a hit takes one off, and the first
    /// with 3 leaves; when none has, all have one more.
    "srrip": Srrip;
    /// Dynamic RRIP (Jaleel et al., ISCA 2010, section 4.2): a hit sets an entry to 0, and a duel of
    /// sets finds for each core whether entries come in with 2 (SRRIP) or nearly all with 3 (BRRIP).
    "drrip": Drrip(DrripKeys);
    /// Signature-based hit prediction (Wu et al., MICRO 2011): SRRIP, but an entry comes in with 3
    /// if what its signature brought before was not used.
    "ship": Ship(ShipKeys);
    /// DRRIP that tells translations from data (Vasudha and Panda, ISPASS 2022): the last entry that
    /// a walk reads comes in with 0, data whose page was walked for with 3.
    "t-drrip": TDrrip(DrripKeys);
    /// Control-flow history reuse prediction (Mirbagher-Ajorpaz et al., MICRO 2020), for
    /// second-level TLBs: LRU, but an entry leaves sooner if what its signature used last, of an
    /// instruction and those before it, was not used again.
    "chirp": Chirp(ChirpKeys);
}

impl Replacement {
    /// True for the default.
    pub fn is_lru(&self) -> bool {
        *self == Replacement::Lru
    }
}
