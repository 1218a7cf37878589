//! The code that makes the accesses: straight runs of instructions, and the sites in them.

use std::collections::HashMap;

/// The site of an access of whose instruction nothing is known.
pub const NO_SITE: u32 = u32::MAX;

/// The most instructions of a block: their numbers fit 16 bits.
const MAX_INSTRUCTIONS: usize = 1 << 16;
/// The most instructions of all blocks, the most accesses that they usually make, and the most
/// definitions: readers keep something for each, and compressed definitions take next to nothing
/// in a file.
pub const MAX_SITES: u32 = 1 << 26;
/// The most bytes of all names, paths and instructions, for the same reason.
const MAX_BYTES: usize = 1 << 30;

/// A straight run of instructions that is entered at its first one: a basic block as the emulator
/// that recorded it translated it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeBlock {
    /// The process in whose address space it was met first.
    pub process: u32,
    /// Address of the first instruction.
    pub pc: u64,
    /// The file that is mapped there: 0 for none, else 1 + its number among those defined.
    pub file: u32,
    /// Offset of the first instruction in that file, in bytes.
    pub file_offset: u64,
    /// Bytes of each instruction; 0 where only its address is known.
    pub lengths: Box<[u8]>,
    /// The instructions, as many bytes as `lengths` adds up to, or none where they are not known.
    pub bytes: Box<[u8]>,
    /// For each access that an execution usually makes, in order, which instruction makes it.
    pub accesses: Box<[u16]>,
    /// And what its address follows from. Empty where nothing is known.
    pub addresses: Box<[Follows]>,
}

/// Address of an access that a block usually makes: so many bytes from one that it has made before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Follows {
    /// Distance to that one in accesses; 0 where the address follows from none.
    pub back: u8,
    /// Bytes from there.
    pub offset: i32,
}

/// A definition that later events refer to by number. Each kind is numbered from 0, in the order of
/// the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A file that code is mapped from: its path, as the program's kernel named it.
    File(String),
    /// A block.
    Block(CodeBlock),
    /// A function that the program has made itself, and the blocks of its code by number, which need
    /// not be defined yet.
    Function {
        /// Name by the program.
        name: String,
        /// Its blocks.
        blocks: Box<[u32]>,
    },
    /// Places where a file was mapped, at any time.
    Mapping {
        /// Its path, as the program's kernel named it.
        path: String,
        /// Ranges in their processes.
        ranges: Box<[Range]>,
    },
    /// A place where the program calls an allocator: which one, and the return addresses on its stack.
    AllocationSite(AllocationSite),
    /// Lines of source of code that the program has made itself, by site. Those need not be defined yet.
    Lines {
        /// The file, as the program names it.
        path: String,
        /// Sites with their lines, from 1.
        sites: Box<[(u32, u32)]>,
    },
}

impl Definition {
    /// True if it only names what is known otherwise: such ones may come before what they name.
    pub fn is_name(&self) -> bool {
        matches!(
            self,
            Definition::Function { .. } | Definition::Mapping { .. } | Definition::Lines { .. }
        )
    }

    /// Bytes of its name, path or instructions.
    fn bytes(&self) -> usize {
        match self {
            Definition::File(path)
            | Definition::Mapping { path, .. }
            | Definition::Lines { path, .. } => path.len(),
            Definition::Function { name, .. } => name.len(),
            Definition::AllocationSite(site) => size_of_val(&*site.frames),
            Definition::Block(block) => block.bytes.len(),
        }
    }
}

/// A call of an allocator by its stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllocationSite {
    /// The function called.
    pub call: AllocationCall,
    /// Return addresses, the allocator's caller first.
    pub frames: Box<[Frame]>,
}

/// A function that allocates memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the functions")]
pub enum AllocationCall {
    Malloc = 0,
    Calloc = 1,
    Realloc = 2,
    /// aligned_alloc, posix_memalign, memalign, valloc and pvalloc.
    AlignedAlloc = 3,
    /// operator new, and operator new\[\].
    New = 4,
    /// mmap of anonymous memory.
    Mmap = 5,
}

impl AllocationCall {
    /// All, by number.
    pub const ALL: [AllocationCall; 6] = [
        AllocationCall::Malloc,
        AllocationCall::Calloc,
        AllocationCall::Realloc,
        AllocationCall::AlignedAlloc,
        AllocationCall::New,
        AllocationCall::Mmap,
    ];

    /// Name of the function.
    pub fn name(self) -> &'static str {
        match self {
            AllocationCall::Malloc => "malloc",
            AllocationCall::Calloc => "calloc",
            AllocationCall::Realloc => "realloc",
            AllocationCall::AlignedAlloc => "aligned_alloc",
            AllocationCall::New => "operator new",
            AllocationCall::Mmap => "mmap",
        }
    }
}

/// A return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The file that is mapped there: 0 for none, else 1 + its number among those defined.
    pub file: u32,
    /// Offset in that file; of no file the address.
    pub offset: u64,
}

/// A part of a process's address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Range {
    /// The process.
    pub process: u32,
    /// Its first address.
    pub addr: u64,
    /// Its bytes.
    pub len: u64,
}

/// An entry of a [`Batch`](crate::Batch)'s flow: what a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The entries that follow are of this thread of the batch's process. It goes on where it
    /// was, perhaps in the middle of a block.
    Thread(u32),
    /// It executes the block of this number, from its start; to its end unless a signal, or the
    /// end of what was recorded, comes before.
    Block(u32),
}

/// An instruction of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// The number of its block.
    pub block: u32,
    /// Its number in the block, from 0.
    pub index: u16,
    /// Its address.
    pub pc: u64,
    /// Its bytes; none where they are not known.
    pub bytes: &'a [u8],
}

/// Everything that a stream has defined so far.
///
/// The instructions of all blocks are numbered through, in the order of the definitions: the
/// number of one is its *site*.
#[derive(Clone, Debug, Default)]
pub struct CodeTable {
    files: Vec<String>,
    blocks: Vec<CodeBlock>,
    /// The site of each block's first instruction.
    first_sites: Vec<u32>,
    sites: u32,
    /// Accesses that executions of all blocks usually make.
    accesses: usize,
    functions: Vec<String>,
    /// By block, which of the functions it is of.
    function_of: HashMap<u32, u32>,
    mappings: Vec<(String, Box<[Range]>)>,
    ranges: usize,
    allocation_sites: Vec<AllocationSite>,
    sources: Vec<String>,
    /// By site, which of the sources and the line in it.
    line_of: HashMap<u32, (u32, u32)>,
    /// Bytes of names, paths and instructions.
    bytes: usize,
}

impl CodeTable {
    /// Takes a definition in. `false`, and nothing is changed, when there are too many, or too large
    /// ones together, or it is not well formed: its lengths, bytes and accesses do not go together.
    pub fn define(&mut self, definition: Definition) -> bool {
        let names = self.files.len()
            + self.functions.len()
            + self.mappings.len()
            + self.allocation_sites.len()
            + self.sources.len();
        let bytes = definition.bytes();
        let fits =
            names + self.blocks.len() < MAX_SITES as usize && bytes <= MAX_BYTES - self.bytes;
        let taken = fits && self.take(definition);
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    fn take(&mut self, definition: Definition) -> bool {
        let block = match definition {
            Definition::File(path) => {
                self.files.push(path);
                return true;
            }
            Definition::Block(block) => block,
            Definition::Function { name, blocks } => return self.define_function(name, &blocks),
            Definition::AllocationSite(site) => {
                let known = |frame: &Frame| frame.file as usize <= self.files.len();
                let fits = site.frames.iter().all(known);
                if fits {
                    self.allocation_sites.push(site);
                }
                return fits;
            }
            Definition::Lines { path, sites } => return self.define_lines(path, &sites),
            Definition::Mapping { path, ranges } => {
                let fits = self.ranges + ranges.len() <= MAX_SITES as usize;
                if fits {
                    self.ranges += ranges.len();
                    self.mappings.push((path, ranges));
                }
                return fits;
            }
        };
        let total: usize = block.lengths.iter().copied().map(usize::from).sum();
        let known = block.bytes.is_empty() || block.bytes.len() == total;
        let inside = |&index: &u16| usize::from(index) < block.lengths.len();
        let earlier = |(index, follows): (usize, &Follows)| match follows.back {
            0 => follows.offset == 0,
            back => usize::from(back) <= index,
        };
        let placed = block.addresses.is_empty() || block.addresses.len() == block.accesses.len();
        let fits = block.lengths.len() <= MAX_INSTRUCTIONS
            && block.lengths.len() <= (MAX_SITES - self.sites) as usize
            && block.accesses.len() <= MAX_SITES as usize - self.accesses;
        if !fits
            || !known
            || !block.accesses.iter().all(inside)
            || !placed
            || !block.addresses.iter().enumerate().all(earlier)
            || block.file as usize > self.files.len()
        {
            return false;
        }
        self.first_sites.push(self.sites);
        self.sites += block.lengths.len() as u32;
        self.accesses += block.accesses.len();
        self.blocks.push(block);
        true
    }

    fn define_function(&mut self, name: String, blocks: &[u32]) -> bool {
        let room = MAX_SITES as usize - self.function_of.len();
        if blocks.len() > room || blocks.iter().any(|&block| block >= MAX_SITES) {
            return false;
        }
        let number = self.functions.len() as u32;
        self.functions.push(name);
        self.function_of
            .extend(blocks.iter().map(|&block| (block, number)));
        true
    }

    fn define_lines(&mut self, path: String, sites: &[(u32, u32)]) -> bool {
        let room = MAX_SITES as usize - self.line_of.len();
        if sites.len() > room || sites.iter().any(|&(site, _)| site >= MAX_SITES) {
            return false;
        }
        let number = self.sources.len() as u32;
        self.sources.push(path);
        let lines = sites.iter().map(|&(site, line)| (site, (number, line)));
        self.line_of.extend(lines);
        true
    }

    /// The file and line of source of an instruction that the program has made itself, where it has said so.
    pub fn line(&self, site: u32) -> Option<(&str, u32)> {
        let &(source, line) = self.line_of.get(&site)?;
        Some((&self.sources[source as usize], line))
    }

    /// The function that a block of code which the program has made itself is of, if it has a name.
    pub fn function(&self, block: u32) -> Option<&str> {
        let number = *self.function_of.get(&block)?;
        Some(&self.functions[number as usize])
    }

    /// Mapped ranges of files, by path, in the order of the definitions.
    pub fn mappings(&self) -> impl Iterator<Item = (&str, &[Range])> {
        self.mappings
            .iter()
            .map(|(path, ranges)| (path.as_str(), &**ranges))
    }

    /// The blocks, by number.
    pub fn blocks(&self) -> &[CodeBlock] {
        &self.blocks
    }

    /// The files, by number.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The allocation sites, by number.
    pub fn allocation_sites(&self) -> &[AllocationSite] {
        &self.allocation_sites
    }

    /// One more than the highest site.
    pub fn sites(&self) -> u32 {
        self.sites
    }

    /// The site of a block's first instruction.
    ///
    /// # Panics
    /// When there is no such block.
    #[inline]
    pub fn first_site(&self, block: u32) -> u32 {
        self.first_sites[block as usize]
    }

    /// The instruction at a site; `None` for [`NO_SITE`] and others that were not defined.
    pub fn instruction(&self, site: u32) -> Option<Instruction<'_>> {
        if site >= self.sites {
            return None;
        }
        // Blocks have instructions, or share their first site with the next one.
        let number = self.first_sites.partition_point(|&first| first <= site) - 1;
        let index = (site - self.first_sites[number]) as usize;
        self.instructions(number as u32).nth(index)
    }

    /// The instructions of a block, in order.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn instructions(&self, block: u32) -> impl Iterator<Item = Instruction<'_>> {
        let CodeBlock {
            pc, lengths, bytes, ..
        } = &self.blocks[block as usize];
        let mut end = 0;
        lengths.iter().enumerate().map(move |(index, &length)| {
            let start = end;
            end += usize::from(length);
            Instruction {
                block,
                index: index as u16,
                pc: pc.wrapping_add(start as u64),
                bytes: bytes.get(start..end).unwrap_or_default(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(pc: u64, lengths: &[u8], accesses: &[u16]) -> CodeBlock {
        CodeBlock {
            pc,
            lengths: lengths.into(),
            bytes: (0..lengths.iter().sum()).collect(),
            accesses: accesses.into(),
            ..CodeBlock::default()
        }
    }

    #[test]
    fn sites_number_the_instructions_of_all_blocks() {
        let mut table = CodeTable::default();
        assert!(table.define(Definition::Block(block(0x1000, &[3, 1], &[0, 1, 1]))));
        assert!(table.define(Definition::Block(block(0x2000, &[], &[]))));
        assert!(table.define(Definition::Block(block(0x3000, &[2, 5, 1], &[2]))));
        let at = |site| {
            let found = table.instruction(site).unwrap();
            (found.block, found.index, found.pc, found.bytes)
        };
        assert_eq!(at(1), (0, 1, 0x1003, &[3][..]));
        assert_eq!(at(2), (2, 0, 0x3000, &[0, 1][..]));
        assert_eq!(at(4), (2, 2, 0x3007, &[7][..]));
        assert_eq!(table.instruction(5), None);
        assert_eq!(table.instruction(NO_SITE), None);
        assert_eq!(table.first_site(2), 2);
    }

    #[test]
    fn definitions_that_contradict_themselves_are_refused() {
        let mut table = CodeTable::default();
        let mut short = block(0x1000, &[3, 1], &[]);
        short.bytes = [0; 3].into();
        assert!(!table.define(Definition::Block(short)));
        assert!(!table.define(Definition::Block(block(0x1000, &[3, 1], &[2]))));
        let mut nowhere = block(0x1000, &[3], &[]);
        nowhere.file = 1;
        assert!(!table.define(Definition::Block(nowhere.clone())));
        assert!(table.define(Definition::File("/bin/true".to_owned())));
        assert!(table.define(Definition::Block(nowhere)));
        assert_eq!(table.sites(), 1);
    }

    #[test]
    fn names_may_come_before_what_they_name() {
        let mut table = CodeTable::default();
        let function = |name: &str, blocks: &[u32]| Definition::Function {
            name: name.to_owned(),
            blocks: blocks.into(),
        };
        assert!(table.define(function("f", &[1, 7])));
        assert!(table.define(function("g", &[7])));
        assert!(!table.define(function("h", &[MAX_SITES])));
        let named = [0, 1, 7].map(|block| table.function(block));
        assert_eq!(named, [None, Some("f"), Some("g")]);
        let range = Range {
            process: 2,
            addr: 0x1000,
            len: 0x2000,
        };
        assert!(table.define(Definition::Mapping {
            path: "/a".to_owned(),
            ranges: [range].into(),
        }));
        let found: Vec<_> = table.mappings().collect();
        assert_eq!(found, [("/a", &[range][..])]);
        let lines = |path: &str, sites: &[(u32, u32)]| Definition::Lines {
            path: path.to_owned(),
            sites: sites.into(),
        };
        assert!(table.define(lines("a.js", &[(3, 10), (4, 11)])));
        assert!(table.define(lines("b.js", &[(4, 12)])));
        assert!(!table.define(lines("c.js", &[(MAX_SITES, 1)])));
        let found = [2, 3, 4].map(|site| table.line(site));
        assert_eq!(found, [None, Some(("a.js", 10)), Some(("b.js", 12))]);
    }

    #[test]
    fn names_paths_and_instructions_have_a_limit_together() {
        let with = |left: usize| CodeTable {
            bytes: MAX_BYTES - left,
            ..CodeTable::default()
        };
        let function = |name: &str| Definition::Function {
            name: name.to_owned(),
            blocks: [].into(),
        };
        let mapping = |path: &str| Definition::Mapping {
            path: path.to_owned(),
            ranges: [].into(),
        };
        for four in [
            Definition::File("/bin".to_owned()),
            function("main"),
            mapping("/lib"),
            Definition::Lines {
                path: "a.js".to_owned(),
                sites: [].into(),
            },
            Definition::Block(block(0x1000, &[1, 3], &[])),
        ] {
            assert!(!with(3).define(four.clone()));
            let mut table = with(8);
            assert!(table.define(four.clone()));
            assert!(table.define(four.clone()));
            assert!(!table.define(four));
            // A refused definition takes no room.
            assert_eq!(table.bytes, MAX_BYTES);
        }
    }

    #[test]
    fn a_block_has_no_more_instructions_than_its_accesses_can_name() {
        let of = |instructions: usize| CodeBlock {
            lengths: vec![1; instructions].into(),
            ..CodeBlock::default()
        };
        let mut table = CodeTable::default();
        assert!(!table.define(Definition::Block(of(MAX_INSTRUCTIONS + 1))));
        assert!(table.define(Definition::Block(of(MAX_INSTRUCTIONS))));
        let last = table.instruction(table.sites() - 1).unwrap();
        assert_eq!((last.index, last.pc), (u16::MAX, 0xffff));
        while table.sites() < MAX_SITES {
            assert!(table.define(Definition::Block(of(MAX_INSTRUCTIONS))));
        }
        assert!(!table.define(Definition::Block(of(1))));
    }

    #[test]
    fn all_blocks_together_make_no_more_accesses_than_readers_keep() {
        let mut table = CodeTable {
            accesses: MAX_SITES as usize - 2,
            ..CodeTable::default()
        };
        assert!(!table.define(Definition::Block(block(0x1000, &[3], &[0, 0, 0]))));
        assert!(table.define(Definition::Block(block(0x1000, &[3], &[0, 0]))));
        assert!(!table.define(Definition::Block(block(0x1000, &[3], &[0]))));
        assert!(table.define(Definition::Block(block(0x1000, &[3], &[]))));
    }
}
