//! The `linux` manager: first touch.

use super::{About, Manager, Run, take};
use crate::frames::buddy::Buddy;
use pagelab_addr::Pfn;

pub(super) const ABOUT: About = (
    "linux",
    "the node of the processors as long as it has memory, then the next (first touch)",
);

/// Every page from the processors' node, node 0, as long as it has memory.
#[derive(Clone, Debug)]
pub(super) struct Linux;

impl Manager for Linux {
    fn boxed(&self) -> Box<dyn Manager> {
        Box::new(self.clone())
    }

    fn alloc(&mut self, memory: &mut Buddy, run: &mut Run) -> Option<Pfn> {
        take(memory, 0, run.order)
    }
}
