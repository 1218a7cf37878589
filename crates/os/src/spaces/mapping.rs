use crate::Os;
use pagelab_addr::{Asid, Vpn};
use pagelab_events::Backing;
use std::ops::Range;

/// Kind of memory of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// Below the program's break.
    Heap,
    /// The stack of the process's first thread.
    Stack,
    /// Anonymous private memory: large allocations, stacks of threads.
    Anonymous,
    /// Anonymous memory shared over fork.
    SharedAnonymous,
    /// A private mapping of a file.
    PrivateFile,
    /// A shared mapping of a file.
    SharedFile,
    /// In no mapping.
    #[default]
    None,
}

impl Mapping {
    /// All kinds.
    pub const ALL: [Mapping; 7] = [
        Mapping::Heap,
        Mapping::Stack,
        Mapping::Anonymous,
        Mapping::SharedAnonymous,
        Mapping::PrivateFile,
        Mapping::SharedFile,
        Mapping::None,
    ];

    /// Name in results.
    pub fn name(self) -> &'static str {
        match self {
            Mapping::Heap => "heap",
            Mapping::Stack => "stack",
            Mapping::Anonymous => "anonymous",
            Mapping::SharedAnonymous => "shared-anonymous",
            Mapping::PrivateFile => "private-file",
            Mapping::SharedFile => "shared-file",
            Mapping::None => "none",
        }
    }
}

impl Os {
    /// Kind of memory of a page of an address space.
    pub fn mapping(&mut self, asid: Asid, vpn: Vpn) -> Mapping {
        self.mapping_around(asid, vpn).0
    }

    /// The same with pages around it that are of that kind, too; not always all of them.
    pub fn mapping_around(&mut self, asid: Asid, vpn: Vpn) -> (Mapping, Range<u64>) {
        let alone = vpn.0..vpn.0 + 1;
        let Some(Some(space)) = self.spaces.get_mut(usize::from(asid.0)) else {
            return (Mapping::None, alone);
        };
        let heap = space.heap.map_or(0..0, |(first, end)| first..end);
        if heap.contains(&vpn.0) {
            return (Mapping::Heap, heap);
        }
        let Some(vma) = space.vmas.find(vpn) else {
            let above = space.vmas.next_above(vpn);
            let grows = above.is_some_and(|vma| vma.backing == Backing::Stack)
                && space.stack.is_some_and(|floor| floor <= vpn.0);
            let kind = if grows { Mapping::Stack } else { Mapping::None };
            return (kind, alone);
        };
        let kind = match vma.backing {
            Backing::Anonymous => Mapping::Anonymous,
            Backing::SharedAnonymous => Mapping::SharedAnonymous,
            Backing::PrivateFile => Mapping::PrivateFile,
            Backing::SharedFile => Mapping::SharedFile,
            Backing::Stack => Mapping::Stack,
        };
        if heap.start < vma.end && vma.start < heap.end {
            return (kind, alone);
        }
        (kind, vma.start..vma.end)
    }
}
