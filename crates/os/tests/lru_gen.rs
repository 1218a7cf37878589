//! Generations of pages: which leave when memory is short, beside a twin of queues of page numbers.

mod support;

use pagelab_addr::{PAGE_BYTES, Vpn};
use pagelab_events::Backing;
use pagelab_os::{Os, OsConfig, PagePolicy, ReclaimConfig, ReclaimStatistics};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, VecDeque};
use support::{Machine, MapTable, Placement, config, map, map_of};

fn limited(max_pages: u64, lru_gen: bool) -> Machine<MapTable> {
    let reclaim = ReclaimConfig {
        max_bytes: Some(max_pages * PAGE_BYTES),
        lru_gen,
        ..ReclaimConfig::default()
    };
    let config = OsConfig {
        reclaim: Some(reclaim),
        ..config(PagePolicy::BASE, 0.0)
    };
    Machine::new(config, MapTable::new(Placement::None))
}

/// Stores to a page as a processor without a TLB does: an entry that is there has its accessed bit set.
fn touch(machine: &mut Machine<MapTable>, vpn: u64) {
    machine.store(0, vpn, vpn + 1).unwrap();
    let page = machine.page(0, vpn);
    machine.os.access(machine.table.lookup_pfn(page));
}

fn counts(machine: &Machine<MapTable>) -> ReclaimStatistics {
    let statistics = machine.os.statistics(&machine.table);
    statistics.reclaim.unwrap_or_default()
}

#[derive(Clone, Copy, Default)]
struct Resident {
    /// The generation for which it counts.
    number: u64,
    young: bool,
    came_back: bool,
    /// Seen used by a neighbour's eviction while it was about to be evicted itself.
    spared: bool,
}

/// Anonymous pages of one program below a limit, in generations by absolute numbers.
struct Twin {
    limit: usize,
    pages: HashMap<u64, Resident>,
    /// By generation the pages in its queue, the next to be evicted first.
    queues: BTreeMap<u64, VecDeque<u64>>,
    /// Pages in swap: the oldest generation when they left, and whether they had come back before.
    swap: HashMap<u64, (u64, bool)>,
    oldest: u64,
    youngest: u64,
    /// By tier: evicted or protected, refaulted, and the means of both.
    total: [u64; 2],
    refaulted: [u64; 2],
    means: [[u64; 2]; 2],
}

impl Twin {
    fn new(limit: usize) -> Self {
        Twin {
            limit,
            pages: HashMap::new(),
            queues: BTreeMap::new(),
            swap: HashMap::new(),
            oldest: 0,
            youngest: 3,
            total: [0; 2],
            refaulted: [0; 2],
            means: [[0; 2]; 2],
        }
    }

    fn touch(&mut self, vpn: u64) {
        if let Some(page) = self.pages.get_mut(&vpn) {
            page.young = true;
            return;
        }
        for _ in 0..16 {
            if self.pages.len() < self.limit {
                break;
            }
            self.reclaim();
        }
        let mut came_back = false;
        if let Some((oldest, before)) = self.swap.remove(&vpn)
            && oldest == self.oldest
        {
            self.refaulted[usize::from(before)] += 1;
            came_back = true;
        }
        self.pages.insert(vpn, Resident::default());
        self.make_youngest(vpn);
        let page = self.pages.get_mut(&vpn).unwrap();
        (page.young, page.came_back) = (true, came_back);
    }

    fn make_youngest(&mut self, vpn: u64) {
        for queue in self.queues.values_mut() {
            queue.retain(|&other| other != vpn);
        }
        let page = self.pages.get_mut(&vpn).unwrap();
        (page.number, page.came_back) = (self.youngest, false);
        self.queues.entry(self.youngest).or_default().push_back(vpn);
    }

    fn reclaim(&mut self) {
        let before = self.pages.len();
        for priority in (0..=12).rev() {
            self.shrink(priority);
            if before - self.pages.len() >= 32 {
                return;
            }
        }
        assert!(self.pages.len() < before, "something can always leave");
    }

    fn shrink(&mut self, priority: u32) {
        let mut scanned = 0;
        loop {
            let pages = self.pages.len() as u64 >> priority;
            if self.is_to_age() && priority < 12 {
                self.age();
                return;
            }
            if pages == 0 {
                return;
            }
            let now = self.evict();
            scanned += now;
            if now == 0 || scanned >= pages {
                return;
            }
        }
    }

    fn is_to_age(&self) -> bool {
        let size = |number: u64| {
            let pages = self.pages.values();
            pages.filter(|page| page.number == number).count()
        };
        match self.youngest - self.oldest {
            ..2 => true,
            2 => {
                let total = self.pages.len();
                size(self.youngest) * 2 > total || size(self.oldest) * 4 < total
            }
            3.. => false,
        }
    }

    fn age(&mut self) {
        for page in self.pages.values_mut() {
            if std::mem::take(&mut page.young) {
                (page.number, page.came_back) = (self.youngest, false);
            }
        }
        if self.youngest - self.oldest == 3 {
            let left = self.queues.remove(&self.oldest).unwrap_or_default();
            for vpn in left {
                self.grow_older(vpn);
            }
            self.end_oldest();
        }
        self.youngest += 1;
    }

    fn grow_older(&mut self, vpn: u64) {
        let page = self.pages.get_mut(&vpn).unwrap();
        if page.number == self.oldest {
            (page.number, page.came_back) = (self.oldest + 1, false);
        }
        self.queues.entry(page.number).or_default().push_front(vpn);
    }

    fn end_oldest(&mut self) {
        self.oldest += 1;
        self.new_means();
    }

    fn new_means(&mut self) {
        for tier in 0..2 {
            let means = &mut self.means[tier];
            means[0] = (means[0] + self.total[tier]) / 2;
            means[1] = (means[1] + self.refaulted[tier]) / 2;
        }
        (self.total, self.refaulted) = ([0; 2], [0; 2]);
    }

    /// True if pages that came back are evicted as well.
    fn evicts_all(&self) -> bool {
        let [first, second] = [0, 1].map(|tier| {
            let [total, refaulted] = self.means[tier];
            (total + self.total[tier], refaulted + self.refaulted[tier])
        });
        second.1 < 64 || second.1 * (first.0 + 64) <= (first.1 + 1) * second.0 * 2
    }

    fn evict(&mut self) -> u64 {
        let (mut scanned, mut aside) = (0, Vec::new());
        let all = self.evicts_all();
        while self.youngest - self.oldest > 1 && aside.len() < 64 && scanned < 4096 {
            let queue = self.queues.entry(self.oldest).or_default();
            let Some(vpn) = queue.pop_front() else {
                break;
            };
            scanned += 1;
            let page = self.pages[&vpn];
            if page.number != self.oldest {
                self.queues.entry(page.number).or_default().push_back(vpn);
            } else if page.came_back && !all {
                self.total[1] += 1;
                self.grow_older(vpn);
            } else {
                aside.push(vpn);
            }
        }
        if aside.is_empty() && scanned < 4096 {
            scanned = 0;
        }
        let before = self.oldest;
        while self.youngest - self.oldest >= 2
            && self.queues.get(&self.oldest).is_none_or(VecDeque::is_empty)
        {
            self.oldest += 1;
        }
        if self.oldest != before {
            self.new_means();
            scanned += 1;
        }
        if self.youngest - self.oldest == 1 {
            scanned = 0;
        }
        // Pages set aside count for no generation.
        for vpn in &aside {
            self.pages.get_mut(vpn).unwrap().number = u64::MAX;
        }
        for vpn in aside {
            self.evict_or_keep(vpn);
        }
        scanned
    }

    fn evict_or_keep(&mut self, vpn: u64) {
        let page = self.pages[&vpn];
        if !page.spared && !page.young {
            self.pages.remove(&vpn);
            self.total[usize::from(page.came_back)] += 1;
            self.swap.insert(vpn, (self.oldest, page.came_back));
            return;
        }
        if !page.spared {
            let first = vpn.saturating_sub(32).max(vpn / 512 * 512);
            let first = first.min(vpn / 512 * 512 + 448);
            for other in first..first + 64 {
                let Some(page) = self.pages.get_mut(&other) else {
                    continue;
                };
                if other == vpn || !std::mem::take(&mut page.young) {
                } else if page.number == u64::MAX {
                    page.spared = true;
                } else if page.number != self.youngest {
                    self.make_youngest(other);
                }
            }
        }
        let page = self.pages.get_mut(&vpn).unwrap();
        if !std::mem::take(&mut page.spared) {
            page.young = false;
        }
        self.make_youngest(vpn);
    }
}

/// Accesses in phases: a set of pages over and over, and pages that stream by.
fn accesses() -> impl Strategy<Value = Vec<u64>> {
    let phase = (0u64..1500, 1u64..300, 1u64..4, any::<bool>()).prop_map(
        |(start, length, rounds, backwards)| {
            let round = start..start + length;
            let once: Vec<u64> = if backwards {
                round.rev().collect()
            } else {
                round.collect()
            };
            once.repeat(rounds as usize)
        },
    );
    let single = proptest::collection::vec(0u64..1800, 1..200);
    proptest::collection::vec(prop_oneof![2 => phase, 1 => single], 1..12)
        .prop_map(|phases| phases.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn pages_leave_as_generations_have_it(limit in 70usize..500, accesses in accesses()) {
        let mut machine = limited(limit as u64, true);
        map(&mut machine, 0, 0..1800);
        let mut twin = Twin::new(limit);
        for vpn in accesses {
            touch(&mut machine, vpn);
            twin.touch(vpn);
            let swapped = counts(&machine).in_swap;
            prop_assert_eq!(swapped, twin.swap.len() as u64);
            if swapped.is_multiple_of(7) {
                let asid = Os::asid(0).unwrap();
                for vpn in 0..1800 {
                    let there = machine.os.frames().is_swapped(asid, Vpn(vpn));
                    prop_assert_eq!(there, twin.swap.contains_key(&vpn), "{}", vpn);
                }
            }
        }
        machine.check();
        machine.check_contents();
    }
}

/// Pages used in every round stay, whatever streams by.
#[test]
fn pages_in_use_stay_before_pages_that_stream_by() {
    let mut machine = limited(400, true);
    map(&mut machine, 0, 0..8_000);
    let mut faults_of_hot_pages = 0;
    for round in 0..70 {
        for hot in 0..100 {
            let before = counts(&machine).swapped_in;
            touch(&mut machine, hot);
            if round > 4 {
                faults_of_hot_pages += counts(&machine).swapped_in - before;
            }
        }
        (0..100).for_each(|page| touch(&mut machine, 200 + round * 100 + page));
    }
    assert_eq!(faults_of_hot_pages, 0);
    assert!(counts(&machine).swapped_out > 6_000);
}

/// Pages of a file go before anonymous ones that came back again and again.
#[test]
fn pages_of_files_leave_as_well() {
    let mut machine = limited(300, true);
    map(&mut machine, 0, 0..200);
    map_of(&mut machine, 0, 10_000..12_000, Backing::PrivateFile);
    for round in 0..20 {
        (0..200).for_each(|vpn| touch(&mut machine, vpn));
        for vpn in round * 100..round * 100 + 100 {
            machine.load(0, 10_000 + vpn).unwrap();
        }
    }
    machine.check();
    machine.check_contents();
    let counts = counts(&machine);
    assert!(counts.files_dropped > 1_000, "{counts:?}");
    assert!(counts.swapped_in < counts.files_dropped / 2, "{counts:?}");
}
