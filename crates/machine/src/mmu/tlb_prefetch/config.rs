use super::Prefetcher;
use super::agile::Agile;
use super::distance::Distance;
use super::sequential::Sequential;
use super::stride::Stride;
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

/// `NAME: TYPE`.
macro_rules! prefetchers {
    ($($name:literal: $prefetcher:ident;)*) => {
        /// A prefetcher, by its name in a machine's description.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[allow(missing_docs)]
        pub enum PrefetcherName {
            $(#[serde(rename = $name)] $prefetcher,)*
        }

        impl PrefetcherName {
            pub(super) fn start(self) -> Box<dyn Prefetcher> {
                match self {
                    $(PrefetcherName::$prefetcher => Box::new($prefetcher::default()),)*
                }
            }
        }
    };
}

prefetchers! {
    "sequential": Sequential;
    "stride": Stride;
    "distance": Distance;
    "agile": Agile;
}
