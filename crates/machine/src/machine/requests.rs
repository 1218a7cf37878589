//! Input of the timing: the lines of a chunk's accesses, and what is fetched for them.

use crate::caches::served::Served;
use crate::machine::payer::Payer;

/// The most walks behind a translation that nothing waits for.
pub(crate) const MOST_AHEAD: usize = 4;

/// The most lines that are fetched by guess while a page is walked for.
pub(crate) const MOST_EARLY: usize = 16;

/// Bits of one line of an access, for the timing.
pub(crate) mod request {
    /// A store.
    pub(crate) const STORE: u8 = 1;
    /// The second or a later line of an access.
    pub(crate) const REST: u8 = 2;
    /// The second-level TLB was asked.
    pub(crate) const SECOND_TLB: u8 = 4;
    /// Walks or faults follow in [`crate::machine::chunk::Chunk::tlb_misses`].
    pub(crate) const SLOW: u8 = 8;
    /// A store that waits until other cores have dropped its line.
    pub(crate) const INVALIDATES: u8 = 16;
    /// The second-level cache, or a buffer, had the translation, and not the second-level TLB.
    pub(crate) const CACHED: u8 = 32;
    /// The last of the TLB misses says something in [`super::TlbMiss::cached`].
    pub(crate) const LOOKED: u8 = 64;
    /// A prefetch: its translation and its line are fetched as a load's, and it does not wait for the line.
    pub(crate) const PREFETCH: u8 = 128;
    /// A prefetch where nothing is mapped: there is no reference, and no TLB miss though the bits have
    /// `SLOW`. So who looks for these finds it beside them, and nobody pays for it elsewhere.
    pub(crate) const DROPPED: u8 = PREFETCH | SLOW | STORE;

    /// True if there is nothing but an instruction.
    #[inline(always)]
    pub(crate) const fn is_dropped(bits: u8) -> bool {
        bits & DROPPED == DROPPED
    }
}

/// A page walk, or a free translation's absence, and the fault that it ended in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TlbMiss {
    /// Fixed time of the walk in slots.
    pub(crate) walk: u64,
    /// Reads of the walk.
    pub(crate) reads: u16,
    /// Reads at the end of these, which nothing waits for.
    pub(crate) background: u16,
    /// Part that has to do with translations in caches and buffers.
    pub(crate) cached: Cached,
    /// Number of them, from the first on, that are of metadata.
    pub(crate) metadata: u16,
    /// A walker worked (not when translation is free).
    pub(crate) walked: bool,
    /// log2 of the base pages of the page that it found.
    pub(crate) shift: u8,
    /// It ended in a fault, after which the access is tried again.
    pub(crate) faulted: bool,
    /// Time in the fault without migrations, in slots.
    pub(crate) fault: u64,
    /// Time spent on migrations in the fault, in slots.
    pub(crate) migration: u64,
    /// Whom it is charged to, where that is counted.
    pub(crate) payer: Payer,
}

impl TlbMiss {
    /// True if no cache or buffer had the translation, so that there was a walk for it.
    pub(crate) fn has_walk(&self) -> bool {
        self.walked && !self.cached.found
    }
}

/// Part of a walk that has to do with translations in caches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cached {
    /// A cache had the translation, so that there is only the walk behind it.
    pub(crate) found: bool,
    /// log2 of the base pages whose translations a cache has when the walk has ended; 0 for none.
    pub(crate) shift: u8,
    /// Last of the TLB miss's reads: those of walks that begin when the translation is there and
    /// that nothing waits for; and how many of [`crate::machine::chunk::Chunk::ahead`] these are.
    pub(crate) behind: u16,
    pub(crate) ahead: u8,
    /// Number of [`crate::machine::chunk::Chunk::early`] that are fetched while it is walked.
    pub(crate) early: u8,
}

/// A line that is fetched into the second level before anybody has asked for it, by a design's
/// guess.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Early {
    pub(crate) line: u32,
    pub(crate) served: Served,
    /// Time after the second-level TLB's answer, in slots.
    pub(crate) after: u32,
}

/// A line that a data reference had the prefetchers fetch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prefetch {
    /// The reference's place.
    pub(crate) place: u32,
    pub(crate) line: u32,
    pub(crate) served: Served,
    /// A load had it fetched, and not what the first level missed.
    pub(crate) by_load: bool,
}
