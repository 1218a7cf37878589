use crate::caches::Scratch;
use crate::caches::served::Served;
use crate::machine::buffer::Buffer;
use crate::machine::requests::{Early, Prefetch, TlbMiss};
use crate::mmu::PrefetchWalk;
use pagelab_addr::{LINE_BYTES, LINE_SHIFT};
use pagelab_events::Op;
use pagelab_memory::{Access, MOST_ASKED};
use pagelab_translation::Walk;

/// Accesses taken through the machine at a time: enough that the host overlaps their cache
/// misses, few enough that the lists stay in its first-level cache.
pub(crate) const CHUNK: usize = 256;

const _: () = assert!(CHUNK as u64 == pagelab_execution::TURN);

/// Number of accesses, at least one, that have no more lines together than a second level may be asked for before it
/// is told which of them it has missed. An access has up to 257.
pub(crate) fn within_lines(ops: &[Op]) -> usize {
    let mut lines = 0;
    let fit = ops.iter().take_while(|op| {
        lines += usize::from(op.size()).div_ceil(LINE_BYTES as usize) + 1;
        lines <= MOST_ASKED
    });
    fit.count().max(1)
}

/// A chunk of accesses after translation (all but `served`) and after the caches (`served`).
/// Everything is in program order; a line's references are its walks' reads followed by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    /// Bits of [`request`] for each line of each access.
    pub(crate) requests: Buffer<u8>,
    /// Name of each line's translation while its walk is under way.
    pub(crate) pages: Buffer<u32>,
    /// Physical lines, with `MODIFY`.
    pub(crate) references: Buffer<u32>,
    /// Place that served each reference.
    pub(crate) served: Buffer<Served>,
    /// The step of each walk read.
    pub(crate) steps: Buffer<u8>,
    /// TLB misses of the requests with `SLOW`.
    pub(crate) tlb_misses: Buffer<TlbMiss>,
    /// The walks of these that nothing waits for, with their fixed times in slots.
    pub(crate) ahead: Vec<PrefetchWalk>,
    /// Lines fetched by guess while walks are made.
    pub(crate) early: Vec<Early>,
    /// Modified lines that left the last level, with the place of the reference on whose account
    /// they did; where memory wants to know.
    pub(crate) write_backs: Option<Vec<(u32, u32)>>,
    /// Lines that the prefetchers fetch, in the order of the references that had them do it.
    pub(crate) prefetches: Vec<Prefetch>,
    /// Lines that prefetchers fetch for loads, each with the place of the reference before it.
    pub(crate) by_loads: Vec<(u32, u32)>,
    /// Lines that the kernel has filled in faults, each with the place of the reference after it.
    pub(crate) filled: Vec<(u32, u32)>,
    /// The places of walk reads of entries that the kernel has just written, which have `MODIFY`
    /// until the caches have seen them; where private caches are coherent.
    pub(crate) written_entries: Vec<u32>,
    /// Instruction of each access, where a replacement policy wants it.
    pub(crate) sites: Vec<u32>,
    /// Description of the only reference, of a chunk that has just one.
    pub(crate) only: Option<Access>,
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
        self.by_loads.clear();
        self.filled.clear();
        self.written_entries.clear();
        self.sites.clear();
        self.only = None;
        if let Some(write_backs) = &mut self.write_backs {
            write_backs.clear();
        }
    }
}
