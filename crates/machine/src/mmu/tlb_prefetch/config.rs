use super::Prefetcher;
use super::agile::Agile;
use super::distance::{Distance, DistanceKeys};
use super::sequential::Sequential;
use super::stride::{Stride, StrideKeys};
use crate::error::BuildError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prefetching of a core's TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbPrefetchConfig {
    /// Prefetcher, which says what pages are walked for.
    pub prefetcher: PrefetcherName,
    /// Takes other entries of the lines that walks read as well, if they have been of use (SBFP).
    #[serde(default)]
    pub free: bool,
    /// Translations in the buffer.
    #[serde(default = "entries")]
    pub entries: u32,
    /// Cycles to look into the buffer, after the second-level TLB.
    #[serde(default = "cycles")]
    pub cycles: u32,
}

impl TlbPrefetchConfig {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if (1..=4096).contains(&self.entries) {
            Ok(())
        } else {
            Err(BuildError::TlbPrefetch("entries is between 1 and 4096"))
        }
    }
}

fn entries() -> u32 {
    64
}

fn cycles() -> u32 {
    2
}

/// `"NAME": TYPE;` for a prefetcher without keys, which starts by `default()`, else `"NAME":
/// TYPE(KEYS);`, which starts from them.
macro_rules! prefetchers {
    ($($(#[$doc:meta])* $name:literal: $prefetcher:ident $(($keys:ty))?;)*) => {
        pagelab_memory::choices! {
            /// Prefetcher of translations.
            pub enum PrefetcherName {
                $($(#[$doc])* $name: $prefetcher $(($keys))?;)*
            }
        }

        impl PrefetcherName {
            pub(super) fn start(self) -> Box<dyn Prefetcher> {
                match self {
                    $(prefetchers!(@of $prefetcher, keys $(, $keys)?) =>
                        Box::new(prefetchers!(@start $prefetcher, keys $(, $keys)?)),)*
                }
            }
        }
    };
    (@of $prefetcher:ident, $bound:ident) => { PrefetcherName::$prefetcher };
    (@of $prefetcher:ident, $bound:ident, $keys:ty) => { PrefetcherName::$prefetcher($bound) };
    (@start $prefetcher:ident, $bound:ident) => { $prefetcher::default() };
    (@start $prefetcher:ident, $bound:ident, $keys:ty) => { $prefetcher::from($bound) };
}

prefetchers! {
    /// The next page.
    "sequential": Sequential;
    /// A page by the distance between the last misses of an instruction.
    "stride": Stride(StrideKeys);
    /// Pages by the distances that have followed the last one.
    "distance": Distance(DistanceKeys);
    /// Pages of the best of three prefetchers, or none.
    "agile": Agile;
}
