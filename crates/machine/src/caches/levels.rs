use super::descent::{Descent, OUT, filled_by_kernel, merge, slot};
use super::descriptions::{Descriptions, Parts, describe};
use super::outcomes::{At, FromL1, FromL2, FromLlc, One};
use super::prefetching::{
    FrameBeside, accesses, answer, complete_pairs, drop_unneeded_pairs, prefetch,
};
use super::private::PrivateCaches;
use super::scratch::Scratch;
use super::shared::SharedCache;
use crate::caches::coherence::Taken;
use crate::caches::served::Served;
use crate::caches::unknown::Unknown;
use crate::config::{FilledPages, WalksEnter};
use crate::machine::chunk::Chunk;
use crate::machine::requests::{TlbMiss, request};
use pagelab_memory::simd::{Baseline, Simd, SimdLevel};
use pagelab_memory::{Access, Cache, Kind, MODIFY, Prefetchers, dispatch_released};

/// [`reference`] at a level of instruction set. It is not compiled into each design's machine: there is one,
/// whatever the design.
pub(crate) fn reference_at(
    level: SimdLevel,
    caches: &mut [PrivateCaches],
    core: usize,
    shared: &mut SharedCache,
    chunk: &mut Chunk,
    frame_beside: &mut FrameBeside,
) {
    dispatch_released!(level, <S>(
        caches: &mut [PrivateCaches],
        core: usize,
        shared: &mut SharedCache,
        chunk: &mut Chunk,
        frame_beside: &mut FrameBeside,
    ) -> () {
        reference::<S>(caches, core, shared, chunk, frame_beside);
    });
}

/// Takes references through the caches in program order, one level after the other, and says
/// where each was served.
///
/// Contents of a level depend only on the order of what reaches it, so the levels can be done in
/// turn; while one is done the host fetches the next one's sets. A modified line that leaves a
/// level is entered in the one below. `frame_beside` is for prefetchers that go on in the next page.
#[inline(always)]
pub(crate) fn reference<S: Simd>(
    caches: &mut [PrivateCaches],
    core: usize,
    shared: &mut SharedCache,
    chunk: &mut Chunk,
    frame_beside: &mut FrameBeside,
) {
    let Chunk {
        references,
        served,
        scratch:
            Scratch {
                to_l2,
                to_llc,
                described,
                decided,
                with_prefetches,
                accesses_of,
                held,
                with_held,
                invalidating,
                with_filled: [filled_to_l2, filled_to_llc],
            },
        prefetches,
        by_loads,
        filled,
        written_entries,
        requests,
        tlb_misses,
        steps,
        sites,
        only,
        write_backs,
        ..
    } = chunk;
    let PrivateCaches {
        l1,
        l2,
        walks_enter,
        prefetchers,
        unknown: unknown_to_l2,
        ..
    } = &mut caches[core];
    let SharedCache {
        llc,
        writebacks,
        filled_pages,
        directory,
        unknown,
    } = shared;
    if directory.is_some() {
        write_entries(
            references.as_mut_slice(),
            requests.as_slice(),
            tlb_misses.as_slice(),
            written_entries,
        );
    }
    let all = references;
    let references = all.as_slice();
    let outgoing = references.len() as u32;
    to_l2.clear();
    if let Some(only) = *only {
        described.clear();
        described.push(only);
    } else if [&*l1, &*l2, &*llc]
        .into_iter()
        .any(Cache::wants_descriptions)
    {
        let parts = Parts {
            core: core as u32,
            references,
            requests: requests.as_slice(),
            tlb_misses: tlb_misses.as_slice(),
            steps: steps.as_slice(),
            sites,
        };
        describe(&parts, described);
    }
    let described = &described[..];
    let mut from_l1 = FromL1 {
        references,
        l2,
        described,
        descents: to_l2.room(2 * references.len() + 1),
        len: 0,
    };
    match walks_enter {
        WalksEnter::L1 => l1.access_all::<S>(references.iter().copied(), &mut from_l1),
        WalksEnter::L2 => {
            pass_walks_on::<S>(l1, requests.as_slice(), tlb_misses.as_slice(), &mut from_l1);
        }
    }
    let FromL1 { descents, len, .. } = from_l1;
    let mut down = &descents[..len];
    if let Some(prefetchers) = prefetchers {
        accesses(requests.as_slice(), tlb_misses.as_slice(), accesses_of);
        prefetch(
            prefetchers,
            (down, by_loads),
            (accesses_of, frame_beside),
            outgoing,
            with_prefetches,
            held,
            prefetches,
        );
        down = with_prefetches;
    }
    if !filled.is_empty() && *filled_pages == FilledPages::L2 {
        let filled = filled_by_kernel(filled);
        merge(down, filled, outgoing, prefetches, filled_to_l2);
        down = filled_to_l2;
    }
    served.clear();
    // One more for what is on its way out, and then the prefetches'.
    let answers = served.room(references.len() + 1 + prefetches.len());
    answers.fill(Served::L1);
    to_llc.clear();
    let mut from_l2 = FromL2 {
        down,
        llc,
        answers,
        descents: to_llc.room(2 * down.len() + 1),
        len: 0,
        descriptions: Descriptions {
            of: described,
            prefetches,
            outgoing,
        },
    };
    let pairs = prefetchers
        .as_ref()
        .is_some_and(Prefetchers::completes_pairs);
    if pairs {
        complete_pairs::<S>(l2, &mut from_l2, prefetches);
    } else {
        l2.access_all::<S>(down.iter().map(|d| d.0), &mut from_l2);
    }
    let FromL2 {
        descents,
        mut len,
        answers,
        ..
    } = from_l2;
    // A line has to be where a directory says.
    if let Some(unknown) = unknown_to_l2.as_mut().filter(|_| directory.is_none()) {
        len = decide_l2(unknown, down, (descents, len), decided, outgoing, answers);
    }
    if let Some(prefetchers) = prefetchers.as_mut().filter(|p| p.wants_answers()) {
        answer(prefetchers, down, &descents[..len], accesses_of, outgoing);
    }
    if pairs {
        drop_unneeded_pairs(held, &descents[..len], outgoing);
    }
    if let Some(directory) = directory {
        len = directory.take(Taken {
            caches,
            core,
            references,
            prefetches,
            answers,
            descents: &mut descents[..len],
            invalidating,
        });
    }
    let mut down = &descents[..len];
    if !held.is_empty() {
        // Each after the reference that had it fetched.
        let after = held.drain(..).map(|(place, descent)| (place + 1, descent));
        merge(down, after, outgoing, prefetches, with_held);
        down = with_held;
    }
    if !filled.is_empty() && *filled_pages == FilledPages::Llc {
        let filled = filled_by_kernel(filled);
        merge(down, filled, outgoing, prefetches, filled_to_llc);
        down = filled_to_llc;
    }
    let mut from_llc = FromLlc {
        down,
        answers,
        writebacks,
        list: write_backs.as_mut(),
        descriptions: Descriptions {
            of: described,
            prefetches,
            outgoing,
        },
    };
    llc.access_all::<S>(down.iter().map(|d| d.0), &mut from_llc);
    if let Some(unknown) = unknown {
        decide(unknown, down, outgoing, answers);
    }
    for (prefetch, &served) in prefetches.iter_mut().zip(&answers[references.len() + 1..]) {
        prefetch.served = served;
    }
    if pairs {
        // Prefetches that were not needed have asked no level.
        prefetches.retain(|prefetch| prefetch.served != Served::L1);
    }
    served.added(references.len());
    if directory.is_some() {
        for &place in &*written_entries {
            all.as_mut_slice()[place as usize] &= !MODIFY;
        }
        mark(requests.as_mut_slice(), tlb_misses.as_slice(), invalidating);
    }
}

/// True if a level that a core uses has a replacement policy that wants to know who makes a reference.
pub(crate) fn want_descriptions(caches: &PrivateCaches, shared: &SharedCache) -> bool {
    let levels = [&caches.l1, &caches.l2, &shared.llc];
    levels.into_iter().any(Cache::wants_descriptions)
}

/// Corrects the second level's answers to references of which it is not known what they find; returns the number of
/// descents then.
#[cold]
fn decide_l2(
    unknown: &mut Unknown,
    down: &[Descent],
    (descents, len): (&mut [Descent], usize),
    decided: &mut Vec<Descent>,
    outgoing: u32,
    answers: &mut [Served],
) -> usize {
    decided.clear();
    let mut missed = descents[..len].iter().copied().peekable();
    for &(reference, place) in down {
        let line = reference & !MODIFY;
        if place & OUT != 0 {
            unknown.touch(line);
            continue;
        }
        decided.extend(std::iter::from_fn(|| missed.next_if(|of| of.1 & OUT != 0)));
        let was_there = missed.next_if(|of| of.1 == place).is_none();
        // The level still has what the last window left in it, which others have driven out meanwhile.
        if unknown.misses(line).unwrap_or(!was_there) {
            decided.push((line, place));
        } else {
            answers[slot(place, outgoing)] = Served::L2;
        }
    }
    decided.extend(missed);
    descents[..decided.len()].copy_from_slice(decided);
    decided.len()
}

/// Corrects the last level's answers likewise.
#[cold]
fn decide(unknown: &mut Unknown, down: &[Descent], outgoing: u32, answers: &mut [Served]) {
    for &(reference, place) in down {
        let line = reference & !MODIFY;
        if place & OUT != 0 {
            unknown.touch(line);
        } else if let Some(misses) = unknown.misses(line) {
            answers[slot(place, outgoing)] = if misses { Served::Dram } else { Served::Llc };
        }
    }
}

/// The kernel has written the entry that a walk finds after a fault: the last one that it waits
/// for. Such reads modify their line; lists their places.
#[inline(never)]
fn write_entries(
    references: &mut [u32],
    requests: &[u8],
    tlb_misses: &[TlbMiss],
    places: &mut Vec<u32>,
) {
    if !tlb_misses.iter().any(|tlb_miss| tlb_miss.faulted) {
        return;
    }
    let mut tlb_misses = tlb_misses.iter();
    let mut place = 0;
    for bits in requests {
        if bits & request::SLOW != 0 {
            if request::is_dropped(*bits) {
                continue;
            }
            let mut again = false;
            for tlb_miss in &mut tlb_misses {
                let reads = usize::from(tlb_miss.reads);
                let waited = reads - usize::from(tlb_miss.background + tlb_miss.cached.behind);
                if again && waited > 0 {
                    references[place + waited - 1] |= MODIFY;
                    places.push((place + waited - 1) as u32);
                }
                place += reads;
                again = tlb_miss.faulted;
                if !again {
                    break;
                }
            }
        }
        place += 1;
    }
}

/// Marks the requests whose references are at these places. Reads of walks have no request.
#[inline(never)]
fn mark(requests: &mut [u8], tlb_misses: &[TlbMiss], places: &[u32]) {
    if places.is_empty() {
        return;
    }
    let mut places = places.iter().peekable();
    let mut tlb_misses = tlb_misses.iter();
    let mut place = 0;
    for bits in requests {
        if *bits & request::SLOW != 0 {
            if request::is_dropped(*bits) {
                continue;
            }
            for tlb_miss in &mut tlb_misses {
                place += u32::from(tlb_miss.reads);
                if !tlb_miss.faulted {
                    break;
                }
            }
        }
        while places.next_if(|&&next| next < place).is_some() {}
        if places.next_if(|&&next| next == place).is_some() {
            *bits |= request::INVALIDATES;
        }
        place += 1;
    }
}

/// Takes a line of code, or another, through the levels that it shares with data, after its own
/// first level did not have it; lists the modified line that memory gets for it.
///
/// The prefetchers of the second level do not see it.
pub(crate) fn fetch(
    caches: &mut PrivateCaches,
    shared: &mut SharedCache,
    access: Access,
    write_backs: Option<&mut Vec<(u32, u32)>>,
) -> Served {
    let line = access.line;
    let (mut l2, mut llc) = (One::new(access), One::new(access));
    (caches.l2).access_all::<Baseline>(std::iter::once(line), &mut l2);
    let mut gone = None;
    let unknown = caches.unknown.as_mut();
    let misses = unknown.and_then(|unknown| unknown.misses(line));
    let served = if !misses.unwrap_or(!l2.hit()) {
        Served::L2
    } else {
        (shared.llc).access_all::<Baseline>(std::iter::once(line), &mut llc);
        gone = llc.written_back();
        shared.writebacks += u64::from(gone.is_some());
        let unknown = shared.unknown.as_mut();
        let misses = unknown.and_then(|unknown| unknown.misses(line));
        if misses.unwrap_or(!llc.hit()) {
            Served::Dram
        } else {
            Served::Llc
        }
    };
    let behind = l2
        .written_back()
        .and_then(|line| shared.write_back(line | MODIFY));
    if let Some(list) = write_backs {
        list.extend(gone.into_iter().chain(behind).map(|line| (0, line)));
    }
    served
}

/// The kernel has filled a line within a window.
pub(crate) fn note(caches: &mut PrivateCaches, shared: &mut SharedCache, reference: u32) {
    for unknown in [&mut caches.unknown, &mut shared.unknown]
        .into_iter()
        .flatten()
    {
        unknown.note(reference & !MODIFY);
    }
}

/// The kernel has filled a line since the last window.
pub(crate) fn note_between(caches: &mut PrivateCaches, shared: &mut SharedCache, reference: u32) {
    for unknown in [&mut caches.unknown, &mut shared.unknown]
        .into_iter()
        .flatten()
    {
        unknown.fill(reference & !MODIFY);
    }
}

/// Leaves a line in the caches that the kernel has filled, as [`reference`] does.
pub(crate) fn fill(caches: &mut PrivateCaches, shared: &mut SharedCache, line: u32) {
    match shared.filled_pages {
        FilledPages::L2 => {
            let mut l2 = One::new(Access::new(line, Kind::WriteBack));
            (caches.l2).access_all::<Baseline>(std::iter::once(line), &mut l2);
            if let Some(line) = l2.written_back() {
                shared.write_back(line | MODIFY);
            }
        }
        FilledPages::Llc => {
            shared.write_back(line);
        }
        FilledPages::Memory => {}
    }
}

/// [`fetch`] where private caches are kept coherent, by a chunk of its own: as a walk's read does
/// that looks in no first level.
pub(crate) fn fetch_coherently(
    caches: &mut [PrivateCaches],
    core: usize,
    shared: &mut SharedCache,
    access: Access,
    one: &mut Chunk,
) -> Served {
    one.clear();
    one.only = Some(access);
    one.references.push(access.line);
    one.requests.push(request::SLOW);
    one.tlb_misses.push(TlbMiss {
        reads: 1,
        ..TlbMiss::default()
    });
    let walks_enter = std::mem::replace(&mut caches[core].walks_enter, WalksEnter::L2);
    reference::<Baseline>(caches, core, shared, one, &mut |_, _| None);
    caches[core].walks_enter = walks_enter;
    one.served.as_slice()[0]
}

/// The first level where walks do not look in it: their reads go on as they are.
#[inline(never)]
fn pass_walks_on<S: Simd>(
    l1: &mut Cache,
    requests: &[u8],
    tlb_misses: &[TlbMiss],
    from_l1: &mut FromL1,
) {
    let mut tlb_misses = tlb_misses.iter();
    let mut place = 0;
    for &bits in requests {
        if bits & request::SLOW != 0 {
            if request::is_dropped(bits) {
                continue;
            }
            for tlb_miss in &mut tlb_misses {
                for _ in 0..tlb_miss.reads {
                    from_l1.pass_on(place);
                    place += 1;
                }
                if !tlb_miss.faulted {
                    break;
                }
            }
        }
        // A read of a walk may be alone.
        let Some(&reference) = from_l1.references.get(place) else {
            return;
        };
        let mut at = At {
            place,
            outcome: from_l1,
        };
        l1.access_all::<S>(std::iter::once(reference), &mut at);
        place += 1;
    }
}
