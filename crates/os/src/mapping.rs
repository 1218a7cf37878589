use crate::Os;
use pagelab_addr::{Asid, Vpn};
use pagelab_events::Backing;

/// What kind of memory a page is.
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

    /// What results call it.
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
    /// What kind of memory a page of an address space is.
    pub fn mapping(&mut self, asid: Asid, vpn: Vpn) -> Mapping {
        let Some(Some(space)) = self.spaces.get_mut(usize::from(asid.0)) else {
            return Mapping::None;
        };
        if space
            .heap
            .is_some_and(|(first, end)| (first..end).contains(&vpn.0))
        {
            return Mapping::Heap;
        }
        match space.vmas.find(vpn).map(|vma| vma.backing) {
            None => Mapping::None,
            Some(Backing::Anonymous) => Mapping::Anonymous,
            Some(Backing::SharedAnonymous) => Mapping::SharedAnonymous,
            Some(Backing::PrivateFile) => Mapping::PrivateFile,
            Some(Backing::SharedFile) => Mapping::SharedFile,
            Some(Backing::Stack) => Mapping::Stack,
        }
    }
}
