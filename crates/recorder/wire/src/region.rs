//! The shared memory: one header, then [`RINGS`] rings, each with a header of its own.
//!
//! The recorder makes it as a memfd, so that nothing is left behind whatever is killed; the plugin
//! maps it and closes the descriptor again unless it could not open it any more, because programs
//! count and close theirs. Forked children inherit the mapping. Most of it is never touched and
//! costs no memory.
//!
//! A ring has one writer (the recorded thread) and one reader (the recorder). The writer's
//! cursor lives here and moves with every word, so what a thread wrote before it was killed
//! is not lost. Neither side overtakes the other: `write` never catches up with `read`
//! from behind, so equal cursors mean an empty ring.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// Marks the header. A hash of this crate's source: a recorder and a plugin that were not built
/// from the same one do not understand each other, and must not try.
pub const MAGIC: u64 = {
    let mut hash = FNV_OFFSET;
    let sources = [
        include_bytes!("region.rs").as_slice(),
        include_bytes!("life.rs"),
        include_bytes!("word.rs"),
        include_bytes!("syscall.rs"),
        include_bytes!("block/mod.rs"),
        include_bytes!("block/address.rs"),
        include_bytes!("block/dependence.rs"),
        include_bytes!("block/trusted.rs"),
    ];
    let mut source = 0;
    while source < sources.len() {
        let mut byte = 0;
        while byte < sources[source].len() {
            hash = (hash ^ sources[source][byte] as u64).wrapping_mul(FNV_PRIME);
            byte += 1;
        }
        source += 1;
    }
    hash
};

// 64-bit FNV-1a (RFC 9923).
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Number of rings: one for each recorded thread that is alive or not yet read to its end, and
/// one for the block definitions of each process.
pub const RINGS: usize = 4096;

/// The first rings are large, so that a program of few threads seldom waits; the others are
/// small, so that one of a thousand threads does not fill the memory.
const LARGE_RINGS: usize = 16;
const LARGE_WORDS: usize = 512 * 1024;
const SMALL_WORDS: usize = 64 * 1024;

/// A value alone on its cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line<T>(pub T);

/// The start of the shared memory.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// Held by the recorder while it lives ([`crate::life`]): whoever waits for room in a ring asks for that.
    pub life: Line<[AtomicU64; LIFE_WORDS]>,
    /// Non-zero: [`Header::left`] counts instructions; accesses otherwise.
    pub in_instructions: u32,
    /// Non-zero: programs started by recorded ones are recorded as well.
    pub follow_exec: u32,
    /// Non-zero: every access is reported, even those that follow from others.
    pub verbatim: u32,
    /// Non-zero: where nothing is reported, it is told which pages are there.
    pub tells_presence: u32,
    /// Counts the beginnings and ends of system calls that change an address space. A thread
    /// that notices a change says so in its ring: rings are merged by epoch.
    pub epoch: Line<AtomicU64>,
    /// The next block's number.
    pub next_block: Line<AtomicU32>,
    /// One more than the highest ring that was ever in use.
    pub rings_used: Line<AtomicU32>,
    /// Non-zero when nobody reads the rings any more: why, an [`Abandoned`]. What is written then is lost.
    pub abandoned: Line<AtomicU32>,
    /// Counts the rings that have been claimed.
    pub next_ring: Line<AtomicU64>,
    /// The next process's number.
    pub next_process: Line<AtomicU32>,
    /// Non-zero while accesses are to be reported; otherwise they are only counted.
    pub reporting: Line<AtomicU32>,
    /// Number of accesses (or instructions) that are still to be left out before reporting starts
    /// again.
    pub left: Line<AtomicI64>,
}

/// Room for the mutex of [`Header::life`].
pub const LIFE_WORDS: usize = 8;

/// Reason for which nobody reads the rings any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Abandoned {
    /// The recorder has stopped reading them.
    Stopped = 1,
    /// All were in use when another was needed.
    Full = 2,
    /// The recorder has died.
    Dead = 3,
}

/// Reporting starts so much before it must: a whole block is left out or reported, and the
/// recorder drops what is too much.
pub const EARLY: i64 = 1024;

/// Use of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nobody's.
    Free = 0,
    /// Being set up by a plugin.
    Claimed = 1,
    /// Written to.
    Open = 2,
    /// The writer has gone; the recorder reads what is left and frees it.
    Ended = 3,
}

impl State {
    /// The state with this number.
    pub fn from_u32(number: u32) -> Option<State> {
        [State::Free, State::Claimed, State::Open, State::Ended]
            .into_iter()
            .find(|&state| state as u32 == number)
    }
}

/// The start of a ring; its words follow.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Ring {
    /// Place where the writer writes next: an address in the writer's process.
    pub write: AtomicU64,
    /// The writer may write [`SLACK`] words while its cursor is not beyond this address.
    pub limit: AtomicU64,
    /// Place of the writer when it learnt that nobody reads any more, and from when on it writes elsewhere; 0 before.
    /// What comes up to here is all of this ring.
    pub last: AtomicU64,
    /// Place where it writes then: an address of its process, and a number of words; 0 before.
    pub elsewhere: [AtomicU64; 2],
    /// The epoch that the writer has last seen.
    pub epoch: AtomicU64,
    /// Address of the first word in the writer's process.
    pub base: AtomicU64,
    /// Number of words.
    pub words: AtomicU64,
    /// Place where the reader reads next: index of a word.
    pub read: Line<AtomicU64>,
    /// Non-zero while the writer waits for `read` to move: a futex.
    pub waiting: AtomicU32,
    /// A [`State`].
    pub state: Line<AtomicU32>,
    /// Number of this use of the ring, as counted by [`Header::next_ring`].
    pub claimed: AtomicU64,
    /// Number of the process, as counted by [`Header::next_process`].
    pub process: AtomicU32,
    /// Number of the process that forked this one; [`NO_PARENT`] otherwise. Who is killed just then does not come to
    /// say it in its own ring.
    pub parent: AtomicU32,
    /// Process id, as the recorder sees it as long as no process namespace is between.
    pub pid: AtomicU32,
    /// Thread id.
    pub tid: AtomicU32,
    /// Non-zero: holds definitions of blocks; events of a thread otherwise.
    pub definitions: AtomicU32,
    /// Non-zero: the first thread of its process. Others are announced by clone's result.
    pub first: AtomicU32,
    /// The thread's number in QEMU.
    pub vcpu: AtomicU32,
    /// Arguments of the system call in progress, kept by the writer.
    pub arguments: [AtomicU64; 6],
}

/// Parent of a ring that is not for a forked process.
pub const NO_PARENT: u32 = u32::MAX;

/// Words that can be written without asking again after one look at [`Ring::limit`].
pub const SLACK: usize = 16;

const HEADER_BYTES: usize = 4096;

/// Number of words in ring `index`.
pub const fn ring_words(index: usize) -> usize {
    if index < LARGE_RINGS {
        LARGE_WORDS
    } else {
        SMALL_WORDS
    }
}

/// Begin of ring `index`, in bytes from the start of the memory.
pub const fn ring_offset(index: usize) -> usize {
    let large = if index < LARGE_RINGS {
        index
    } else {
        LARGE_RINGS
    };
    let small = index - large;
    HEADER_BYTES
        + large * (size_of::<Ring>() + LARGE_WORDS * 8)
        + small * (size_of::<Ring>() + SMALL_WORDS * 8)
}

/// Size of the whole memory in bytes.
pub const BYTES: usize = ring_offset(RINGS);

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);
const _: () = assert!(size_of::<Ring>() == 4096);

/// Maps the whole memory, of which this is a descriptor, at a `wished` address if nothing is there. 0: anywhere.
///
/// # Errors
/// When the system refuses.
pub fn map(memory: BorrowedFd<'_>, wished: usize) -> io::Result<*mut Header> {
    // SAFETY: a new mapping, at a place that the kernel chooses: a wish replaces none (mmap(2)).
    let address = unsafe {
        libc::mmap(
            std::ptr::without_provenance_mut(wished),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            memory.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(address.cast())
}
