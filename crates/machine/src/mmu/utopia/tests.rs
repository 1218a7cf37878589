//! Utopia beside lists: TLBs, caches, sets, tags and costs of one core, looked through from end to
//! end, with an operating system that places pages and moves them.

mod twin;

use super::Utopia;
use crate::config::MachineConfig;
use crate::mmu::small::{REGIONS, Step, is_large, small_machine, steps};
use crate::mmu::stage::{Stage, lines_of, request};
use crate::mmu::{ConfiguredMmu, Mmu, Port, Request, Walks};
use pagelab_addr::{Asid, PageDirectory, PageSize, Vpn};
use pagelab_events::{Backing, Control, Protection};
use pagelab_memory::simd::Baseline;
use pagelab_os::{Effects, Os, PagePolicy};
use pagelab_translation::{Page, PageTable, Radix, Walk};
use proptest::prelude::*;
use std::collections::HashMap;
use twin::{Came, Counted, Segment, Twin, base_pages};

/// Frames of the memory.
const FRAMES: u32 = 128 << 8;

fn config() -> impl Strategy<Value = MachineConfig> {
    let switches = proptest::array::uniform5(prop_oneof![3 => Just(true), 1 => Just(false)]);
    let sizes = (0..2u32, 0..20u32, prop_oneof![1..17u32, Just(1), Just(2)]);
    let caches = (0..3u32, 0..3u32, 0..3u32, 0..3u32);
    (switches, sizes, caches, (1..4u32, 0..4u32)).prop_map(
        |(switches, (small, large, ways), caches, costly)| {
            let mut config = small_machine(u64::from(FRAMES) * 4096);
            config.memory.page_policy = PagePolicy::THP;
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
    stage: Stage,
    effects: Effects,
}

impl Fast {
    fn new(config: &MachineConfig) -> Self {
        let placement = Utopia::<Radix>::placement(config);
        let os = Os::with_placement(config.memory.clone(), placement, 1).unwrap();
        Fast {
            mmu: Utopia::build(config, &os).unwrap(),
            os,
            stage: Stage::new(config),
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
            &mut self.stage.directory,
            &mut self.effects,
        );
        let stale: Vec<(Page, u32)> = (self.effects.invalidations.iter())
            .map(|stale| {
                let (asid, vpn) = self.stage.directory.resolve(stale.first);
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
        let mut walks = std::mem::replace(&mut self.stage.walks, Walks::new());
        let done = what(&mut self.mmu, &mut self.stage.port(), &mut walks);
        self.stage.walks = walks;
        done
    }

    /// One walk, with what it read.
    fn walk(&mut self, request: &Request) -> Came {
        let before = self.stage.chunk.references.as_slice().len();
        self.stage.walks.asked.clear();
        let found = self.with_port(|mmu, port, walks| mmu.walk::<Baseline>(request, port, walks));
        if let Some(found) = found {
            self.os.access(found.pfn);
        }
        let chunk = &self.stage.chunk;
        let lines = chunk.references.as_slice()[before..].iter();
        let served = chunk.served.as_slice()[before..].iter();
        let asked = &self.stage.walks.asked;
        let steps = asked.reads().iter().map(|read| read.step);
        let reads: Vec<_> = (lines.zip(steps).zip(served))
            .map(|((&line, step), &served)| (line, step, served))
            .collect();
        let listed = lines_of(asked).into_iter();
        assert!(listed.eq(reads.iter().map(|&(line, step, _)| (line, step))));
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
        // Regions in few sets.
        let offset = if is_large(region) {
            at
        } else {
            at / 2 * 64 + at % 2 * 3
        };
        let vpn = Vpn(region_start(region) + offset);
        let asid = Asid(process(region) as u16);
        let id = fast.stage.directory.page(asid, vpn).unwrap();
        pages.push(Page { id, asid, vpn });
    }
    for region in 0..REGIONS {
        fast.control(process(region), &map(region));
    }
    for (number, step) in steps.iter().enumerate() {
        fast.stage.begin();
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
        fast.stage
            .compare(&slow.caches, || format!("step {number}: {step:?}"));
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
    let request = request(page, line, store);
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
        let table = lines_of(&walk);
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
    fast.stage.reference(data, store);
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
