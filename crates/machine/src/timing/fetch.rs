use super::paths::Paths;
use super::pending::Pending;
use super::slow::{References, Slow};
use super::task::Read;
use crate::caches::served::Served;
use crate::machine::chunk::Chunk;
use crate::machine::requests::request;
use pagelab_cpu::Trapped;

/// A line of code that was not at hand. What its translation took is in a chunk's TLB misses and
/// references.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) line: u32,
    /// The first level, too, where only the translation was missing.
    pub(crate) served: Served,
    /// The first level has it since it was fetched ahead.
    pub(crate) ahead: bool,
    /// Name of its translation while a walk for it is under way, and whether the second-level TLB
    /// was asked.
    pub(crate) page: u32,
    pub(crate) second_tlb: bool,
    /// Instructions between the line's first and the access after them.
    pub(crate) gap: u32,
}

/// Has a core's dispatch wait for a line of code, which is asked for when the last access before
/// it has been dispatched. `next` are lines that are fetched ahead with it.
#[inline(never)]
pub(crate) fn fetch<const FREE: bool>(
    paths: &mut Paths,
    pending: &mut Pending,
    chunk: &Chunk,
    of: &Fetched,
    next: &[(u32, Served)],
) {
    let start = pending.front_end(paths);
    let mut now = start;
    let second_tlb = of.second_tlb && !FREE;
    if second_tlb {
        now += paths.latencies.second_tlb;
    }
    let mut references = References {
        served: chunk.served.as_slice(),
        lines: chunk.references.as_slice(),
        taken: 0,
    };
    let mut slow = Slow {
        tlb_misses: &[],
        steps: chunk.steps.as_slice(),
        write_backs: &[],
        prefetches: &[],
        ahead: &[],
        early: &[],
    };
    for tlb_miss in chunk.tlb_misses.as_slice() {
        if FREE {
            slow.skip(tlb_miss, &mut references);
        } else if tlb_miss.walked {
            let reads = pending.long_reads();
            reads.resize(usize::from(tlb_miss.reads), Read::default());
            let walk = slow.walk_into(reads, tlb_miss, &mut references, paths.counts);
            let ended = paths.walk(&walk, reads, now, start);
            if !tlb_miss.faulted {
                paths
                    .core
                    .under_way
                    .ask_page(of.page, walk.shift, start, ended);
            }
            now = ended;
        }
        if tlb_miss.faulted {
            pending.run_all(paths);
            let trapped = Trapped {
                fault: tlb_miss.fault,
                migration: tlb_miss.migration,
            };
            now = paths.core.trap_fetch(now, trapped);
        }
    }
    if second_tlb && chunk.tlb_misses.as_slice().is_empty() {
        now = paths.look_up(request::SECOND_TLB, of.page, start, now);
    }
    let arrives = match of.served {
        Served::L1 if of.ahead => paths
            .core
            .under_way
            .line_arrives(of.line, now)
            .unwrap_or(now),
        Served::L1 => now,
        below => paths.fetch_line(of.line, below, now, start),
    };
    for &(line, served) in next {
        paths.fetch_line(line, served, now, start);
    }
    for &(_, line) in chunk.write_backs.as_deref().unwrap_or_default() {
        paths.memory.write_back(line, now);
    }
    paths.core.fetched(arrives, of.gap);
}

impl Paths<'_> {
    /// When a line of code arrives that the first level misses at `now`. It needs no miss buffer of
    /// data.
    fn fetch_line(&mut self, line: u32, served: Served, now: u64, start: u64) -> u64 {
        if let Some(arrives) = self.core.under_way.line_arrives(line, now) {
            return arrives;
        }
        let arrives = self.comes(served, line, now, start);
        self.core.under_way.ask_line(line, now, arrives);
        arrives
    }
}
