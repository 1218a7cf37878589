use crate::error::require;
use crate::frames::buddy::PAGEBLOCK_ORDER;
use crate::frames::free_blocks;
use crate::{
    Accounting, Defrag, Grouping, KhugepagedConfig, ManagerConfig, OsConfigError, PagePolicy,
    ReclaimConfig,
};
use pagelab_addr::{PAGE_BYTES, PAGE_SHIFT};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Physical memory and the operating system's policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OsConfig {
    /// Size of the physical memory in bytes; with `nodes`, their sum.
    #[serde(deserialize_with = "pagelab_addr::deserialize_bytes")]
    #[schemars(with = "pagelab_addr::Quantity")]
    pub memory_bytes: u64,
    /// The memory's nodes in the order of their addresses, the processors at the first. None for
    /// one node that is as the rest of the machine's description says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeConfig>,
    /// Manager that chooses the node of a page.
    #[serde(skip_serializing_if = "ManagerConfig::is_default")]
    pub manager: ManagerConfig,
    /// Begin of each zone, in bytes. Those past the end of the memory do not count. Memory is taken
    /// from the last zone that has some. Default: DMA, DMA32 and Normal of x86-64.
    #[serde(deserialize_with = "pagelab_addr::deserialize_bytes_list")]
    #[schemars(with = "Vec<pagelab_addr::Quantity>")]
    pub zone_starts: Vec<u64>,
    /// The largest order of the buddy allocator's blocks.
    pub max_order: u32,
    /// Share of the memory that is in use before the programs start, 0 to 1.
    pub utilisation: f64,
    /// Share of the memory left over that does not lie in free aligned 2 MiB blocks, 0 to 1:
    /// Gorman's unusable free space index for order 9.
    pub fragmentation: f64,
    /// Free blocks of each order from 0 on, as `/proc/buddyinfo` has them: everything else is in
    /// use before the programs start, whatever `utilisation` and `fragmentation` say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub free_blocks: Vec<u32>,
    /// Share of the memory in use before the programs start that cannot be moved, 0 to 1.
    /// The default, a tenth, is a choice of ours: the DPT paper does not say.
    pub unmovable_share: f64,
    /// Share of the memory that is left to larger pages and page tables where 4 KiB pages are
    /// hashed to frames and `page_policy` allows larger pages, 0 to 1.
    pub unhashed_share: f64,
    /// Page sizes that a fault may use.
    pub page_policy: PagePolicy,
    /// Accounting scheme, which decides whether a page of a large folio is kept or copied after a fork.
    #[serde(skip_serializing_if = "Accounting::is_default")]
    pub accounting: Accounting,
    /// The thread that makes 2 MiB pages of smaller ones, where `page_policy` allows them. None: it is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub khugepaged: Option<KhugepagedConfig>,
    /// Pages that cannot be moved are kept apart from those that can.
    #[serde(skip_serializing_if = "Grouping::is_default")]
    pub grouping: Grouping,
    /// Faults for which pages are moved together where no block of 2 MiB is free.
    #[serde(skip_serializing_if = "Defrag::is_default")]
    pub defrag: Defrag,
    /// Pages leave for a swap device or their files when memory is short. None: a run that is short of memory ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<ReclaimConfig>,
    /// Code of files is copied into pages of 2 MiB as it is mapped, where it fills them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub huge_code: bool,
    /// Loads from memory that was never written share a frame of zeros, as in Linux. A stream of
    /// loads alone then reads the same lines over and over.
    pub zero_page: bool,
    /// Size to which a stack may grow by itself, in bytes (RLIMIT_STACK).
    #[serde(deserialize_with = "pagelab_addr::deserialize_bytes")]
    #[schemars(with = "pagelab_addr::Quantity")]
    pub stack_limit: u64,
}

impl Default for OsConfig {
    fn default() -> Self {
        OsConfig {
            memory_bytes: 16 << 30,
            nodes: Vec::new(),
            manager: ManagerConfig::default(),
            zone_starts: vec![0, 16 << 20, 4 << 30],
            max_order: 10,
            utilisation: 0.0,
            fragmentation: 0.0,
            free_blocks: Vec::new(),
            unmovable_share: 0.1,
            unhashed_share: 0.875,
            page_policy: PagePolicy::BASE,
            accounting: Accounting::default(),
            khugepaged: None,
            grouping: Grouping::default(),
            defrag: Defrag::default(),
            reclaim: None,
            huge_code: false,
            zero_page: false,
            stack_limit: 8 << 20,
        }
    }
}

/// A node of memory: a range of frames with a latency and a bandwidth of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Its size in bytes.
    #[serde(deserialize_with = "pagelab_addr::deserialize_bytes")]
    #[schemars(with = "pagelab_addr::Quantity")]
    pub bytes: u64,
    /// Idle latency in nanoseconds, from the last-level cache's miss on.
    pub latency_ns: f64,
    /// Peak bandwidth in 10^9 bytes a second.
    pub gigabytes_per_second: f64,
}

impl OsConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// [`OsConfigError`] names the first key with a bad value.
    pub fn validate(&self) -> Result<(), OsConfigError> {
        require(
            (PAGEBLOCK_ORDER..=18).contains(&self.max_order),
            "max_order",
            format!("{} is not between {PAGEBLOCK_ORDER} and 18", self.max_order),
        )?;
        let block = PAGE_BYTES << self.max_order;
        require(
            self.nodes_fit(block),
            "nodes",
            format!(
                "their sizes are not multiples of the largest buddy block ({block} bytes) that \
                 add up to memory_bytes = {}",
                self.memory_bytes
            ),
        )?;
        let frames = self.memory_bytes >> PAGE_SHIFT;
        require(
            self.memory_bytes.is_multiple_of(block) && frames > 0 && frames < 1 << 31,
            "memory_bytes",
            format!(
                "{} is not a multiple of the largest buddy block ({block} bytes) above 0 and \
                 below 8 TiB",
                self.memory_bytes
            ),
        )?;
        let starts = &self.zone_starts;
        require(
            starts.first() == Some(&0)
                && starts.is_sorted()
                && starts.iter().all(|start| start.is_multiple_of(block)),
            "zone_starts",
            format!("{starts:?} are not ascending multiples of {block} from 0"),
        )?;
        for (key, share) in [
            ("utilisation", self.utilisation),
            ("fragmentation", self.fragmentation),
            ("unmovable_share", self.unmovable_share),
            ("unhashed_share", self.unhashed_share),
        ] {
            require(
                (0.0..=1.0).contains(&share),
                key,
                format!("{share} is not between 0 and 1"),
            )?;
        }
        if !self.free_blocks.is_empty() {
            require(
                self.nodes.is_empty(),
                "free_blocks",
                "does not go with nodes".to_owned(),
            )?;
            free_blocks::mixed_blocks(&self.free_blocks, self.max_order, self.frames())?;
        }
        if let Some(khugepaged) = &self.khugepaged {
            khugepaged.validate()?;
        }
        if let Some(reclaim) = &self.reclaim {
            reclaim.validate()?;
        }
        require(
            self.khugepaged.is_some()
                || !self.reclaim.is_some_and(|reclaim| reclaim.shrink_underused),
            "reclaim.shrink_underused",
            "khugepaged is off, whose max_ptes_none decides".to_owned(),
        )?;
        for (key, is_on) in [
            ("khugepaged", self.khugepaged.is_some()),
            ("reclaim", self.reclaim.is_some()),
        ] {
            require(
                self.manager.is_default() || !is_on,
                key,
                "only the manager linux goes with it".to_owned(),
            )?;
        }
        Ok(())
    }

    /// True if the nodes, if there are any, are whole blocks and make up the memory.
    fn nodes_fit(&self, block: u64) -> bool {
        let sizes = || self.nodes.iter().map(|node| node.bytes);
        let whole = sizes().all(|bytes| bytes > 0 && bytes.is_multiple_of(block));
        let sum: u128 = sizes().map(u128::from).sum();
        self.nodes.is_empty() || whole && sum == u128::from(self.memory_bytes)
    }

    /// Frames of the memory.
    pub(crate) fn frames(&self) -> u32 {
        (self.memory_bytes >> PAGE_SHIFT) as u32
    }

    /// First frame of each zone that the memory reaches. No zone has frames of two nodes.
    pub(crate) fn zone_frames(&self) -> Vec<u32> {
        let inside = |start: &&u64| **start < self.memory_bytes;
        let starts = self.zone_starts.iter().filter(inside);
        let mut frames: Vec<u32> = starts.map(|start| (start >> PAGE_SHIFT) as u32).collect();
        frames.extend(self.node_frames());
        frames.sort_unstable();
        frames.dedup();
        frames
    }

    /// First frame of each node.
    pub fn node_frames(&self) -> Vec<u32> {
        let sizes = self.nodes.iter().map(|node| node.bytes);
        let starts = sizes.scan(0, |next, bytes| {
            Some(std::mem::replace(next, *next + bytes))
        });
        let frames: Vec<u32> = starts.map(|start| (start >> PAGE_SHIFT) as u32).collect();
        if frames.is_empty() { vec![0] } else { frames }
    }
}
