//! Prefetchers of a core's data, into its second-level cache.
//!
//! A prefetcher is a file of this folder with a [`Prefetcher`], and a line of `prefetchers!`, whose
//! doc comment is its reference.

mod demand;
mod ipcp;
mod next_line;
mod prefetcher;
mod streams;
mod strides;

pub use demand::MOST_ASKED;
pub use ipcp::IpcpKeys;
pub use next_line::NextLineKeys;
pub use prefetcher::Load;
pub use strides::StridesConfig;

use crate::GeometryError;
use demand::Demand;
use ipcp::Ipcp;
use next_line::NextLine;
use prefetcher::Prefetcher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use streams::{Streams, StreamsKeys};
use strides::Strides;

/// `KEY: TYPE(KEYS);`
macro_rules! prefetchers {
    ($($(#[$doc:meta])* $key:ident: $prefetcher:ident($keys:ty);)*) => {
        /// Prefetchers of a core's second-level cache.
        ///
        /// The first two prefetchers look at lines that the first level asks for and at no instruction.
        /// Neither leaves the 4 KiB page of the line, as those cannot that see physical addresses,
        /// unless `crosses_pages` is set.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct PrefetchConfig {
            /// The other line of the aligned two that a line is one of which the second level misses.
            pub adjacent: bool,
            /// Pages whose lines are followed, one direction each; 0 for none.
            pub streams: u32,
            /// Number of lines that a stream is ahead at the most.
            pub ahead: u32,
            /// Distance in lines between accesses of a stream at the most: 63, anywhere in its page,
            /// if not said.
            #[serde(skip_serializing_if = "is_anywhere")]
            pub within: u32,
            /// Number of lines that it fetches at an access at the most. Intel's two, if not said
            /// (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching", of
            /// the streamer).
            #[serde(skip_serializing_if = "is_two")]
            pub at_once: u32,
            /// A stream goes on in the next page of the address space.
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            pub crosses_pages: bool,
            /// The share of the second level's requests for data that miss from which on it is busy:
            /// what is fetched then goes into the last level only. `None` where it always goes into
            /// both.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub busy: Option<f64>,
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$keys>,)*
        }

        impl PrefetchConfig {
            /// A machine without prefetchers.
            pub const NONE: PrefetchConfig = PrefetchConfig {
                adjacent: false,
                streams: 0,
                ahead: 0,
                within: ANYWHERE,
                at_once: 2,
                crosses_pages: false,
                busy: None,
                $($key: None,)*
            };
        }

        /// A core's prefetchers.
        #[derive(Clone, Debug)]
        pub struct Prefetchers {
            config: PrefetchConfig,
            streams: Option<Streams>,
            demand: Option<Demand>,
            $($key: Option<$prefetcher>,)*
        }

        /// The most lines that one access fetches ahead.
        pub const MAX_PREFETCHES: usize = 1 + Streams::MOST $(+ $prefetcher::MOST)*;

        impl Prefetchers {
            /// Prefetchers that have seen nothing.
            ///
            /// # Errors
            /// [`GeometryError`] for what no processor could have.
            pub fn new(config: &PrefetchConfig) -> Result<Self, GeometryError> {
                let share = 0.0..=1.0;
                if config.busy.is_some_and(|busy| !share.contains(&busy)) {
                    return Err(GeometryError::Busy);
                }
                Ok(Prefetchers {
                    config: *config,
                    streams: start(Some(streams(config)))?,
                    demand: config.busy.map(Demand::new),
                    $($key: start(config.$key)?,)*
                })
            }

            /// True if one of them wants to see loads.
            pub fn sees_loads(&self) -> bool {
                false $(|| ($prefetcher::SEES_LOADS && self.$key.is_some()))*
            }

            /// An instruction loads; adds the virtual addresses whose lines are to be fetched.
            pub fn loaded(&mut self, load: Load, next: &mut Vec<u64>) {
                $(if let Some(prefetcher) = &mut self.$key {
                    prefetcher.loaded(load, next);
                })*
            }

            fn missed(
                &mut self,
                line: u32,
                beside: &mut impl FnMut(bool) -> Option<u32>,
                fetch: &mut impl FnMut(u32),
            ) {
                if let Some(streams) = &mut self.streams {
                    streams.missed(line, beside, fetch);
                }
                $(if let Some(prefetcher) = &mut self.$key {
                    prefetcher.missed(line, beside, fetch);
                })*
            }
        }
    };
}

prefetchers! {
    /// Prefetcher by instructions and the addresses of all their loads, where the source says which
    /// instructions these are. `None` for nothing.
    strides: Strides(StridesConfig);
    /// Prefetcher of the lines after one that the first level misses. `None` for nothing.
    next_line: NextLine(NextLineKeys);
    /// Prefetcher that finds the pattern of each instruction's loads, where the source says which
    /// instructions these are. `None` for nothing.
    ipcp: Ipcp(IpcpKeys);
}

/// Any distance in a page of 64 lines.
const ANYWHERE: u32 = 63;

impl Default for PrefetchConfig {
    fn default() -> Self {
        Self::NONE
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_anywhere(lines: &u32) -> bool {
    *lines == ANYWHERE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_two(lines: &u32) -> bool {
    *lines == 2
}

fn streams(config: &PrefetchConfig) -> StreamsKeys {
    StreamsKeys {
        streams: config.streams,
        ahead: config.ahead,
        within: config.within,
        at_once: config.at_once,
        crosses_pages: config.crosses_pages,
    }
}

fn start<P: Prefetcher>(keys: Option<P::Keys>) -> Result<Option<P>, GeometryError> {
    let Some(keys) = keys else { return Ok(None) };
    let prefetcher = P::new(&keys)?;
    Ok(Some(prefetcher).filter(|_| !P::is_off(&keys)))
}

impl Prefetchers {
    /// True if the first line that it has fetched for one that is asked for is the other one of an
    /// aligned two: to be fetched only if the second level misses the one asked for, since what
    /// Intel's completes is lines that come into that level (Intel 64 and IA-32 Architectures
    /// Optimization Reference Manual, "Data Prefetching").
    pub fn completes_pairs(&self) -> bool {
        self.config.adjacent
    }

    /// A line is asked for; says which others are to be fetched. `beside` finds the frame of the page
    /// after its page in the address space (with `true`), or before it. Whether they go into the last
    /// level only.
    pub fn asked(
        &mut self,
        line: u32,
        mut beside: impl FnMut(bool) -> Option<u32>,
        mut fetch: impl FnMut(u32),
    ) -> bool {
        if self.config.adjacent {
            fetch(line ^ 1);
        }
        self.missed(line, &mut beside, &mut fetch);
        self.demand.as_mut().is_some_and(Demand::ask)
    }

    /// True if streams go on in the next page of the address space.
    pub fn crosses_pages(&self) -> bool {
        self.config.crosses_pages && self.config.streams > 0
    }

    /// True if it wants to know what was missed.
    pub fn wants_answers(&self) -> bool {
        self.demand.is_some()
    }

    /// Takes the answer of the second level about the first of the lines asked for that has none
    /// yet.
    pub fn answer(&mut self, missed: bool) {
        if let Some(demand) = &mut self.demand {
            demand.answer(missed);
        }
    }
}
