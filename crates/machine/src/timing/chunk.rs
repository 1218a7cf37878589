use super::accesses::{Accesses, FromCode, waits};
use super::paths::Paths;
use super::pending::Pending;
use super::slow::{Of, References, Slow};
use super::task::Task;
use crate::caches::served::Served;
use crate::machine::chunk::Chunk;
use crate::machine::requests::request;
use pagelab_cpu::{Core, Trapped, Waits};
use pagelab_events::Mispredicted;

/// Takes a chunk whose references have been served through a core's clock. With `FREE`,
/// translations take no time and nothing is counted.
///
/// It is not compiled into each design's machine: there is one, whatever the design.
pub(crate) fn time<const FREE: bool>(
    paths: &mut Paths,
    pending: &mut Pending,
    chunk: &Chunk,
    accesses: Accesses,
) {
    // Asking before each access takes 2 % of the instructions of a program that hits its caches.
    if accesses.look_ahead.is_empty() && accesses.executed.slots.is_empty() {
        time_each::<FREE, false>(paths, pending, chunk, accesses);
    } else {
        time_each::<FREE, true>(paths, pending, chunk, accesses);
    }
}

/// The same; with `CODE`, something is known of accesses from the instructions between them.
#[inline(never)]
fn time_each<const FREE: bool, const CODE: bool>(
    paths: &mut Paths,
    pending: &mut Pending,
    chunk: &Chunk,
    accesses: Accesses,
) {
    let mut from_code = FromCode::new(accesses);
    let Accesses {
        gap,
        dep,
        mut mispredicted,
        ..
    } = accesses;
    // A branch is due when so many accesses are left.
    let left_at = |branch: Option<&(u32, Mispredicted)>| {
        branch.map_or(usize::MAX, |&(at, _)| gap.len().wrapping_sub(at as usize))
    };
    if !paths.core.mispredicts() {
        mispredicted = &[];
    }
    let mut branch_due = left_at(mispredicted.first());
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
    let mut known = |core: &mut Core| {
        if CODE {
            from_code.next(core)
        } else {
            Default::default()
        }
    };
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
            if first && accesses.len() == branch_due {
                pending.mispredicted(paths, &mut mispredicted);
                branch_due = left_at(mispredicted.first());
            }
            let (gap, waits) = if first {
                let known = known(paths.core);
                let (&gap, &dep) = accesses.next().unwrap_or((&0, &0));
                (gap, waits(dep, known))
            } else {
                (0, Waits::default())
            };
            slow.request::<FREE>(
                paths,
                pending,
                &mut references,
                &Of {
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
        // Most accesses: the TLB has the page, and nothing is fetched or written back on their
        // account.
        let bits = if FREE {
            bits & !request::SECOND_TLB
        } else {
            bits
        };
        let store = bits & request::STORE != 0;
        if accesses.len() == branch_due {
            pending.mispredicted(paths, &mut mispredicted);
            branch_due = left_at(mispredicted.first());
        }
        let (Some((&gap, &dep)), Some((served, line))) = (accesses.next(), references.next())
        else {
            debug_assert!(false, "a request has an access and a data reference");
            return;
        };
        let waits = waits(dep, known(paths.core));
        if !FREE {
            paths.counts.data_served[served as usize] += 1;
        }
        let task = Task {
            page,
            line,
            bits,
            served,
        };
        let (entry, alone) = pending.dispatch(paths, gap, waits, store);
        if entry.start == paths.core.dispatched() || (alone && served == Served::L1) {
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
}
