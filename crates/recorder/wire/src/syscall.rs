//! System calls that change an address space, or in which the kernel reads or writes the
//! program's memory. x86-64 numbers: arch/x86/entry/syscalls/syscall_64.tbl of Linux.

use crate::allocation::MARK;
use Length::{Arg, Fixed, IfAny, Items, ItemsOfResult, Returned, UpTo};

/// Work for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Changes the address space. One thread at a time does such a call, so that their order
    /// in the recording is the order in which they happened.
    Memory,
    /// Makes a thread or a process.
    Clone,
    /// Replaces the program.
    Exec,
    /// Ends the thread.
    Exit,
    /// Ends the process.
    ExitGroup,
    /// The kernel copies to or from the program's memory.
    Copy(&'static [Copied]),
    /// The same, through I/O vectors; `store` when the kernel writes them (as readv does).
    Vector {
        /// Place of the vectors.
        vectors: Vectors,
        /// The kernel writes the memory.
        store: bool,
    },
    /// No call of Linux: a mark of the preloaded library ([`crate::allocation`]).
    Mark,
    /// None of this.
    Other,
}

/// Place of a call's I/O vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// Argument 1 is an array of struct iovec, argument 2 their number.
    Array,
    /// Argument 1 points to a struct msghdr.
    Message,
}

/// One piece of memory that the kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Number of the argument that points to it (0 to 5); a null pointer means nothing is copied.
    pub pointer: usize,
    /// The kernel writes it (as read(2) does).
    pub store: bool,
    /// Length of it.
    pub length: Length,
}

/// Length of a piece of memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As many as the call returned.
    Returned,
    /// As many as the call returned, which may be more than there was room for: as an argument says.
    UpTo(usize),
    /// Always so many.
    Fixed(u64),
    /// So many, unless the call returned 0: that there was nothing to tell.
    IfAny(u64),
    /// As an argument says.
    Arg(usize),
    /// As many items as an argument says, of so many bytes.
    Items(usize, u64),
    /// As many items as the call returned, of so many bytes.
    ItemsOfResult(u64),
}

impl Copied {
    /// Bytes copied by a call with these arguments that returned `result`.
    pub fn bytes(&self, args: &[u64; 6], result: u64) -> u64 {
        match self.length {
            Returned => result,
            UpTo(arg) => result.min(args[arg]),
            Fixed(bytes) => bytes,
            IfAny(bytes) => bytes * u64::from(result != 0),
            Arg(arg) => args[arg],
            Items(arg, size) => args[arg].saturating_mul(size),
            ItemsOfResult(size) => result.saturating_mul(size),
        }
    }
}

/// The kernel reads it.
const fn from(pointer: usize, length: Length) -> Copied {
    Copied {
        pointer,
        store: false,
        length,
    }
}

/// The kernel writes it.
const fn to(pointer: usize, length: Length) -> Copied {
    Copied {
        pointer,
        store: true,
        length,
    }
}

// Sizes of kernel structures on x86-64.
const STAT: Length = Fixed(144);
const STATX: Length = Fixed(256);
const STATFS: Length = Fixed(120);
const TIMESPEC: Length = Fixed(16);
const ITIMERSPEC: Length = Fixed(32);
const RLIMIT: Length = Fixed(16);
const RUSAGE: Length = Fixed(144);
/// Length of siginfo_t, what a child's state is told in. The usage of resources, argument 4, is hardly ever asked
/// for.
const WAITED: Length = Fixed(28);
const SIGACTION: Length = Fixed(32);
const SIGSET: Length = Fixed(8);
const POLLFD: u64 = 8;
const EPOLL_EVENT: u64 = 12;

/// Mark of what is told of a mapping beside a call: this, its protection in the lowest three bits, and the next two.
pub const MAPPED: u64 = 1 << 5;
/// It is shared.
pub const MAPPED_SHARED: u64 = 1 << 3;
/// It is no file, or one that is memory.
pub const MAPPED_MEMORY: u64 = 1 << 4;

/// Work for system call `number`.
pub fn call(number: u64) -> Call {
    match number {
        9 | 10 | 11 | 12 | 25 | 28 | 30 | 67 => Call::Memory, // mmap mprotect munmap brk mremap madvise shmat shmdt
        149 | 157 | 325 => Call::Memory,                      // mlock prctl mlock2
        56 | 57 | 58 | 435 => Call::Clone,                    // clone fork vfork clone3
        59 | 322 => Call::Exec,                               // execve execveat
        60 => Call::Exit,
        231 => Call::ExitGroup,
        19 | 295 | 327 => Call::Vector {
            // readv preadv preadv2
            vectors: Vectors::Array,
            store: true,
        },
        20 | 296 | 328 => Call::Vector {
            // writev pwritev pwritev2
            vectors: Vectors::Array,
            store: false,
        },
        47 => Call::Vector {
            // recvmsg
            vectors: Vectors::Message,
            store: true,
        },
        46 => Call::Vector {
            // sendmsg
            vectors: Vectors::Message,
            store: false,
        },
        MARK => Call::Mark,
        _ => match copied(number) {
            [] => Call::Other,
            pieces => Call::Copy(pieces),
        },
    }
}

/// The memory that the kernel reads and writes in system call `number`.
fn copied(number: u64) -> &'static [Copied] {
    match number {
        0 | 17 => &const { [to(1, Returned)] },        // read pread64
        45 => &const { [to(1, UpTo(2))] },             // recvfrom
        1 | 18 | 44 => &const { [from(1, Returned)] }, // write pwrite64 sendto
        4..=6 => &const { [to(1, STAT)] },             // stat fstat lstat
        262 => &const { [to(2, STAT)] },               // newfstatat
        332 => &const { [to(4, STATX)] },              // statx
        137 | 138 => &const { [to(1, STATFS)] },       // statfs fstatfs
        7 => &const { [from(0, Items(1, POLLFD)), to(0, Items(1, POLLFD))] }, // poll
        271 => &const { [from(0, Items(1, POLLFD)), to(0, Items(1, POLLFD))] }, // ppoll
        13 => &const { [from(1, SIGACTION), to(2, SIGACTION)] }, // rt_sigaction
        14 => &const { [from(1, SIGSET), to(2, SIGSET)] }, // rt_sigprocmask
        22 | 293 => &const { [to(0, Fixed(8))] },      // pipe pipe2
        53 => &const { [to(3, Fixed(8))] },            // socketpair
        35 => &const { [from(0, TIMESPEC)] },          // nanosleep
        230 => &const { [from(2, TIMESPEC)] },         // clock_nanosleep
        42 | 49 => &const { [from(1, Arg(2))] },       // connect bind
        54 => &const { [from(3, Arg(4))] },            // setsockopt
        61 => &const { [to(1, IfAny(4)), to(3, IfAny(144))] }, // wait4
        247 => &const { [to(2, WAITED)] },             // waitid
        63 => &const { [to(0, Fixed(390))] },          // uname
        78 | 217 => &const { [to(1, Returned)] },      // getdents getdents64
        79 => &const { [to(0, Returned)] },            // getcwd
        89 => &const { [to(1, Returned)] },            // readlink
        267 => &const { [to(2, Returned)] },           // readlinkat
        96 => &const { [to(0, Fixed(16))] },           // gettimeofday
        97 => &const { [to(1, RLIMIT)] },              // getrlimit
        98 => &const { [to(1, RUSAGE)] },              // getrusage
        99 => &const { [to(0, Fixed(112))] },          // sysinfo
        160 => &const { [from(1, RLIMIT)] },           // setrlimit
        302 => &const { [from(2, RLIMIT), to(3, RLIMIT)] }, // prlimit64
        204 => &const { [to(2, Returned)] },           // sched_getaffinity
        203 => &const { [from(2, Arg(1))] },           // sched_setaffinity
        228 | 229 => &const { [to(1, TIMESPEC)] },     // clock_gettime clock_getres
        232 | 281 => &const { [to(1, ItemsOfResult(EPOLL_EVENT))] }, // epoll_wait epoll_pwait
        233 => &const { [from(3, Fixed(EPOLL_EVENT))] }, // epoll_ctl
        286 => &const { [from(2, ITIMERSPEC), to(3, ITIMERSPEC)] }, // timerfd_settime
        318 => &const { [to(0, Returned)] },           // getrandom
        40 => &const { [from(2, Fixed(8)), to(2, Fixed(8))] }, // sendfile
        _ => &[],
    }
}
