pub(crate) mod check;
pub(crate) mod designed;
pub(crate) mod load;

use crate::design::registered::registered;
use crate::fetch::FetchConfig;
use crate::mmu::TlbPrefetchConfig;
use pagelab_cpu::CoreConfig;
use pagelab_memory::{CacheConfig, DramConfig, PrefetchConfig};
use pagelab_os::OsConfig;
use pagelab_translation::{
    ClusteredConfig, DptConfig, EcptConfig, FlattenedConfig, MeHptConfig, MosaicConfig,
    NestedConfig, RadixConfig, RangeConfig, TlbConfig,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! machine_config {
    (
        page_tables { $($table:ident: $_table:ident, $table_keys:ident;)* }
        tlbs { $($tlb:ident: $_tlb:ident $(, $tlb_keys:ident)?;)* }
        around { $($around:ident: $around_keys:ident;)* }
    ) => {
        /// A machine, as a preset or a TOML file describes it. docs/simulate.md explains every key.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct MachineConfig {
            /// Name in reports.
            pub name: String,
            /// One line about it.
            #[serde(default)]
            pub description: String,
            /// Number of cores.
            #[serde(default = "one")]
            pub cores: u32,
            /// A second clock says what translation costs: `cycles.recoverable`.
            #[serde(default)]
            pub free_clock: bool,
            /// Counts accesses and misses by address and time: `heat_map`.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub heat_map: bool,
            /// Seed of every choice that is left to chance.
            #[serde(default = "one_seed")]
            pub seed: u64,
            /// The cores.
            pub core: CoreConfig,
            /// Each core's TLB.
            pub tlb: TlbConfig,
            /// Prefetcher of each core's TLB.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub tlb_prefetch: Option<TlbPrefetchConfig>,
            /// The caches.
            pub caches: CachesConfig,
            /// Fetching instructions, of sources that say which are executed.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub fetch: Option<FetchConfig>,
            /// The memory behind them.
            pub dram: DramConfig,
            /// Physical memory and the operating system's policies.
            pub memory: OsConfig,
            /// Costs of the operating system's work.
            pub cost: CostConfig,
        $(
                /// The page table of this name.
                #[serde(default)]
                pub $table: $table_keys,
            )*
            $($(
                /// The TLB of this name, besides `tlb`.
                #[serde(default)]
                pub $tlb: $tlb_keys,
            )?)*
            $(
                /// The design of this name, besides `tlb` and a page table.
                #[serde(default, skip_serializing_if = "is_default")]
                pub $around: crate::mmu::$around::$around_keys,
            )*
            /// The `nested-*` designs.
            #[serde(default)]
            pub nested: NestedConfig,
        }
    };
}

registered!(machine_config);

fn is_default<T: Default + PartialEq>(keys: &T) -> bool {
    *keys == T::default()
}

/// Three levels of cache; the first two are each core's own. The `cycles` of a level are the
/// load-to-use latency of what it serves; memory adds its own to the last level's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CachesConfig {
    /// First level, data.
    pub l1: CacheConfig,
    /// Second level.
    pub l2: CacheConfig,
    /// Last level, shared.
    pub llc: CacheConfig,
    /// The first level in which page walkers look for entries.
    #[serde(default)]
    pub walks_enter: WalksEnter,
    /// Prefetchers into the second level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<PrefetchConfig>,
    /// Coherence of the first two levels of several cores. Without, each is as if it were alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coherence: Option<CoherenceConfig>,
    /// Level that has the lines of a page which the kernel has filled in a fault, with zeros or a
    /// copy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filled_pages: FilledPages,
    /// Other users of the last level. Without, there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<OthersConfig>,
}

/// Level in which the kernel's stores leave the lines of a page that it fills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FilledPages {
    /// In no cache.
    #[default]
    Memory,
    /// In the second level, modified; in the last one where several cores are kept coherent.
    L2,
    /// In the last level, modified.
    Llc,
}

/// Programs outside of this machine that share its last level: other guests, other cores. What they
/// bring in takes the place of other lines as time goes by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OthersConfig {
    /// Lines that they bring in, in 10^9 bytes a second.
    pub gigabytes_per_second: f64,
}

/// Costs of keeping a line in several private caches only as long as nobody writes it. Both times
/// are load-to-use, in cycles, as those of the levels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoherenceConfig {
    /// A line that another core holds by itself, modified or not.
    pub transfer_cycles: u32,
    /// Until all other cores have dropped a line that is written.
    pub invalidate_cycles: u32,
    /// Accesses after which another thread of a program has its turn; 0 for the order of the
    /// trace.
    #[serde(default)]
    pub turn: u32,
}

/// First level in which page walks look for entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WalksEnter {
    /// First-level data cache, as on Intel's processors.
    #[default]
    L1,
    /// Second-level cache.
    L2,
}

/// Time the operating system takes for what it does, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostConfig {
    /// Taking a page fault and returning, without what follows.
    pub fault_ns: f64,
    /// Giving the page that a fault maps its data: a frame that is allocated, or the page cache's,
    /// and accounting for it; once for a page or folio of any size. The page of zeros takes none, what
    /// is copied has it in `copy_4k_ns`.
    #[serde(default)]
    pub give_ns: f64,
    /// Zeroing 4 KiB.
    pub zero_4k_ns: f64,
    /// Zeroing a page of 2 MiB, with what a hypervisor takes to give its memory: 512 `zero_4k_ns` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_2m_ns: Option<f64>,
    /// The least and the most that `zero_4k_ns` may be: of memory in use just before, and of memory
    /// that lay idle, which a hypervisor has to give first. Nothing is simulated by it: answers say
    /// what follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_4k_between_ns: Option<[f64; 2]>,
    /// The same of `zero_2m_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_2m_between_ns: Option<[f64; 2]>,
    /// Copying 4 KiB (copy-on-write).
    pub copy_4k_ns: f64,
    /// Allocating and clearing a page of the page table.
    pub table_page_ns: f64,
    /// Copying (fork) or moving (mremap, a table's own upkeep) one page-table entry, or mapping one
    /// page that is in memory beside the one that a fault is for.
    pub entry_ns: f64,
    /// Taking the entry of a page, of any size, out of the page table when memory is given back
    /// (munmap, MADV_DONTNEED, exec, exit), and forgetting who maps it. Pages of zeros take none.
    #[serde(default)]
    pub unmap_ns: f64,
    /// Giving 4 KiB of data back to the kernel's allocator.
    #[serde(default)]
    pub free_4k_ns: f64,
    /// Looking at a frame in search of a place for a page-table page.
    pub probe_ns: f64,
    /// Moving a 4 KiB page of data; larger pages take as many times as they have 4 KiB.
    pub migrate_4k_ns: f64,
    /// Invalidating translations on all cores.
    pub shootdown_ns: f64,
    /// Operations that are charged for it.
    #[serde(default)]
    pub shootdowns: Shootdowns,
}

/// Operations that wait until other cores have dropped translations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shootdowns {
    /// Moving a page.
    #[default]
    Migrations,
    /// Also those that take translations or the right to write away from a program whose threads
    /// have run on more than one core, once each: munmap, mprotect, fork, copies of pages.
    All,
}

fn one() -> u32 {
    1
}

fn one_seed() -> u64 {
    1
}

/// Built-in machines, by name.
pub const PRESETS: &[(&str, &str)] = &[
    ("dpt-paper", include_str!("../../presets/dpt-paper.toml")),
    ("skylake-sp", include_str!("../../presets/skylake-sp.toml")),
    ("zen2", include_str!("../../presets/zen2.toml")),
    ("zen3", include_str!("../../presets/zen3.toml")),
    ("zen4", include_str!("../../presets/zen4.toml")),
    ("zen5", include_str!("../../presets/zen5.toml")),
    (
        "ice-lake-sp",
        include_str!("../../presets/ice-lake-sp.toml"),
    ),
    (
        "sapphire-rapids",
        include_str!("../../presets/sapphire-rapids.toml"),
    ),
    (
        "golden-cove",
        include_str!("../../presets/golden-cove.toml"),
    ),
    (
        "neoverse-v1",
        include_str!("../../presets/neoverse-v1.toml"),
    ),
    (
        "neoverse-v2",
        include_str!("../../presets/neoverse-v2.toml"),
    ),
];

/// Reason for which a machine's description cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither a preset nor a file.
    #[error(
        "unknown machine {name:?}: presets are {}{}; a path to a .toml file works too",
        PRESETS.iter().map(|p| p.0).collect::<Vec<_>>().join(", "),
        suggestion(name, PRESETS.iter().map(|p| p.0)),
    )]
    UnknownMachine {
        /// Name that was asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read machine file {name}: {error}")]
    Io {
        /// The file.
        name: String,
        /// Error of the system.
        #[source]
        error: std::io::Error,
    },
    /// The text is no TOML, or a key or a value is wrong.
    #[error("{name}: {what}")]
    Invalid {
        /// The preset or file, or the override.
        name: String,
        /// Message.
        what: String,
    },
}

impl MachineConfig {
    /// Accesses of a turn of a thread among several cores; 0 for the order of the trace.
    pub(crate) fn threads_turn(&self) -> u32 {
        let coherence = self.caches.coherence.filter(|_| self.cores > 1);
        coherence.map_or(0, |coherence| coherence.turn)
    }
}

/// `" (did you mean NAME?)"` when one of the names is near enough, else nothing.
pub(crate) fn suggestion<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, name)| format!(" (did you mean {name}?)"))
}
