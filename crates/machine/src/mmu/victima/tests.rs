//! Victima beside lists: TLBs, caches and counters of one core, looked through from end to end.

use super::{BLOCK, FIRST_BLOCK, Victima};
use crate::config::MachineConfig;
use crate::mmu::lists::Lru;
use crate::mmu::stage::{Stage, Translated, request};
use crate::mmu::{ConfiguredMmu, Mmu, Request};
use pagelab_addr::{Asid, PageDirectory, PageId, PageSize, Pfn, Vpn};
use pagelab_os::Os;
use pagelab_translation::{Frames, Page, PageTable, Radix, Translation, Walk, Work};
use proptest::prelude::*;
use std::collections::HashMap;

/// A line of the second level, with what SRRIP predicts of it.
#[derive(Clone, Copy)]
struct Line {
    number: u32,
    modified: bool,
    interval: u32,
}

/// The second level: places, of which each has a line or none.
struct SecondLevel {
    sets: Vec<Vec<Option<Line>>>,
    favours: bool,
}

impl SecondLevel {
    fn find(&mut self, number: u32) -> Option<&mut Option<Line>> {
        let sets = self.sets.len() as u32;
        let set = &mut self.sets[(number % sets) as usize];
        set.iter_mut()
            .find(|place| place.is_some_and(|line| line.number == number))
    }

    /// True if the line was there, and the modified one that left for it.
    fn reference(&mut self, number: u32, modifies: bool) -> (bool, Option<u32>) {
        let favoured = |line: u32| line >= FIRST_BLOCK;
        let favours = self.favours;
        if let Some(Some(line)) = self.find(number) {
            line.modified |= modifies;
            // A block's hit takes three off, which is all that two bits can have.
            let hit = if favours && favoured(number) { 3 } else { 1 };
            line.interval = line.interval.saturating_sub(hit);
            return (true, None);
        }
        let sets = self.sets.len() as u32;
        let set = &mut self.sets[(number % sets) as usize];
        let mut at = set.iter().position(Option::is_none);
        while at.is_none() {
            let distant = |place: &&Option<Line>| place.is_some_and(|line| line.interval == 3);
            let first = set.iter().filter(distant).count() > 0;
            if first {
                let of = |data: bool| {
                    set.iter().position(|place| {
                        place.is_some_and(|line| {
                            line.interval == 3 && (!data || !favoured(line.number))
                        })
                    })
                };
                at = if favours {
                    of(true).or(of(false))
                } else {
                    of(false)
                };
            } else {
                for line in set.iter_mut().flatten() {
                    line.interval += 1;
                }
            }
        }
        let new = Line {
            number,
            modified: modifies,
            interval: if favours && favoured(number) { 0 } else { 2 },
        };
        let old = set[at.unwrap()].replace(new);
        let gone = old.filter(|line| line.modified);
        (false, gone.map(|line| line.number))
    }
}

/// Outcome of one translation.
#[derive(Debug, PartialEq)]
enum Came {
    First,
    Second,
    Block,
    Walk { made_block: bool },
}

struct Twin {
    config: MachineConfig,
    tlbs: [Lru; 2],
    l1: Lru,
    l2: SecondLevel,
    llc: Lru,
    /// By page: walks, and those that memory served.
    counters: HashMap<u32, (u32, u32)>,
    /// By block: its pages that it has.
    blocks: HashMap<u32, Vec<u32>>,
    /// State of the windows: misses so far, instructions and misses when the last one began,
    /// whether it had many.
    tlb_misses: (u64, u64, u64, bool),
    cache_misses: (u64, u64, u64, bool),
    hits: u64,
    made: [u64; 2],
}

impl Twin {
    fn new(config: &MachineConfig) -> Self {
        let sets = config.caches.l2.kib * 16 / config.caches.l2.ways;
        Twin {
            tlbs: [config.tlb.l1_4k, config.tlb.l2_4k].map(|tlb| Lru::new(tlb.entries, tlb.ways)),
            l1: Lru::of_cache(&config.caches.l1),
            l2: SecondLevel {
                sets: vec![vec![None; config.caches.l2.ways as usize]; sets as usize],
                favours: false,
            },
            llc: Lru::of_cache(&config.caches.llc),
            counters: HashMap::new(),
            blocks: HashMap::new(),
            tlb_misses: (0, 0, 0, false),
            cache_misses: (0, 0, 0, false),
            hits: 0,
            made: [0, 0],
            config: config.clone(),
        }
    }

    fn enter_llc(&mut self, line: u32, modifies: bool) -> bool {
        self.llc.reference(line, modifies).0
    }

    /// True if memory had to serve it.
    fn reference(&mut self, line: u32, modifies: bool) -> bool {
        let (hit, evicted) = self.l1.reference(line, modifies);
        if hit {
            return false;
        }
        let (hit, gone) = self.l2.reference(line, false);
        let mut memory = false;
        if !hit {
            self.cache_misses.0 += 1;
            memory = !self.enter_llc(line, false);
        }
        if let Some(gone) = gone {
            self.enter_llc(gone, true);
        }
        if let Some(line) = evicted
            && let (_, Some(gone)) = self.l2.reference(line, true)
        {
            self.enter_llc(gone, true);
        }
        memory
    }

    fn rate(of: &mut (u64, u64, u64, bool), instructions: u64, window: u64, limit: f64) {
        let passed = instructions - of.1;
        if passed >= window {
            of.3 = (of.0 - of.2) as f64 / passed as f64 * 1000.0 > limit;
            (of.1, of.2) = (instructions, of.0);
        }
    }

    fn worth(&self, page: u32) -> bool {
        let victima = self.config.victima;
        let (walks, costs) = self.counters.get(&page).copied().unwrap_or((0, 0));
        let within = |value, [least, most]: [u32; 2]| value >= least && value <= most;
        !victima.predictor
            || self.cache_misses.3
            || within(walks, victima.frequency) && within(costs, victima.cost)
    }

    fn make(&mut self, page: u32, line: u32, mapped: &dyn Fn(u32) -> bool) {
        let block = FIRST_BLOCK + page / BLOCK;
        let first = page / BLOCK * BLOCK;
        let pages = (first..first + BLOCK)
            .filter(|&page| mapped(page))
            .collect();
        self.blocks.insert(block, pages);
        if self.l2.find(block).is_none() {
            if let Some(place) = self.l2.find(line) {
                *place = None;
            }
            if let (_, Some(gone)) = self.l2.reference(block, false) {
                self.enter_llc(gone, true);
            }
        }
    }

    fn fill(&mut self, page: u32, walk: &dyn Fn(u32) -> Vec<u32>, mapped: &dyn Fn(u32) -> bool) {
        // Only modified keys are told of when they leave.
        self.tlbs[0].reference(page, true);
        let (_, Some(evicted)) = self.tlbs[1].reference(page, true) else {
            return;
        };
        let held = self.l2.find(FIRST_BLOCK + evicted / BLOCK).is_some();
        if self.config.victima.insert_on_eviction && !held && self.worth(evicted) {
            let reads = walk(evicted);
            for &line in &reads {
                self.reference(line, false);
            }
            self.make(evicted, *reads.last().unwrap(), mapped);
            self.made[1] += 1;
        }
    }

    /// Translates a page that is mapped; `walk` says what a walk reads.
    fn translate(
        &mut self,
        page: u32,
        instructions: u64,
        walk: &dyn Fn(u32) -> Vec<u32>,
        mapped: &dyn Fn(u32) -> bool,
    ) -> Came {
        for (level, came) in [Came::First, Came::Second].into_iter().enumerate() {
            if self.tlbs[level].has(page) {
                for tlb in &mut self.tlbs[..=level] {
                    tlb.reference(page, true);
                }
                return came;
            }
        }
        let victima = self.config.victima;
        self.tlb_misses.0 += 1;
        Self::rate(
            &mut self.tlb_misses,
            instructions,
            victima.window,
            victima.tlb_mpki,
        );
        Self::rate(
            &mut self.cache_misses,
            instructions,
            victima.window,
            victima.cache_mpki,
        );
        self.l2.favours = victima.tlb_aware && self.tlb_misses.3;
        let block = FIRST_BLOCK + page / BLOCK;
        let has = self
            .blocks
            .get(&block)
            .is_some_and(|pages| pages.contains(&page));
        let reads = walk(page);
        if has && self.l2.find(block).is_some() {
            let in_first = reads.iter().all(|&line| self.l1.has(line));
            let caches = self.config.caches;
            // A walk cache of no time has all levels but the last.
            let sooner = in_first && caches.l1.cycles * (reads.len() as u32) < caches.l2.cycles;
            if !(victima.parallel && sooner) {
                self.l2.reference(block, false);
                self.hits += 1;
                self.fill(page, walk, mapped);
                return Came::Block;
            }
        }
        let mut memory = false;
        for &line in &reads {
            memory |= self.reference(line, false);
        }
        let most = |bits: u32| 2u32.pow(bits) - 1;
        let (walks, costs) = self.counters.entry(page).or_default();
        *walks = most(victima.frequency_bits).min(*walks + 1);
        *costs = most(victima.cost_bits).min(*costs + u32::from(memory));
        let made_block = victima.insert_on_miss && self.worth(page);
        if made_block {
            self.make(page, *reads.last().unwrap(), mapped);
            self.made[0] += 1;
        }
        self.fill(page, walk, mapped);
        Came::Walk { made_block }
    }

    fn invalidate(&mut self, first: u32, pages: u32) {
        for page in first..first + pages {
            self.tlbs.iter_mut().for_each(|tlb| tlb.remove(page));
            self.counters.remove(&page);
            let block = FIRST_BLOCK + page / BLOCK;
            if self.blocks.remove(&block).is_some()
                && let Some(place) = self.l2.find(block)
            {
                *place = None;
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Access {
        page: u32,
        line: u32,
        store: bool,
        instructions: u64,
    },
    Unmap {
        first: u32,
        pages: u32,
    },
}

const PAGES: u32 = 512;
/// The first of them.
const BASE: u64 = 1 << 18;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = prop_oneof![0..PAGES, 0..PAGES / 8, (0..PAGES / 16).prop_map(|n| n * 16)];
    let access = (page, 0..64u32, any::<bool>(), 1..40u64);
    let access = access.prop_map(|(page, line, store, instructions)| Step::Access {
        page,
        line,
        store,
        instructions,
    });
    let unmap = (0..PAGES, prop_oneof![Just(1), 2..40u32]);
    let unmap = unmap.prop_map(|(first, pages)| Step::Unmap {
        first,
        pages: pages.min(PAGES - first),
    });
    proptest::collection::vec(prop_oneof![60 => access, 1 => unmap], 400..2500)
}

fn config() -> impl Strategy<Value = MachineConfig> {
    let switches = proptest::array::uniform5(prop_oneof![3 => Just(true), 1 => Just(false)]);
    let limits = (1..4u32, 1..4u32, 0..20u32, 0..20u32, 50..2000u64);
    (switches, limits, 1..9u32, 4..8u32).prop_map(|(switches, limits, most, l1_cycles)| {
        let mut config = MachineConfig::load("dpt-paper", &[]).unwrap();
        config.memory.memory_bytes = 64 << 20;
        config.memory.utilisation = 0.0;
        (config.tlb.l1_4k.entries, config.tlb.l1_4k.ways) = (4, 4);
        (config.tlb.l2_4k.entries, config.tlb.l2_4k.ways) = (24, 12);
        (config.caches.l1.kib, config.caches.l1.cycles) = (2, l1_cycles);
        config.caches.l2.kib = 8;
        config.caches.llc.kib = 16;
        for cache in [&mut config.radix.pwc.pgd, &mut config.radix.pwc.pud] {
            cache.cycles = 0;
        }
        config.radix.pwc.pmd.cycles = 0;
        let victima = &mut config.victima;
        [
            victima.insert_on_miss,
            victima.insert_on_eviction,
            victima.predictor,
            victima.tlb_aware,
            victima.parallel,
        ] = switches;
        victima.insert_on_miss |= !victima.insert_on_eviction;
        (victima.frequency_bits, victima.cost_bits) = (limits.0, limits.1);
        victima.frequency = [1, most];
        victima.cost = [1, 7];
        victima.tlb_mpki = f64::from(limits.2) * 10.0;
        victima.cache_mpki = f64::from(limits.3) * 10.0;
        victima.window = limits.4;
        // The twin has SRRIP only.
        config.caches.l2.replacement = pagelab_memory::Replacement::Srrip;
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_does_what_lists_do(config in config(), steps in steps()) {
        drive(&config, &steps);
    }
}

fn pages_of(directory: &mut PageDirectory) -> Vec<Page> {
    let page = |number| {
        let (asid, vpn) = (Asid(0), Vpn(BASE + u64::from(number)));
        let id = directory.page(asid, vpn).unwrap();
        Page { id, asid, vpn }
    };
    (0..PAGES).map(page).collect()
}

fn frame(page: Page) -> Pfn {
    Pfn(0x1000 + page.id.0 * 7 % 1024)
}

fn map(table: &mut Radix, frames: &mut impl Frames, page: Page, work: &mut Work) {
    let translation = Translation {
        pfn: frame(page),
        size: PageSize::Base4K,
        writable: true,
    };
    table.map(frames, page, translation, work).unwrap();
}

/// Fills the walk cache with all levels but the last, by mapping a page.
fn warm(table: &mut Radix, frames: &mut impl Frames, page: Page, work: &mut Work) {
    map(table, frames, page, work);
    let mut walk = Walk::new();
    table.walk(0, page, &mut walk);
    walk.clear();
    table.walk(0, page, &mut walk);
    assert_eq!(walk.reads().len(), 1);
}

/// Translates a page that is mapped.
fn translate(fast: &mut Victima<Radix>, stage: &mut Stage, request: &Request) -> Came {
    match stage.translate(fast, request) {
        Translated::First => Came::First,
        Translated::Behind(hit) if hit.cached => Came::Block,
        Translated::Behind(_) => Came::Second,
        Translated::Walked(found) => {
            assert_eq!(found.pfn, frame(request.page));
            Came::Walk {
                made_block: found.cached_shift != 0,
            }
        }
    }
}

/// The twin's translation of a page.
fn expected(slow: &mut Twin, table: &Radix, pages: &[Page], of: Page, instructions: u64) -> Came {
    let page = |id: u32| pages[(id - pages[0].id.0) as usize];
    let leaf = |id: u32| {
        // Pages of the same block, some of which are none of the list.
        let vpn = Vpn(BASE + u64::from(id - pages[0].id.0));
        let page = Page {
            id: PageId(id),
            asid: Asid(0),
            vpn,
        };
        vec![table.entry_frame(page).unwrap().0 * 64 + (vpn.0 % 512 / 8) as u32]
    };
    let mapped = |id: u32| table.lookup(page(id)).is_some();
    slow.translate(of.id.0, instructions, &leaf, &mapped)
}

fn drive(config: &MachineConfig, steps: &[Step]) {
    let placement = Victima::<Radix>::placement(config);
    let mut os = Os::with_placement(config.memory.clone(), placement, 1).unwrap();
    let mut fast = Victima::<Radix>::build(config, &os).unwrap();
    let mut slow = Twin::new(config);
    let mut stage = Stage::new(config);
    let mut work = Work::default();
    let frames = os.frames_mut();
    let pages = pages_of(&mut stage.directory);
    warm(fast.table_mut(), frames, pages[0], &mut work);
    let mut instructions = 0;
    for (number, step) in steps.iter().enumerate() {
        stage.begin();
        match *step {
            Step::Access {
                page,
                line,
                store,
                instructions: more,
            } => {
                let page = pages[page as usize];
                if fast.table().lookup(page).is_none() {
                    map(fast.table_mut(), frames, page, &mut work);
                }
                let expected = expected(&mut slow, fast.table(), &pages, page, instructions);
                let request = Request {
                    instructions,
                    ..request(page, line, store)
                };
                let came = translate(&mut fast, &mut stage, &request);
                assert_eq!(came, expected, "step {number}: {step:?}");
                let data = frame(page).0 * 64 + line;
                stage.reference(data, store);
                slow.reference(data, store);
                instructions += more;
            }
            Step::Unmap {
                first,
                pages: count,
            } => {
                for page in &pages[first as usize..(first + count) as usize] {
                    fast.table_mut()
                        .unmap(frames, *page, PageSize::Base4K, &mut work);
                }
                fast.invalidate(0, pages[first as usize], count, &mut stage.port());
                slow.invalidate(pages[first as usize].id.0, count);
            }
        }
        let mut has: Vec<u32> = stage.caches[0].l2.held().collect();
        let mut should: Vec<u32> = (slow.l2.sets.iter().flatten().flatten())
            .map(|line| line.number)
            .collect();
        has.sort_unstable();
        should.sort_unstable();
        assert_eq!(has, should, "step {number}: {step:?}");
    }
    assert_eq!(fast.counts.block_hits, slow.hits);
    assert_eq!(
        [
            fast.counts.blocks_inserted_on_misses,
            fast.counts.blocks_inserted_on_evictions
        ],
        slow.made
    );
}
