//! Calls of allocators as control events, and the sites that they are made at.

use std::collections::HashMap;

use pagelab_events::{AllocationCall, AllocationSite, Batch, Control, Definition, Frame};
use pagelab_recorder_wire::allocation::{MOST_FRAMES, Mark};

use crate::code::CodeBook;
use crate::process::Process;

/// Limit of sites: a program may make code without end.
const MAX: usize = 1 << 20;

/// Allocation sites defined so far.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    numbers: HashMap<AllocationSite, u32>,
}

impl Allocations {
    /// The control event of a mark of the preloaded library; defines its site unless that has been.
    pub(crate) fn control(
        &mut self,
        words: &[u64],
        process: &Process,
        code: &mut CodeBook,
        batch: &mut Batch,
    ) -> Option<Control> {
        match (Mark::of(*words.first()?)?, &words[1..]) {
            (Mark::Begin, [call, frames @ ..]) => {
                let call = *AllocationCall::ALL.get(*call as usize)?;
                let frames = frames.iter().take(MOST_FRAMES).map(|&address| {
                    match process.files.at(address) {
                        Some((path, offset)) => Frame {
                            file: code.file(path, batch),
                            offset,
                        },
                        None => Frame {
                            file: 0,
                            offset: address,
                        },
                    }
                });
                let frames = frames.collect();
                let site = self.number(AllocationSite { call, frames }, batch)?;
                Some(Control::Allocating { site })
            }
            (Mark::End, &[addr, len]) => Some(Control::Allocated { addr, len }),
            (Mark::Free, &[addr]) => Some(Control::Freed { addr }),
            _ => None,
        }
    }

    /// Number of sites.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    fn number(&mut self, site: AllocationSite, batch: &mut Batch) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&site) {
            return Some(number);
        }
        if self.numbers.len() == MAX {
            return None;
        }
        let number = self.numbers.len() as u32;
        (batch.definitions).push(Definition::AllocationSite(site.clone()));
        self.numbers.insert(site, number);
        Some(number)
    }
}
