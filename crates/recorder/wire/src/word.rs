//! The 64-bit words in a ring.
//!
//! An access is one word with bit 63 clear: bits 0 to 47 the address (in four levels of page tables
//! the upper ones are like bit 47), bits 48 to 50 the binary logarithm of
//! the size, bits 51 to 60 which entry of the block's script it is ([`crate::block`]).
//! Everything else starts with a word whose bit 63 is set: bits 56 to 62 the [`Kind`], bits 0 to
//! 55 a payload, and as many words more as the kind says. A message never straddles the ring's end.

/// Bits of an address.
pub const ADDRESS_BITS: u32 = 48;
/// Shift of the size (log2) of an access.
pub const SIZE_SHIFT: u32 = ADDRESS_BITS;
/// Shift of the script index of an access.
pub const ENTRY_SHIFT: u32 = SIZE_SHIFT + 3;
/// Number of script entries a block can have.
pub const MAX_ENTRIES: usize = 1 << 10;

const MARK: u64 = 1 << 63;
const KIND_SHIFT: u32 = 56;
/// The bits of a payload.
pub const PAYLOAD: u64 = (1 << KIND_SHIFT) - 1;

/// Kind of a message, apart from an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A translated block starts; payload: its number.
    Block = 0,
    /// The epoch (see [`crate::region::Header::epoch`]) has moved; payload: the new one.
    Epoch = 1,
    /// The ring continues at its first word.
    Wrap = 2,
    /// System call entered; payload: its number; then [`SYSCALL_ARGS`] words.
    Syscall = 3,
    /// System call done; payload: its number; then its result and a fact about it
    /// (see [`crate::syscall::Call`]), 0 where there is none.
    SyscallReturn = 4,
    /// Memory that the system call in progress reads or writes through an I/O vector;
    /// then address and length.
    Vector = 5,
    /// /proc/self/maps; payload: bytes; then the text, padded to whole words. Comes twice
    /// for each program: before it was loaded, and after.
    Maps = 6,
    /// Nothing was reported for a while; then instructions and accesses left out.
    Skipped = 7,
    /// A process was forked; payload: its number, as counted by [`crate::region::Header::next_process`].
    Forked = 8,
    /// This program is about to be replaced by one recorded in another ring; payload: that ring.
    Replaced = 9,
    /// Definition of a block (only in definition rings); payload: words that follow: its number,
    /// its address, the number of instructions, and bytes, padded to whole words: the length of
    /// each instruction, then the instructions.
    Define = 10,
    /// This thread ends.
    ThreadEnd = 11,
    /// Something the user should know; payload: bytes; then UTF-8 text, padded.
    Note = 12,
    /// A program is about to be started that will not be recorded; payload: bytes; then its path,
    /// padded. The call's return, if there is one, says that it was not started.
    Unrecorded = 13,
    /// The file of the mmap in progress; payload: bytes; then its path, padded.
    Path = 14,
    /// Pages that are there, where nothing was reported; payload: runs that follow, a word each ([`Run`]).
    Present = 15,
    /// A call that leaves nothing else in a recording has failed as one that the emulator does not have; payload:
    /// its number; then the error's.
    Refused = 16,
    /// Page faults that were taken where nothing was reported, in order; payload: words that
    /// follow, a [`Run`] of one page each, with what the fault has left behind it.
    Faults = 17,
    /// A call of an allocator, as the preloaded library tells it ([`crate::allocation`]); payload: words that follow.
    Allocation = 18,
}

/// Pages in a row that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first one's number.
    pub first: u64,
    /// Number of them.
    pub pages: u64,
    /// Backing of them.
    pub behind: Behind,
}

/// Backing of a page that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The page of zeros: it was loaded from, and not stored to.
    Zeros,
    /// Memory of its own.
    Own,
    /// A file, or memory that is shared as a file is.
    File,
}

impl Run {
    const FIRST_BITS: u32 = ADDRESS_BITS - 12;
    const PAGES_BITS: u32 = 62 - Self::FIRST_BITS;
    /// The most pages of one.
    pub const MOST: u64 = (1 << Self::PAGES_BITS) - 1;

    /// As a word.
    pub fn word(self) -> u64 {
        let behind = self.behind as u64;
        self.first
            | self.pages << Self::FIRST_BITS
            | behind << (Self::FIRST_BITS + Self::PAGES_BITS)
    }

    /// Meaning of a word; `None` if it is none of these.
    pub fn of(word: u64) -> Option<Run> {
        let bits = |from: u32, count: u32| word >> from & ((1 << count) - 1);
        let behind = match bits(Self::FIRST_BITS + Self::PAGES_BITS, 2) {
            0 => Behind::Zeros,
            1 => Behind::Own,
            2 => Behind::File,
            _ => return None,
        };
        Some(Run {
            first: bits(0, Self::FIRST_BITS),
            pages: bits(Self::FIRST_BITS, Self::PAGES_BITS),
            behind,
        })
    }
}

/// Words of arguments after [`Kind::Syscall`].
pub const SYSCALL_ARGS: usize = 6;

impl Kind {
    const ALL: [Kind; 19] = [
        Kind::Block,
        Kind::Epoch,
        Kind::Wrap,
        Kind::Syscall,
        Kind::SyscallReturn,
        Kind::Vector,
        Kind::Maps,
        Kind::Skipped,
        Kind::Forked,
        Kind::Replaced,
        Kind::Define,
        Kind::ThreadEnd,
        Kind::Note,
        Kind::Unrecorded,
        Kind::Path,
        Kind::Present,
        Kind::Refused,
        Kind::Faults,
        Kind::Allocation,
    ];

    /// The first word of a message of this kind.
    pub const fn word(self, payload: u64) -> u64 {
        MARK | (self as u64) << KIND_SHIFT | payload & PAYLOAD
    }
}

/// A decoded first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// An access.
    Access {
        /// Address of the first byte.
        addr: u64,
        /// Bytes.
        size: u16,
        /// Entry of the block's script.
        entry: usize,
    },
    /// Anything else.
    Message(Kind, u64),
    /// No kind known: the ring is damaged.
    Unknown(u64),
}

impl Word {
    /// Decodes a word that starts a message.
    #[inline]
    pub fn decode(word: u64) -> Word {
        if word & MARK == 0 {
            return Word::Access {
                addr: word & ((1 << ADDRESS_BITS) - 1),
                size: 1 << (word >> SIZE_SHIFT & 7),
                entry: (word >> ENTRY_SHIFT) as usize & (MAX_ENTRIES - 1),
            };
        }
        match Kind::ALL.get((word >> KIND_SHIFT & 0x7f) as usize) {
            Some(&kind) => Word::Message(kind, word & PAYLOAD),
            None => Word::Unknown(word),
        }
    }

    /// Number of words after the first one of a message.
    #[inline]
    pub fn tail(kind: Kind, payload: u64) -> usize {
        match kind {
            Kind::Block
            | Kind::Epoch
            | Kind::Wrap
            | Kind::Forked
            | Kind::Replaced
            | Kind::ThreadEnd => 0,
            Kind::Refused => 1,
            Kind::Syscall => SYSCALL_ARGS,
            Kind::SyscallReturn | Kind::Vector | Kind::Skipped => 2,
            Kind::Maps | Kind::Note | Kind::Unrecorded | Kind::Path => {
                bytes_to_words(payload as usize)
            }
            Kind::Define | Kind::Present | Kind::Faults | Kind::Allocation => payload as usize,
        }
    }
}

/// Words needed for `bytes` bytes.
pub const fn bytes_to_words(bytes: usize) -> usize {
    bytes.div_ceil(8)
}
