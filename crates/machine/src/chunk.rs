use crate::buffer::Buffer;
use crate::by_code::Payer;
use crate::hierarchy::{Scratch, Served};
use crate::mmu::Ahead;
use pagelab_addr::{LINE_BYTES, LINE_SHIFT};
use pagelab_events::Op;
use pagelab_memory::MOST_ASKED;
use pagelab_translation::Walk;

/// Accesses taken through the machine at a time: enough that the host overlaps their cache
/// misses, few enough that the lists stay in its first-level cache.
pub(crate) const CHUNK: usize = 256;

/// How many accesses, at least one, have no more lines together than a second level may be asked for
/// before it is told which of them it has missed. An access has up to 257.
pub(crate) fn within_lines(ops: &[Op]) -> usize {
    let mut lines = 0;
    let fit = ops.iter().take_while(|op| {
        lines += usize::from(op.size()).div_ceil(LINE_BYTES as usize) + 1;
        lines <= MOST_ASKED
    });
    fit.count().max(1)
}

/// What the timing needs to know about one line of an access, as bits.
pub(crate) mod request {
    /// A store.
    pub(crate) const STORE: u8 = 1;
    /// The second or a later line of an access.
    pub(crate) const REST: u8 = 2;
    /// The second-level TLB was asked.
    pub(crate) const SECOND_TLB: u8 = 4;
    /// Walks or faults follow in [`super::Chunk::tlb_misses`].
    pub(crate) const SLOW: u8 = 8;
    /// A store that waits until other cores have dropped its line.
    pub(crate) const INVALIDATES: u8 = 16;
    /// The second-level cache, or a buffer, had the translation, and not the second-level TLB.
    pub(crate) const CACHED: u8 = 32;
    /// The last of the TLB misses says something in [`super::TlbMiss::cached`].
    pub(crate) const LOOKED: u8 = 64;
}

/// A page walk, or a free translation's absence, and the fault that it ended in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TlbMiss {
    /// Fixed time of the walk in slots.
    pub(crate) walk: u64,
    /// Reads of the walk.
    pub(crate) reads: u16,
    /// Of those, the last ones, which nothing waits for.
    pub(crate) background: u16,
    /// What has to do with translations in caches and buffers.
    pub(crate) cached: Cached,
    /// How many of them, from the first on, are of metadata.
    pub(crate) metadata: u16,
    /// Whether a walker worked (not when translation is free).
    pub(crate) walked: bool,
    /// log2 of the base pages of the page that it found.
    pub(crate) shift: u8,
    /// Whether it ended in a fault, after which the access is tried again.
    pub(crate) faulted: bool,
    /// Time in the fault without migrations, in slots.
    pub(crate) fault: u64,
    /// Time spent on migrations in the fault, in slots.
    pub(crate) migration: u64,
    /// Whom it is charged to, where that is counted.
    pub(crate) payer: Payer,
}

/// What a walk has to do with translations in caches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cached {
    /// Whether a cache had the translation, so that there is only the walk behind it.
    pub(crate) found: bool,
    /// log2 of the base pages whose translations a cache has when the walk has ended; 0 for none.
    pub(crate) shift: u8,
    /// Of the TLB miss's reads, the last ones: those of walks that begin when the translation is
    /// there and that nothing waits for; and how many of [`Chunk::ahead`] these are.
    pub(crate) behind: u16,
    pub(crate) ahead: u8,
    /// How many of [`Chunk::early`] are fetched while it is walked.
    pub(crate) early: u8,
}

/// A line that is fetched into the second level before anybody has asked for it, by a design's
/// guess.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Early {
    pub(crate) line: u32,
    pub(crate) served: Served,
    /// How long after the second-level TLB has answered, in slots.
    pub(crate) after: u32,
}

/// A line that a data reference had the prefetchers fetch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prefetch {
    /// The reference's place.
    pub(crate) place: u32,
    pub(crate) line: u32,
    pub(crate) served: Served,
    /// Whether an instruction's strides had it fetched, and not what the first level missed.
    pub(crate) by_stride: bool,
}

/// What is known of a chunk of accesses after translation (all but `served`) and after the
/// caches (`served`). Everything is in program order; a line's references are its walks' reads
/// followed by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    /// Bits of [`request`] for each line of each access.
    pub(crate) requests: Buffer<u8>,
    /// What the translation of each of these lines is known by while its walk is under way.
    pub(crate) pages: Buffer<u32>,
    /// Physical lines, with `MODIFY`.
    pub(crate) references: Buffer<u32>,
    /// Where each reference was served.
    pub(crate) served: Buffer<Served>,
    /// The step of each walk read.
    pub(crate) steps: Buffer<u8>,
    /// What the requests with `SLOW` went through.
    pub(crate) tlb_misses: Buffer<TlbMiss>,
    /// The walks of these that nothing waits for, with their fixed times in slots.
    pub(crate) ahead: Vec<Ahead>,
    /// What is fetched by guess while walks are made.
    pub(crate) early: Vec<Early>,
    /// Modified lines that left the last level, with the place of the reference on whose account
    /// they did; where memory wants to know.
    pub(crate) write_backs: Option<Vec<(u32, u32)>>,
    /// What the prefetchers fetch, in the order of the references that had them do it.
    pub(crate) prefetches: Vec<Prefetch>,
    /// Lines that instructions' strides have fetched, each with the place of the reference before it.
    pub(crate) strided: Vec<(u32, u32)>,
    /// The places of walk reads of entries that the kernel has just written, which have `MODIFY`
    /// until the caches have seen them; where private caches are coherent.
    pub(crate) written_entries: Vec<u32>,
    /// Scratch for the caches.
    pub(crate) scratch: Scratch,
}

impl Chunk {
    /// Enters a line of an access.
    #[inline(always)]
    pub(crate) fn enter(&mut self, bits: u8, page: u32) {
        self.requests.push(bits);
        self.pages.push(page);
    }

    /// Enters the reads of a walk.
    #[inline(always)]
    pub(crate) fn list(&mut self, walk: &Walk) {
        let reads = walk.reads();
        let references = self.references.room(reads.len());
        let steps = self.steps.room(reads.len());
        for (read, (reference, step)) in reads.iter().zip(references.iter_mut().zip(steps)) {
            *reference = (read.addr.0 >> LINE_SHIFT) as u32;
            *step = read.step;
        }
        self.references.added(reads.len());
        self.steps.added(reads.len());
    }

    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.pages.clear();
        self.references.clear();
        self.steps.clear();
        self.tlb_misses.clear();
        self.ahead.clear();
        self.early.clear();
        self.prefetches.clear();
        self.strided.clear();
        self.written_entries.clear();
        if let Some(write_backs) = &mut self.write_backs {
            write_backs.clear();
        }
    }
}
