//! Utopia in lists that are looked through from end to end.

use super::FRAMES;
use crate::caches::served::Served;
use crate::config::MachineConfig;
use crate::mmu::lists::{Caches, Lru};
use pagelab_translation::{Page, TlbArrayConfig};
use std::collections::HashMap;

/// Frames of a page of a size.
pub(super) fn base_pages(size: usize) -> u32 {
    [1, 512][size]
}

/// A segment of a size, as the description of memory has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) sets: u32,
    pub(super) ways: u32,
    pub(super) first: u32,
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
pub(super) enum Came {
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

/// Pages in the ways of a set, by their number in units of their size, and for how long.
type Set = Vec<Option<(u32, u8)>>;

#[derive(Debug, Default, PartialEq)]
pub(super) struct Counted {
    pub(super) placed: u64,
    pub(super) full: u64,
    pub(super) moved_in: u64,
    pub(super) evicted: u64,
}

pub(super) struct Twin {
    config: MachineConfig,
    pub(super) segments: [Option<Segment>; 2],
    /// By level and size.
    tlbs: [[Lru; 2]; 2],
    pub(super) caches: Caches,
    filters: Option<Lru>,
    tags: Option<Lru>,
    sets: HashMap<(usize, u32), Set>,
    /// For each page's walks since its entry was written: how many of their reads memory served.
    walks: HashMap<(usize, u32), Vec<u32>>,
    /// By size.
    pub(super) counted: [Counted; 2],
    /// By the name of the counter.
    pub(super) own: HashMap<&'static str, u64>,
}

impl Twin {
    pub(super) fn new(config: &MachineConfig) -> Self {
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
    pub(super) fn frame(&mut self, page: Page, size: usize) -> Option<u32> {
        let way = self.way(page, size)? as u32;
        let segment = self.segments[size]?;
        let set = self.set(page, size)?.0;
        Some(
            segment.first
                + (set * segment.ways + way) * base_pages(size)
                + page.id.0 % base_pages(size),
        )
    }

    /// Lines among these that a cache of the walker does not have.
    fn missing(cache: &mut Option<Lru>, lines: impl Iterator<Item = u64>) -> Vec<u32> {
        let lines = lines.map(|line| line as u32);
        let has = |line: &u32| {
            let cache = cache.as_mut();
            cache.is_some_and(|cache| cache.reference(*line, false).0)
        };
        let mut has = has;
        lines.filter(|line| !has(line)).collect()
    }

    /// Reads of a walk of the segments: lines that go out together, and its cycles.
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
    pub(super) fn look_up(&mut self, page: Page, size: usize) -> Option<Came> {
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
    pub(super) fn walk(
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

    pub(super) fn fault(&mut self, page: Page, size: usize) {
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
    pub(super) fn move_in(&mut self, page: Page, size: usize) -> bool {
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

    pub(super) fn unmap(&mut self, page: Page, size: usize) {
        if let Some(way) = self.way(page, size) {
            self.set(page, size).unwrap().1[way] = None;
        }
        self.forget(page.id.0 / base_pages(size), size);
    }
}
