use super::descent::{Descent, OUT, filled_by_kernel, merge, slot};
use super::descriptions::{Descriptions, Parts, describe};
use super::outcomes::{At, FromL1, FromL2, FromLlc, One};
use super::prefetching::{
    FrameBeside, accesses, answer, complete_pairs, drop_unneeded_pairs, prefetch,
};
use super::private::PrivateCaches;
use super::shared::SharedCache;
use crate::caches::coherence::CoreReferences;
use crate::caches::served::Served;
use crate::caches::unknown::Unknown;
use crate::config::{FilledPages, WalksEnter};
use crate::machine::buffer::Buffer;
use crate::machine::chunk::Chunk;
use crate::machine::requests::{Prefetch, TlbMiss, request};
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
    let outgoing = chunk.references.as_slice().len() as u32;
    if shared.directory.is_some() {
        write_entries(chunk);
    }
    let scratch = &mut chunk.scratch;
    let own = &mut caches[core];
    let parts = Parts {
        core: core as u32,
        references: chunk.references.as_slice(),
        requests: chunk.requests.as_slice(),
        tlb_misses: chunk.tlb_misses.as_slice(),
        steps: chunk.steps.as_slice(),
        sites: &chunk.sites,
    };
    describe_wanted(own, shared, chunk.only, &parts, &mut scratch.described);
    let described = &scratch.described[..];
    let mut down = first_level::<S>(own, &parts, described, &mut scratch.to_l2);
    if let Some(prefetchers) = &mut own.prefetchers {
        accesses(parts.requests, parts.tlb_misses, &mut scratch.accesses_of);
        prefetch(
            prefetchers,
            (down, &chunk.by_loads),
            (&scratch.accesses_of, frame_beside),
            outgoing,
            &mut scratch.with_prefetches,
            &mut scratch.held,
            &mut chunk.prefetches,
        );
        down = &scratch.with_prefetches;
    }
    let (filled, prefetches) = (&chunk.filled, &chunk.prefetches);
    let [filled_to_l2, filled_to_llc] = &mut scratch.with_filled;
    if shared.filled_pages == FilledPages::L2 {
        down = with_filled(down, (filled, prefetches), outgoing, filled_to_l2);
    }
    chunk.served.clear();
    // One more for what is on its way out, and then the prefetches'.
    let answers = (chunk.served).room(parts.references.len() + 1 + prefetches.len());
    answers.fill(Served::L1);
    let descriptions = Descriptions {
        of: described,
        prefetches,
        outgoing,
    };
    let completes = Prefetchers::completes_pairs;
    let pairs = own.prefetchers.as_ref().is_some_and(completes);
    let (levels, to_llc) = ((&mut own.l2, &shared.llc), &mut scratch.to_llc);
    let (descents, mut len, answers) =
        second_level::<S>(levels, pairs, (down, descriptions), answers, to_llc);
    // A line has to be where a directory says.
    if let Some(unknown) = own.unknown.as_mut().filter(|_| shared.directory.is_none()) {
        let decided = &mut scratch.decided;
        len = decide_l2(unknown, down, (descents, len), decided, outgoing, answers);
    }
    if let Some(prefetchers) = own.prefetchers.as_mut().filter(|p| p.wants_answers()) {
        let missed = &descents[..len];
        answer(prefetchers, down, missed, &scratch.accesses_of, outgoing);
    }
    if pairs {
        drop_unneeded_pairs(&mut scratch.held, &descents[..len], outgoing);
    }
    if let Some(directory) = &mut shared.directory {
        len = directory.take(CoreReferences {
            caches,
            core,
            references: parts.references,
            prefetches,
            answers,
            descents: &mut descents[..len],
            invalidating: &mut scratch.invalidating,
        });
    }
    let mut down = &descents[..len];
    if !scratch.held.is_empty() {
        // Each after the reference that had it fetched.
        let after = scratch.held.drain(..).map(|(place, of)| (place + 1, of));
        let with_held = &mut scratch.with_held;
        merge(down, after, outgoing, prefetches, with_held);
        down = with_held;
    }
    if shared.filled_pages == FilledPages::Llc {
        down = with_filled(down, (filled, prefetches), outgoing, filled_to_llc);
    }
    let list = chunk.write_backs.as_mut();
    last_level::<S>(shared, down, answers, list, descriptions);
    answered(chunk, pairs);
    if shared.directory.is_some() {
        unmark_entries(chunk);
    }
}

/// Describes the references, where a level's policy wants that.
#[inline(always)]
fn describe_wanted(
    own: &PrivateCaches,
    shared: &SharedCache,
    only: Option<Access>,
    parts: &Parts,
    described: &mut Vec<Access>,
) {
    if let Some(only) = only {
        described.clear();
        described.push(only);
    } else if want_descriptions(own, shared) {
        describe(parts, described);
    }
}

/// Takes references through the first level; returns what goes on to the second.
#[inline(always)]
fn first_level<'a, S: Simd>(
    own: &mut PrivateCaches,
    parts: &Parts<'a>,
    described: &'a [Access],
    to_l2: &'a mut Buffer<Descent>,
) -> &'a [Descent] {
    let &Parts {
        references,
        requests,
        tlb_misses,
        ..
    } = parts;
    to_l2.clear();
    let mut from_l1 = FromL1 {
        references,
        l2: &own.l2,
        described,
        descents: to_l2.room(2 * references.len() + 1),
        len: 0,
    };
    match own.walks_enter {
        WalksEnter::L1 => (own.l1).access_all::<S>(references.iter().copied(), &mut from_l1),
        WalksEnter::L2 => pass_walks_on::<S>(&mut own.l1, requests, tlb_misses, &mut from_l1),
    }
    let FromL1 { descents, len, .. } = from_l1;
    &descents[..len]
}

/// Takes references through the second level; returns room for what goes on to the last, how much of it does, and
/// the answers.
#[inline(always)]
fn second_level<'a, S: Simd>(
    (l2, llc): (&mut Cache, &Cache),
    pairs: bool,
    (down, descriptions): (&'a [Descent], Descriptions),
    answers: &'a mut [Served],
    to_llc: &'a mut Buffer<Descent>,
) -> (&'a mut [Descent], usize, &'a mut [Served]) {
    to_llc.clear();
    let mut from_l2 = FromL2 {
        down,
        llc,
        answers,
        descents: to_llc.room(2 * down.len() + 1),
        len: 0,
        descriptions,
    };
    if pairs {
        let prefetches = from_l2.descriptions.prefetches;
        complete_pairs::<S>(l2, &mut from_l2, prefetches);
    } else {
        l2.access_all::<S>(from_l2.down.iter().map(|d| d.0), &mut from_l2);
    }
    (from_l2.descents, from_l2.len, from_l2.answers)
}

/// Adds the lines that the kernel has filled and leaves in a level to what goes there.
#[inline(always)]
fn with_filled<'a>(
    down: &'a [Descent],
    (filled, prefetches): (&[(u32, u32)], &[Prefetch]),
    outgoing: u32,
    merged: &'a mut Vec<Descent>,
) -> &'a [Descent] {
    if filled.is_empty() {
        return down;
    }
    merge(down, filled_by_kernel(filled), outgoing, prefetches, merged);
    merged
}

/// Takes references through the last level.
#[inline(always)]
fn last_level<S: Simd>(
    shared: &mut SharedCache,
    down: &[Descent],
    answers: &mut [Served],
    list: Option<&mut Vec<(u32, u32)>>,
    descriptions: Descriptions,
) {
    let outgoing = descriptions.outgoing;
    let mut from_llc = FromLlc {
        down,
        answers,
        writebacks: &mut shared.writebacks,
        list,
        descriptions,
    };
    (shared.llc).access_all::<S>(down.iter().map(|d| d.0), &mut from_llc);
    if let Some(unknown) = &mut shared.unknown {
        decide(unknown, down, outgoing, from_llc.answers);
    }
}

/// Enters the answers into the chunk: those of prefetches with them, the references' in their order.
#[inline(always)]
fn answered(chunk: &mut Chunk, pairs: bool) {
    let count = chunk.references.as_slice().len();
    let answers = chunk.served.room(count + 1 + chunk.prefetches.len());
    for (prefetch, &served) in chunk.prefetches.iter_mut().zip(&answers[count + 1..]) {
        prefetch.served = served;
    }
    if pairs {
        // Prefetches that were not needed have asked no level.
        (chunk.prefetches).retain(|prefetch| prefetch.served != Served::L1);
    }
    chunk.served.added(count);
}

/// Takes back what [`write_entries`] marked, and marks stores for which other cores drop a line.
#[inline(always)]
fn unmark_entries(chunk: &mut Chunk) {
    let references = chunk.references.as_mut_slice();
    for &place in &chunk.written_entries {
        references[place as usize] &= !MODIFY;
    }
    mark(
        chunk.requests.as_mut_slice(),
        chunk.tlb_misses.as_slice(),
        &chunk.scratch.invalidating,
    );
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
fn write_entries(chunk: &mut Chunk) {
    let references = chunk.references.as_mut_slice();
    let tlb_misses = chunk.tlb_misses.as_slice();
    let places = &mut chunk.written_entries;
    if !tlb_misses.iter().any(|tlb_miss| tlb_miss.faulted) {
        return;
    }
    let mut tlb_misses = tlb_misses.iter();
    let mut place = 0;
    for bits in chunk.requests.as_slice() {
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
