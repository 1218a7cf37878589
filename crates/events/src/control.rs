/// Events apart from accesses: system calls that change an address space, and the lives of threads
/// and processes.
///
/// Addresses and lengths are in bytes, as the kernel carried the call out: page-aligned, with
/// the address that mmap returned and not the one that was asked for. Failed calls are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The accesses that follow are made by this thread (numbered from 0 in each process).
    Thread {
        /// The thread.
        thread: u32,
    },
    /// mmap: whatever was mapped there before is gone.
    Map {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// Permissions.
        prot: Protection,
        /// Backing of the mapping.
        backing: Backing,
        /// MAP_POPULATE: present at once.
        populate: bool,
    },
    /// munmap.
    Unmap {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// mprotect.
    Protect {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// Permissions from now on.
        prot: Protection,
    },
    /// mremap: pages keep their frames.
    Remap {
        /// Old first byte.
        old_addr: u64,
        /// Old bytes; 0 with a shared mapping duplicates it (mremap(2)).
        old_len: u64,
        /// New first byte.
        new_addr: u64,
        /// New bytes.
        new_len: u64,
    },
    /// madvise.
    Advise {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// Advice that was given.
        advice: Advice,
    },
    /// prctl(PR_SET_THP_DISABLE): which memory of this address space may have huge pages from now on. Forks
    /// inherit it, and exec keeps it.
    HugePages {
        /// Memory that may have huge pages.
        allowed: HugePages,
    },
    /// brk: the heap now ends here. The first one of an address space says where it starts.
    Brk {
        /// First byte past the heap.
        end: u64,
    },
    /// A new process, a copy of this one (fork, vfork, clone without CLONE_VM).
    Fork {
        /// The child's process number; its events come in batches of their own.
        child: u32,
    },
    /// execve: the address space is empty again; the mappings of the new program follow.
    Exec,
    /// A thread starts (clone with CLONE_VM | CLONE_THREAD).
    ThreadStart {
        /// The new thread.
        thread: u32,
    },
    /// A thread ends.
    ThreadEnd {
        /// The thread.
        thread: u32,
    },
    /// The process ends.
    Exit {
        /// Exit status, or 128 plus the signal that killed it.
        status: i32,
    },
    /// Memory that was touched first where accesses were left out, in order with what changes
    /// mappings. Without a length: from here on all of this address space's is told.
    Touched {
        /// First byte of the first page.
        addr: u64,
        /// Bytes, of whole pages.
        len: u64,
        /// Kind of the touch.
        touch: Touch,
    },
    /// The current thread calls an allocator (malloc, mmap, ...) at an allocation site.
    Allocating {
        /// Number of the [`Definition::AllocationSite`](crate::Definition::AllocationSite).
        site: u32,
    },
    /// That call returns.
    Allocated {
        /// First byte of the memory; 0 if there was none to have.
        addr: u64,
        /// Bytes that were asked for.
        len: u64,
    },
    /// The current thread gives an allocation back (free, realloc).
    Freed {
        /// Its first byte.
        addr: u64,
    },
    /// Accesses were not recorded here (a window or a sample); system calls still were.
    Skipped {
        /// Instructions executed meanwhile by the current thread.
        instructions: u64,
        /// Accesses made meanwhile by the current thread.
        accesses: u64,
    },
}

impl Control {
    /// From here on, all is told that is touched first in an address space where accesses are left out.
    pub const TOUCHES_TOLD: Control = Control::Touched {
        addr: 0,
        len: 0,
        touch: Touch::Present,
    };
}

/// Kind of a touch that [`Control::Touched`] tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A load of each page.
    Loaded,
    /// A store to each page.
    Stored,
    /// Each page has memory of its own by now. Which accesses gave it, and whether any was made
    /// since the page was touched first, is not known.
    Present,
    /// Each page is of code, and some of it was executed.
    Executed,
}

/// Permissions of a mapping: the PROT_READ, PROT_WRITE and PROT_EXEC bits of mmap(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection(pub u8);

impl Protection {
    /// May be read.
    pub const READ: u8 = 1;
    /// May be written.
    pub const WRITE: u8 = 2;
    /// May be executed.
    pub const EXEC: u8 = 4;
}

/// Backing of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Anonymous private memory.
    Anonymous,
    /// Anonymous memory shared over fork (MAP_SHARED | MAP_ANONYMOUS, memfd, System V).
    SharedAnonymous,
    /// A private mapping of a file.
    PrivateFile,
    /// A shared mapping of a file.
    SharedFile,
    /// A thread's or the process's stack, set up by the kernel.
    Stack,
}

/// Memory that a program lets have huge pages: PR_SET_THP_DISABLE(2const).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Any, as the system is set up.
    #[default]
    Anywhere,
    /// None.
    Nowhere,
    /// None but what was advised to: PR_THP_DISABLE_EXCEPT_ADVISED, since Linux 6.18.
    WhereAdvised,
}

/// The advice of madvise(2) that changes what memory costs; everything else is `Other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// MADV_DONTNEED: the pages are gone and read as zeros (or the file) when touched again.
    DontNeed,
    /// MADV_FREE: the pages may go when memory is short.
    Free,
    /// MADV_HUGEPAGE.
    HugePage,
    /// MADV_NOHUGEPAGE.
    NoHugePage,
    /// MADV_POPULATE_WRITE, and mlock; of recordings up to version 256 MADV_POPULATE_READ, too.
    Populate,
    /// Any other, by its number.
    Other(u32),
}

impl Advice {
    /// MADV_COLD.
    pub const COLD: Advice = Advice::Other(20);
    /// MADV_PAGEOUT.
    pub const PAGE_OUT: Advice = Advice::Other(21);
    /// MADV_POPULATE_READ.
    pub const POPULATE_READ: Advice = Advice::Other(22);
    /// MADV_COLLAPSE: huge pages at once, whatever the system is set to.
    pub const COLLAPSE: Advice = Advice::Other(25);
    /// MADV_DONTFORK: a fork does not have it. MADV_DOFORK undoes that.
    pub const DONT_FORK: Advice = Advice::Other(10);
    /// See [`Advice::DONT_FORK`].
    pub const DO_FORK: Advice = Advice::Other(11);
    /// MADV_WIPEONFORK: a fork finds zeros. MADV_KEEPONFORK undoes that.
    pub const WIPE_ON_FORK: Advice = Advice::Other(18);
    /// See [`Advice::WIPE_ON_FORK`].
    pub const KEEP_ON_FORK: Advice = Advice::Other(19);
}
