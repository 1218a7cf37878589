use crate::accounting::AccountingStatistics;
use crate::{GroupingStatistics, TierStatistics};
use pagelab_addr::PageSize;
use schemars::JsonSchema;
use serde::Serialize;

/// Aligned blocks of the page policy's size, by what their first touch got: a page (or folio) of
/// that size, or smaller ones and the reason. A block that was unmapped whole counts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlockStatistics {
    /// A page of that size.
    pub given: u64,
    /// Smaller ones: memory had no free block.
    pub no_free_block: u64,
    /// Smaller ones: the mapping did not cover the block.
    pub not_covered: u64,
    /// Smaller ones: the program did not ask (MADV_HUGEPAGE), and pages are for those that do.
    pub not_advised: u64,
    /// Smaller ones: the program does not want others there (MADV_NOHUGEPAGE).
    pub unwanted: u64,
    /// Smaller ones: the program forbids itself others (PR_SET_THP_DISABLE).
    pub forbidden: u64,
    /// Smaller ones: a mapping of a file.
    pub file: u64,
    /// Smaller ones: shared anonymous memory.
    pub shared: u64,
    /// Smaller ones: a load came first, and mapped the 4 KiB page of zeros.
    pub read_first: u64,
}

/// Work of one fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ForkStatistics {
    /// Entries of pages, of any size, that it copied.
    pub entries: u64,
    /// Pages of the page table that it made.
    pub table_pages: u64,
}

/// A count for each page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BySize {
    /// Pages of 4 KiB.
    #[serde(rename = "4K")]
    pub base: u64,
    /// Pages of 2 MiB.
    #[serde(rename = "2M")]
    pub large: u64,
    /// Pages of 1 GiB.
    #[serde(rename = "1G")]
    pub huge: u64,
}

impl BySize {
    fn zip(&self, other: &BySize, f: impl Fn(u64, u64) -> u64) -> BySize {
        BySize {
            base: f(self.base, other.base),
            large: f(self.large, other.large),
            huge: f(self.huge, other.huge),
        }
    }

    /// Counts one.
    pub(crate) fn count(&mut self, size: PageSize) {
        match size {
            PageSize::Base4K => self.base += 1,
            PageSize::Large2M => self.large += 1,
            PageSize::Huge1G => self.huge += 1,
        }
    }
}

/// Pages placed by hashing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HashedStatistics {
    /// In a front yard, or where the first of several hash functions says.
    pub front: u64,
    /// In a back yard, or where another of the functions says.
    pub back: u64,
    /// Pages all of whose places were in use: they are elsewhere.
    pub conflicts: u64,
    /// Share of the hashed memory in use when that happened first.
    pub used_at_first_conflict: Option<f64>,
}

/// Pages in restrictive segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SegmentStatistics {
    /// Pages that they have room for.
    pub places: BySize,
    /// Number of these places in use, some of them perhaps in part.
    pub used: BySize,
    /// Pages placed there when they were first touched.
    pub placed: BySize,
    /// Pages that found their set full when they were first touched, and are elsewhere.
    pub full: BySize,
    /// Pages moved there since their walks were costly.
    pub moved_in: BySize,
    /// Pages that were to be moved there and could not be.
    pub refused: BySize,
    /// Pages moved out for others.
    pub evicted: BySize,
    /// Bytes of set filters and tag arrays.
    pub metadata_bytes: u64,
}

/// Work of khugepaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KhugepagedStatistics {
    /// Times that it woke.
    pub scans: u64,
    /// Times that it has looked at all memory (`full_scans`).
    pub full_scans: u64,
    /// Pages of 2 MiB that it made (`pages_collapsed`).
    pub collapsed: u64,
    /// Smaller folios that it made.
    #[serde(default, skip_serializing_if = "is_none")]
    pub folios: u64,
    /// Regions left as they were: too many pages were empty.
    pub too_empty: u64,
    /// Regions left as they were: too many pages are others', too.
    pub too_shared: u64,
    /// Regions left as they were: no block was free.
    pub no_free_block: u64,
    /// Base pages that it copied.
    pub pages_copied: u64,
    /// Base pages that it filled with zeros where there was nothing.
    pub pages_zeroed: u64,
}

/// Pages moved together so that blocks of 2 MiB are free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CompactionStatistics {
    /// Times that somebody waited for a block (`compact_stall`).
    pub stalls: u64,
    /// Blocks made (`compact_success`).
    pub made: u64,
    /// Base pages moved.
    pub pages_moved: u64,
    /// Work of kcompactd, where it was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kcompactd: Option<KcompactdStatistics>,
}

/// Work of kcompactd, beside that of programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KcompactdStatistics {
    /// Times that it woke (`compact_daemon_wake`).
    pub wakes: u64,
    /// Blocks made.
    pub made: u64,
    /// Base pages moved.
    pub pages_moved: u64,
}

/// Pages that left memory since it was short, and came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReclaimStatistics {
    /// Times that a program had to make room.
    pub reclaims: u64,
    /// Pages looked at for being taken (`pgscan_direct`).
    pub scanned: u64,
    /// Pages taken (`pgsteal_direct`).
    pub taken: u64,
    /// Pages that were used again and became active (`pgactivate`).
    pub activated: u64,
    /// Pages that are active no longer (`pgdeactivate`).
    pub deactivated: u64,
    /// Pages written to the swap device (`pswpout`).
    pub swapped_out: u64,
    /// Pages read from there (`pswpin`).
    pub swapped_in: u64,
    /// Pages of files that left memory.
    pub files_dropped: u64,
    /// Pages among them that were written before.
    pub files_written: u64,
    /// Pages of files that were read again (`workingset_refault_file`).
    pub files_read: u64,
    /// Pages that came back so soon that they are active at once (`workingset_activate`).
    pub reactivated: u64,
    /// Pages of 2 MiB that were split since they were mostly zeros (`thp_underused_split_page`).
    #[serde(default, skip_serializing_if = "is_none")]
    pub underused_splits: u64,
    /// Pages of zeros given back by these splits.
    #[serde(default, skip_serializing_if = "is_none")]
    pub zeros_freed: u64,
    /// Work of kswapd, where it is on and was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kswapd: Option<KswapdStatistics>,
    /// Pages in the swap device now.
    pub in_swap: u64,
    /// Time in which programs read and wrote them, in nanoseconds.
    pub device_ns: u64,
}

/// Work of kswapd, beside that of programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KswapdStatistics {
    /// Times that it woke (`pageoutrun`).
    pub wakes: u64,
    /// Pages looked at for being taken (`pgscan_kswapd`).
    pub scanned: u64,
    /// Pages taken (`pgsteal_kswapd`).
    pub taken: u64,
    /// Pages that it wrote to the swap device or to files.
    pub written: u64,
}

/// Mappings of files, private or shared. They get no page larger than 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileStatistics {
    /// Faults there.
    pub faults: u64,
    /// Pages mapped there, by faults on them or around them or by populating.
    pub pages: u64,
}

/// Faults where accesses were left out: a part of what [`OsStatistics`] says by the same names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutsideStatistics {
    /// Faults taken.
    pub faults: u64,
    /// Pages of anonymous private memory mapped.
    pub anonymous: BySize,
    /// Pages of anonymous private memory that got the frame of zeros.
    pub zero_pages: u64,
    /// Pages of private file mappings mapped.
    pub file: BySize,
}

impl OutsideStatistics {
    pub(crate) fn of(all: &OsStatistics) -> Self {
        OutsideStatistics {
            faults: all.faults,
            anonymous: all.anonymous,
            zero_pages: all.zero_pages,
            file: all.file,
        }
    }

    /// Difference to an earlier moment.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        self.zip(earlier, |now, then| now - then)
    }

    /// Both together.
    pub(crate) fn and(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    fn zip(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        OutsideStatistics {
            faults: f(self.faults, other.faults),
            anonymous: self.anonymous.zip(&other.anonymous, &f),
            zero_pages: f(self.zero_pages, other.zero_pages),
            file: self.file.zip(&other.file, &f),
        }
    }
}

/// Counts of a run, and the state of memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OsStatistics {
    /// Faults taken.
    pub faults: u64,
    /// Pages of anonymous private memory mapped, at a fault or by populating.
    pub anonymous: BySize,
    /// Pages of anonymous private memory that were read before they were written, and got the
    /// frame of zeros. Those written later are counted as `anonymous` then.
    #[serde(default)]
    pub zero_pages: u64,
    /// Pages of private file mappings mapped, at a fault or by populating.
    pub file: BySize,
    /// Pages of shared memory mapped that nobody had touched before.
    pub shared_new: u64,
    /// Pages of shared memory mapped that were in memory already.
    pub shared_present: u64,
    /// Pages among all mapped that were mapped before any access (MAP_POPULATE, MADV_POPULATE).
    pub populated: BySize,
    /// Stores to a private page, shared or a file's, that made a copy.
    pub cow_copies: u64,
    /// Copies among them that a first touch of a page of a file made (`do_cow_fault`).
    #[serde(default, skip_serializing_if = "is_none")]
    pub file_copies: u64,
    /// Stores to a read-only private page that nobody else maps any more.
    pub cow_reuses: u64,
    /// Stores to a shared or not copied page that only needed permission.
    pub permission_faults: u64,
    /// Faults on pages that were mapped with sufficient permission.
    pub spurious_faults: u64,
    /// Faults that wanted a 2 MiB page and got a smaller one for want of a free block.
    pub fallbacks_2m: u64,
    /// Faults that wanted a 1 GiB page and got a smaller one for want of contiguous memory.
    pub fallbacks_1g: u64,
    /// Faults that wanted a folio of several 4 KiB pages and got one page for want of a block.
    pub fallbacks_folio: u64,
    /// Blocks of the page policy's size, where it is larger than 4 KiB: what each got, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlockStatistics>,
    /// Pages larger than 4 KiB that were split.
    pub splits: BySize,
    /// 2 MiB pages made at once: of smaller ones (MADV_COLLAPSE), and of code (`huge_code`).
    #[serde(default, skip_serializing_if = "is_none")]
    pub collapsed: u64,
    /// Reserved blocks that became one page of 2 MiB, since enough of their pages were touched.
    #[serde(default, skip_serializing_if = "is_none")]
    pub promoted: u64,
    /// Work of khugepaged, where it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub khugepaged: Option<KhugepagedStatistics>,
    /// Pages moved to make free blocks, where that was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<CompactionStatistics>,
    /// Pages that left memory, where they may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<ReclaimStatistics>,
    /// Accounting of who maps which page, where large folios or forks are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting: Option<AccountingStatistics>,
    /// Base pages moved out of a page table's way.
    pub pages_migrated: u64,
    /// Part of all this that was touched where accesses were left out.
    #[serde(default)]
    pub outside: OutsideStatistics,
    /// Touches of memory that no event announced, in a process whose memory is announced, or
    /// stores to memory that may not be written.
    pub stray_touches: u64,
    /// Events that no kernel would have carried out so.
    pub ignored_events: u64,
    /// Processes forked.
    pub forks: u64,
    /// Entries that forks copied.
    pub entries_forked: u64,
    /// The fork that copied most of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_fork: Option<ForkStatistics>,
    /// Bytes of the programs' data in memory.
    pub resident_bytes: u64,
    /// The most that this ever was.
    pub peak_resident_bytes: u64,
    /// Bytes among them that nothing maps any more, in large folios of which something is mapped: free only
    /// when memory is short.
    #[serde(default, skip_serializing_if = "is_none")]
    pub partly_mapped_bytes: u64,
    /// Large folios of which a part was unmapped.
    #[serde(default, skip_serializing_if = "is_none")]
    pub partly_mapped: u64,
    /// Bytes of page tables, as the page table says.
    pub table_bytes: u64,
    /// The most that this ever was.
    pub peak_table_bytes: u64,
    /// Bytes in use before the programs started.
    pub preallocated_bytes: u64,
    /// Size of the memory in bytes.
    pub memory_bytes: u64,
    /// Free blocks of each order (/proc/buddyinfo).
    pub free_blocks: Vec<u32>,
    /// Free aligned 2 MiB blocks.
    pub free_2m_blocks: u32,
    /// Gorman's unusable free space index at order 9.
    pub unusable_free_space_index: f64,
    /// Blocks of 2 MiB by kind of pages, where these are kept apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grouping: Option<GroupingStatistics>,
    /// Files, where any are mapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileStatistics>,
    /// Placement by hashing, where pages are placed so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hashed: Option<HashedStatistics>,
    /// Contents of restrictive segments, where memory has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentStatistics>,
    /// With the `contiguous` manager: pieces given, by the order of the smallest block that would have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<u64>,
    /// With the `bandwidth` manager: pages of 4 KiB that each node gave, ever (`placed` of bwmfs).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<u64>,
    /// With the `tiered` manager: what it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<TierStatistics>,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}
