//! The memory shared with the plugin, and reading the rings in it.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use pagelab_recorder_wire::block::Reporting;
use pagelab_recorder_wire::life::Life;
use pagelab_recorder_wire::region::{self, Abandoned, Header, Line, Ring, State};
use pagelab_recorder_wire::word::{Kind, Word};

use crate::in_order::WordReader;

/// A header of which no plugin has written anything.
pub(crate) fn fresh() -> Header {
    Header {
        magic: region::MAGIC,
        life: Line([const { AtomicU64::new(0) }; region::LIFE_WORDS]),
        in_instructions: 0,
        follow_exec: 0,
        verbatim: 0,
        tells_presence: 0,
        epoch: Line(AtomicU64::new(1)),
        next_block: Line(AtomicU32::new(0)),
        rings_used: Line(AtomicU32::new(1)),
        next_process: Line(AtomicU32::new(1)),
        abandoned: Line(AtomicU32::new(0)),
        next_ring: Line(AtomicU64::new(1)),
        reporting: Line(AtomicU32::new(1)),
        left: Line(AtomicI64::new(0)),
    }
}

/// Name of the memory in /proc/PID/maps.
const NAME: &CStr = c"pagelab-rings";

/// The memory, mapped. It has no name: it goes when the last process that maps it does.
pub(crate) struct Shared {
    file: File,
    address: *mut libc::c_void,
}

impl Shared {
    /// Makes the memory. `set_up` fills in what the plugin needs to know.
    pub(crate) fn new(set_up: impl FnOnce(&mut Header)) -> io::Result<Shared> {
        // SAFETY: the name ends with a zero byte; a descriptor that is returned is ours.
        let file = unsafe {
            let descriptor = libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(descriptor)
        };
        // Asked before: to exceed it is a signal's affair, too.
        if limit(libc::RLIMIT_FSIZE) < region::BYTES as u64 {
            return Err(limited("of the size of files", "ulimit -f, RLIMIT_FSIZE"));
        }
        file.set_len(region::BYTES as u64)?;
        let header = region::map(file.as_fd(), 0).map_err(|error| {
            if limit(libc::RLIMIT_AS) == libc::RLIM_INFINITY {
                return error;
            }
            limited("of the address space", "ulimit -v, RLIMIT_AS")
        })?;
        // SAFETY: the memory is new, zeroed (valid for every field) and nobody else's yet.
        set_up(unsafe { &mut *header });
        let address = header.cast();
        Ok(Shared { file, address })
    }

    /// Path by which another process of the same user can open the memory.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// True if another process has the memory mapped. One that has not is no recorded one, whatever its number: the
    /// program may number processes otherwise (pid_namespaces(7)), and numbers are used again.
    pub(crate) fn is_mapped_by(&self, pid: u32) -> bool {
        let name = NAME.to_string_lossy();
        let inode = self.file.metadata().map(|about| about.ino().to_string());
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"));
        let (Ok(inode), Ok(maps)) = (inode, maps) else {
            return false;
        };
        pid != std::process::id()
            && (maps.lines()).any(|line| {
                line.contains(&*name) && line.split_ascii_whitespace().nth(4) == Some(&inode)
            })
    }

    /// The header. Its plain fields do not change any more.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: mapped as long as `self` lives; what others write is atomic.
        unsafe { &*self.address.cast::<Header>() }
    }

    /// The calling thread is the recorder, until it drops what this returns. Before any plugin has come to the memory.
    pub(crate) fn begin_life(self: &Rc<Shared>) -> io::Result<HeldLife> {
        // SAFETY: the memory is mapped as long as `HeldLife` keeps it, and nobody has looked at it yet.
        let life = unsafe { Life::begin(self.header()) }?;
        let shared = self.clone();
        Ok(HeldLife {
            _life: life,
            _shared: shared,
        })
    }

    /// Fails when the program does not write into the rings any more. Who has looked at them before sees all that they
    /// had until then.
    pub(crate) fn check_written(&self) -> io::Result<()> {
        let why = self.header().abandoned.0.load(Ordering::Acquire);
        if why == 0 {
            return Ok(());
        }
        Err(io::Error::other(if why == Abandoned::Full as u32 {
            format!("more than {} threads and processes at once", region::RINGS)
        } else {
            "the program has lost the recorder, and went on unrecorded".to_owned()
        }))
    }

    /// True if a process is being made, or has not come to its first instruction, that this one has forked.
    pub(crate) fn is_forking(&self, process: u32) -> bool {
        let used = self.header().rings_used.0.load(Ordering::Acquire) as usize;
        (0..used).any(|index| {
            self.state(index) == State::Claimed
                && self.ring(index).parent.load(Ordering::Acquire) == process
        })
    }

    /// The epoch that threads are in: what was written before it began is seen from now on.
    pub(crate) fn epoch(&self) -> u64 {
        self.header().epoch.0.load(Ordering::Acquire)
    }

    /// Accesses that are reported.
    pub(crate) fn reporting(&self) -> Reporting {
        if self.header().verbatim == 0 {
            Reporting::Needed
        } else {
            Reporting::Verbatim
        }
    }

    /// Ring `index`.
    pub(crate) fn ring(&self, index: usize) -> &Ring {
        assert!(index < region::RINGS);
        // SAFETY: inside the mapping; all fields are atomic.
        unsafe { &*self.address.byte_add(region::ring_offset(index)).cast() }
    }

    /// The state of ring `index`.
    pub(crate) fn state(&self, index: usize) -> State {
        State::from_u32(self.ring(index).state.0.load(Ordering::Acquire)).unwrap_or(State::Free)
    }

    /// Gives ring `index` back to whoever needs one, and its memory to the system.
    pub(crate) fn free(&self, index: usize) {
        let start = region::ring_offset(index) + size_of::<Ring>();
        // SAFETY: punching a hole in a file of our own; on failure it merely stays large.
        unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                start as i64,
                (region::ring_words(index) * 8) as i64,
            );
        }
        let state = &self.ring(index).state.0;
        state.store(State::Free as u32, Ordering::Release);
    }

    /// A reader of ring `index`, which has been opened.
    pub(crate) fn reader(&self, index: usize) -> Reader<'_> {
        let ring = self.ring(index);
        Reader {
            // SAFETY: the words follow the ring's header, inside the mapping.
            words: unsafe { std::ptr::from_ref(ring).add(1).cast() },
            len: region::ring_words(index),
            base: ring.base.load(Ordering::Relaxed),
            read: 0,
            write: 0,
            is_final: false,
            is_given_up: false,
            ring,
        }
    }

    /// Opens ring `index` for words that are put there by this process.
    pub(crate) fn writer(&self, index: usize) -> Writer {
        let ring = self.ring(index);
        let base = std::ptr::from_ref(ring).wrapping_add(1).addr() as u64;
        ring.base.store(base, Ordering::Relaxed);
        ring.write.store(base, Ordering::Relaxed);
        ring.read.0.store(0, Ordering::Relaxed);
        ring.last.store(0, Ordering::Relaxed);
        ring.waiting.store(0, Ordering::Relaxed);
        ring.state.0.store(State::Open as u32, Ordering::Release);
        let used = &self.header().rings_used.0;
        used.fetch_max(index as u32 + 1, Ordering::AcqRel);
        Writer { index, write: 0 }
    }
}

/// As long as there is this, the plugin takes the recorder for alive.
pub(crate) struct HeldLife {
    _life: Life,
    /// Dropped behind it.
    _shared: Rc<Shared>,
}

fn limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is ours to write.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit.rlim_cur
}

fn limited(of: &str, set_by: &str) -> io::Error {
    let megabytes = region::BYTES >> 20;
    io::Error::other(format!(
        "it takes {megabytes} MB (of which only what is used is allocated), more than the limit {of} leaves ({set_by})"
    ))
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped; nothing borrowed from it outlives `self`.
        unsafe { libc::munmap(self.address, region::BYTES) };
    }
}

/// Writes into a ring what nobody else writes into.
#[derive(Debug)]
pub(crate) struct Writer {
    index: usize,
    write: usize,
}

impl Writer {
    /// Puts whole messages into the ring, side by side; `false` if there is no room for them.
    pub(crate) fn put(&mut self, shared: &Shared, words: &[u64]) -> bool {
        let ring = shared.ring(self.index);
        let len = region::ring_words(self.index);
        let read = ring.read.0.load(Ordering::Acquire) as usize;
        // SAFETY: the words follow the ring's header, inside the mapping.
        let start = unsafe { std::ptr::from_ref(ring).add(1).cast::<u64>().cast_mut() };
        let mut at = self.write;
        if at < read {
            if at + words.len() >= read {
                return false;
            }
        } else if at + words.len() >= len {
            if words.len() >= read {
                return false;
            }
            // SAFETY: `at` is inside the ring, and the reader does not read it before `write` says so.
            unsafe { start.add(at).write(Kind::Wrap.word(0)) };
            at = 0;
        }
        // SAFETY: so many words from `at` on are inside the ring, and have been read; `words` is no part of it.
        unsafe {
            start
                .add(at)
                .copy_from_nonoverlapping(words.as_ptr(), words.len())
        };
        self.write = at + words.len();
        let end = ring.base.load(Ordering::Relaxed) + 8 * self.write as u64;
        ring.write.store(end, Ordering::Release);
        true
    }
}

/// Reads one ring.
pub(crate) struct Reader<'a> {
    ring: &'a Ring,
    words: *const u64,
    len: usize,
    base: u64,
    /// The next word to read, and the end of what may be read now.
    read: usize,
    write: usize,
    is_final: bool,
    is_given_up: bool,
}

impl<'a> Reader<'a> {
    /// Looks how far the writer has come.
    pub(crate) fn look(&mut self) {
        self.write = self.written();
        if self.is_given_up {
            self.read = self.write;
            self.release();
        }
        self.skip_wrap();
    }

    /// Reads nothing more of a ring whose words make no sense. Its writer is not to wait for that. Whether that is new.
    pub(crate) fn give_up(&mut self) -> bool {
        let before = std::mem::replace(&mut self.is_given_up, true);
        self.look();
        !before
    }

    /// The writer is gone: looks for the last time.
    pub(crate) fn look_finally(&mut self) {
        self.look();
        self.is_final = true;
    }

    /// True if everything has been read that is there at this moment.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.is_empty() && self.written() == self.read
    }

    /// Word number `index` after the next one, of the same message.
    pub(crate) fn word(&self, index: usize) -> u64 {
        let at = (self.read + index).min(self.len - 1);
        // SAFETY: as for `peek`.
        unsafe { self.words.add(at).read() }
    }

    /// The words that follow the first one of a message, as bytes.
    pub(crate) fn bytes(&self, words: std::ops::Range<usize>) -> Vec<u8> {
        words
            .flat_map(|index| self.word(index).to_le_bytes())
            .collect()
    }

    #[inline(always)]
    fn skip_wrap(&mut self) {
        if self.read != self.write && self.peek() == Kind::Wrap.word(0) {
            self.read = 0;
        }
    }

    /// Leaves the rest for later.
    pub(crate) fn postpone(&mut self) {
        self.write = self.read;
    }

    /// Tells the writer what has been read, and wakes it when half of the ring is free: for less it
    /// would be back at once, and on a busy machine each time is a wait for the processor. (It looks
    /// for itself after a while, should nothing more be read before others have written.)
    pub(crate) fn release(&self) {
        self.ring.read.0.store(self.read as u64, Ordering::SeqCst);
        if self.ring.waiting.load(Ordering::SeqCst) != 0 && 2 * self.unread() <= self.len {
            self.ring.waiting.store(0, Ordering::SeqCst);
            wake(&self.ring.waiting);
        }
    }

    /// Words written that have not been read.
    fn unread(&self) -> usize {
        (self.written() + self.len - self.read) % self.len
    }

    /// Place of the writer, or where it has left the ring.
    fn written(&self) -> usize {
        let write = self.ring.write.load(Ordering::Acquire);
        let last = self.ring.last.load(Ordering::Acquire);
        let end = if last == 0 { write } else { last };
        // A damaged cursor must not lead out of the ring.
        (end.wrapping_sub(self.base) / 8) as usize % self.len
    }

    /// The ring.
    pub(crate) fn ring(&self) -> &'a Ring {
        self.ring
    }

    /// The next word, decoded.
    pub(crate) fn decode(&self) -> Word {
        Word::decode(self.peek())
    }
}

impl WordReader for Reader<'_> {
    fn is_final(&self) -> bool {
        self.is_final
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.read == self.write
    }

    #[inline(always)]
    fn peek(&self) -> u64 {
        debug_assert!(!self.is_empty());
        // SAFETY: `read` is below `len`; the writer does not touch words between its cursor
        // and `Ring::read`.
        unsafe { self.words.add(self.read).read() }
    }

    fn available(&self) -> &[u64] {
        let end = if self.read <= self.write {
            self.write
        } else {
            self.len
        };
        // SAFETY: `read` to `end` is inside the ring, and the writer does not touch it before
        // `release` says so, which callers do only after they are done with the slice.
        unsafe { std::slice::from_raw_parts(self.words.add(self.read), end - self.read) }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.read += 1;
        self.skip_wrap();
    }

    fn advance_by(&mut self, words: usize) {
        self.read = (self.read + words).min(self.len - 1);
        self.skip_wrap();
    }

    fn mark(&self) -> usize {
        self.read
    }

    fn go_back(&mut self, mark: usize) {
        self.read = mark;
    }
}

fn wake(word: &AtomicU32) {
    // SAFETY: `word` lives during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
