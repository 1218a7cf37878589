//! Control events as bytes: a kind, then its numbers as varints.

use super::varint;
use crate::{Advice, Backing, Control, HugePages, Mispredicted, Protection, Touch};

/// An entry of a chunk's control stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The events that follow are of this process.
    Process(u32),
    /// An event.
    Event(Control),
    /// A mispredicted branch before the next access.
    Mispredicted(Mispredicted),
}

const PROCESS: u64 = 0;
const THREAD: u64 = 1;
const MAP: u64 = 2;
const UNMAP: u64 = 3;
const PROTECT: u64 = 4;
const REMAP: u64 = 5;
const ADVISE: u64 = 6;
const BRK: u64 = 7;
const FORK: u64 = 8;
const EXEC: u64 = 9;
const THREAD_START: u64 = 10;
const THREAD_END: u64 = 11;
const EXIT: u64 = 12;
const SKIPPED: u64 = 13;
const MISPREDICTED: u64 = 14;
const RECONVERGES: u64 = 15;
const MORE: u64 = 16;
const HUGE_PAGES: u64 = 17;
const TOUCHED: u64 = 18;
const ALLOCATING: u64 = 19;
const ALLOCATED: u64 = 20;
const FREED: u64 = 21;

/// Appends an entry that stands `distance` accesses after the one before it.
pub fn put(out: &mut Vec<u8>, distance: u32, entry: Entry) {
    varint::put(out, u64::from(distance));
    let mut numbers = |numbers: &[u64]| {
        for &number in numbers {
            varint::put(out, number);
        }
    };
    match entry {
        Entry::Process(process) => numbers(&[PROCESS, u64::from(process)]),
        Entry::Mispredicted(branch) => {
            let dep = u64::from(branch.dep);
            match (branch.reconverges, branch.more) {
                (false, 0) => numbers(&[MISPREDICTED, dep]),
                (true, 0) => numbers(&[RECONVERGES, dep]),
                (reconverges, more) => numbers(&[MORE, dep, reconverges.into(), more.into()]),
            }
        }
        Entry::Event(control) => match control {
            Control::Thread { thread } => numbers(&[THREAD, u64::from(thread)]),
            Control::Map {
                addr,
                len,
                prot,
                backing,
                populate,
            } => numbers(&[
                MAP,
                addr,
                len,
                u64::from(prot.0),
                backing_to_number(backing),
                u64::from(populate),
            ]),
            Control::Unmap { addr, len } => numbers(&[UNMAP, addr, len]),
            Control::Protect { addr, len, prot } => {
                numbers(&[PROTECT, addr, len, u64::from(prot.0)]);
            }
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => numbers(&[REMAP, old_addr, old_len, new_addr, new_len]),
            Control::Advise { addr, len, advice } => {
                numbers(&[ADVISE, addr, len, advice_to_number(advice)]);
            }
            Control::HugePages { allowed } => {
                numbers(&[HUGE_PAGES, huge_pages_to_number(allowed)]);
            }
            Control::Brk { end } => numbers(&[BRK, end]),
            Control::Fork { child } => numbers(&[FORK, u64::from(child)]),
            Control::Exec => numbers(&[EXEC]),
            Control::ThreadStart { thread } => numbers(&[THREAD_START, u64::from(thread)]),
            Control::ThreadEnd { thread } => numbers(&[THREAD_END, u64::from(thread)]),
            Control::Exit { status } => numbers(&[EXIT, varint::zigzag(i64::from(status))]),
            Control::Touched { addr, len, touch } => {
                numbers(&[TOUCHED, addr, len, touch_to_number(touch)]);
            }
            Control::Allocating { site } => numbers(&[ALLOCATING, u64::from(site)]),
            Control::Allocated { addr, len } => numbers(&[ALLOCATED, addr, len]),
            Control::Freed { addr } => numbers(&[FREED, addr]),
            Control::Skipped {
                instructions,
                accesses,
            } => numbers(&[SKIPPED, instructions, accesses]),
        },
    }
}

/// Takes the distance and the entry that [`put`] put; `None` when the bytes are none.
pub fn take(input: &mut &[u8]) -> Option<(u32, Entry)> {
    let distance = u32::try_from(varint::take(input)?).ok()?;
    let kind = varint::take(input)?;
    let mut long = || varint::take(input);
    let control = match kind {
        PROCESS => return Some((distance, Entry::Process(long()?.try_into().ok()?))),
        MISPREDICTED | RECONVERGES => {
            let branch = Mispredicted {
                dep: long()?.try_into().ok()?,
                reconverges: kind == RECONVERGES,
                more: 0,
            };
            return Some((distance, Entry::Mispredicted(branch)));
        }
        MORE => {
            let branch = Mispredicted {
                dep: long()?.try_into().ok()?,
                reconverges: truth(long()?)?,
                more: long()?.try_into().ok()?,
            };
            return Some((distance, Entry::Mispredicted(branch)));
        }
        THREAD => Control::Thread {
            thread: long()?.try_into().ok()?,
        },
        MAP => Control::Map {
            addr: long()?,
            len: long()?,
            prot: Protection(long()?.try_into().ok()?),
            backing: backing_from_number(long()?)?,
            populate: truth(long()?)?,
        },
        UNMAP => Control::Unmap {
            addr: long()?,
            len: long()?,
        },
        PROTECT => Control::Protect {
            addr: long()?,
            len: long()?,
            prot: Protection(long()?.try_into().ok()?),
        },
        REMAP => Control::Remap {
            old_addr: long()?,
            old_len: long()?,
            new_addr: long()?,
            new_len: long()?,
        },
        ADVISE => Control::Advise {
            addr: long()?,
            len: long()?,
            advice: advice_from_number(long()?)?,
        },
        HUGE_PAGES => Control::HugePages {
            allowed: huge_pages_from_number(long()?)?,
        },
        BRK => Control::Brk { end: long()? },
        FORK => Control::Fork {
            child: long()?.try_into().ok()?,
        },
        EXEC => Control::Exec,
        THREAD_START => Control::ThreadStart {
            thread: long()?.try_into().ok()?,
        },
        THREAD_END => Control::ThreadEnd {
            thread: long()?.try_into().ok()?,
        },
        EXIT => Control::Exit {
            status: varint::unzigzag(long()?).try_into().ok()?,
        },
        TOUCHED => Control::Touched {
            addr: long()?,
            len: long()?,
            touch: touch_from_number(long()?)?,
        },
        ALLOCATING => Control::Allocating {
            site: long()?.try_into().ok()?,
        },
        ALLOCATED => Control::Allocated {
            addr: long()?,
            len: long()?,
        },
        FREED => Control::Freed { addr: long()? },
        SKIPPED => Control::Skipped {
            instructions: long()?,
            accesses: long()?,
        },
        _ => return None,
    };
    Some((distance, Entry::Event(control)))
}

fn truth(number: u64) -> Option<bool> {
    match number {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

const BACKINGS: [Backing; 5] = [
    Backing::Anonymous,
    Backing::SharedAnonymous,
    Backing::PrivateFile,
    Backing::SharedFile,
    Backing::Stack,
];

fn backing_to_number(backing: Backing) -> u64 {
    match backing {
        Backing::Anonymous => 0,
        Backing::SharedAnonymous => 1,
        Backing::PrivateFile => 2,
        Backing::SharedFile => 3,
        Backing::Stack => 4,
    }
}

fn backing_from_number(number: u64) -> Option<Backing> {
    BACKINGS.get(usize::try_from(number).ok()?).copied()
}

fn touch_to_number(touch: Touch) -> u64 {
    match touch {
        Touch::Loaded => 0,
        Touch::Stored => 1,
        Touch::Present => 2,
        Touch::Executed => 3,
    }
}

fn touch_from_number(number: u64) -> Option<Touch> {
    match number {
        0 => Some(Touch::Loaded),
        1 => Some(Touch::Stored),
        2 => Some(Touch::Present),
        3 => Some(Touch::Executed),
        _ => None,
    }
}

fn huge_pages_to_number(allowed: HugePages) -> u64 {
    match allowed {
        HugePages::Anywhere => 0,
        HugePages::Nowhere => 1,
        HugePages::WhereAdvised => 2,
    }
}

fn huge_pages_from_number(number: u64) -> Option<HugePages> {
    Some(match number {
        0 => HugePages::Anywhere,
        1 => HugePages::Nowhere,
        2 => HugePages::WhereAdvised,
        _ => return None,
    })
}

/// Advice that is not `Other` has the small numbers; `Other(n)` is n + 16.
fn advice_to_number(advice: Advice) -> u64 {
    match advice {
        Advice::DontNeed => 0,
        Advice::Free => 1,
        Advice::HugePage => 2,
        Advice::NoHugePage => 3,
        Advice::Populate => 4,
        Advice::Other(number) => 16 + u64::from(number),
    }
}

fn advice_from_number(number: u64) -> Option<Advice> {
    Some(match number {
        0 => Advice::DontNeed,
        1 => Advice::Free,
        2 => Advice::HugePage,
        3 => Advice::NoHugePage,
        4 => Advice::Populate,
        5..16 => return None,
        _ => Advice::Other(u32::try_from(number - 16).ok()?),
    })
}
