mod prefetching;

use crate::buffer::Buffer;
use crate::chunk::{Chunk, Prefetch, TlbMiss, request};
use crate::coherence::{CoherenceCounts, Directory, Taken};
use crate::config::{CachesConfig, WalksEnter};
use pagelab_memory::simd::{Baseline, Simd};
use pagelab_memory::{Cache, CacheAccess, GeometryError, MODIFY, Outcome, Prefetcher, Strides};
use prefetching::{answer, complete_pairs, data_places, drop_unneeded_pairs, merge, prefetch};

/// Where a reference was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Served {
    /// First-level data cache.
    #[default]
    L1,
    /// Second-level cache.
    L2,
    /// Last-level cache.
    Llc,
    /// Memory.
    Dram,
    /// Another core's first or second level.
    OtherCore,
    /// Memory, asked at once and not after the caches.
    PastCaches,
}

/// How many places there are.
pub(crate) const PLACES: usize = 6;

/// One core's private caches.
#[derive(Clone, Debug)]
pub(crate) struct PrivateCaches {
    pub(crate) l1: Cache,
    pub(crate) l2: Cache,
    pub(crate) walks_enter: WalksEnter,
    prefetcher: Option<Prefetcher>,
    /// What follows instructions; its lines are in the chunk when the caches take it.
    pub(crate) strides: Option<Strides>,
}

/// The cache that all cores share.
#[derive(Clone, Debug)]
pub(crate) struct SharedCache {
    pub(crate) llc: Cache,
    /// Lines written back to memory.
    pub(crate) writebacks: u64,
    /// Who holds which line, where private caches are kept coherent and there are several.
    pub(crate) directory: Option<Directory>,
}

/// A reference on its way down: the line, with [`MODIFY`] when it modifies it, and the place of
/// its answer in the list of references; behind them and one more, that of a prefetch. A modified
/// line on its way out has the place of what it left for, with [`OUT`].
pub(crate) type Descent = (u32, u32);

/// Bit 31 of a place: a modified line on its way out, for which nobody waits.
pub(crate) const OUT: u32 = 1 << 31;

/// Where the answer to a descent goes: of all lines on their way out to one place.
#[inline(always)]
fn slot(place: u32, outgoing: u32) -> usize {
    let slot = if place & OUT == 0 { place } else { outgoing };
    slot as usize
}

/// The place of the reference that a descent comes of.
#[inline(always)]
fn origin(place: u32, outgoing: u32, prefetches: &[Prefetch]) -> u32 {
    let place = place & !OUT;
    if place < outgoing {
        place
    } else {
        prefetches[(place - outgoing - 1) as usize].place
    }
}

/// The lists between the levels, reused from chunk to chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    to_l2: Buffer<Descent>,
    to_llc: Buffer<Descent>,
    /// `to_l2` with prefetches, and which references are of data.
    with_prefetches: Vec<Descent>,
    data: Vec<bool>,
    /// Prefetches into the last level only, each with the place of the reference that had it made;
    /// and what goes on to that level with them.
    held: Vec<(u32, Descent)>,
    with_held: Vec<Descent>,
    /// The places of stores that other cores have to drop a line for.
    invalidating: Vec<u32>,
}

impl PrivateCaches {
    pub(crate) fn new(config: &CachesConfig, seed: u64) -> Result<Self, GeometryError> {
        Ok(PrivateCaches {
            l1: Cache::new(&config.l1)?.seeded(seed),
            l2: Cache::new(&config.l2)?.seeded(seed.wrapping_add(1)),
            walks_enter: config.walks_enter,
            prefetcher: (config.prefetch.as_ref())
                .map(Prefetcher::new)
                .transpose()?,
            strides: (config.prefetch.and_then(|prefetch| prefetch.strides))
                .filter(|strides| strides.ahead > 0)
                .map(|strides| Strides::new(&strides))
                .transpose()?,
        })
    }

    /// Whether the prefetchers want to know what was missed, chunk by chunk.
    pub(crate) fn wants_answers(&self) -> bool {
        let prefetcher = self.prefetcher.as_ref();
        prefetcher.is_some_and(Prefetcher::wants_answers)
    }
}

impl SharedCache {
    pub(crate) fn new(config: &CachesConfig, cores: u32, seed: u64) -> Result<Self, GeometryError> {
        Ok(SharedCache {
            llc: Cache::new(&config.llc)?.seeded(seed.wrapping_add(2)),
            writebacks: 0,
            directory: (config.coherence.is_some() && cores > 1).then(Directory::default),
        })
    }

    /// Enters a modified line that a second level has no room for; returns one that goes to memory
    /// for it.
    pub(crate) fn write_back(&mut self, reference: u32) -> Option<u32> {
        let mut gone = Gone(None);
        (self.llc).access_all::<Baseline>(std::iter::once(reference), &mut gone);
        self.writebacks += u64::from(gone.0.is_some());
        gone.0
    }

    /// What keeping private caches coherent came to.
    pub(crate) fn coherence(&self) -> CoherenceCounts {
        (self.directory.as_ref()).map_or_else(CoherenceCounts::default, Directory::counts)
    }
}

/// Takes references through the caches in program order, one level after the other, and says
/// where each was served.
///
/// Contents of a level depend only on the order of what reaches it, so the levels can be done in
/// turn; while one is done the host fetches the next one's sets. A modified line that leaves a
/// level is entered in the one below.
#[inline(always)]
pub(crate) fn reference<S: Simd>(
    caches: &mut [PrivateCaches],
    core: usize,
    shared: &mut SharedCache,
    chunk: &mut Chunk,
) {
    let Chunk {
        references,
        served,
        scratch:
            Scratch {
                to_l2,
                to_llc,
                with_prefetches,
                data,
                held,
                with_held,
                invalidating,
            },
        prefetches,
        strided,
        written_entries,
        requests,
        tlb_misses,
        write_backs,
        ..
    } = chunk;
    let PrivateCaches {
        l1,
        l2,
        walks_enter,
        prefetcher,
        ..
    } = &mut caches[core];
    let SharedCache {
        llc,
        writebacks,
        directory,
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
    let mut from_l1 = FromL1 {
        references,
        l2,
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
    if let Some(prefetcher) = prefetcher {
        data_places(requests.as_slice(), tlb_misses.as_slice(), data);
        prefetch(
            prefetcher,
            (down, strided),
            data,
            outgoing,
            with_prefetches,
            held,
            prefetches,
        );
        down = with_prefetches;
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
        outgoing,
    };
    let pairs = prefetcher.as_ref().is_some_and(Prefetcher::completes_pairs);
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
    if let Some(prefetcher) = prefetcher.as_mut().filter(|p| p.wants_answers()) {
        answer(prefetcher, down, &descents[..len], data, outgoing);
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
        merge(down, held, outgoing, prefetches, with_held);
        down = with_held;
    }
    let mut from_llc = FromLlc {
        down,
        answers,
        writebacks,
        list: write_backs.as_mut(),
        prefetches,
        outgoing,
    };
    llc.access_all::<S>(down.iter().map(|d| d.0), &mut from_llc);
    for (prefetch, &served) in prefetches.iter_mut().zip(&answers[references.len() + 1..]) {
        prefetch.served = served;
    }
    if pairs {
        // Those that were not needed have asked no level.
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

/// Takes a line of code through the levels that it shares with data, after its own first level did
/// not have it; lists the modified line that memory gets for it.
///
/// The prefetchers of the second level do not see it.
pub(crate) fn fetch(
    caches: &mut PrivateCaches,
    shared: &mut SharedCache,
    line: u32,
    write_backs: Option<&mut Vec<(u32, u32)>>,
) -> Served {
    let (mut l2, mut llc) = (One(None), One(None));
    (caches.l2).access_all::<Baseline>(std::iter::once(line), &mut l2);
    let mut gone = None;
    let served = if l2.hit() {
        Served::L2
    } else {
        (shared.llc).access_all::<Baseline>(std::iter::once(line), &mut llc);
        gone = llc.written_back();
        shared.writebacks += u64::from(gone.is_some());
        if llc.hit() { Served::Llc } else { Served::Dram }
    };
    let behind = l2
        .written_back()
        .and_then(|line| shared.write_back(line | MODIFY));
    if let Some(list) = write_backs {
        list.extend(gone.into_iter().chain(behind).map(|line| (0, line)));
    }
    served
}

/// [`fetch`] where private caches are kept coherent, by a chunk of its own: as a walk's read does
/// that looks in no first level.
pub(crate) fn fetch_coherently(
    caches: &mut [PrivateCaches],
    core: usize,
    shared: &mut SharedCache,
    line: u32,
    one: &mut Chunk,
) -> Served {
    one.clear();
    one.references.push(line);
    one.requests.push(request::SLOW);
    one.tlb_misses.push(TlbMiss {
        reads: 1,
        ..TlbMiss::default()
    });
    let walks_enter = std::mem::replace(&mut caches[core].walks_enter, WalksEnter::L2);
    reference::<Baseline>(caches, core, shared, one);
    caches[core].walks_enter = walks_enter;
    one.served.as_slice()[0]
}

/// What became of one reference.
struct One(Option<CacheAccess>);

impl One {
    fn hit(&self) -> bool {
        self.0.is_some_and(|access| access.hit)
    }

    fn written_back(&self) -> Option<u32> {
        let access = self.0.filter(|access| access.evicts_modified)?;
        Some(access.evicted & !MODIFY)
    }
}

impl Outcome for One {
    fn of(&mut self, _: usize, access: CacheAccess) {
        self.0 = Some(access);
    }
}

/// The modified line that one reference made leave.
struct Gone(Option<u32>);

impl Outcome for Gone {
    fn of(&mut self, _: usize, access: CacheAccess) {
        self.0 = access.evicts_modified.then_some(access.evicted & !MODIFY);
    }
}

/// What goes on to the second level.
struct FromL1<'a, 'below> {
    references: &'a [u32],
    l2: &'below Cache,
    descents: &'a mut [Descent],
    len: usize,
}

impl FromL1<'_, '_> {
    /// Sends a reference of a walk on that did not look in the first level.
    fn pass_on(&mut self, place: usize) {
        let line = self.references[place];
        self.l2.host_prefetch(line);
        self.descents[self.len] = (line, place as u32);
        self.len += 1;
    }
}

impl Outcome for FromL1<'_, '_> {
    /// Sends on what missed, and a modified line that made room for it.
    ///
    /// Which of these hit nobody can predict below the first level: what should not go on is
    /// overwritten by the next, without a branch. Each reference sends at most two lines on.
    #[inline(always)]
    fn of(&mut self, place: usize, access: CacheAccess) {
        if access.hit {
            return;
        }
        let line = self.references[place] & !MODIFY;
        self.l2.host_prefetch(line);
        self.descents[self.len] = (line, place as u32);
        self.descents[self.len + 1] = (access.evicted | MODIFY, place as u32 | OUT);
        self.len += 1 + usize::from(access.evicts_modified);
    }
}

/// What goes on to the last level.
struct FromL2<'a, 'below> {
    down: &'a [Descent],
    llc: &'below Cache,
    answers: &'a mut [Served],
    descents: &'a mut [Descent],
    len: usize,
    outgoing: u32,
}

impl Outcome for FromL2<'_, '_> {
    #[inline(always)]
    fn of(&mut self, at: usize, access: CacheAccess) {
        let (reference, place) = self.down[at];
        let line = reference & !MODIFY;
        self.llc.host_prefetch(line);
        self.answers[slot(place, self.outgoing)] = Served::L2;
        self.descents[self.len] = (line, place);
        self.len += usize::from(!access.hit & (place & OUT == 0));
        self.descents[self.len] = (access.evicted | MODIFY, place | OUT);
        self.len += usize::from(access.evicts_modified);
    }
}

/// Where the last level's references are served.
struct FromLlc<'a> {
    down: &'a [Descent],
    answers: &'a mut [Served],
    writebacks: &'a mut u64,
    /// The lines written back, where that is wanted.
    list: Option<&'a mut Vec<(u32, u32)>>,
    prefetches: &'a [Prefetch],
    outgoing: u32,
}

impl Outcome for FromLlc<'_> {
    #[inline(always)]
    fn of(&mut self, at: usize, access: CacheAccess) {
        let (_, place) = self.down[at];
        *self.writebacks += u64::from(access.evicts_modified);
        if let Some(list) = &mut self.list
            && access.evicts_modified
        {
            let of = origin(place, self.outgoing, self.prefetches);
            list.push((of, access.evicted & !MODIFY));
        }
        self.answers[slot(place, self.outgoing)] = if access.hit {
            Served::Llc
        } else {
            Served::Dram
        };
    }
}

/// One reference, at a place that is not the first.
struct At<'a, O> {
    place: usize,
    outcome: &'a mut O,
}

impl<O: Outcome> Outcome for At<'_, O> {
    #[inline(always)]
    fn of(&mut self, _: usize, access: CacheAccess) {
        self.outcome.of(self.place, access);
    }
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
