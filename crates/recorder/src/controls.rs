//! System calls as control events.

use pagelab_events::{Advice, Backing, Control, HugePages, Protection};
use pagelab_recorder_wire::syscall::{MAPPED, MAPPED_MEMORY, MAPPED_SHARED};

use crate::PAGE;

// arch/x86/entry/syscalls/syscall_64.tbl of Linux.
const MMAP: u64 = 9;
const MPROTECT: u64 = 10;
const MUNMAP: u64 = 11;
const BRK: u64 = 12;
const MREMAP: u64 = 25;
const MADVISE: u64 = 28;
const SHMAT: u64 = 30;
const SHMDT: u64 = 67;
const MLOCK: u64 = 149;
const PRCTL: u64 = 157;
const MLOCK2: u64 = 325;
/// include/uapi/linux/prctl.h, since Linux 6.18.
const PR_THP_DISABLE_EXCEPT_ADVISED: u64 = 1 << 1;

/// State by which a process's calls are understood.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// The end of the heap, once known.
    brk: Option<u64>,
    /// System V segments attached: address and bytes.
    segments: Vec<(u64, u64)>,
}

/// A system call that has returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    pub(crate) number: u64,
    pub(crate) arguments: [u64; 6],
    pub(crate) result: u64,
    /// See the plugin's syscalls.rs: for mmap, whether the file is memory; for shmat, the size;
    /// for mremap that leaves the old mapping, what is mapped; for wait4 the status, for waitid the process as well.
    pub(crate) fact: u64,
}

impl Returned {
    /// A call of so many arguments, which has given a result.
    pub(crate) fn of((number, arguments): (u64, [u64; 6]), result: u64, fact: u64) -> Returned {
        Returned {
            number,
            arguments,
            result,
            fact,
        }
    }

    /// True if the result is an error: -4095 to -1.
    pub(crate) fn failed(&self) -> bool {
        self.result > u64::MAX - 4095
    }
}

impl Memory {
    /// The control event for a call that changes the address space, if it did.
    pub(crate) fn control(&mut self, call: &Returned) -> Option<Control> {
        if call.failed() {
            return None;
        }
        let [a1, a2, a3, a4, ..] = call.arguments;
        Some(match call.number {
            MMAP => Control::Map {
                addr: call.result,
                len: pages(a2),
                prot: protection(a3),
                backing: backing(a4, call.fact != 0),
                // do_mmap in mm/mmap.c; MAP_LOCKED has the pages as well, as mlock has.
                populate: a4 & (libc::MAP_POPULATE | libc::MAP_LOCKED) as u64 != 0,
            },
            MPROTECT => Control::Protect {
                addr: a1,
                len: pages(a2),
                prot: protection(a3),
            },
            MUNMAP => Control::Unmap {
                addr: a1,
                len: pages(a2),
            },
            BRK => return self.heap_ends(call.result),
            // Nothing is taken away: it is the same memory once more.
            MREMAP if a2 == 0 => mapped(call.result, pages(a3), call.fact)?,
            MREMAP => Control::Remap {
                old_addr: a1,
                old_len: pages(a2),
                new_addr: call.result,
                new_len: pages(a3),
            },
            MADVISE => Control::Advise {
                addr: a1,
                len: pages(a2),
                advice: advice(a3),
            },
            MLOCK2 if a3 & libc::MLOCK_ONFAULT as u64 != 0 => return None,
            MLOCK | MLOCK2 => Control::Advise {
                addr: a1 & !(PAGE - 1),
                len: pages(a2.saturating_add(a1 & (PAGE - 1))),
                advice: Advice::Populate,
            },
            PRCTL if a1 as i32 == libc::PR_SET_THP_DISABLE => Control::HugePages {
                allowed: match (a2, a3 & PR_THP_DISABLE_EXCEPT_ADVISED) {
                    (0, _) => HugePages::Anywhere,
                    (_, 0) => HugePages::Nowhere,
                    _ => HugePages::WhereAdvised,
                },
            },
            SHMAT => {
                let len = pages(call.fact);
                self.segments.push((call.result, len));
                Control::Map {
                    addr: call.result,
                    len,
                    prot: shared_protection(a3),
                    backing: Backing::SharedAnonymous,
                    populate: false,
                }
            }
            SHMDT => {
                let at = self.segments.iter().position(|&(addr, _)| addr == a1)?;
                let (addr, len) = self.segments.swap_remove(at);
                Control::Unmap { addr, len }
            }
            _ => return None,
        })
    }

    /// The control event that follows that one: what mremap has left where it has taken pages from (MREMAP_DONTUNMAP).
    pub(crate) fn left(call: &Returned) -> Option<Control> {
        let [address, bytes, _, flags, ..] = call.arguments;
        let leaves = flags & libc::MREMAP_DONTUNMAP as u64 != 0;
        (call.number == MREMAP && !call.failed() && leaves && bytes != 0)
            .then(|| mapped(address, pages(bytes), call.fact))?
    }

    /// brk returns the end of the heap, moved or not.
    fn heap_ends(&mut self, end: u64) -> Option<Control> {
        let moved = self.brk.replace(end) != Some(end);
        moved.then_some(Control::Brk { end })
    }
}

/// A mapping that is as the plugin has told of one.
fn mapped(addr: u64, len: u64, about: u64) -> Option<Control> {
    let is = |bit| about & bit != 0;
    let backing = match (is(MAPPED_MEMORY), is(MAPPED_SHARED)) {
        (true, true) => Backing::SharedAnonymous,
        (true, false) => Backing::Anonymous,
        (false, true) => Backing::SharedFile,
        (false, false) => Backing::PrivateFile,
    };
    is(MAPPED).then_some(Control::Map {
        addr,
        len,
        prot: protection(about),
        backing,
        populate: false,
    })
}

/// Bytes of the pages that so many bytes need.
fn pages(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes)
}

fn protection(bits: u64) -> Protection {
    Protection(bits as u8 & (Protection::READ | Protection::WRITE | Protection::EXEC))
}

fn shared_protection(flags: u64) -> Protection {
    let mut bits = Protection::READ;
    if flags & libc::SHM_RDONLY as u64 == 0 {
        bits |= Protection::WRITE;
    }
    if flags & libc::SHM_EXEC as u64 != 0 {
        bits |= Protection::EXEC;
    }
    Protection(bits)
}

fn backing(flags: u64, memory_file: bool) -> Backing {
    let anonymous = flags & libc::MAP_ANONYMOUS as u64 != 0;
    // MAP_SHARED_VALIDATE is both bits.
    let shared = flags & libc::MAP_SHARED as u64 != 0;
    // One grows down by itself; the other is said to be a stack's.
    let stack = (libc::MAP_GROWSDOWN | libc::MAP_STACK) as u64;
    if flags & stack != 0 && anonymous && !shared {
        return Backing::Stack;
    }
    match (anonymous || memory_file, shared) {
        (true, true) => Backing::SharedAnonymous,
        (true, false) if anonymous => Backing::Anonymous,
        (false, true) => Backing::SharedFile,
        (_, false) => Backing::PrivateFile,
    }
}

fn advice(number: u64) -> Advice {
    match number as i32 {
        libc::MADV_DONTNEED => Advice::DontNeed,
        libc::MADV_FREE => Advice::Free,
        libc::MADV_HUGEPAGE => Advice::HugePage,
        libc::MADV_NOHUGEPAGE => Advice::NoHugePage,
        libc::MADV_POPULATE_WRITE => Advice::Populate,
        _ => Advice::Other(number as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u64, arguments: [u64; 6], result: u64) -> Returned {
        Returned::of((number, arguments), result, 0)
    }

    #[test]
    fn a_failed_call_is_no_event() {
        let error = -12i64 as u64;
        assert_eq!(
            Memory::default().control(&call(MMAP, [0, 4096, 3, 0x22, 0, 0], error)),
            None
        );
    }

    #[test]
    fn the_first_brk_says_where_the_heap_starts_and_only_moves_follow() {
        let mut memory = Memory::default();
        let mut brk = |end| memory.control(&call(BRK, [0; 6], end));
        assert_eq!(brk(0x1000), Some(Control::Brk { end: 0x1000 }));
        assert_eq!(brk(0x1000), None);
        assert_eq!(brk(0x3000), Some(Control::Brk { end: 0x3000 }));
    }

    #[test]
    fn what_a_program_decides_about_huge_pages_is_an_event() {
        let option = libc::PR_SET_THP_DISABLE as u64;
        let control = |disable, flags, result| {
            let call = call(PRCTL, [option, disable, flags, 0, 0, 0], result);
            Memory::default().control(&call)
        };
        let allowed = |allowed| Some(Control::HugePages { allowed });
        assert_eq!(control(1, 0, 0), allowed(HugePages::Nowhere));
        assert_eq!(control(1, 2, 0), allowed(HugePages::WhereAdvised));
        assert_eq!(control(0, 0, 0), allowed(HugePages::Anywhere));
        // Before Linux 6.18 there were no flags.
        assert_eq!(control(1, 2, -22i64 as u64), None);
        // PR_SET_NAME
        let name = call(PRCTL, [15, 0x1000, 0, 0, 0, 0], 0);
        assert_eq!(Memory::default().control(&name), None);
    }

    #[test]
    fn advice_that_a_kernel_refused_is_no_event() {
        let collapse = |result| {
            let call = call(MADVISE, [0x20_0000, 0x20_0000, 25, 0, 0, 0], result);
            Memory::default().control(&call)
        };
        assert_eq!(collapse(-22i64 as u64), None);
        let advised = Control::Advise {
            addr: 0x20_0000,
            len: 0x20_0000,
            advice: Advice::COLLAPSE,
        };
        assert_eq!(collapse(0), Some(advised));
    }

    #[test]
    fn locking_memory_has_it_there() {
        let lock = |number, flags| {
            let call = call(number, [0x1010, 0x1000, flags, 0, 0, 0], 0);
            Memory::default().control(&call)
        };
        let there = Control::Advise {
            addr: 0x1000,
            len: 0x2000,
            advice: Advice::Populate,
        };
        assert_eq!(lock(MLOCK, 0), Some(there));
        assert_eq!(lock(MLOCK2, 0), Some(there));
        assert_eq!(lock(MLOCK2, libc::MLOCK_ONFAULT as u64), None);
    }

    #[test]
    fn shmdt_unmaps_what_shmat_mapped() {
        let mut memory = Memory::default();
        let mut attach = call(SHMAT, [0; 6], 0x10_0000);
        attach.fact = 5000;
        memory.control(&attach);
        assert_eq!(
            memory.control(&call(SHMDT, [0x10_0000, 0, 0, 0, 0, 0], 0)),
            Some(Control::Unmap {
                addr: 0x10_0000,
                len: 8192
            })
        );
    }
}
