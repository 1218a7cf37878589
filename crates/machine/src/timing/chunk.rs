use super::accesses::{Accesses, loads};
use super::paths::Paths;
use super::pending::Pending;
use super::slow::{References, RequestLine, Slow};
use super::task::Task;
use crate::caches::served::Served;
use crate::machine::chunk::Chunk;
use crate::machine::requests::request;
use pagelab_cpu::{Core, Trapped, Waits};
use pagelab_events::Mispredicted;
use pagelab_execution::UpTo;

/// Takes a chunk whose references have been served through a core's clock. With `FREE`,
/// translations take no time and nothing is counted.
///
/// It is not compiled into each design's machine: there is one, whatever the design.
pub(crate) fn time<const FREE: bool>(
    paths: &mut Paths,
    pending: &mut Pending,
    chunk: &Chunk,
    accesses: Accesses,
    up_to: Option<UpTo>,
) {
    // Asking before each access takes 2 % of the instructions of a program that hits its caches.
    match up_to.filter(UpTo::is_known) {
        Some(mut up_to) => {
            let waits = |core: &mut Core, dep| up_to.next(core, dep);
            time_each::<FREE>(paths, pending, chunk, accesses, waits);
        }
        None => {
            let waits = |_: &mut Core, dep| loads(dep).into();
            time_each::<FREE>(paths, pending, chunk, accesses, waits);
        }
    }
}

/// Mispredicted branches of a chunk that are still to come.
struct Branches<'a> {
    left: &'a [(u32, Mispredicted)],
    /// The first is due when so many of the chunk's accesses are left.
    due: usize,
    accesses: usize,
}

impl<'a> Branches<'a> {
    fn new(left: &'a [(u32, Mispredicted)], accesses: usize) -> Self {
        let mut branches = Branches {
            left,
            due: 0,
            accesses,
        };
        branches.find_due();
        branches
    }

    #[inline(always)]
    fn find_due(&mut self) {
        let first = self.left.first();
        self.due = first.map_or(usize::MAX, |first| {
            self.accesses.wrapping_sub(first.0 as usize)
        });
    }

    /// Takes those before the access that has so many left, itself included.
    #[inline(always)]
    fn take(&mut self, left: usize, paths: &mut Paths, pending: &mut Pending) {
        if left == self.due {
            pending.mispredicted(paths, &mut self.left);
            self.find_due();
        }
    }
}

/// Times most accesses: the TLB has the page, and nothing is fetched or written back on their account.
#[inline(always)]
fn access(paths: &mut Paths, pending: &mut Pending, gap: u32, waits: Waits, task: Task) {
    let store = task.bits & request::STORE != 0;
    let (entry, alone) = pending.dispatch(paths, gap, waits, store);
    if entry.start == paths.core.dispatched() || (alone && task.served == Served::L1) {
        let (translated, done) = paths.run(&task, entry.start);
        if alone {
            paths.complete(entry, Trapped::default(), &task, (translated, done));
        } else {
            pending.ended(paths, entry, task, translated, done);
        }
    } else {
        pending.defer(paths, entry, task, waits);
    }
}

/// The same, where accesses wait for what `waits` says, which is asked once for each with its dependence.
#[inline(never)]
fn time_each<const FREE: bool>(
    paths: &mut Paths,
    pending: &mut Pending,
    chunk: &Chunk,
    accesses: Accesses,
    mut waits: impl FnMut(&mut Core, u32) -> Waits,
) {
    let Accesses {
        gap,
        dep,
        mut mispredicted,
        ..
    } = accesses;
    if !paths.core.mispredicts() {
        mispredicted = &[];
    }
    let mut branches = Branches::new(mispredicted, gap.len());
    let mut references = References {
        served: chunk.served.as_slice(),
        lines: chunk.references.as_slice(),
        taken: 0,
    };
    let mut slow = Slow {
        tlb_misses: chunk.tlb_misses.as_slice(),
        steps: chunk.steps.as_slice(),
        write_backs: chunk.write_backs.as_deref().unwrap_or_default(),
        prefetches: chunk.prefetches.as_slice(),
        ahead: chunk.ahead.as_slice(),
        early: chunk.early.as_slice(),
    };
    let mut due = slow.first_due();
    let mut accesses = gap.iter().zip(dep);
    let requests = chunk.requests.as_slice();
    let mut next = requests.first().copied().unwrap_or(0);
    for (number, &page) in chunk.pages.as_slice().iter().enumerate() {
        let bits = next;
        next = requests.get(number + 1).copied().unwrap_or(0);
        let straddles = (bits | next) & request::REST != 0;
        if bits & (request::SLOW | request::INVALIDATES | request::PREFETCH) != 0
            || straddles
            || references.taken >= due
        {
            let first = bits & request::REST == 0;
            if first {
                branches.take(accesses.len(), paths, pending);
            }
            let (gap, waits) = if first {
                let (&gap, &dep) = accesses.next().unwrap_or((&0, &0));
                (gap, waits(paths.core, dep))
            } else {
                (0, Waits::default())
            };
            slow.request::<FREE>(
                paths,
                pending,
                &mut references,
                &RequestLine {
                    bits,
                    page,
                    straddles,
                    gap,
                    waits,
                },
            );
            due = slow.first_due();
            continue;
        }
        let bits = if FREE {
            bits & !request::SECOND_TLB
        } else {
            bits
        };
        branches.take(accesses.len(), paths, pending);
        let (Some((&gap, &dep)), Some((served, line))) = (accesses.next(), references.next())
        else {
            debug_assert!(false, "a request has an access and a data reference");
            return;
        };
        let waits = waits(paths.core, dep);
        if !FREE {
            paths.counts.data_served[served as usize] += 1;
        }
        let task = Task {
            page,
            line,
            bits,
            served,
        };
        access(paths, pending, gap, waits, task);
    }
}
