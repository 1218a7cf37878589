//! Prefetched translations: against lists and the whole history of misses, and times worked out by
//! hand.

use crate::common::{BASE, Cut, Event, close, load, machine, map, run};
use pagelab_events::{Access, Batch, Control, NO_SITE, Op, Source, SourceError};
use pagelab_machine::{Design, MachineConfig, RunResult, simulate};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;

/// A page that an instruction touches, or pages that are unmapped and mapped anew.
#[derive(Clone, Debug)]
enum Step {
    Touch { page: i64, site: u32 },
    Renew { page: i64, pages: i64 },
}

/// Around the end of 1 GiB.
const PAGES: i64 = 1600;
const BORDER: i64 = 1000;
const FIRST: u64 = BASE - (BORDER as u64) * 4096;

struct Steps<'a>(std::slice::Iter<'a, Step>, bool);

impl Source for Steps<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let control = |event| match event {
            Event::Control(control) => control,
            Event::Access(_) => unreachable!(),
        };
        if !std::mem::replace(&mut self.1, true) {
            batch.push_control(control(map(FIRST, PAGES as u64 * 4096)));
        }
        for step in self.0.by_ref().take(100) {
            match *step {
                Step::Touch { page, site } => {
                    batch.push(Access {
                        addr: FIRST + page as u64 * 4096,
                        op: Op::load(8),
                        gap: 3,
                        dep: 0,
                    });
                    batch.site.push(site);
                }
                Step::Renew { page, pages } => {
                    let (addr, len) = (FIRST + page as u64 * 4096, pages as u64 * 4096);
                    batch.push_control(Control::Unmap { addr, len });
                    batch.push_control(control(map(addr, len)));
                }
            }
        }
        Ok(!batch.is_empty())
    }
}

/// Runs of an instruction over pages that are as far from each other, and some at random.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let site = prop_oneof![4 => 0..6u32, 1 => Just(NO_SITE)];
    let touches = (0..PAGES, -9..10i64, 1..120i64, site).prop_map(|(page, by, count, site)| {
        let pages = (0..count).map(|n| (page + n * by).rem_euclid(PAGES));
        pages.map(|page| Step::Touch { page, site }).collect()
    });
    let random = proptest::collection::vec((0..PAGES, 0..6u32), 1..40);
    let random = random.prop_map(|all| {
        let touch = |(page, site)| Step::Touch { page, site };
        all.into_iter().map(touch).collect()
    });
    let renew = (0..PAGES, 1..60i64).prop_map(|(page, pages)| {
        let pages = pages.min(PAGES - page);
        vec![Step::Renew { page, pages }]
    });
    let runs = prop_oneof![8 => touches, 2 => random, 1 => renew];
    proptest::collection::vec(runs, 10..80).prop_map(|runs| runs.concat())
}

#[derive(Default)]
struct Twin {
    prefetcher: String,
    takes_free: bool,
    room: usize,
    /// The latest last.
    tlbs: [Vec<i64>; 2],
    mapped: BTreeSet<i64>,
    /// Pages, and how far each is from the one whose walk brought it.
    buffer: Vec<(i64, i64)>,
    sampled: Vec<(i64, i64)>,
    worth: BTreeMap<i64, u32>,
    /// All misses so far.
    history: Vec<(i64, u32)>,
    /// By distance: when it was used last, what came after it.
    followers: BTreeMap<i64, (usize, Vec<i64>)>,
    /// Everything that H2P, MASP and STP would have prefetched.
    foreseen: [Vec<i64>; 3],
    counters: [i64; 3],
    counts: BTreeMap<&'static str, u64>,
}

impl Twin {
    fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    fn touch(&mut self, page: i64, site: u32) {
        for (level, ways) in [(0, 8), (1, 24)] {
            let tlb = &mut self.tlbs[level];
            let had = tlb.contains(&page);
            tlb.retain(|&other| other != page);
            tlb.push(page);
            if tlb.len() > ways {
                tlb.remove(0);
            }
            if had {
                return;
            }
            self.count(["first", "second"][level]);
        }
        let fresh = self.mapped.insert(page);
        if let Some(at) = self.buffer.iter().position(|entry| entry.0 == page) {
            let (_, distance) = self.buffer.remove(at);
            self.count("prefetches_useful");
            if distance != 0 {
                self.count("free_prefetches_useful");
                self.of_use(distance);
            }
        } else {
            let sampled = self.sampled.iter().position(|entry| entry.0 == page);
            if let Some(at) = sampled {
                let (_, distance) = self.sampled.remove(at);
                self.of_use(distance);
            }
            self.count("walks");
            if fresh {
                self.count("walks");
            }
            self.line(page);
        }
        let mut asked = HashSet::new();
        for next in self.next(page, site) {
            let near = (next < BORDER) == (page < BORDER);
            let known = self.buffer.iter().any(|entry| entry.0 == next) || !asked.insert(next);
            if !near || known || next == page {
                continue;
            }
            self.count("prefetches_issued");
            if self.mapped.contains(&next) {
                self.enter(next, 0);
                self.line(next);
            } else {
                self.count("prefetches_unmapped");
            }
        }
        self.history.push((page, site));
    }

    fn enter(&mut self, page: i64, distance: i64) {
        self.buffer.push((page, distance));
        if self.buffer.len() > self.room {
            self.buffer.remove(0);
        }
    }

    fn of_use(&mut self, distance: i64) {
        let count = self.worth.entry(distance).or_default();
        *count += 1;
        if *count >= 1023 {
            self.worth.values_mut().for_each(|count| *count /= 2);
        }
    }

    /// The others of a line that was read.
    fn line(&mut self, page: i64) {
        if !self.takes_free {
            return;
        }
        // Lines of entries begin where the address is a multiple of 32 KiB.
        let first = (page - BORDER).div_euclid(8) * 8 + BORDER;
        for other in first..first + 8 {
            let known = self.buffer.iter().any(|entry| entry.0 == other);
            if other == page || known || !self.mapped.contains(&other) {
                continue;
            }
            let distance = other - page;
            if self.worth.get(&distance).is_some_and(|&count| count > 100) {
                self.count("free_prefetches");
                self.enter(other, distance);
            } else if !self.sampled.iter().any(|entry| entry.0 == other) {
                self.sampled.push((other, distance));
                if self.sampled.len() > 64 {
                    self.sampled.remove(0);
                }
            }
        }
    }

    /// The last pages that missed, of one instruction or all, the latest first.
    fn last(&self, site: Option<u32>) -> Vec<i64> {
        let of = |entry: &&(i64, u32)| site.is_none_or(|site| entry.1 == site);
        let last = self.history.iter().rev().filter(of);
        last.map(|entry| entry.0).take(2).collect()
    }

    fn next(&mut self, page: i64, site: u32) -> Vec<i64> {
        let of_site = if site == NO_SITE {
            Vec::new()
        } else {
            self.last(Some(site))
        };
        let stride = of_site.first().map(|last| page - last);
        let before = (of_site.len() == 2).then(|| of_site[0] - of_site[1]);
        match self.prefetcher.as_str() {
            "sequential" => vec![page + 1],
            "stride" => (stride.filter(|&by| by != 0 && before == Some(by)))
                .map_or(Vec::new(), |by| vec![page + by]),
            "distance" => self.after_distance(page),
            _ => {
                let by_site: Vec<i64> = [before, stride]
                    .into_iter()
                    .flatten()
                    .filter(|&by| by != 0)
                    .map(|by| page + by)
                    .collect();
                self.chosen(page, by_site)
            }
        }
    }

    fn after_distance(&mut self, page: i64) -> Vec<i64> {
        let last = self.last(None);
        let Some(&one) = last.first() else {
            return Vec::new();
        };
        let distance = page - one;
        let now = 2 * self.history.len();
        if let Some(&two) = last.get(1) {
            let (used, after) = self.followers.entry(one - two).or_default();
            *used = now;
            if after.last() != Some(&distance) {
                after.push(distance);
            }
            self.forget();
        }
        let (used, after) = self.followers.entry(distance).or_default();
        *used = now + 1;
        let next = after.iter().rev().take(2).map(|by| page + by).collect();
        self.forget();
        next
    }

    /// Only 64 distances are known.
    fn forget(&mut self) {
        if self.followers.len() > 64 {
            let oldest = self.followers.iter().min_by_key(|entry| entry.1.0);
            let oldest = *oldest.unwrap().0;
            self.followers.remove(&oldest);
        }
    }

    fn chosen(&mut self, page: i64, by_site: Vec<i64>) -> Vec<i64> {
        let all = self.last(None);
        let mut twice = Vec::new();
        if let Some(one) = all.first() {
            twice.push(page + (page - one));
        }
        if let [one, two] = all[..] {
            twice.push(page + (one - two));
        }
        let around = vec![page + 1, page - 1, page + 2, page - 2];
        let hit = |said: &Vec<i64>| said.iter().rev().take(16).any(|&said| said == page);
        let [a, b, c] = [0, 1, 2].map(|n| hit(&self.foreseen[n]));
        // Each begins in the upper half, at its least.
        if self.history.is_empty() {
            self.counters = [128, 32, 2];
        }
        let ups = [a || b || c, a && !b && !c, b && !c];
        let downs = [!a && !b && !c, !a && (b || c), c && !b];
        for (n, most) in [255, 63, 3].into_iter().enumerate() {
            let by = i64::from(ups[n]) - i64::from(downs[n]);
            self.counters[n] = (self.counters[n] + by).clamp(0, most);
        }
        let said = [twice, by_site, around];
        for (all, said) in self.foreseen.iter_mut().zip(&said) {
            all.extend(said);
        }
        let [h2p, masp, stp] = said;
        let [enable, first, second] = self.counters;
        match (enable >= 128, first >= 32, second >= 2) {
            (false, _, _) => Vec::new(),
            (_, true, _) => h2p,
            (_, _, true) => masp,
            _ => stp,
        }
    }

    fn renew(&mut self, page: i64, pages: i64) {
        let stale = |other: &i64| (page..page + pages).contains(other);
        self.mapped.retain(|other| !stale(other));
        for tlb in &mut self.tlbs {
            tlb.retain(|other| !stale(other));
        }
        let before = self.buffer.len();
        self.buffer.retain(|entry| !stale(&entry.0));
        let gone = (before - self.buffer.len()) as u64;
        *self.counts.entry("prefetches_invalidated").or_default() += gone;
        self.sampled.retain(|entry| !stale(&entry.0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_does_what_lists_do(
        steps in steps(),
        name in prop_oneof![Just("sequential"), Just("stride"), Just("distance"), Just("agile")],
        free in any::<bool>(),
        room in prop_oneof![Just(64usize), 1..20usize],
    ) {
        let keys = [
            format!("tlb_prefetch.prefetcher={name}"),
            format!("tlb_prefetch.free={free}"),
            format!("tlb_prefetch.entries={room}"),
            "tlb.l1_4k={ entries = 8, ways = 8 }".to_owned(),
            "tlb.l2_4k={ entries = 24, ways = 24 }".to_owned(),
        ];
        let config = MachineConfig::load("dpt-paper", &keys).unwrap();
        let mut twin = Twin {
            prefetcher: name.to_owned(),
            takes_free: free,
            room,
            ..Twin::default()
        };
        for step in &steps {
            match *step {
                Step::Touch { page, site } => twin.touch(page, site),
                Step::Renew { page, pages } => twin.renew(page, pages),
            }
        }
        let mut source = Steps(steps.iter(), false);
        let result = simulate(&config, "radix", &mut source, &mut |_| ControlFlow::Continue(()));
        let result = result.unwrap();
        let should = |name: &str| twin.counts.get(name).copied().unwrap_or(0);
        prop_assert_eq!(result.tlb.l1_misses, should("first"));
        prop_assert_eq!(result.tlb.l2_misses, should("second"));
        for (&name, &count) in &result.tlb_counters {
            if name != "prefetches_late" {
                prop_assert_eq!(count, should(name), "{}", name);
            }
        }
        prop_assert_eq!(result.walks.count, should("walks"));
    }
}

/// Pages one after the other, again and again, more than the TLB holds.
fn walk_along(keys: &[&str], dep: u32) -> (f64, RunResult) {
    let pages = 8192u64;
    let result = |loads: u64| {
        let mut events: Vec<Event> = vec![map(BASE, pages * 4096)];
        events.extend((0..loads).map(|i| {
            let page = i % pages;
            load(BASE + page * 4096 + (page + page / 128) % 64 * 64, 0, dep)
        }));
        run(&machine(keys), "radix", &mut Cut::new(&events, 500))
    };
    let (half, whole) = (result(4 * pages), result(8 * pages));
    let cycles = whole.cycles.elapsed - half.cycles.elapsed;
    (cycles as f64 / (4 * pages) as f64, whole)
}

/// A last level that is as fast as the second, so that it does not matter which has a line.
const EVEN: &str = "caches.llc.cycles=16";

#[test]
fn a_translation_that_was_prefetched_costs_a_look_into_the_buffer() {
    // The second-level TLB, 8 cycles, never has the page. A walk takes 2 cycles for the walk cache,
    // and 4 for an entry that the first level has; for one in eight 16. Another 16 for the data.
    let (without, result) = walk_along(&[EVEN], 1);
    close(without, 8.0 + 2.0 + (7.0 * 4.0 + 16.0) / 8.0 + 16.0);
    assert!(result.tlb_counters.is_empty());
    // Here that walk has ended when the page is asked for: 2 cycles for the buffer.
    let (with, result) = walk_along(&[EVEN, "tlb_prefetch.prefetcher=sequential"], 1);
    close(with, 8.0 + 2.0 + 16.0);
    assert!(result.tlb_counters["prefetches_useful"] > 7 * 8192 - 10);
    assert_eq!(result.tlb_counters["prefetches_late"], 0);
    // A buffer that takes longer.
    let slow = [
        EVEN,
        "tlb_prefetch.prefetcher=sequential",
        "tlb_prefetch.cycles=5",
    ];
    close(walk_along(&slow, 1).0, 8.0 + 5.0 + 16.0);
}

#[test]
fn a_translation_that_is_still_under_way_is_waited_for() {
    // Loads that wait for nothing ask for pages as fast as one walker finds them, 2 cycles and 4 or
    // 16: the walk for the next page is often not at its end.
    let (cycles, result) = walk_along(&[EVEN, "tlb_prefetch.prefetcher=sequential"], 0);
    close(cycles, 2.0 + (7.0 * 4.0 + 16.0) / 8.0);
    let late = result.tlb_counters["prefetches_late"];
    assert!(late > 3 * 8192, "{late}");
}

#[test]
fn free_translations_need_no_walks() {
    let keys = [
        EVEN,
        "tlb_prefetch.prefetcher=stride",
        "tlb_prefetch.free=true",
    ];
    let (_, result) = walk_along(&keys, 1);
    // Nothing is walked for an unknown instruction. One walk a line, once a line's others are known
    // to be of use.
    assert_eq!(result.tlb_counters["prefetches_issued"], 0);
    let share = result.tlb_counters["free_prefetches_useful"] as f64 / result.accesses as f64;
    assert!(share > 0.6, "{share}");
}

#[test]
fn what_it_does_not_go_with_is_refused() {
    let on = "tlb_prefetch.prefetcher=agile";
    for (design, key, said) in [
        ("radix", "tlb_prefetch.entries=0", "entries"),
        ("radix", "tlb.l2_4k.coalesce=4", "coalesce"),
        ("mosaic", "seed=1", "conventional"),
        ("victima", "seed=1", "tlb_prefetch"),
    ] {
        let config = machine(&[on, key]);
        let error = simulate(&config, design, &mut Cut::new(&[], 1), &mut |_| {
            ControlFlow::Continue(())
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let works = |design: &Design| !design.name().contains('+');
    for design in Design::all().filter(works).map(Design::name) {
        assert!(
            run(
                &machine(&[on]),
                &design,
                &mut Cut::new(&[load(BASE, 0, 0)], 1)
            )
            .accesses
                < 2
        );
    }
}
