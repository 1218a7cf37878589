use crate::caches::coherence::CoherenceCounts;
use crate::caches::served::PLACES;
use crate::config::designed::DesignedMachine;
use crate::count::by_code::ByCode;
use crate::count::heat_map::HeatMapResult;
use crate::count::histogram::{Distribution, Histogram};
use crate::machine::counts::{RunCounts, WalkCacheCounts};
use pagelab_os::{MemoryCell, OsStatistics};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of [`RunResult`]'s JSON form.
pub const SCHEMA: &str = "pagelab.run/2";

/// Everything a run found out. The same input, seed and configuration give the same bits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The source was simulated to its end.
    pub complete: bool,
    /// Reason for which it was not.
    pub stopped: Option<String>,
    /// Simulated memory ran out.
    pub out_of_memory: bool,
    /// The design simulated.
    pub design: String,
    /// Its page table.
    pub page_table: &'static str,
    /// Its TLB.
    pub tlb_design: &'static str,
    /// The machine simulated.
    pub machine: DesignedMachine,
    /// Instructions retired, all cores.
    pub instructions: u64,
    /// Accesses.
    pub accesses: u64,
    /// Loads among these accesses.
    pub loads: u64,
    /// Counts of the machine that need nothing but their names.
    #[serde(flatten)]
    pub counts: RunCounts,
    /// Instructions of windows that were skipped: they took no simulated time.
    pub skipped_instructions: u64,
    /// Accesses simulated to warm the machine up: nothing else here but the operating system's
    /// and the design's own counters includes them.
    pub warm_up_accesses: u64,
    /// Cycles that the kernel spent before the first access, for the initialisation of a built-in
    /// workload. They are not part of `cycles`.
    pub initialisation_cycles: u64,
    /// Time.
    pub cycles: Cycles,
    /// TLBs of all cores, as far as they were asked for data.
    pub tlb: TlbResult,
    /// The TLB design's own counters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tlb_counters: BTreeMap<&'static str, u64>,
    /// Page walks of all cores.
    pub walks: WalkResult,
    /// References by where they were served.
    pub caches: CacheResult,
    /// The instruction side of all cores, where it is simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<FetchResult>,
    /// Memory traffic.
    pub dram: DramResult,
    /// The nodes of memory, where the machine's description has some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeResult>,
    /// The operating system's counters.
    pub os: OsStatistics,
    /// Each core by itself, where each has a program of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_core: Vec<CoreResult>,
    /// The design's own counters.
    pub design_counters: serde_json::Value,
    /// The measured windows of a stream that leaves accesses out; empty for a stream that was
    /// measured whole.
    pub windows: Vec<WindowResult>,
    /// The run over time.
    pub timeline: Vec<Sample>,
    /// Free aligned 2 MiB blocks just before the first process ended, or at the end.
    pub free_2m_blocks: u32,
    /// Physical memory just before the first process ended, or at the end, in equal cells.
    pub memory_map: Vec<MemoryCell>,
    /// Accesses and misses by address and time, where the machine's description asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat_map: Option<HeatMapResult>,
    /// Tallies of each program's instructions, where a source says which they are. Not part of the
    /// JSON form: sites mean something beside their code only.
    #[serde(skip)]
    pub by_code: Vec<ByCode>,
}

/// Time that was not computing, by cause, in cycles.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Causes {
    /// Waiting for data.
    pub data: u64,
    /// Waiting for translations.
    pub translation: u64,
    /// Waiting for the instructions after mispredicted branches.
    pub mispredictions: u64,
    /// Waiting for instructions to be fetched, where that is simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<u64>,
    /// In page faults and other work of the kernel, without zeroing.
    pub faults: u64,
    /// Filling new pages with zeros.
    pub zeroing: u64,
    /// Moving pages and invalidating translations for it.
    pub migrations: u64,
    /// Saving by free translation, by a second clock (`free_clock`); part of no sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recoverable: Option<u64>,
}

impl Causes {
    /// All of them, without the saving, which is part of no sum.
    pub fn total(&self) -> u64 {
        self.data
            + self.translation
            + self.mispredictions
            + self.fetch.unwrap_or_default()
            + self.faults
            + self.zeroing
            + self.migrations
    }
}

/// Figures of one core, up to the end of its program. Times are in cycles.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct CoreResult {
    /// Instructions retired.
    pub instructions: u64,
    /// Accesses.
    pub accesses: u64,
    /// All of its time.
    pub cycles: u64,
    /// Part of these cycles that was not computing, by cause.
    #[serde(flatten)]
    pub causes: Causes,
    /// First-level TLB misses.
    pub l1_tlb_misses: u64,
    /// Second-level TLB misses.
    pub l2_tlb_misses: u64,
}

/// Time by cause, in cycles. The causes add up to `total`, the sum over cores.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Cycles {
    /// Time of the core that took longest: what a user waits.
    pub elapsed: u64,
    /// Sum over cores.
    pub total: u64,
    /// Dispatching instructions.
    pub compute: u64,
    /// The rest, by cause.
    #[serde(flatten)]
    pub causes: Causes,
    /// Clock frequency.
    pub frequency_hz: f64,
}

/// Figures of the TLBs.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct TlbResult {
    /// Translations asked for.
    pub lookups: u64,
    /// Not in the first level.
    pub l1_misses: u64,
    /// Not in the second level either.
    pub l2_misses: u64,
    /// First-level misses per thousand instructions.
    pub l1_mpki: f64,
    /// Second-level misses per thousand instructions.
    pub l2_mpki: f64,
}

/// Figures of page walks.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WalkResult {
    /// Walks, those that ended in a fault included.
    pub count: u64,
    /// Cycles from a walker's start on a walk to its end; waiting for the walker is not in it.
    #[schemars(with = "Distribution")]
    pub latency: Histogram,
    /// Mean of the cycles from asking for a walker to the end of the walk.
    pub mean_with_wait: f64,
    /// Cycles that walks waited for a free walker, in all.
    pub walker_wait: u64,
    /// Memory references that walks made.
    pub reads: u64,
    /// Places that served these references.
    pub served_by: ServedBy,
    /// Places that served those of them that read metadata (DMT, cuckoo walk tables).
    pub metadata_served_by: ServedBy,
    /// Walk caches.
    #[serde(flatten)]
    pub caches: WalkCacheCounts,
}

/// References by the level that served them.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct ServedBy {
    /// First-level data cache.
    pub l1: u64,
    /// Second-level cache.
    pub l2: u64,
    /// Last-level cache.
    pub llc: u64,
    /// Memory.
    pub dram: u64,
    /// Private caches of other cores, where those are kept coherent.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_cores: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ServedBy {
    pub(crate) fn from_counts(counts: [u64; PLACES]) -> Self {
        let [l1, l2, llc, dram, other_cores, past_caches] = counts;
        ServedBy {
            l1,
            l2,
            llc,
            dram: dram + past_caches,
            other_cores,
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.l1 + self.l2 + self.llc + self.dram + self.other_cores
    }
}

/// Figures of the caches. A level's misses are what the levels below it served.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct CacheResult {
    /// Data references by where they were served.
    pub data: ServedBy,
    /// Lines fetched ahead by where they were served, in the machines that do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetches: Option<ServedBy>,
    /// Keeping private caches coherent, in the machines that do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coherence: Option<CoherenceCounts>,
    /// First-level misses per thousand instructions, data and walks.
    pub l1_mpki: f64,
    /// Second-level misses per thousand instructions, data and walks.
    pub l2_mpki: f64,
    /// Last-level misses per thousand instructions, data and walks.
    pub llc_mpki: f64,
}

/// Figures of the instruction side.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct FetchResult {
    /// Fetches of another line than the one before.
    pub fetches: u64,
    /// Places that served them, the first level being the instruction cache.
    pub served_by: ServedBy,
    /// Lines fetched ahead by where they were served.
    pub prefetches: ServedBy,
    /// Misses of the instruction cache per thousand instructions.
    pub l1_mpki: f64,
    /// The first-level TLB for instructions, and the second level as far as it was asked for them.
    /// Look-ups are fetches from another page than the one before.
    pub tlb: TlbResult,
    /// Page walks for instructions, those that ended in a fault included.
    pub walks: u64,
}

/// Figures of the memory.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct DramResult {
    /// Lines read.
    pub reads: u64,
    /// Lines written back.
    pub writes: u64,
    /// Cycles that reads waited for bandwidth, in all.
    pub queue_cycles: u64,
    /// Banks, in the machines where they may be busy.
    #[serde(flatten)]
    pub banks: Option<BankResult>,
}

/// Figures of a memory's banks.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct BankResult {
    /// Reads of the row that its bank had open.
    pub row_hits: u64,
    /// Reads of another row.
    pub row_conflicts: u64,
    /// Cycles that reads waited for their bank, beyond what opening and closing rows takes.
    pub busy_cycles: u64,
}

/// Figures of one node of memory.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct NodeResult {
    /// Its size.
    pub bytes: u64,
    /// The programs' data in it just before the first process ended, or at the end.
    pub resident_bytes: u64,
    /// Lines read from it, data and walks.
    pub reads: u64,
    /// Share of the lines read from memory. The processors are at the first node, so the shares
    /// of the others add up to that of remote accesses.
    pub share: f64,
    /// Cycles that reads waited for its bandwidth, in all.
    pub queue_cycles: u64,
}

/// One point of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sample {
    /// Instructions so far, all cores.
    pub instructions: u64,
    /// Elapsed cycles so far.
    pub cycles: u64,
    /// Memory that the program's pages take, in bytes.
    pub resident_bytes: u64,
    /// Memory that page tables take, in bytes.
    pub table_bytes: u64,
}

/// One window of a sampled stream: what a mean and its confidence interval are made from. Times
/// are in cycles; caches' misses include those of walks.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WindowResult {
    /// Instructions retired, all cores.
    pub instructions: u64,
    /// Accesses.
    pub accesses: u64,
    /// Time of the core that took longest.
    pub cycles: u64,
    /// Sum over cores, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Part of the sum over cores that was not computing, by cause.
    #[serde(flatten)]
    pub causes: Causes,
    /// First-level TLB misses.
    pub l1_tlb_misses: u64,
    /// Second-level TLB misses.
    pub l2_tlb_misses: u64,
    /// Counts of coherence, where private caches are kept coherent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coherence: Option<CoherenceCounts>,
    /// Page walks.
    pub walks: u64,
    /// Their latencies, added up.
    pub walk_cycles: u64,
    /// Their references.
    pub walk_reads: u64,
    /// Second-level cache misses.
    pub l2_misses: u64,
    /// Last-level cache misses.
    pub llc_misses: u64,
    /// The part not measured, from its end to the next window's beginning, or the stream's end.
    pub after: GapResult,
    /// Counters of the TLB design.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tlb_counters: BTreeMap<&'static str, u64>,
    /// By how much the page table's counters, sizes among them, have changed: by their names, joined by
    /// dots, with the places of lists.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub design_counters: BTreeMap<String, i64>,
}

/// The part not measured between two windows. Times are in cycles.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct GapResult {
    /// Instructions left out, or simulated to warm the machine up.
    pub instructions: u64,
    /// In the kernel, without zeroing: memory calls and page faults that the stream tells of.
    pub faults: u64,
    /// Filling new pages with zeros.
    pub zeroing: u64,
    /// Moving pages.
    pub migrations: u64,
}
