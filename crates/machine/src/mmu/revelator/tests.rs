//! Revelator beside lists: TLBs, caches and guesses of one core, looked through from end to end.

use super::Revelator;
use crate::caches::served::Served;
use crate::config::MachineConfig;
use crate::mmu::lists::{Caches, Lru};
use crate::mmu::stage::{Stage, Translated, lines_of, request};
use crate::mmu::{ConfiguredMmu, Mmu, Request};
use pagelab_addr::{Asid, PageDirectory, PageSize, Pfn, Vpn};
use pagelab_os::Os;
use pagelab_translation::{Frames, Page, PageTable, Translation, Walk, Work};
use proptest::prelude::*;

/// CityHash64WithSeed of eight bytes, as its authors' source has it (city.cc, version 1.1).
fn city(key: u64, seed: u64) -> u64 {
    const K2: u64 = 0x9ae1_6a3b_2f90_404f;
    let shift_mix = |value: u64| value ^ (value >> 47);
    let hash_len_16 = |u: u64, v: u64, mul: u64| {
        let a = shift_mix((u ^ v).wrapping_mul(mul));
        shift_mix((v ^ a).wrapping_mul(mul)).wrapping_mul(mul)
    };
    let mul = K2.wrapping_add(2 * 8);
    let a = key.wrapping_add(K2);
    let c = key.rotate_right(37).wrapping_mul(mul).wrapping_add(a);
    let d = a.rotate_right(25).wrapping_add(key).wrapping_mul(mul);
    let plain = hash_len_16(c, d, mul);
    hash_len_16(plain.wrapping_sub(K2), seed, 0x9ddf_ea08_eb38_2d69)
}

#[derive(Debug, PartialEq)]
enum Came {
    First,
    Second,
    /// The lines that were fetched by guess, and whether memory had to serve them.
    Walk(Vec<(u32, bool)>),
}

/// Guesses of pages, or of pages of PTEs.
#[derive(Default)]
struct Guesses {
    seed: u64,
    /// For every walk that found a frame, the function that names it.
    found: Vec<Option<u32>>,
    guesses: u64,
    right: u64,
}

struct Twin {
    config: MachineConfig,
    frames: u64,
    tlbs: [Lru; 2],
    caches: Caches,
    data: Guesses,
    entries: Guesses,
}

impl Twin {
    fn new(config: &MachineConfig, frames: u32) -> Self {
        let tlb = |tlb: &pagelab_translation::TlbArrayConfig| Lru::new(tlb.entries, tlb.ways);
        Twin {
            frames: u64::from(frames),
            tlbs: [tlb(&config.tlb.l1_4k), tlb(&config.tlb.l2_4k)],
            caches: Caches::new(&config.caches),
            data: Guesses::default(),
            entries: Guesses {
                seed: 8,
                ..Guesses::default()
            },
            config: config.clone(),
        }
    }

    fn frame(&self, key: u32, seed: u64) -> u32 {
        (city(key.into(), seed) % self.frames) as u32
    }

    /// The functions that are worth a guess, from all that was ever found.
    fn worth(&self, guesses: &Guesses) -> Vec<u32> {
        let revelator = self.config.revelator;
        let window = revelator.window as usize;
        let whole = guesses.found.len() / window * window;
        if !revelator.filtered || whole == 0 {
            return (0..revelator.functions).collect();
        }
        let last = &guesses.found[whole - window..whole];
        let share = |function| {
            let named = last.iter().filter(|&&found| found == Some(function));
            named.count() as f64 / window as f64
        };
        (0..revelator.functions)
            .filter(|&function| share(function) >= revelator.least_share)
            .collect()
    }

    fn guess(&mut self, key: u32, line: u32, worth: &[u32], seed: u64) -> Vec<(u32, bool)> {
        let mut fetched = Vec::new();
        for &function in worth {
            let line = self.frame(key, seed + u64::from(function)) * 64 + line;
            if !self.caches.l1.has(line) && !self.caches.l2.has(line) {
                let served = self.caches.reference_behind(line);
                fetched.push((line, served == Served::Dram));
            }
        }
        fetched
    }

    fn function(&self, key: u32, seed: u64, frame: u32) -> Option<u32> {
        let mut all = 0..self.config.revelator.functions;
        all.find(|&function| self.frame(key, seed + u64::from(function)) == frame)
    }

    fn translate(&mut self, page: Page, line: u32, frame: u32, leaf: u32, reads: &[u32]) -> Came {
        let number = page.id.0;
        for level in 0..2 {
            if self.tlbs[level].has(number) {
                for level in 0..=level {
                    self.tlbs[level].reference(number, false);
                }
                return [Came::First, Came::Second].into_iter().nth(level).unwrap();
            }
        }
        let revelator = self.config.revelator;
        let mut fetched = Vec::new();
        if revelator.data {
            let worth = self.worth(&self.data);
            fetched = self.guess(number, line, &worth, 0);
            let function = self.function(number, 0, frame);
            self.data.guesses += worth.len() as u64;
            self.data.right += u64::from(function.is_some_and(|of| worth.contains(&of)));
            self.data.found.push(function);
        }
        if revelator.entries {
            let seed = self.entries.seed;
            let worth = self.worth(&self.entries);
            let function = self.function(number / 512, seed, leaf);
            if reads.len() > 1 {
                let entry = (page.vpn.0 % 512 / 8) as u32;
                fetched.extend(self.guess(number / 512, entry, &worth, seed));
                self.entries.guesses += worth.len() as u64;
                self.entries.right += u64::from(function.is_some_and(|of| worth.contains(&of)));
            }
            self.entries.found.push(function);
        }
        for &read in reads {
            self.caches.reference(read, false);
        }
        self.tlbs[0].reference(number, false);
        self.tlbs[1].reference(number, false);
        Came::Walk(fetched)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Access { page: usize, line: u32, store: bool },
    Unmap { first: usize, pages: usize },
}

/// Eight pages in each of so many pages of PTEs.
const REGIONS: usize = 48;
const PAGES: usize = REGIONS * 8;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = prop_oneof![0..PAGES, 0..PAGES / 8, (0..PAGES / 16).prop_map(|n| n * 16)];
    let access = (page, 0..64u32, any::<bool>());
    let access = access.prop_map(|(page, line, store)| Step::Access { page, line, store });
    let unmap = (0..PAGES, 1..8usize).prop_map(|(first, pages)| Step::Unmap {
        first,
        // Within 2 MiB.
        pages: pages.min(8 - first % 8),
    });
    proptest::collection::vec(prop_oneof![40 => access, 1 => unmap], 200..800)
}

fn config() -> impl Strategy<Value = MachineConfig> {
    let switches = proptest::array::uniform3(prop_oneof![3 => Just(true), 1 => Just(false)]);
    (switches, 1..6u32, 0.0..0.5f64, 1..60u32).prop_map(|(switches, functions, share, window)| {
        let mut config = MachineConfig::load("dpt-paper", &[]).unwrap();
        config.memory.memory_bytes = 64 << 20;
        config.memory.utilisation = 0.3;
        (config.tlb.l1_4k.entries, config.tlb.l1_4k.ways) = (4, 4);
        (config.tlb.l2_4k.entries, config.tlb.l2_4k.ways) = (24, 12);
        config.caches.l1.kib = 2;
        config.caches.l2.kib = 8;
        config.caches.llc.kib = 16;
        let revelator = &mut config.revelator;
        [revelator.data, revelator.entries, revelator.filtered] = switches;
        revelator.data |= !revelator.entries;
        (revelator.functions, revelator.window) = (functions, window);
        revelator.least_share = share;
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn it_does_what_lists_do(config in config(), steps in steps()) {
        drive(&config, &steps);
    }
}

fn pages_of(directory: &mut PageDirectory) -> Vec<Page> {
    let page = |number| {
        let vpn = Vpn((1 << 18) + number / 8 * 512 + number % 8 * 37);
        let asid = Asid(0);
        let id = directory.page(asid, vpn).unwrap();
        Page { id, asid, vpn }
    };
    (0..PAGES as u64).map(page).collect()
}

/// A frame that one of the first four functions names, or another.
fn frame(page: Page) -> u32 {
    match page.id.0 % 7 {
        function @ 0..4 => (city(page.id.0.into(), function.into()) % (64 << 8)) as u32,
        _ => 0x1000 + page.id.0 * 7 % 1024,
    }
}

/// Translates a page that is mapped.
fn translate(fast: &mut Revelator, stage: &mut Stage, request: &Request) -> Came {
    match stage.translate(fast, request) {
        Translated::First => Came::First,
        Translated::Behind(_) => Came::Second,
        Translated::Walked(found) => {
            assert_eq!(found.pfn, Pfn(frame(request.page)));
            let early = stage.chunk.early.iter();
            let guessed = early.map(|early| (early.line, early.served == Served::Dram));
            Came::Walk(guessed.collect())
        }
    }
}

fn drive(config: &MachineConfig, steps: &[Step]) {
    let placement = Revelator::placement(config);
    let mut os = Os::with_placement(config.memory.clone(), placement, 1).unwrap();
    let mut fast = Revelator::build(config, &os).unwrap();
    let mut slow = Twin::new(config, os.frames().count());
    let mut stage = Stage::new(config);
    let mut work = Work::default();
    let frames = os.frames_mut();
    let pages = pages_of(&mut stage.directory);
    for (number, step) in steps.iter().enumerate() {
        stage.begin();
        match *step {
            Step::Access { page, line, store } => {
                let page = pages[page];
                let pfn = frame(page);
                if fast.table().lookup(page).is_none() {
                    let translation = Translation {
                        pfn: Pfn(pfn),
                        size: PageSize::Base4K,
                        writable: true,
                    };
                    let table = fast.table_mut();
                    table.map(frames, page, translation, &mut work).unwrap();
                }
                let mut walk = Walk::new();
                fast.table().clone().walk(0, page, &mut walk);
                let reads: Vec<u32> = lines_of(&walk).iter().map(|read| read.0).collect();
                let leaf = fast.table().entry_frame(page).unwrap().0;
                let expected = slow.translate(page, line, pfn, leaf, &reads);
                let came = translate(&mut fast, &mut stage, &request(page, line, store));
                assert_eq!(came, expected, "step {number}: {step:?}");
                let data = pfn * 64 + line;
                stage.reference(data, store);
                slow.caches.reference(data, store);
            }
            Step::Unmap {
                first,
                pages: count,
            } => {
                for &page in &pages[first..first + count] {
                    fast.table_mut()
                        .unmap(frames, page, PageSize::Base4K, &mut work);
                    fast.invalidate(0, page, 1, &mut stage.port());
                    slow.tlbs.iter_mut().for_each(|tlb| tlb.remove(page.id.0));
                }
            }
        }
        stage.compare(&slow.caches, || format!("step {number}: {step:?}"));
    }
    for (guesses, slow) in [(&fast.data, &slow.data), (&fast.entries, &slow.entries)] {
        let counts = guesses.as_ref().map(|guesses| guesses.counts);
        let counts = counts.unwrap_or_default();
        assert_eq!((counts.guesses, counts.right), (slow.guesses, slow.right));
    }
}
