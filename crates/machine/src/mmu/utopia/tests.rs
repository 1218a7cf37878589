//! Utopia beside lists: TLBs, caches, sets, tags and costs of one core, looked through from end to
//! end, with an operating system that places pages and moves them.

use super::Utopia;
use crate::chunk::Chunk;
use crate::config::MachineConfig;
use crate::hierarchy::{PrivateCaches, Served, SharedCache};
use crate::mmu::lists::{Caches, Lru};
use crate::mmu::{ConfiguredMmu, Looks, Mmu, Port, Request, Walks};
use pagelab_addr::{Asid, PageDirectory, PageSize, Vpn};
use pagelab_events::{Backing, Control, Protection};
use pagelab_memory::MODIFY;
use pagelab_memory::simd::Baseline;
use pagelab_os::{Effects, Os, PagePolicy};
use pagelab_translation::{Page, PageTable, Radix, TlbArrayConfig, Walk};
use proptest::prelude::*;
use std::collections::HashMap;

const FRAMES: u32 = 128 << 8;

/// Frames of a page of a size.
fn base_pages(size: usize) -> u32 {
    [1, 512][size]
}

/// A segment of a size, as the description of memory has it.
#[derive(Clone, Copy, Debug)]
struct Segment {
    sets: u32,
    ways: u32,
    first: u32,
    /// First bytes.
    filter: u64,
    tags: u64,
}

/// The segments, worked out from the end of memory.
fn segments(config: &MachineConfig) -> [Option<Segment>; 2] {
    let utopia = config.utopia;
    let bytes = [utopia.small_mib, utopia.large_mib].map(|mib| u64::from(mib) * 1024 * 1024);
    let sets = [0, 1].map(|size: usize| {
        let most = bytes[size].min(u64::from(FRAMES) * 4096 / 4);
        let set = u64::from(utopia.ways * base_pages(size)) * 4096;
        let mut sets = 0;
        while set * 2u64.pow(sets) <= most {
            sets += 1;
        }
        if sets == 0 { 0 } else { 2u32.pow(sets - 1) }
    });
    let whole = |bytes: u32| bytes / 4096 + u32::from(!bytes.is_multiple_of(4096));
    let data = [0, 1].map(|size: usize| sets[size] * utopia.ways * base_pages(size));
    let filters = sets.map(whole);
    let tags = sets.map(|sets| whole(sets * utopia.ways * 4));
    let all: u32 = data.iter().chain(&filters).chain(&tags).sum();
    // In blocks of 4 MiB.
    let flexible = (FRAMES - all) / 1024 * 1024;
    let behind = flexible + data[0] + data[1];
    let metadata = [behind, behind + filters[0] + tags[0]];
    [0, 1].map(|size| {
        (sets[size] > 0).then_some(Segment {
            sets: sets[size],
            ways: utopia.ways,
            first: flexible + if size == 0 { data[1] } else { 0 },
            filter: u64::from(metadata[size]) * 4096,
            tags: u64::from(metadata[size] + filters[size]) * 4096,
        })
    })
}

#[derive(Debug, PartialEq)]
enum Came {
    First,
    Second,
    Walk {
        /// Line, step, and what served it.
        reads: Vec<(u32, u8, Served)>,
        background: usize,
        cycles: u32,
        found: bool,
    },
}

/// Who is in a way, by the number of the page in units of its size, and for how long.
type Set = Vec<Option<(u32, u8)>>;

#[derive(Debug, Default, PartialEq)]
struct Counted {
    placed: u64,
    full: u64,
    moved_in: u64,
    evicted: u64,
}

struct Twin {
    config: MachineConfig,
    segments: [Option<Segment>; 2],
    /// By level and size.
    tlbs: [[Lru; 2]; 2],
    caches: Caches,
    filters: Option<Lru>,
    tags: Option<Lru>,
    sets: HashMap<(usize, u32), Set>,
    /// Of each page's walks since its entry was written: how many of their reads memory served.
    walks: HashMap<(usize, u32), Vec<u32>>,
    /// By size.
    counted: [Counted; 2],
    /// By the name of the counter.
    own: HashMap<&'static str, u64>,
}

impl Twin {
    fn new(config: &MachineConfig) -> Self {
        let tlb = |tlb: TlbArrayConfig| Lru::new(tlb.entries, tlb.ways);
        let of = config.tlb;
        let utopia = config.utopia;
        let ways = utopia.cache_ways;
        let lines = |kib: u32| (kib > 0).then(|| Lru::new((kib * 1024 / 64).max(ways), ways));
        Twin {
            segments: segments(config),
            tlbs: [
                [tlb(of.l1_4k), tlb(of.l1_2m.unwrap())],
                [tlb(of.l2_4k), tlb(of.l2_2m.unwrap())],
            ],
            caches: Caches::new(&config.caches),
            filters: lines(utopia.filter_cache_kib),
            tags: lines(utopia.tag_cache_kib),
            sets: HashMap::new(),
            walks: HashMap::new(),
            counted: Default::default(),
            own: HashMap::new(),
            config: config.clone(),
        }
    }

    fn count(&mut self, name: &'static str, by: usize) {
        *self.own.entry(name).or_default() += by as u64;
    }

    /// The set of a page in the segment of a size, with its number.
    fn set(&mut self, page: Page, size: usize) -> Option<(u32, &mut Set)> {
        let segment = self.segments[size]?;
        let number = page.id.0 / base_pages(size) % segment.sets;
        let empty = || vec![None; segment.ways as usize];
        Some((
            number,
            self.sets.entry((size, number)).or_insert_with(empty),
        ))
    }

    fn way(&mut self, page: Page, size: usize) -> Option<usize> {
        let key = page.id.0 / base_pages(size);
        let (_, set) = self.set(page, size)?;
        set.iter().position(|way| way.is_some_and(|of| of.0 == key))
    }

    /// The frame of a page that is in a segment.
    fn frame(&mut self, page: Page, size: usize) -> Option<u32> {
        let way = self.way(page, size)? as u32;
        let segment = self.segments[size]?;
        let set = self.set(page, size)?.0;
        Some(
            segment.first
                + (set * segment.ways + way) * base_pages(size)
                + page.id.0 % base_pages(size),
        )
    }

    /// Which of these lines a cache of the walker does not have.
    fn missing(cache: &mut Option<Lru>, lines: impl Iterator<Item = u64>) -> Vec<u32> {
        let lines = lines.map(|line| line as u32);
        let has = |line: &u32| {
            let cache = cache.as_mut();
            cache.is_some_and(|cache| cache.reference(*line, false).0)
        };
        let mut has = has;
        lines.filter(|line| !has(line)).collect()
    }

    /// What a walk of the segments reads: lines that go out together, and its cycles.
    fn walk_segments(&mut self, page: Page) -> (Vec<Vec<u32>>, u32, Option<usize>) {
        let utopia = self.config.utopia;
        let sizes: Vec<usize> = (0..2)
            .filter(|&size| self.segments[size].is_some())
            .collect();
        let mut steps = Vec::new();
        let mut cycles = 0;
        if utopia.set_filter {
            for &size in &sizes {
                let segment = self.segments[size].unwrap();
                let set = self.set(page, size).unwrap().0;
                let line = (segment.filter + u64::from(set)) / 64;
                steps.extend(Self::missing(&mut self.filters, [line].into_iter()));
            }
            self.count("sets_filtered", sizes.len());
            self.count("filter_lines_read", steps.len());
            cycles += u32::from(utopia.filter_cache_kib > 0) * utopia.cache_cycles;
        }
        let mut steps = vec![steps];
        let mut tags = Vec::new();
        let mut searched = 0;
        let mut found = None;
        for &size in &sizes {
            let segment = self.segments[size].unwrap();
            let (number, set) = self.set(page, size).unwrap();
            if utopia.set_filter && set.iter().all(Option::is_none) {
                self.count("sets_filtered_out", 1);
                continue;
            }
            searched += 1;
            let bytes = u64::from(segment.ways) * 4;
            let first = segment.tags + u64::from(number) * bytes;
            let mut lines: Vec<u64> = (first..first + bytes).map(|byte| byte / 64).collect();
            lines.dedup();
            tags.extend(Self::missing(&mut self.tags, lines.into_iter()));
            if self.way(page, size).is_some() {
                found = Some(size);
            }
        }
        cycles += u32::from(searched > 0 && utopia.tag_cache_kib > 0) * utopia.cache_cycles;
        self.count("sets_searched", searched);
        self.count("tag_lines_read", tags.len());
        steps.push(tags);
        steps.retain(|step| !step.is_empty());
        (steps, cycles, found)
    }

    /// Looks a page up.
    fn look_up(&mut self, page: Page, size: usize) -> Option<Came> {
        let number = page.id.0 / base_pages(size);
        for level in 0..2 {
            if self.tlbs[level][size].has(number) {
                for level in 0..=level {
                    self.tlbs[level][size].reference(number, false);
                }
                return [Came::First, Came::Second].into_iter().nth(level);
            }
        }
        None
    }

    /// Walks for a page of a size, which is mapped or not; `table` is what a walk of the page table
    /// reads, and `fixed` its cycles.
    fn walk(
        &mut self,
        page: Page,
        size: usize,
        table: &[(u32, u8)],
        fixed: u32,
        mapped: bool,
    ) -> Came {
        let utopia = self.config.utopia;
        let (steps, own, inside) = if self.segments.iter().any(Option::is_some) {
            self.walk_segments(page)
        } else {
            Default::default()
        };
        let in_segments = steps.iter().flatten().count();
        let by_step = steps.iter().enumerate();
        let of_segments: Vec<(u32, u8)> = by_step
            .flat_map(|(step, lines)| lines.iter().map(move |&line| (line, step as u8)))
            .collect();
        // In the order in which they are made, with those at the end that nothing waits for.
        let later = steps.len() as u8;
        let (reads, background, cycles): (Vec<(u32, u8)>, usize, u32) =
            match (inside.is_some(), utopia.parallel) {
                (true, true) => {
                    let begun = table.iter().filter(|read| read.1 < later);
                    // They have the step that the walk is at.
                    let begun: Vec<_> = begun.map(|read| (read.0, later)).collect();
                    let many = begun.len();
                    self.count("page_table_reads_in_vain", many);
                    ([of_segments, begun].concat(), many, own)
                }
                (true, false) => (of_segments, 0, own),
                (false, true) => {
                    let last = table.last().map_or(0, |read| read.1);
                    let beside = of_segments.iter().map(|read| (read.0, last));
                    let all = table.iter().copied().chain(beside).collect();
                    (all, in_segments, fixed)
                }
                (false, false) => {
                    let behind = table.iter().map(|read| (read.0, read.1 + later));
                    (
                        of_segments.iter().copied().chain(behind).collect(),
                        0,
                        own + fixed,
                    )
                }
            };
        let reads: Vec<(u32, u8, Served)> = reads
            .into_iter()
            .map(|(line, step)| (line, step, self.caches.reference(line, false)))
            .collect();
        match inside {
            Some(0) => self.count("segment_hits_4k", 1),
            Some(_) => self.count("segment_hits_2m", 1),
            None => self.count("page_table_walks", 1),
        }
        if mapped {
            let number = page.id.0 / base_pages(size);
            self.tlbs[0][size].reference(number, false);
            self.tlbs[1][size].reference(number, false);
            if let Some(way) = self.way(page, size) {
                self.set(page, size).unwrap().1[way].as_mut().unwrap().1 = 0;
            }
            if inside.is_none() && utopia.track && self.segments[size].is_some() {
                let first = if utopia.parallel { 0 } else { in_segments };
                let own = &reads[first..first + table.len()];
                let memory = own.iter().filter(|read| read.2 == Served::Dram).count();
                let walks = self.walks.entry((size, number)).or_default();
                walks.push(memory as u32);
            }
        }
        Came::Walk {
            reads,
            background,
            cycles,
            found: mapped,
        }
    }

    /// A page of this size has to have room: who leaves for it.
    fn make_room(&mut self, page: Page, size: usize) -> Option<u32> {
        let (_, set) = self.set(page, size)?;
        if set.iter().any(Option::is_none) {
            return None;
        }
        loop {
            if let Some(oldest) = set.iter_mut().find(|way| way.unwrap().1 == 3) {
                let gone = oldest.take().unwrap().0;
                self.counted[size].evicted += 1;
                self.forget(gone, size);
                return Some(gone);
            }
            set.iter_mut().for_each(|way| way.as_mut().unwrap().1 += 1);
        }
    }

    fn enter(&mut self, page: Page, size: usize) -> bool {
        let key = page.id.0 / base_pages(size);
        let Some((_, set)) = self.set(page, size) else {
            return false;
        };
        let free = set.iter_mut().find(|way| way.is_none());
        let room = free.is_some();
        if let Some(way) = free {
            *way = Some((key, 2));
        }
        room
    }

    fn fault(&mut self, page: Page, size: usize) {
        let utopia = self.config.utopia;
        if !utopia.at_faults || self.segments[size].is_none() {
            return;
        }
        if utopia.evict_at_faults {
            self.make_room(page, size);
        }
        if self.enter(page, size) {
            self.counted[size].placed += 1;
        } else {
            self.counted[size].full += 1;
        }
    }

    /// Moves a page in if it has become costly; whether it has.
    fn move_in(&mut self, page: Page, size: usize) -> bool {
        let number = page.id.0 / base_pages(size);
        let Some(walks) = self.walks.get(&(size, number)) else {
            return false;
        };
        let utopia = self.config.utopia;
        let costly = walks.len() as u32 >= utopia.costly_walks
            && walks.iter().sum::<u32>() >= utopia.costly_reads;
        if costly {
            self.count("pages_found_costly", 1);
            self.make_room(page, size);
            self.enter(page, size);
            self.counted[size].moved_in += 1;
            self.forget(number, size);
        }
        costly
    }

    /// The entry of a page was written.
    fn forget(&mut self, number: u32, size: usize) {
        for level in &mut self.tlbs {
            level[size].remove(number);
        }
        self.walks.remove(&(size, number));
    }

    fn unmap(&mut self, page: Page, size: usize) {
        if let Some(way) = self.way(page, size) {
            self.set(page, size).unwrap().1[way] = None;
        }
        self.forget(page.id.0 / base_pages(size), size);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Access { page: usize, line: u32, store: bool },
    Unmap { region: usize },
}

/// Each of so many regions of 2 MiB has one page of that size, or eight of 4 KiB.
const REGIONS: usize = 36;

fn is_large(region: usize) -> bool {
    region % 3 == 1
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = prop_oneof![0..REGIONS * 8, 0..REGIONS, (0..REGIONS).prop_map(|n| n * 8)];
    let access = (page, 0..64u32, any::<bool>());
    let access = access.prop_map(|(page, line, store)| Step::Access { page, line, store });
    let unmap = (0..REGIONS).prop_map(|region| Step::Unmap { region });
    proptest::collection::vec(prop_oneof![60 => access, 1 => unmap], 300..1200)
}

fn config() -> impl Strategy<Value = MachineConfig> {
    let switches = proptest::array::uniform5(prop_oneof![3 => Just(true), 1 => Just(false)]);
    let sizes = (0..2u32, 0..20u32, prop_oneof![1..17u32, Just(1), Just(2)]);
    let caches = (0..3u32, 0..3u32, 0..3u32, 0..3u32);
    (switches, sizes, caches, (1..4u32, 0..4u32)).prop_map(
        |(switches, (small, large, ways), caches, costly)| {
            let mut config = MachineConfig::load("dpt-paper", &[]).unwrap();
            config.memory.memory_bytes = u64::from(FRAMES) * 4096;
            config.memory.utilisation = 0.0;
            config.memory.page_policy = PagePolicy::Thp;
            let usual = config.tlb.l1_4k;
            let array = |entries| TlbArrayConfig {
                entries,
                ways: entries,
                ..usual
            };
            config.tlb.l1_4k = array(4);
            config.tlb.l1_2m = Some(array(2));
            config.tlb.l2_4k = array(12);
            config.tlb.l2_2m = Some(array(4));
            config.caches.l1.kib = 2;
            config.caches.l2.kib = 8;
            config.caches.llc.kib = 16;
            let utopia = &mut config.utopia;
            (utopia.small_mib, utopia.large_mib, utopia.ways) = (small, large, ways);
            [
                utopia.set_filter,
                utopia.parallel,
                utopia.at_faults,
                utopia.evict_at_faults,
                utopia.track,
            ] = switches;
            let kib = [0, 1, 2];
            utopia.filter_cache_kib = kib[caches.0 as usize];
            utopia.tag_cache_kib = kib[caches.1 as usize];
            (utopia.cache_ways, utopia.cache_cycles) = (1 << caches.2, caches.3);
            (utopia.costly_walks, utopia.costly_reads) = costly;
            config
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn it_does_what_lists_do(config in config(), steps in steps()) {
        drive(&config, &steps);
    }
}

/// A machine without a clock.
struct Fast {
    os: Os,
    mmu: Utopia<Radix>,
    caches: Vec<PrivateCaches>,
    shared: SharedCache,
    directory: PageDirectory,
    chunk: Chunk,
    looks: Looks,
    walks: Walks,
    effects: Effects,
}

impl Fast {
    fn new(config: &MachineConfig) -> Self {
        let placement = Utopia::<Radix>::placement(config);
        let os = Os::with_placement(config.memory.clone(), placement, 1).unwrap();
        Fast {
            mmu: Utopia::build(config, &os).unwrap(),
            os,
            caches: vec![PrivateCaches::new(&config.caches, 1).unwrap()],
            shared: SharedCache::new(&config.caches, 1, 1).unwrap(),
            directory: PageDirectory::new(),
            chunk: Chunk::default(),
            looks: Looks::new(1, false),
            walks: Walks::new(),
            effects: Effects::new(),
        }
    }

    /// Has the operating system do something, and forgets what that has made stale.
    fn call(
        &mut self,
        what: impl FnOnce(&mut Os, &mut Utopia<Radix>, &mut PageDirectory, &mut Effects),
    ) {
        self.effects.clear();
        what(
            &mut self.os,
            &mut self.mmu,
            &mut self.directory,
            &mut self.effects,
        );
        let stale: Vec<(Page, u32)> = (self.effects.invalidations.iter())
            .map(|stale| {
                let (asid, vpn) = self.directory.resolve(stale.first);
                let id = stale.first;
                (Page { id, asid, vpn }, stale.pages)
            })
            .collect();
        assert!(self.effects.flushed.is_empty());
        for (first, pages) in stale {
            self.with_port(|mmu, port, _| mmu.invalidate(0, first, pages, port));
        }
    }

    fn control(&mut self, process: u32, event: &Control) {
        self.call(|os, mmu, directory, effects| {
            os.control(mmu.table_mut(), directory, process, event, effects)
                .unwrap();
        });
    }

    fn with_port<R>(
        &mut self,
        what: impl FnOnce(&mut Utopia<Radix>, &mut Port, &mut Walks) -> R,
    ) -> R {
        let mut port = Port {
            core: 0,
            caches: &mut self.caches,
            shared: &mut self.shared,
            directory: &self.directory,
            chunk: &mut self.chunk,
            looks: &mut self.looks,
        };
        what(&mut self.mmu, &mut port, &mut self.walks)
    }

    /// One walk, with what it read.
    fn walk(&mut self, request: &Request) -> Came {
        let before = self.chunk.references.as_slice().len();
        self.walks.asked.clear();
        let found = self.with_port(|mmu, port, walks| mmu.walk::<Baseline>(request, port, walks));
        if let Some(found) = found {
            self.os.access(found.pfn);
        }
        let chunk = &self.chunk;
        let lines = chunk.references.as_slice()[before..].iter();
        let served = chunk.served.as_slice()[before..].iter();
        let asked = &self.walks.asked;
        let steps = asked.reads().iter().map(|read| read.step);
        let reads: Vec<_> = (lines.zip(steps).zip(served))
            .map(|((&line, step), &served)| (line, step, served))
            .collect();
        let listed = asked.reads().iter();
        let listed = listed.map(|read| (read.addr.0 / 64) as u32);
        assert!(listed.eq(reads.iter().map(|read| read.0)));
        Came::Walk {
            reads,
            background: usize::from(asked.background()),
            cycles: asked.cycles(),
            found: found.is_some(),
        }
    }
}

fn region_start(region: usize) -> u64 {
    (1 << 18) + (region / 2 * 512) as u64
}

fn process(region: usize) -> u32 {
    (region % 2 * 5) as u32
}

/// Maps a region: all of it where a large page is to be there.
fn map(region: usize) -> Control {
    let pages = if is_large(region) { 512 } else { 256 };
    Control::Map {
        addr: region_start(region) * 4096,
        len: pages * 4096,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing: Backing::Anonymous,
        populate: false,
    }
}

fn drive(config: &MachineConfig, steps: &[Step]) {
    let mut fast = Fast::new(config);
    let mut slow = Twin::new(config);
    // Regions of two address spaces at the same addresses.
    let mut pages = Vec::new();
    for number in 0..REGIONS * 8 {
        let (region, at) = (number / 8, number as u64 % 8);
        // Of few sets.
        let offset = if is_large(region) {
            at
        } else {
            at / 2 * 64 + at % 2 * 3
        };
        let vpn = Vpn(region_start(region) + offset);
        let asid = Asid(process(region) as u16);
        let id = fast.directory.page(asid, vpn).unwrap();
        pages.push(Page { id, asid, vpn });
    }
    for region in 0..REGIONS {
        fast.control(process(region), &map(region));
    }
    for (number, step) in steps.iter().enumerate() {
        fast.chunk.clear();
        fast.chunk.served.clear();
        match *step {
            Step::Access { page, line, store } => {
                let size = usize::from(is_large(page / 8));
                access(&mut fast, &mut slow, pages[page], size, line, store);
            }
            Step::Unmap { region } => {
                let Control::Map { addr, len, .. } = map(region) else {
                    unreachable!()
                };
                fast.control(process(region), &Control::Unmap { addr, len });
                fast.control(process(region), &map(region));
                for &page in &pages[region * 8..region * 8 + 8] {
                    slow.unmap(page, usize::from(is_large(region)));
                }
            }
        }
        for (cache, twin) in [
            (&fast.caches[0].l2, &slow.caches.l2),
            (&fast.shared.llc, &slow.caches.llc),
        ] {
            let mut has: Vec<u32> = cache.held().collect();
            has.sort_unstable();
            assert_eq!(has, twin.keys(), "step {number}: {step:?}");
        }
    }
    let own: HashMap<&str, u64> = fast.mmu.own_counters().into_iter().collect();
    if slow.segments.iter().all(Option::is_none) {
        assert!(own.is_empty());
        return;
    }
    for (name, count) in own {
        assert_eq!(slow.own.get(name).copied().unwrap_or(0), count, "{name}");
    }
    let statistics = fast.os.statistics(fast.mmu.table()).segments.unwrap();
    let of = |size: usize| {
        let by_size = |count: pagelab_os::BySize| [count.base, count.large][size];
        Counted {
            placed: by_size(statistics.placed),
            full: by_size(statistics.full),
            moved_in: by_size(statistics.moved_in),
            evicted: by_size(statistics.evicted),
        }
    };
    assert_eq!([of(0), of(1)], slow.counted);
    assert_eq!((statistics.refused.base, statistics.refused.large), (0, 0));
}

fn access(fast: &mut Fast, slow: &mut Twin, page: Page, size: usize, line: u32, store: bool) {
    let request = Request {
        core: 0,
        page,
        line,
        store,
        instruction: pagelab_events::NO_SITE,
        instructions: 0,
    };
    let came = fast.with_port(|mmu, port, walks| {
        if mmu.lookup_first::<Baseline>(0, page.id, store).is_some() {
            return Some(Came::First);
        }
        walks.asked.clear();
        let behind = mmu.lookup_behind::<Baseline>(&request, port, walks);
        behind.map(|_| Came::Second)
    });
    assert_eq!(came, slow.look_up(page, size), "{page:?}");
    while came.is_none() {
        let mut walk = Walk::new();
        let mapped = fast.mmu.table().clone().walk(0, page, &mut walk).is_some();
        let table: Vec<(u32, u8)> = (walk.reads().iter())
            .map(|read| ((read.addr.0 / 64) as u32, read.step))
            .collect();
        let expected = slow.walk(page, size, &table, walk.cycles(), mapped);
        assert_eq!(fast.walk(&request), expected, "{page:?}");
        if mapped {
            break;
        }
        fast.call(|os, mmu, directory, effects| {
            os.fault(mmu.table_mut(), directory, page, store, effects)
                .unwrap();
        });
        slow.fault(page, size);
    }
    let found = fast.mmu.table().lookup(page).unwrap();
    assert_eq!(found.size, [PageSize::Base4K, PageSize::Large2M][size]);
    match slow.frame(page, size) {
        Some(frame) => assert_eq!(found.pfn.0, frame),
        None => {
            for (segment, size) in slow.segments.iter().zip(0..) {
                let frames =
                    |of: &Segment| of.first..of.first + of.sets * of.ways * base_pages(size);
                assert!(!segment.is_some_and(|of| frames(&of).contains(&found.pfn.0)));
            }
        }
    }
    let data = found.pfn.0 * 64 + line;
    let modify = if store { MODIFY } else { 0 };
    fast.chunk.references.push(data | modify);
    fast.with_port(|_, port, _| port.serve_data());
    slow.caches.reference(data, store);
    let costly = fast.mmu.costly();
    assert_eq!(costly.is_some(), slow.move_in(page, size));
    if let Some(page) = costly {
        fast.call(|os, mmu, directory, effects| {
            os.move_in(mmu.table_mut(), directory, page, effects);
        });
        assert!(slow.frame(page, size).is_some());
    }
}
