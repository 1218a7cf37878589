use crate::simd::FLAG;

/// A reference to a cache or TLB, as a replacement policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Line of memory; in a TLB, the key of the entry.
    pub line: u32,
    /// Core that makes it.
    pub core: u32,
    /// Instruction that it is made for, where the source says so: its number in the source's code.
    pub instruction: Option<u32>,
    /// Reason for which it is made.
    pub kind: Kind,
    /// For a load or store: its page was walked for.
    pub walked: bool,
}

/// Reason for which a reference is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An instruction loads.
    Load,
    /// An instruction stores.
    Store,
    /// An instruction is fetched.
    Fetch,
    /// A page walk reads an entry: of level 1 if that maps the page, of level 2 if it points to
    /// that one's table, and so on.
    Walk {
        /// See there.
        level: u8,
    },
    /// A prefetcher guesses.
    Prefetch,
    /// A level above writes a modified line back, or the kernel has filled it.
    WriteBack,
}

impl Access {
    /// The load or store of a reference of which no more is known.
    pub fn of_data(reference: u32) -> Self {
        let kind = if reference & FLAG == 0 {
            Kind::Load
        } else {
            Kind::Store
        };
        Self::new(reference & !FLAG, kind)
    }

    /// A reference that differs in its line alone.
    pub(crate) fn to(self, line: u32) -> Self {
        Access { line, ..self }
    }

    /// A reference of which no more is known than the line.
    pub fn new(line: u32, kind: Kind) -> Self {
        Access {
            line,
            core: 0,
            instruction: None,
            kind,
            walked: false,
        }
    }
}
