//! Windows of a stream leave out accesses, and nothing of what these do to memory.

mod support;

use pagelab_addr::{PAGE_BYTES, PageDirectory, Vpn};
use pagelab_events::{
    Access, Advice, Backing, Batch, Control, Op, Protection, Selection, Source, SourceError, Touch,
    Unit, WarmUp, Window,
};
use pagelab_os::{Effects, Os, OsError, OsStatistics, OutsideStatistics, PagePolicy};
use pagelab_translation::{Page, PageTable};
use proptest::prelude::*;
use std::vec;
use support::{MapTable, Placement, READ_WRITE, config};

const PROCESSES: u32 = 2;

/// Batches, as a source.
struct Batches(vec::IntoIter<Batch>);

impl Source for Batches {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let next = self.0.next();
        let any = next.is_some();
        *batch = next.unwrap_or_default();
        Ok(any)
    }

    fn warm_up(&self) -> WarmUp {
        WarmUp::default()
    }
}

/// An operating system alone: what an access finds mapped takes no fault.
struct System {
    os: Os,
    table: MapTable,
    directory: PageDirectory,
    effects: Effects,
}

impl System {
    fn new(policy: PagePolicy) -> Self {
        System {
            os: Os::new(config(policy, 0.2), 7).unwrap(),
            table: MapTable::new(Placement::Anywhere),
            directory: PageDirectory::new(),
            effects: Effects::new(),
        }
    }

    /// Takes a stream to its end, or until memory is out.
    fn run(&mut self, source: &mut impl Source) -> Result<(), OsError> {
        let mut batch = Batch::default();
        while source.next_batch(&mut batch).unwrap() {
            let mut controls = batch.controls.iter().peekable();
            for index in 0..=batch.len() {
                while let Some((_, control)) = controls.next_if(|(at, _)| *at as usize == index) {
                    self.control(batch.process, control)?;
                }
                if index < batch.len() {
                    self.access(batch.process, batch.access(index))?;
                }
            }
        }
        Ok(())
    }

    fn control(&mut self, process: u32, control: &Control) -> Result<(), OsError> {
        let System {
            os,
            table,
            directory,
            effects,
        } = self;
        effects.clear();
        os.control(table, directory, process, control, effects)
    }

    fn access(&mut self, process: u32, access: Access) -> Result<(), OsError> {
        let (asid, vpn) = (Os::asid(process)?, Vpn(access.addr / PAGE_BYTES));
        let id = self.directory.page(asid, vpn).unwrap();
        let page = Page { id, asid, vpn };
        let store = access.op.is_store();
        if (self.table.lookup(page)).is_some_and(|found| found.writable || !store) {
            return Ok(());
        }
        let System {
            os,
            table,
            directory,
            effects,
        } = self;
        effects.clear();
        os.fault(table, directory, page, store, effects)
    }

    /// Counts of what happened, and the part of it where accesses were left out.
    fn statistics(&self) -> (OsStatistics, OutsideStatistics) {
        let all = self.os.statistics(&self.table);
        let outside = all.outside;
        let outside_apart = OsStatistics {
            outside: OutsideStatistics::default(),
            ..all
        };
        (outside_apart, outside)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Access(u64, bool),
    Control(Control),
}

/// Pages of some 2 MiB regions, on both sides of the border of a 1 GiB region.
fn vpn() -> impl Strategy<Value = u64> {
    (0u64..4, prop_oneof![0u64..8, 0u64..512])
        .prop_map(|(region, inside)| (1 << 18) - 1024 + region * 512 + inside)
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    let pages = prop_oneof![1u64..6, 1u64..1500, Just(512)];
    (vpn(), pages).prop_map(|(vpn, pages)| (vpn * PAGE_BYTES, pages * PAGE_BYTES))
}

fn control() -> impl Strategy<Value = Control> {
    let backing = prop_oneof![
        4 => Just(Backing::Anonymous),
        1 => Just(Backing::SharedAnonymous),
        1 => Just(Backing::PrivateFile),
        1 => Just(Backing::Stack),
    ];
    let advice = prop_oneof![
        2 => Just(Advice::DontNeed),
        1 => Just(Advice::HugePage),
        1 => Just(Advice::NoHugePage),
        1 => Just(Advice::Populate),
    ];
    let prot = prop_oneof![Just(READ_WRITE), Just(Protection(Protection::READ))];
    prop_oneof![
        6 => (range(), backing).prop_map(|((addr, len), backing)| Control::Map {
            addr, len, prot: READ_WRITE, backing, populate: false
        }),
        2 => range().prop_map(|(addr, len)| Control::Unmap { addr, len }),
        2 => (range(), prot).prop_map(|((addr, len), prot)| Control::Protect { addr, len, prot }),
        2 => (range(), vpn()).prop_map(|((old_addr, len), new)| Control::Remap {
            old_addr, old_len: len, new_addr: new * PAGE_BYTES, new_len: len
        }),
        3 => (range(), advice).prop_map(|((addr, len), advice)| Control::Advise { addr, len, advice }),
        3 => vpn().prop_map(|vpn| Control::Brk { end: vpn * PAGE_BYTES }),
        1 => Just(Control::Fork { child: 1 }),
        1 => Just(Control::Exec),
    ]
}

fn stream() -> impl Strategy<Value = Vec<Batch>> {
    let step = prop_oneof![
        8 => (vpn(), any::<bool>()).prop_map(|(vpn, store)| Step::Access(vpn, store)),
        1 => control().prop_map(Step::Control),
    ];
    let steps = prop::collection::vec((0..PROCESSES, prop::collection::vec(step, 1..30)), 1..20);
    steps.prop_map(|turns| turns.into_iter().map(batch).collect())
}

fn batch((process, steps): (u32, Vec<Step>)) -> Batch {
    let mut batch = Batch {
        process,
        ..Batch::default()
    };
    batch.push_control(Control::Thread { thread: 0 });
    for step in steps {
        match step {
            // A process that is forked over another is none that the trace format knows.
            Step::Control(Control::Fork { .. }) if process == 1 => {}
            Step::Control(control) => batch.push_control(control),
            Step::Access(vpn, store) => batch.push(Access {
                addr: vpn * PAGE_BYTES + 8,
                op: if store { Op::store(8) } else { Op::load(8) },
                gap: 3,
                dep: 0,
            }),
        }
    }
    batch
}

fn policy() -> impl Strategy<Value = PagePolicy> {
    prop_oneof![
        Just(PagePolicy::BASE),
        Just(PagePolicy::THP),
        Just(PagePolicy::THP_MADVISE),
        Just(PagePolicy::folio(4)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Faults, pages of each size, copies and memory are those of the whole, wherever windows lie.
    #[test]
    fn windows_leave_memory_as_the_whole_does(
        batches in stream(), policy in policy(),
        skip in 0u64..60, sample in 1u64..40, more in 0u64..60, instructions in any::<bool>(),
    ) {
        let selection = Selection {
            unit: if instructions { Unit::Instructions } else { Unit::Accesses },
            skip,
            period: sample + more,
            sample,
            thinning: 0,
            limit: None,
        };
        let mut whole = System::new(policy);
        let mut windows = System::new(policy);
        let ended = whole.run(&mut Batches(batches.clone().into_iter()));
        let sampled = windows.run(&mut Window::new(Batches(batches.into_iter()), selection));
        prop_assert_eq!(&ended, &sampled);
        let (expected, nothing) = whole.statistics();
        let (found, outside) = windows.statistics();
        prop_assert_eq!(nothing, OutsideStatistics::default());
        prop_assert!(outside.faults <= found.faults);
        prop_assert_eq!(found, expected);
    }
}

/// Maps 8 pages, and touches them where accesses are left out.
fn left_out(touches: impl IntoIterator<Item = Control>) -> System {
    let mut system = System::new(PagePolicy::BASE);
    let map = Control::Map {
        addr: 0x10_0000,
        len: 8 * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::Anonymous,
        populate: false,
    };
    let skipped = Control::Skipped {
        instructions: 100,
        accesses: 50,
    };
    for control in [map, skipped].into_iter().chain(touches) {
        system.control(0, &control).unwrap();
    }
    system
}

fn touched(page: u64, pages: u64, touch: Touch) -> Control {
    Control::Touched {
        addr: 0x10_0000 + page * PAGE_BYTES,
        len: pages * PAGE_BYTES,
        touch,
    }
}

/// Pages that are there have memory of their own by one fault, unless they had; a store after a fork copies one, and
/// that a page is there does not.
#[test]
fn what_is_there_takes_a_fault_only_where_it_was_not() {
    let mut system = left_out([
        Control::TOUCHES_TOLD,
        touched(0, 4, Touch::Loaded),
        touched(2, 4, Touch::Present),
    ]);
    let (all, outside) = system.statistics();
    assert_eq!((all.faults, outside.faults), (4 + 4, 4 + 4));
    assert_eq!((all.zero_pages, all.anonymous.base), (4, 4));
    for control in [Control::Fork { child: 1 }, touched(2, 4, Touch::Present)] {
        system.control(0, &control).unwrap();
    }
    assert_eq!(system.statistics().0.faults, 8);
    system.control(0, &touched(3, 1, Touch::Stored)).unwrap();
    let (all, _) = system.statistics();
    assert_eq!((all.faults, all.cow_copies), (9, 1));
}

/// In a stream that does not tell of first touches, a load where accesses were left out may find what one of these has
/// stored.
#[test]
fn only_what_is_told_is_known_to_be_zero() {
    let system = left_out([touched(0, 4, Touch::Loaded)]);
    let (all, _) = system.statistics();
    assert_eq!((all.zero_pages, all.anonymous.base), (0, 4));
}
