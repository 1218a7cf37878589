use crate::chunk::{Chunk, Episode, part};
use crate::hierarchy::Served;
use crate::histogram::Histogram;
use crate::main_memory::MainMemory;
use pagelab_cpu::Core;
use pagelab_memory::MODIFY;

/// Latencies of a machine, in slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    /// From where a reference is served: L1, L2, last level. Memory's nodes have their own.
    pub(crate) served: [u64; 3],
    /// Second-level TLB.
    pub(crate) second_tlb: u64,
}

impl Latencies {
    /// How long a reference takes that goes out at `now`.
    #[inline(always)]
    fn of(&self, served: Served, line: u32, memory: &mut MainMemory, now: u64) -> u64 {
        match served {
            Served::Dram => memory.read(line & !MODIFY, now),
            cache => self.served[cache as usize],
        }
    }
}

/// References that are still to be timed.
struct References<'a> {
    served: &'a [Served],
    lines: &'a [u32],
}

impl<'a> References<'a> {
    #[inline(always)]
    fn next(&mut self) -> Option<(Served, u32)> {
        let (&served, later) = self.served.split_first()?;
        let (&line, later_lines) = self.lines.split_first()?;
        (self.served, self.lines) = (later, later_lines);
        Some((served, line))
    }

    /// The next few.
    #[inline(always)]
    fn take(&mut self, count: usize) -> References<'a> {
        let (served, later) = self.served.split_at(count);
        let (lines, later_lines) = self.lines.split_at(count);
        (self.served, self.lines) = (later, later_lines);
        References { served, lines }
    }
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
    memory: &mut MainMemory,
    latencies: &Latencies,
    counts: &mut Counts,
    chunk: &Chunk,
    gap: &[u32],
    dep: &[u32],
) {
    let mut references = References {
        served: chunk.served.as_slice(),
        lines: chunk.references.as_slice(),
    };
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
                        let reads = references.take(episode.reads as usize);
                        let taken = steps.as_slice().split_at(episode.reads as usize);
                        steps = taken.1.iter();
                        translated = walk(
                            core, memory, latencies, counts, episode, reads, taken.0, translated,
                        );
                    }
                    if !episode.faulted {
                        break;
                    }
                    translated = core.trap(&mut part, translated, episode.fault, episode.migration);
                }
            }
        }
        let Some((served, line)) = references.next() else {
            debug_assert!(false, "a part has a data reference");
            return;
        };
        counts.data_served[served as usize] += 1;
        let done = if served == Served::L1 {
            translated + latencies.served[Served::L1 as usize]
        } else {
            let begun = core.miss_buffer(translated);
            let done = begun + latencies.of(served, line, memory, begun);
            core.missed(done);
            done
        };
        core.complete(part, store, translated, done);
    }
}

/// Times one walk asked for at `asked`; returns when it ends.
#[inline]
#[allow(clippy::too_many_arguments)]
fn walk(
    core: &mut Core,
    memory: &mut MainMemory,
    latencies: &Latencies,
    counts: &mut Counts,
    episode: &Episode,
    mut reads: References,
    steps: &[u8],
    asked: u64,
) -> u64 {
    let (walker, begun) = core.walker(asked);
    let mut step_begun = begun + episode.walk;
    let mut step_ended = step_begun;
    let mut step = 0;
    let metadata = &reads.served[..usize::from(episode.metadata)];
    let waited = reads.take(reads.served.len() - usize::from(episode.background));
    for ((&served, &line), &at) in waited.served.iter().zip(waited.lines).zip(steps) {
        if at != step {
            step = at;
            step_begun = step_ended;
        }
        counts.walk_served[served as usize] += 1;
        let ended = step_begun + latencies.of(served, line, memory, step_begun);
        step_ended = step_ended.max(ended);
    }
    for (&served, &line) in reads.served.iter().zip(reads.lines) {
        counts.walk_served[served as usize] += 1;
        latencies.of(served, line, memory, begun);
    }
    for &served in metadata {
        counts.metadata_served[served as usize] += 1;
    }
    core.walked(walker, step_ended);
    counts.walker_wait += begun - asked;
    counts
        .walk_latency
        .record((step_ended - begun) / core.slots_per_cycle());
    step_ended
}
