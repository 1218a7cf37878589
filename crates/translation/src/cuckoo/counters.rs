use super::candidates::Candidates;
use crate::hashed::ContiguityCounters;
use serde::Serialize;

/// Moves of cuckoo hashing and resizing: entries, a line each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moves {
    /// Entries driven into another way.
    pub displaced: u64,
    /// Entries moved by a resize.
    pub rehashed: u64,
    /// Entries that a resize in place left where they were.
    pub kept_in_place: u64,
    /// Resizes started. One of all ways together counts once.
    pub resizes: u64,
    /// Resizes among those into chunks of another size.
    pub chunk_size_changes: u64,
    /// Ways whose resize had to be finished at once, since the next one was due.
    pub resizes_rushed: u64,
    /// Times that a table went on without growing, for lack of contiguous memory or of chunks.
    pub resizes_postponed: u64,
    /// Times that a way could have no more chunks of any size.
    pub chunk_tables_full: u64,
    /// Insertions that reached the limit of displacements.
    pub insertions_failed: u64,
}

impl Moves {
    /// Entries moved, for whatever reason.
    pub(super) fn total(&self) -> u64 {
        self.displaced + self.rehashed
    }
}

/// Look-ups of one cuckoo walk cache of all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheCounters {
    /// Look-ups.
    pub lookups: u64,
    /// Hits among those, stale ones included.
    pub hits: u64,
}

/// Walks by what the cuckoo walk caches left to be read, repeated searches not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WalkKinds {
    /// One line.
    pub direct: u64,
    /// All ways of one page size.
    pub size: u64,
    /// Several page sizes, but not all ways of all that the process uses.
    pub partial: u64,
    /// All ways of all page sizes that the process uses, where those are several.
    pub complete: u64,
    /// Nothing: the caches say that nothing is mapped.
    pub none: u64,
}

impl WalkKinds {
    /// Counts a walk that reads these lines out of all.
    #[inline]
    pub(super) fn count(&mut self, read: Candidates, all: Candidates) {
        *match read.lines() {
            0 => &mut self.none,
            1 => &mut self.direct,
            _ if read.sizes() > 1 && read == all => &mut self.complete,
            _ if read.sizes() > 1 => &mut self.partial,
            _ => &mut self.size,
        } += 1;
    }
}

/// Contents and work of a cuckoo page table. Arrays are by page size: 4 KiB, 2 MiB, 1 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CuckooCounters {
    /// Entries that tables have room for now, a line of eight PTEs each.
    pub entries: [u64; 3],
    /// Entries in use now.
    pub entries_used: [u64; 3],
    /// Entries ever made.
    pub entries_inserted: u64,
    /// Pages ever mapped.
    pub pages_mapped: u64,
    /// PTEs present in the entries moved, at the time. Over `pages_mapped`: the PTE migrations
    /// per page allocation of the DPT paper.
    pub ptes_migrated: u64,
    /// Moves of the entries.
    pub moves: Moves,
    /// The same of cuckoo walk tables.
    pub walk_table_moves: Moves,
    /// Bytes of cuckoo walk tables now.
    pub walk_table_bytes: u64,
    /// Changes of cuckoo walk tables, each of which makes cached copies stale.
    pub walk_table_updates: u64,
    /// Cuckoo walk caches.
    pub walk_caches: [CacheCounters; 3],
    /// Walks by kind.
    pub walks: WalkKinds,
    /// Walks that found nothing by what the caches said, and so searched everywhere.
    pub searches_repeated: u64,
    /// Walks among those that then found a page: the caches were stale.
    pub stale: u64,
    /// Ways in which memory for tables was come by.
    pub contiguity: ContiguityCounters,
}
