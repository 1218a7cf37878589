use crate::chunk::{Chunk, Episode, part};
use crate::hierarchy::Served;
use crate::histogram::Histogram;
use pagelab_cpu::Core;
use pagelab_memory::Dram;

/// Latencies of a machine, in slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    /// From where a reference is served: L1, L2, last level, memory (idle).
    pub(crate) served: [u64; 4],
    /// Second-level TLB.
    pub(crate) second_tlb: u64,
}

/// What the timing counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Data references by where they were served.
    pub(crate) data_served: [u64; 4],
    /// Walk references by where they were served.
    pub(crate) walk_served: [u64; 4],
    /// Those of them that read metadata.
    pub(crate) metadata_served: [u64; 4],
    /// Latency of each walk in cycles, from a walker's start to its end.
    pub(crate) walk_latency: Histogram,
    /// Cycles that walks waited for a free walker.
    pub(crate) walker_wait: u64,
}

/// Takes a chunk whose references have been served through a core's clock.
#[inline(always)]
pub(crate) fn time(
    core: &mut Core,
    dram: &mut Dram,
    latencies: &Latencies,
    counts: &mut Counts,
    chunk: &Chunk,
    gap: &[u32],
    dep: &[u32],
) {
    let mut references = chunk.served.as_slice().iter();
    let mut episodes = chunk.episodes.as_slice().iter();
    let mut steps = chunk.steps.as_slice().iter();
    let mut access = 0;
    for &bits in chunk.parts.as_slice() {
        let store = bits & part::STORE != 0;
        let mut part = if bits & part::REST == 0 {
            access += 1;
            core.dispatch(gap[access - 1], dep[access - 1], store)
        } else {
            core.dispatch_rest()
        };
        let mut translated = part.start;
        if bits & (part::SECOND_TLB | part::SLOW) != 0 {
            if bits & part::SECOND_TLB != 0 {
                translated += latencies.second_tlb;
            }
            if bits & part::SLOW != 0 {
                for episode in &mut episodes {
                    if episode.walked {
                        let served = references.as_slice().split_at(episode.reads as usize);
                        references = served.1.iter();
                        let taken = steps.as_slice().split_at(episode.reads as usize);
                        steps = taken.1.iter();
                        translated = walk(
                            core, dram, latencies, counts, episode, served.0, taken.0, translated,
                        );
                    }
                    if !episode.faulted {
                        break;
                    }
                    translated = core.trap(&mut part, translated, episode.fault, episode.migration);
                }
            }
        }
        let Some(&served) = references.next() else {
            debug_assert!(false, "a part has a data reference");
            return;
        };
        counts.data_served[served as usize] += 1;
        let mut done = translated + latencies.served[served as usize];
        if served != Served::L1 {
            let begun = core.miss_buffer(translated);
            done += begun - translated;
            if served == Served::Dram {
                done += dram.transfer(begun);
            }
            core.missed(done);
        }
        core.complete(part, store, translated, done);
    }
}

/// Times one walk asked for at `asked`; returns when it ends.
#[inline]
#[allow(clippy::too_many_arguments)]
fn walk(
    core: &mut Core,
    dram: &mut Dram,
    latencies: &Latencies,
    counts: &mut Counts,
    episode: &Episode,
    served: &[Served],
    steps: &[u8],
    asked: u64,
) -> u64 {
    let (walker, begun) = core.walker(asked);
    let mut step_begun = begun + episode.walk;
    let mut step_ended = step_begun;
    let mut step = 0;
    let waited = served.len() - usize::from(episode.background);
    let (served, behind) = served.split_at(waited);
    for (&served, &at) in served.iter().zip(steps) {
        if at != step {
            step = at;
            step_begun = step_ended;
        }
        counts.walk_served[served as usize] += 1;
        let mut ended = step_begun + latencies.served[served as usize];
        if served == Served::Dram {
            ended += dram.transfer(step_begun);
        }
        step_ended = step_ended.max(ended);
    }
    for &served in behind {
        counts.walk_served[served as usize] += 1;
        if served == Served::Dram {
            dram.transfer(begun);
        }
    }
    for &served in &served[..usize::from(episode.metadata)] {
        counts.metadata_served[served as usize] += 1;
    }
    core.walked(walker, step_ended);
    counts.walker_wait += begun - asked;
    counts
        .walk_latency
        .record((step_ended - begun) / core.slots_per_cycle());
    step_ended
}
