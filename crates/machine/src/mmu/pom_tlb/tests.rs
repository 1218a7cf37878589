//! The part-of-memory TLB beside lists: TLBs, caches, sets and predictions of one core, looked
//! through from end to end.

use super::PomTlb;
use crate::caches::served::Served;
use crate::config::MachineConfig;
use crate::mmu::lists::{Caches, Lru};
use crate::mmu::small::{REGIONS, Step, is_large, small_machine, steps};
use crate::mmu::stage::{Stage, Translated, lines_of, request};
use crate::mmu::{ConfiguredMmu, Mmu, Request};
use pagelab_addr::{Asid, PageDirectory, PageSize, Pfn, Vpn};
use pagelab_os::Os;
use pagelab_translation::{Page, PageTable, Radix, TlbArrayConfig, Translation, Walk, Work};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Debug, PartialEq)]
enum Came {
    First,
    Second,
    /// The reads, of sets and of the page table: line, step, and what served it.
    Walk(Vec<(u32, u8, Served)>),
}

/// Last findings for the pages that share an entry of the predictors.
#[derive(Clone, Copy, Default)]
struct Seen {
    large: bool,
    in_no_cache: bool,
}

struct Twin {
    config: MachineConfig,
    /// By level and size.
    tlbs: [[Lru; 2]; 2],
    caches: Caches,
    /// By size and number of the set: its pages, the last one used in front.
    sets: [HashMap<u64, Vec<Page>>; 2],
    seen: HashMap<u64, Seen>,
    hits: [u64; 2],
    walks: u64,
}

impl Twin {
    fn new(config: &MachineConfig) -> Self {
        let tlb = |tlb: TlbArrayConfig| Lru::new(tlb.entries, tlb.ways);
        let of = config.tlb;
        Twin {
            tlbs: [
                [tlb(of.l1_4k), tlb(of.l1_2m.unwrap())],
                [tlb(of.l2_4k), tlb(of.l2_2m.unwrap())],
            ],
            caches: Caches::new(&config.caches),
            sets: Default::default(),
            seen: HashMap::new(),
            hits: [0, 0],
            walks: 0,
            config: config.clone(),
        }
    }

    /// The number of a page's set, of so many bytes a size.
    fn set(&self, page: Page, size: usize) -> u64 {
        let sets = u64::from(self.config.pom_tlb.kib) * 1024 / 2 / 64;
        let number = if size == 1 {
            page.vpn.0 / 512
        } else {
            page.vpn.0
        };
        let shared = u64::from(self.config.pom_tlb.neighbours);
        ((number / shared) ^ u64::from(page.asid.0)) % sets
    }

    fn read_set(&mut self, page: Page, size: usize) -> (u32, Served) {
        let pom = self.config.pom_tlb;
        let half = u64::from(pom.kib) * 1024 / 2;
        let byte = 126 * 1024 * 1024 * 1024 + size as u64 * half + self.set(page, size) * 64;
        let line = (byte / 64) as u32;
        if !pom.cached {
            return (line, Served::PastCaches);
        }
        let found = self.caches.reference_behind(line);
        let seen = self.seen(page);
        let past = pom.bypass_predictor && seen.in_no_cache;
        seen.in_no_cache = found == Served::Dram;
        (line, if past { Served::PastCaches } else { found })
    }

    fn seen(&mut self, page: Page) -> &mut Seen {
        let entries = u64::from(self.config.pom_tlb.predictor_entries);
        self.seen.entry(page.vpn.0 % entries).or_default()
    }

    /// Translates a page of a size that is mapped; `leaf` says what a walk reads.
    fn translate(&mut self, page: Page, size: usize, leaf: &[(u32, u8)]) -> Came {
        let number = page.id.0 >> (9 * size);
        for level in 0..2 {
            if self.tlbs[level][size].has(number) {
                for level in 0..=level {
                    self.tlbs[level][size].reference(number, false);
                }
                return [Came::First, Came::Second].into_iter().nth(level).unwrap();
            }
        }
        let mut reads = Vec::new();
        let large_first = self.config.pom_tlb.size_predictor && self.seen(page).large;
        let order = if large_first { [1, 0] } else { [0, 1] };
        let mut found = false;
        for (step, of) in order.into_iter().enumerate() {
            let (line, served) = self.read_set(page, of);
            reads.push((line, step as u8, served));
            let set = self.set(page, of);
            let pages = self.sets[of].entry(set).or_default();
            let same = |other: &Page| other.id.0 >> (9 * of) == page.id.0 >> (9 * of);
            if let Some(at) = pages.iter().position(same) {
                let entry = pages.remove(at);
                pages.insert(0, entry);
                self.hits[of] += 1;
                found = true;
                break;
            }
        }
        if !found {
            for &(line, step) in leaf {
                let served = self.caches.reference(line, false);
                reads.push((line, step + 2, served));
            }
            self.walks += 1;
            let set = self.set(page, size);
            let pages = self.sets[size].entry(set).or_default();
            pages.insert(0, page);
            pages.truncate(4);
        }
        self.seen(page).large = size == 1;
        self.tlbs[0][size].reference(number, false);
        self.tlbs[1][size].reference(number, false);
        Came::Walk(reads)
    }

    fn forget(&mut self, page: Page, size: usize) {
        for level in &mut self.tlbs {
            level[size].remove(page.id.0 >> (9 * size));
        }
        for pages in self.sets[size].values_mut() {
            pages.retain(|other| other.id != page.id);
        }
    }
}

fn config() -> impl Strategy<Value = MachineConfig> {
    let switches = proptest::array::uniform3(prop_oneof![3 => Just(true), 1 => Just(false)]);
    (switches, 0..5u32, 0..10u32, any::<bool>()).prop_map(|(switches, kib, entries, large)| {
        let mut config = small_machine(64 << 20);
        if large {
            config.pom_tlb.kib = 1024;
        } else {
            config.pom_tlb.kib = 1 << kib;
        }
        config.pom_tlb.predictor_entries = 1 << entries;
        config.pom_tlb.neighbours = 1 << (entries % 3);
        [
            config.pom_tlb.cached,
            config.pom_tlb.size_predictor,
            config.pom_tlb.bypass_predictor,
        ] = switches;
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn it_does_what_lists_do(config in config(), steps in steps()) {
        drive(&config, &steps);
    }
}

/// Pages of regions of two address spaces at the same addresses, pairs of neighbours among them.
fn pages_of(directory: &mut PageDirectory) -> Vec<Page> {
    let page = |number| {
        let (region, at) = (number / 8, number % 8);
        let offset = if is_large(region) { 0 } else { offset(at) };
        let vpn = Vpn((1 << 18) + (region / 2 * 512 + offset) as u64);
        let asid = Asid((region % 2 * 5) as u16);
        let id = directory.page(asid, vpn).unwrap();
        Page { id, asid, vpn }
    };
    (0..REGIONS * 8).map(page).collect()
}

/// Place within its region of a page of 4 KiB.
fn offset(at: usize) -> usize {
    at / 2 * 37 + at % 2
}

/// Frame of a page, and its size.
fn backing(number: usize) -> (Pfn, PageSize) {
    let (region, at) = (number / 8, number % 8);
    if is_large(region) {
        (Pfn((region * 512) as u32), PageSize::Large2M)
    } else {
        (Pfn((region * 512 + offset(at)) as u32), PageSize::Base4K)
    }
}

/// Translates a page that is mapped; the reads of a walk have to be those that the port was asked for.
fn translate(fast: &mut PomTlb<Radix>, stage: &mut Stage, request: &Request, pfn: Pfn) -> Came {
    match stage.translate(fast, request) {
        Translated::First => Came::First,
        Translated::Behind(_) => Came::Second,
        Translated::Walked(found) => {
            assert_eq!(found.pfn, pfn);
            let chunk = &stage.chunk;
            let lines = chunk.references.as_slice().iter();
            let steps = chunk.steps.as_slice().iter();
            let served = chunk.served.as_slice().iter();
            let reads: Vec<_> = (lines.zip(steps).zip(served))
                .map(|((&line, &step), &served)| (line, step, served))
                .collect();
            let made = reads.iter().map(|&(line, step, _)| (line, step));
            assert!(made.eq(lines_of(&stage.walks.asked)));
            Came::Walk(reads)
        }
    }
}

fn drive(config: &MachineConfig, steps: &[Step]) {
    let mut os = Os::new(config.memory.clone(), 1).unwrap();
    let mut fast = PomTlb::<Radix>::build(config, &os).unwrap();
    let mut slow = Twin::new(config);
    let mut stage = Stage::new(config);
    let mut work = Work::default();
    let frames = os.frames_mut();
    let pages = pages_of(&mut stage.directory);
    for (number, step) in steps.iter().enumerate() {
        stage.begin();
        match *step {
            Step::Access {
                page: at,
                line,
                store,
            } => {
                let page = pages[at];
                let (pfn, size) = backing(at);
                if fast.table().lookup(page).is_none() {
                    let translation = Translation {
                        pfn,
                        size,
                        writable: true,
                    };
                    let table = fast.table_mut();
                    table.map(frames, page, translation, &mut work).unwrap();
                }
                let mut walk = Walk::new();
                fast.table().clone().walk(0, page, &mut walk);
                let large = usize::from(size == PageSize::Large2M);
                let expected = slow.translate(page, large, &lines_of(&walk));
                let came = translate(&mut fast, &mut stage, &request(page, line, store), pfn);
                assert_eq!(came, expected, "step {number}: {step:?}");
                let data = pfn.0 * 64 + line;
                stage.reference(data, store);
                slow.caches.reference(data, store);
            }
            Step::Unmap { region } => {
                let (_, size) = backing(region * 8);
                let large = size == PageSize::Large2M;
                let count = if large { 1 } else { 8 };
                for &page in &pages[region * 8..region * 8 + count] {
                    fast.table_mut().unmap(frames, page, size, &mut work);
                    slow.forget(page, usize::from(large));
                }
                fast.invalidate(0, pages[region * 8], 512, &mut stage.port());
            }
        }
        stage.compare(&slow.caches, || format!("step {number}: {step:?}"));
    }
    let counts = &fast.counts;
    assert_eq!([counts.pom_hits_4k, counts.pom_hits_2m], slow.hits);
    assert_eq!(counts.page_table_walks, slow.walks);
}
