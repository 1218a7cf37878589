//! Descriptions of references, for replacement policies that look at more than lines.

use super::descent::{Descent, OUT, origin};
use crate::machine::requests::{Prefetch, TlbMiss, request};
use pagelab_events::NO_SITE;
use pagelab_memory::{Access, Kind, MODIFY};

/// Parts of a chunk that say who makes its references.
pub(super) struct Parts<'a> {
    pub(super) core: u32,
    pub(super) references: &'a [u32],
    pub(super) requests: &'a [u8],
    pub(super) tlb_misses: &'a [TlbMiss],
    /// Step of each walk read.
    pub(super) steps: &'a [u8],
    /// Instruction of each access, where the source names them.
    pub(super) sites: &'a [u32],
}

/// Describes the references of a chunk, by place.
#[inline(never)]
pub(super) fn describe(parts: &Parts, described: &mut Vec<Access>) {
    let Parts {
        core,
        references,
        requests,
        tlb_misses,
        mut steps,
        sites,
    } = *parts;
    described.clear();
    let mut tlb_misses = tlb_misses.iter();
    let mut accesses = 0;
    for &bits in requests {
        accesses += usize::from(bits & request::REST == 0);
        let site = sites.get(accesses - 1).filter(|&&site| site != NO_SITE);
        let mut walked = false;
        if bits & request::SLOW != 0 {
            if request::is_dropped(bits) {
                continue;
            }
            for tlb_miss in &mut tlb_misses {
                walked |= tlb_miss.has_walk();
                let reads = usize::from(tlb_miss.reads).min(steps.len());
                let (of_walk, rest) = steps.split_at(reads);
                steps = rest;
                let after = usize::from(tlb_miss.background + tlb_miss.cached.behind);
                let last = of_walk.iter().rev().nth(after).copied().unwrap_or(0);
                for &step in of_walk {
                    let level = 1 + last.saturating_sub(step);
                    let line = references[described.len()] & !MODIFY;
                    described.push(Access {
                        core,
                        instruction: site.copied(),
                        ..Access::new(line, Kind::Walk { level })
                    });
                }
                if !tlb_miss.faulted {
                    break;
                }
            }
        }
        described.push(Access {
            core,
            instruction: site.copied(),
            walked,
            ..Access::of_data(references[described.len()])
        });
    }
}

/// Descriptions of what goes down from a level, where they are wanted.
#[derive(Clone, Copy)]
pub(super) struct Descriptions<'a> {
    pub(super) of: &'a [Access],
    pub(super) prefetches: &'a [Prefetch],
    pub(super) outgoing: u32,
}

impl Descriptions<'_> {
    pub(super) fn describe(&self, (reference, place): Descent) -> Access {
        let line = reference & !MODIFY;
        let of = self.of[origin(place, self.outgoing, self.prefetches) as usize];
        if place & OUT != 0 {
            let core = of.core;
            return Access {
                core,
                ..Access::new(line, Kind::WriteBack)
            };
        }
        if place < self.outgoing {
            return of;
        }
        Access {
            line,
            kind: Kind::Prefetch,
            walked: false,
            ..of
        }
    }
}
