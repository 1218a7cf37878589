//! Additions of a second level's prefetchers to the lists between the levels.

use super::descent::{Descent, OUT};
use super::outcomes::{At, FromL2};
use crate::machine::requests::{Prefetch, TlbMiss, request};
use pagelab_memory::simd::Simd;
use pagelab_memory::{Cache, Prefetchers};

/// Finds the frame of the page that lies after the page of an access of the chunk in its address space
/// (with `true`), or before it. `None` where none is mapped.
pub(crate) type FrameBeside<'a> = dyn FnMut(usize, bool) -> Option<u32> + 'a;

/// The access that a reference is of: `WALKS` for what a walk reads, `REST` for what is not an
/// access's first line.
const WALKS: u32 = u32::MAX;
const REST: u32 = u32::MAX - 1;

/// Numbers the accesses that references are of.
#[inline(never)]
pub(super) fn accesses(requests: &[u8], tlb_misses: &[TlbMiss], accesses: &mut Vec<u32>) {
    accesses.clear();
    let (mut tlb_misses, mut next) = (tlb_misses.iter(), 0);
    for &bits in requests {
        if bits & request::SLOW != 0 {
            if request::is_dropped(bits) {
                next += 1;
                continue;
            }
            for tlb_miss in &mut tlb_misses {
                accesses.resize(accesses.len() + usize::from(tlb_miss.reads), WALKS);
                if !tlb_miss.faulted {
                    break;
                }
            }
        }
        let first = bits & request::REST == 0;
        accesses.push(if first { next } else { REST });
        next += u32::from(first);
    }
}

/// Adds to what goes on to the second level what the prefetchers make of it, and what they fetch for
/// loads.
#[inline(never)]
pub(super) fn prefetch(
    prefetchers: &mut Prefetchers,
    (down, by_loads): (&[Descent], &[(u32, u32)]),
    (accesses, frame_beside): (&[u32], &mut FrameBeside),
    outgoing: u32,
    with_prefetches: &mut Vec<Descent>,
    held: &mut Vec<(u32, Descent)>,
    prefetches: &mut Vec<Prefetch>,
) {
    with_prefetches.clear();
    let mut by_loads = by_loads.iter().peekable();
    let mut before_place =
        |before: u32, with_prefetches: &mut Vec<Descent>, prefetches: &mut Vec<Prefetch>| {
            while let Some(&(place, line)) = by_loads.next_if(|&&(place, _)| place < before) {
                with_prefetches.push((line, outgoing + 1 + prefetches.len() as u32));
                prefetches.push(Prefetch {
                    place,
                    line,
                    by_load: true,
                    ..Prefetch::default()
                });
            }
        };
    for &(line, place) in down {
        before_place(place & !OUT, with_prefetches, prefetches);
        with_prefetches.push((line, place));
        if place & OUT != 0 || accesses[place as usize] == WALKS {
            continue;
        }
        let access = accesses[place as usize];
        let beyond = |up| (access != REST).then(|| frame_beside(access as usize, up))?;
        let first = with_prefetches.len();
        let into_last_level_only = prefetchers.asked(line, beyond, |line| {
            with_prefetches.push((line, outgoing + 1 + prefetches.len() as u32));
            prefetches.push(Prefetch {
                place,
                line,
                ..Prefetch::default()
            });
        });
        if into_last_level_only {
            held.extend(
                with_prefetches
                    .drain(first..)
                    .map(|descent| (place, descent)),
            );
        }
    }
    before_place(u32::MAX, with_prefetches, prefetches);
}

/// The second level where the lines that it misses are completed to aligned twos: the other line,
/// the first that is fetched for one, is asked for after a miss only.
#[inline(never)]
pub(super) fn complete_pairs<S: Simd>(
    l2: &mut Cache,
    from_l2: &mut FromL2,
    prefetches: &[Prefetch],
) {
    let (mut hit, mut previous_is_prefetch) = (true, true);
    for at in 0..from_l2.down.len() {
        let (reference, place) = from_l2.down[at];
        let outgoing = from_l2.descriptions.outgoing;
        let is_prefetch = place & OUT == 0 && place > outgoing;
        let by_load = is_prefetch && prefetches[(place - outgoing - 1) as usize].by_load;
        let is_pair = is_prefetch && !previous_is_prefetch && !by_load;
        previous_is_prefetch = is_prefetch;
        if is_pair && hit {
            continue;
        }
        let below = from_l2.len;
        let mut of_one = At {
            place: at,
            outcome: from_l2,
        };
        l2.access_all::<S>(std::iter::once(reference), &mut of_one);
        hit = from_l2.len == below;
    }
}

/// Tells the prefetchers which of the data asked for the second level has passed on.
#[inline(never)]
pub(super) fn answer(
    prefetchers: &mut Prefetchers,
    asked: &[Descent],
    passed_on: &[Descent],
    accesses: &[u32],
    outgoing: u32,
) {
    let mut missed = passed_on.iter().filter(|d| d.1 < outgoing).peekable();
    for &(_, place) in asked.iter().filter(|d| d.1 < outgoing) {
        let missed = missed.next_if(|d| d.1 == place).is_some();
        if accesses[place as usize] != WALKS {
            prefetchers.answer(missed);
        }
    }
}

/// Drops of what is to go into the last level alone the other lines of twos whose line the second
/// level did not miss: the first that was asked for a reference.
#[inline(never)]
pub(super) fn drop_unneeded_pairs(
    held: &mut Vec<(u32, Descent)>,
    missed: &[Descent],
    outgoing: u32,
) {
    let mut missed = missed.iter().filter(|d| d.1 < outgoing).peekable();
    let mut last = None;
    held.retain(|&(place, _)| {
        let is_pair = last.replace(place) != Some(place);
        while missed.next_if(|d| d.1 < place).is_some() {}
        !is_pair || missed.peek().is_some_and(|d| d.1 == place)
    });
}
