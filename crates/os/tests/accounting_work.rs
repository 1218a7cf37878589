//! The price of accounting, against page structures on which the kernel's functions are replayed page by page, and
//! against kernels.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Control, Protection};
use pagelab_os::{Accounting, AccountingStatistics, AccountingWork, OsConfig, PagePolicy};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use support::{Machine, MapTable, Placement, READ_WRITE, config, map};

/// One region of 2 MiB.
const PAGES: u64 = 512;

fn policy(order: u32) -> PagePolicy {
    match order {
        0 => PagePolicy::BASE,
        9 => PagePolicy::THP,
        order => PagePolicy::folio(order),
    }
}

fn machine(order: u32, accounting: Accounting) -> Machine<MapTable> {
    let config = OsConfig {
        accounting,
        ..config(policy(order), 0.0)
    };
    let mut machine = Machine::new(config, MapTable::new(Placement::None));
    map(&mut machine, 0, 0..PAGES);
    for vpn in 0..PAGES {
        machine.store(0, vpn, vpn).unwrap();
    }
    machine
}

fn control(machine: &mut Machine<MapTable>, process: u32, event: Control) {
    machine.control(process, event).unwrap();
}

fn unmap(pages: std::ops::Range<u64>) -> Control {
    Control::Unmap {
        addr: pages.start * PAGE_BYTES,
        len: (pages.end - pages.start) * PAGE_BYTES,
    }
}

/// Has entries of 4 KiB map a page of 2 MiB.
fn split(machine: &mut Machine<MapTable>, process: u32) {
    for prot in [Protection(Protection::READ), READ_WRITE] {
        let (addr, len) = (0, PAGE_BYTES);
        control(machine, process, Control::Protect { addr, len, prot });
    }
}

fn work(machine: &Machine<MapTable>) -> AccountingStatistics {
    let statistics = machine.os.statistics(&machine.table);
    statistics.accounting.unwrap_or_default()
}

fn a_page(work: AccountingWork) -> f64 {
    work.atomics as f64 / work.pages as f64
}

/// Atomic operations a page of `fork()` in guests (docs/notebook/2026-11-29-reference-figures.md for Linux 6.12,
/// docs/notebook/2026-11-29-foliomap-slots.md for 7.2). Write-protecting an entry is one of them, page tables
/// and locks are the hundredths.
#[test]
fn fork_takes_the_atomic_operations_that_kernels_do() {
    let measured = [
        (0, Accounting::PerPage, 4.03),
        (0, Accounting::FolioMap, 4.03),
        (4, Accounting::PerPage, 3.16),
        (4, Accounting::FolioMap, 2.16),
        (9, Accounting::PerPage, 3.04),
        (9, Accounting::FolioMap, 2.04),
        (2, Accounting::MmOwner, 3.52),
        (2, Accounting::FolioMap, 2.52),
        (4, Accounting::MmOwner, 3.15),
        (9, Accounting::MmOwner, 3.02),
    ];
    for (order, accounting, measured) in measured {
        let mut machine = machine(order, accounting);
        if order == 9 {
            split(&mut machine, 0);
        }
        control(&mut machine, 0, Control::Fork { child: 1 });
        let fork = work(&machine).fork;
        assert_eq!(fork.pages, PAGES);
        let simulated = a_page(fork) + 1.0;
        let difference = measured - simulated;
        assert!(
            (0.0..0.045).contains(&difference),
            "{accounting:?}, order {order}: {simulated} for {measured}"
        );
    }
}

/// Atomic operations a page that FolioMap leaves out of `munmap()`, by the same kernels. Most others are of freeing.
#[test]
fn unmapping_saves_the_atomic_operations_that_it_saves_in_kernels() {
    let measured = [
        (4, Accounting::PerPage, 2.76 - 1.70),
        (9, Accounting::PerPage, 2.03 - 1.03),
        (2, Accounting::MmOwner, 3.48 - 2.24),
        (4, Accounting::MmOwner, 2.77 - 1.71),
        (9, Accounting::MmOwner, 2.05 - 1.04),
    ];
    for (order, accounting, measured) in measured {
        let unmapped = |accounting| {
            let mut machine = machine(order, accounting);
            if order == 9 {
                split(&mut machine, 0);
            }
            control(&mut machine, 0, unmap(0..PAGES));
            a_page(work(&machine).unmap)
        };
        let saved = unmapped(accounting) - unmapped(Accounting::FolioMap);
        assert!(
            (saved - measured).abs() < 0.015,
            "{accounting:?}, order {order}: {saved}"
        );
    }
}

/// A write in Linux 7.2 takes one more with slots than with FolioMap: 6 and 5 with the child gone, 14 and 13 with it.
#[test]
fn a_store_after_fork_takes_one_more_with_slots() {
    for gone in [true, false] {
        let store = |accounting| {
            let mut machine = machine(4, accounting);
            control(&mut machine, 0, Control::Fork { child: 1 });
            if gone {
                control(&mut machine, 1, Control::Exit { status: 0 });
            }
            let before = work(&machine).fault.atomics;
            machine.store(0, 3, 1).unwrap();
            work(&machine).fault.atomics - before
        };
        assert_eq!(store(Accounting::MmOwner), store(Accounting::FolioMap) + 1);
    }
}

/// `struct page` of a folio's pages, as far as accounting goes.
#[derive(Clone, Debug)]
struct Folio {
    order: u32,
    exclusive: Vec<bool>,
    mapcounts: Vec<i64>,
    entire: i64,
}

/// An entry: folio, page of it, and whether it is of 2 MiB.
type Entry = (usize, usize, bool);

/// Page structures, on which the functions of the kernel are carried out one by one.
struct Twin {
    scheme: Accounting,
    folios: Vec<Folio>,
    /// By process and page.
    entries: BTreeMap<(u32, u64), Entry>,
    atomics: u64,
    touched: BTreeSet<(usize, usize)>,
    pages: u64,
    all: AccountingStatistics,
}

impl Twin {
    fn new(scheme: Accounting, order: u32) -> Self {
        let mut twin = Twin {
            scheme,
            folios: Vec::new(),
            entries: BTreeMap::new(),
            atomics: 0,
            touched: BTreeSet::new(),
            pages: 0,
            all: AccountingStatistics::default(),
        };
        let size = 1 << order;
        for vpn in 0..PAGES {
            if vpn % size == 0 {
                twin.new_folio(order);
            }
            let (folio, page) = ((vpn / size) as usize, (vpn % size) as usize);
            twin.entries.insert((0, vpn), (folio, page, order == 9));
        }
        twin
    }

    fn atomic(&mut self, folio: usize, page: usize) {
        self.atomics += 1;
        self.touched.insert((folio, page));
    }

    /// Ends a batch.
    fn took(&mut self) -> AccountingWork {
        let lines = std::mem::take(&mut self.touched).len() as u64;
        AccountingWork {
            pages: std::mem::take(&mut self.pages),
            atomics: std::mem::take(&mut self.atomics),
            lines,
        }
    }

    /// folio_add_new_anon_rmap(), and folio_ref_add() of do_anonymous_page().
    fn new_folio(&mut self, order: u32) -> usize {
        let pages = 1 << order;
        let entire = order == 9;
        let id = self.folios.len();
        self.folios.push(Folio {
            order,
            exclusive: (0..pages).map(|page| !entire || page == 0).collect(),
            mapcounts: vec![if entire { -1 } else { 0 }; pages],
            entire: if entire { 0 } else { -1 },
        });
        for page in 0..if entire { 1 } else { pages } {
            self.atomic(id, page);
        }
        if order > 0 {
            self.touched.insert((id, 1));
            if self.scheme == Accounting::FolioMap {
                self.aggregator(id, None);
            }
            if !entire {
                self.atomic(id, 0);
            }
        }
        self.pages += pages as u64;
        let work = self.took();
        self.all.fault += work;
        id
    }

    /// Words of an aggregator that are written for an address space, or all.
    fn aggregator(&mut self, folio: usize, process: Option<u32>) {
        let order = self.folios[folio].order as usize;
        let words = [0, 1, 2, 2, 2, 3, 3, 3, 4, 4][order];
        let digits = 64 / (order as u32 + 1);
        let one = process.is_some_and(|process| (u64::from(process) + 1) >> digits == 0);
        for word in 0..if one { 1 } else { words } {
            self.touched.insert((folio, [1, 2, 2, 3][word]));
        }
    }

    /// _large_mapcount, with what goes with it: added to, locked, or numbered.
    fn large(&mut self, folio: usize, process: u32) {
        self.atomic(folio, 1);
        if self.scheme == Accounting::FolioMap {
            self.aggregator(folio, Some(process));
        }
    }

    fn counts_pages(&self, folio: usize) -> bool {
        self.folios[folio].order == 0 || self.scheme != Accounting::FolioMap
    }

    /// Entries of a process that begin with one: those of its folio behind each other, in one batch.
    fn batch(&self, process: u32, from: u64, to: u64) -> Option<(u64, Vec<Entry>)> {
        let (&(_, start), &head) = self.entries.range((process, from)..(process, to)).next()?;
        let mut batch = vec![head];
        let mut vpn = start + 1;
        while vpn < to
            && let Some(&next) = self.entries.get(&(process, vpn))
            && next == (head.0, head.1 + (vpn - start) as usize, head.2)
        {
            batch.push(next);
            vpn += 1;
        }
        Some((start, batch))
    }

    /// copy_present_ptes(), copy_huge_pmd().
    fn fork(&mut self, parent: u32, child: u32) {
        let mut at = 0;
        while let Some((start, batch)) = self.batch(parent, at, PAGES) {
            at = start + batch.len() as u64;
            let (folio, _, entire) = batch[0];
            self.atomic(folio, 0); // folio_ref_add()
            if self.folios[folio].order > 0 {
                self.large(folio, child);
            }
            for (offset, &(folio, page, _)) in batch.iter().enumerate() {
                if !entire || page == 0 {
                    self.touched.insert((folio, page));
                    if std::mem::take(&mut self.folios[folio].exclusive[page]) {
                        self.atomic(folio, page);
                    }
                }
                if !entire && self.counts_pages(folio) {
                    self.atomic(folio, page);
                }
                if !entire {
                    self.folios[folio].mapcounts[page] += 1;
                }
                let vpn = start + offset as u64;
                self.entries.insert((child, vpn), (folio, page, entire));
            }
            if entire {
                self.folios[folio].entire += 1;
                self.atomic(folio, 1);
            }
            self.pages += batch.len() as u64;
            let work = self.took();
            self.all.fork += work;
        }
    }

    /// __folio_remove_rmap() and folios_put_refs() of one batch.
    fn remove(&mut self, process: u32, batch: &[Entry]) {
        let (folio, first, entire) = batch[0];
        self.touched.insert((folio, first)); // page_folio()
        self.atomic(folio, 0);
        let mut last = 0;
        if entire {
            self.atomic(folio, 1);
            self.folios[folio].entire -= 1;
            last += u64::from(self.folios[folio].entire < 0);
        }
        for &(folio, page, _) in batch.iter().filter(|_| !entire) {
            if self.counts_pages(folio) {
                self.atomic(folio, page);
            }
            self.folios[folio].mapcounts[page] -= 1;
            last += u64::from(self.folios[folio].mapcounts[page] < 0);
        }
        if self.folios[folio].order > 0 {
            self.large(folio, process);
            if last > 0 && self.counts_pages(folio) {
                self.atomic(folio, 1); // _nr_pages_mapped
            }
        }
    }

    fn unmap(&mut self, process: u32, pages: std::ops::Range<u64>) {
        for boundary in [pages.start, pages.end] {
            let inside = boundary % PAGES != 0;
            if let Some(&(folio, _, true)) = self.entries.get(&(process, boundary))
                && inside
            {
                self.split(folio);
            }
        }
        let mut at = pages.start;
        while let Some((start, batch)) = self.batch(process, at, pages.end) {
            at = start + batch.len() as u64;
            self.remove(process, &batch);
            self.pages += batch.len() as u64;
            let work = self.took();
            self.all.unmap += work;
            for vpn in start..at {
                self.entries.remove(&(process, vpn));
            }
        }
    }

    /// __split_huge_pmd_locked() in each address space.
    fn split(&mut self, folio: usize) {
        let owners: BTreeSet<u32> = (self.entries.iter())
            .filter(|(_, to)| to.0 == folio)
            .map(|(&(process, _), _)| process)
            .collect();
        let exclusive = self.folios[folio].exclusive[0];
        for process in owners {
            self.atomic(folio, 0); // folio_ref_add()
            self.large(folio, process); // folio_add_anon_rmap_ptes()
            let mut first = false;
            for page in 0..1 << 9 {
                first |= self.folios[folio].mapcounts[page] < 0;
                self.folios[folio].mapcounts[page] += 1;
                if self.counts_pages(folio) {
                    self.atomic(folio, page);
                }
                if exclusive {
                    self.folios[folio].exclusive[page] = true;
                    self.atomic(folio, page);
                }
            }
            self.large(folio, process); // folio_remove_rmap_pmd()
            self.atomic(folio, 1);
            self.folios[folio].entire -= 1;
            let last = self.folios[folio].entire < 0;
            for _ in [first, last].iter().filter(|&&changes| changes) {
                if self.counts_pages(folio) {
                    self.atomic(folio, 1);
                }
            }
            self.pages += 1 << 9;
            let work = self.took();
            self.all.split += work;
        }
        for to in self.entries.values_mut().filter(|to| to.0 == folio) {
            to.2 = false;
        }
    }

    /// A store to a read-only page, which is copied or kept.
    fn store(&mut self, process: u32, vpn: u64, copies: bool) {
        let (folio, _, entire) = self.entries[&(process, vpn)];
        if copies && entire {
            self.split(folio);
        }
        let (folio, page, entire) = self.entries[&(process, vpn)];
        if copies {
            let id = self.new_folio(0);
            // The copy is the new page; what else it does is the old one's.
            self.atomic(folio, 0);
            self.atomic(folio, 0);
            self.remove(process, &[(folio, page, false)]);
            self.entries.insert((process, vpn), (id, 0, false));
            let work = self.took();
            self.all.fault += work;
            return;
        }
        let marked = if entire { 0 } else { page };
        self.atomic(folio, marked);
        self.folios[folio].exclusive[marked] = true;
        let large = self.folios[folio].order > 0 && !entire;
        if large {
            self.touched.extend([(folio, 0), (folio, 1)]);
            match self.scheme {
                Accounting::FolioMap => self.aggregator(folio, None),
                Accounting::MmOwner => self.atomic(folio, 1),
                Accounting::PerPage => unreachable!(),
            }
        }
        self.pages += if entire { 1 << 9 } else { 1 };
        let work = self.took();
        self.all.fault += work;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Store(u32, u64),
    Fork(u32, u32),
    Exit(u32),
    Unmap(u32, u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    // The last one has an id that fills more than a word of an aggregator.
    let process = || prop_oneof![Just(0u32), Just(1), Just(2), Just(200)];
    let vpn = || prop_oneof![0u64..6, 500u64..512];
    prop_oneof![
        8 => (process(), vpn()).prop_map(|(process, vpn)| Step::Store(process, vpn)),
        3 => (process(), process()).prop_map(|(parent, child)| Step::Fork(parent, child)),
        2 => process().prop_map(Step::Exit),
        2 => (process(), 0..PAGES, 1..PAGES).prop_map(|(process, at, pages)| Step::Unmap(
            process, at, (at + pages).min(PAGES)
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256, failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn operations_and_lines_are_those_of_page_structures(
        accounting in prop_oneof![
            Just(Accounting::PerPage), Just(Accounting::MmOwner), Just(Accounting::FolioMap)
        ],
        order in prop_oneof![Just(0u32), Just(2), Just(4), Just(8), Just(9)],
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut machine = machine(order, accounting);
        let mut twin = Twin::new(accounting, order);
        for step in steps {
            match step {
                Step::Store(process, vpn) if twin.entries.contains_key(&(process, vpn)) => {
                    let counts = |machine: &Machine<MapTable>| {
                        let counts = machine.os.statistics(&machine.table);
                        (counts.cow_copies, counts.cow_reuses)
                    };
                    let before = counts(&machine);
                    machine.store(process, vpn, vpn).unwrap();
                    let after = counts(&machine);
                    if after != before {
                        twin.store(process, vpn, after.0 > before.0);
                    }
                }
                Step::Fork(parent, child) if parent != child => {
                    control(&mut machine, parent, Control::Fork { child });
                    twin.unmap(child, 0..PAGES);
                    twin.fork(parent, child);
                }
                Step::Exit(process) => {
                    control(&mut machine, process, Control::Exit { status: 0 });
                    twin.unmap(process, 0..PAGES);
                }
                Step::Unmap(process, start, end) => {
                    control(&mut machine, process, unmap(start..end));
                    twin.unmap(process, start..end);
                }
                Step::Store(..) | Step::Fork(..) => {}
            }
            let statistics = machine.os.statistics(&machine.table);
            if let Some(accounting) = statistics.accounting {
                prop_assert_eq!(accounting, twin.all);
            } else {
                prop_assert!(order == 0 && statistics.forks == 0);
            }
        }
    }
}
