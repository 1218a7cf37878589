//! After `fork()`: which stores copy, by accounting scheme, against lists of who maps each folio.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::Control;
use pagelab_os::{Accounting, OsConfig, PagePolicy};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use support::{Machine, MapTable, Placement, config, map};

const PROCESSES: u32 = 4;
/// Pages that the first process maps: one region of 2 MiB.
const PAGES: u64 = 512;

fn machine(policy: PagePolicy, accounting: Accounting) -> Machine<MapTable> {
    let config = OsConfig {
        accounting,
        ..config(policy, 0.0)
    };
    let mut machine = Machine::new(config, MapTable::new(Placement::None));
    map(&mut machine, 0, 0..PAGES);
    machine
}

fn fork(machine: &mut Machine<MapTable>, parent: u32, child: u32) {
    machine.control(parent, Control::Fork { child }).unwrap();
}

fn exit(machine: &mut Machine<MapTable>, process: u32) {
    machine
        .control(process, Control::Exit { status: 0 })
        .unwrap();
}

/// Copies and reuses of stores to some pages.
fn stores(
    machine: &mut Machine<MapTable>,
    process: u32,
    pages: std::ops::Range<u64>,
) -> (u64, u64) {
    let counts = |machine: &Machine<MapTable>| {
        let counts = machine.os.statistics(&machine.table);
        (counts.cow_copies, counts.cow_reuses)
    };
    let before = counts(machine);
    for vpn in pages {
        machine.store(process, vpn, vpn).unwrap();
    }
    machine.check();
    let after = counts(machine);
    (after.0 - before.0, after.1 - before.1)
}

/// The FolioMap paper's case (section 2): the child is gone. On kernels: docs/foliomap.md.
#[test]
fn with_the_child_gone_linux_copied_large_folios_until_it_knew_their_owner() {
    let policy = PagePolicy::folio(4);
    let expected = [
        (Accounting::PerPage, (16, 0)),
        (Accounting::MmOwner, (0, 16)),
        (Accounting::FolioMap, (0, 16)),
    ];
    for (accounting, counts) in expected {
        let mut machine = machine(policy, accounting);
        stores(&mut machine, 0, 0..16);
        fork(&mut machine, 0, 1);
        exit(&mut machine, 1);
        assert_eq!(stores(&mut machine, 0, 0..16), counts, "{accounting:?}");
    }
}

/// A third address space has no slot: once the first two are gone, 7.2 still takes the folio as shared.
#[test]
fn two_owners_lose_a_third() {
    for (accounting, counts) in [
        (Accounting::MmOwner, (16, 0)),
        (Accounting::FolioMap, (0, 16)),
    ] {
        let mut machine = machine(PagePolicy::folio(4), accounting);
        stores(&mut machine, 0, 0..16);
        fork(&mut machine, 0, 1);
        fork(&mut machine, 0, 2);
        exit(&mut machine, 0);
        exit(&mut machine, 1);
        assert_eq!(stores(&mut machine, 2, 0..16), counts, "{accounting:?}");
    }
}

/// Linux 7.2 copies the one page that is left of a folio, to be rid of the others.
#[test]
fn the_last_page_of_a_folio_is_copied_by_two_owners_alone() {
    for (accounting, counts) in [
        (Accounting::MmOwner, (1, 0)),
        (Accounting::FolioMap, (0, 1)),
    ] {
        let mut machine = machine(PagePolicy::folio(4), accounting);
        stores(&mut machine, 0, 0..16);
        fork(&mut machine, 0, 1);
        let unmap = Control::Unmap {
            addr: PAGE_BYTES,
            len: 15 * PAGE_BYTES,
        };
        machine.control(0, unmap).unwrap();
        exit(&mut machine, 1);
        assert_eq!(stores(&mut machine, 0, 0..1), counts, "{accounting:?}");
    }
}

#[test]
fn what_is_unmapped_of_a_folio_is_free_once_memory_is_short() {
    let mut machine = machine(PagePolicy::THP, Accounting::default());
    let unmap = |machine: &mut Machine<MapTable>, pages: std::ops::Range<u64>| {
        let event = Control::Unmap {
            addr: pages.start * PAGE_BYTES,
            len: (pages.end - pages.start) * PAGE_BYTES,
        };
        machine.control(0, event).unwrap();
    };
    machine.store(0, 0, 1).unwrap();
    unmap(&mut machine, 1..512);
    let frames = machine.os.frames().buddy().count();
    let kept = machine.os.statistics(&machine.table);
    assert_eq!(kept.resident_bytes, 512 * PAGE_BYTES);
    assert_eq!(kept.partly_mapped_bytes, 511 * PAGE_BYTES);
    // Everything else is taken, in pages that may not be larger.
    map(&mut machine, 1, 0..u64::from(frames) - 1);
    for vpn in 0..u64::from(frames) - 1 {
        machine.store(1, vpn, 2).unwrap();
    }
    machine.check();
    let full = machine.os.statistics(&machine.table);
    assert_eq!(full.partly_mapped_bytes, 0);
    assert_eq!(full.resident_bytes, u64::from(frames) * PAGE_BYTES);
    assert_eq!(machine.load(0, 0), Ok(1));
}

/// Page of a process: its folio, and whether it may be written.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    folio: usize,
    writable: bool,
}

/// The first process's memory as lists.
#[derive(Default)]
struct Model {
    /// By process and page.
    pages: BTreeMap<(u32, u64), Mapping>,
    /// Each folio: its pages, whether entries of 2 MiB map it, and whether more than two address spaces ever
    /// mapped it at once.
    folios: Vec<(u64, bool, bool)>,
    /// Stores that `MmOwner` answers as it likes.
    open: u64,
}

impl Model {
    fn owners(&self, folio: usize) -> BTreeSet<u32> {
        let mappings = self.pages.iter().filter(|(_, to)| to.folio == folio);
        mappings.map(|(&(process, _), _)| process).collect()
    }

    fn store(&mut self, process: u32, vpn: u64, accounting: Accounting) -> Option<bool> {
        let mapping = self.pages.get(&(process, vpn)).copied()?;
        if mapping.writable {
            return None;
        }
        let (size, large_entry, many) = self.folios[mapping.folio];
        let owners = self.owners(mapping.folio);
        let alone = owners.len() == 1;
        let mappings = (self.pages.values())
            .filter(|to| to.folio == mapping.folio)
            .count();
        let reuse = match accounting {
            _ if size == 1 || large_entry => alone,
            Accounting::PerPage => false,
            Accounting::FolioMap => alone,
            Accounting::MmOwner if many && alone => {
                self.open += 1;
                return None;
            }
            Accounting::MmOwner => alone && mappings > 1,
        };
        if reuse && large_entry {
            for ((_, _), to) in self
                .pages
                .iter_mut()
                .filter(|(_, to)| to.folio == mapping.folio)
            {
                to.writable = true;
            }
        } else if !reuse {
            self.folios[mapping.folio].1 = false;
            self.folios.push((1, false, false));
        }
        let folio = if reuse {
            mapping.folio
        } else {
            self.folios.len() - 1
        };
        let writable = true;
        self.pages
            .insert((process, vpn), Mapping { folio, writable });
        Some(reuse)
    }

    fn fork(&mut self, parent: u32, child: u32) {
        self.pages.retain(|&(process, _), _| process != child);
        let copied: Vec<_> = (self.pages.iter_mut())
            .filter(|((process, _), _)| *process == parent)
            .map(|(&(_, vpn), to)| {
                to.writable = false;
                ((child, vpn), *to)
            })
            .collect();
        self.pages.extend(copied);
        for folio in 0..self.folios.len() {
            self.folios[folio].2 |= self.owners(folio).len() > 2;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Store(u32, u64),
    Fork(u32, u32),
    Exit(u32),
    Unmap(u32, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let process = || 0..PROCESSES;
    // Few pages of few folios, so that they meet.
    let vpn = || prop_oneof![0u64..6, 508u64..512];
    prop_oneof![
        8 => (process(), vpn()).prop_map(|(process, vpn)| Step::Store(process, vpn)),
        3 => (process(), process()).prop_map(|(parent, child)| Step::Fork(parent, child)),
        2 => process().prop_map(Step::Exit),
        2 => (process(), vpn()).prop_map(|(process, vpn)| Step::Unmap(process, vpn)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256, failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn copies_and_reuses_are_those_that_lists_of_owners_give(
        accounting in prop_oneof![
            Just(Accounting::PerPage), Just(Accounting::MmOwner), Just(Accounting::FolioMap)
        ],
        order in prop_oneof![Just(2u32), Just(4), Just(8), Just(9)],
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let policy = match order {
            9 => PagePolicy::THP,
            order => PagePolicy::folio(order),
        };
        let mut machine = machine(policy, accounting);
        let mut model = Model::default();
        stores(&mut machine, 0, 0..PAGES);
        let size = 1 << order;
        for vpn in 0..PAGES {
            let folio = (vpn / size) as usize;
            model.pages.insert((0, vpn), Mapping { folio, writable: true });
        }
        model.folios = vec![(size, order == 9, false); (PAGES / size) as usize];
        for step in steps {
            match step {
                Step::Store(process, vpn) if model.pages.contains_key(&(process, vpn)) => {
                    let open = model.open;
                    let expected = model.store(process, vpn, accounting);
                    let counts = stores(&mut machine, process, vpn..vpn + 1);
                    if model.open > open {
                        // Two owners may not know. They copy then, at worst.
                        prop_assert!(counts == (1, 0) || counts == (0, 1));
                        break;
                    }
                    let wanted = match expected {
                        None => (0, 0),
                        Some(true) => (0, 1),
                        Some(false) => (1, 0),
                    };
                    prop_assert_eq!(counts, wanted);
                }
                Step::Fork(parent, child) if parent != child => {
                    fork(&mut machine, parent, child);
                    model.fork(parent, child);
                }
                Step::Exit(process) => {
                    exit(&mut machine, process);
                    model.pages.retain(|&(owner, _), _| owner != process);
                }
                Step::Unmap(process, vpn) => {
                    let event = Control::Unmap { addr: vpn * PAGE_BYTES, len: PAGE_BYTES };
                    machine.control(process, event).unwrap();
                    if let Some(to) = model.pages.remove(&(process, vpn)) {
                        model.folios[to.folio].1 = false;
                    }
                }
                Step::Store(..) | Step::Fork(..) => {}
            }
            machine.check();
        }
    }
}
