//! Misses by allocation site, of streams in which it is known whose memory each access is.

use crate::by_code::{Coded, adds_up, go_on, map};
use crate::common::{BASE, small_machine};
use pagelab_events::{
    Access, AllocationCall, AllocationSite, Backing, Batch, Control, Definition, Op,
};
use pagelab_machine::{AtSite, Design, MachineConfig, RunResult, simulate};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A batch of a process, with the definitions of three sites if it is the first.
fn batch(process: u32) -> Batch {
    let mut batch = Batch {
        process,
        ..Batch::default()
    };
    batch.push_control(Control::Thread { thread: 0 });
    batch
}

fn define(batch: &mut Batch) {
    let site = AllocationSite {
        call: AllocationCall::Malloc,
        frames: [].into(),
    };
    batch.definitions = vec![Definition::AllocationSite(site); 3];
}

fn allocate(batch: &mut Batch, site: u32, addr: u64, len: u64) {
    batch.push_control(Control::Allocating { site });
    batch.push_control(Control::Allocated { addr, len });
}

/// Stores to the first bytes of so many pages.
fn touch(batch: &mut Batch, addr: u64, pages: u64) {
    for page in 0..pages {
        batch.push(Access {
            addr: addr + page * PAGE,
            op: Op::store(8),
            ..Access::default()
        });
    }
}

fn run(config: &MachineConfig, batches: Vec<Batch>) -> RunResult {
    let mut source = Coded(batches.into_iter());
    let run = simulate(config, "radix", &mut source, &mut go_on).unwrap();
    assert!(run.complete, "{:?}", run.stopped);
    adds_up(&run, true);
    run
}

/// Counts of memory of no allocator, and of the three sites.
fn of(run: &RunResult) -> [AtSite; 4] {
    let mut all = run.by_code[0].allocations.clone();
    all.resize(4, AtSite::default());
    all.try_into().unwrap()
}

fn faults(run: &RunResult) -> [u64; 4] {
    of(run).map(|at| at.tally.faults)
}

#[test]
fn who_was_given_the_memory_is_charged_in_every_design() {
    let mut first = batch(0);
    define(&mut first);
    first.push_control(map(BASE, 64 * PAGE, Backing::Anonymous));
    // Before the first call of an allocator.
    touch(&mut first, BASE + 60 * PAGE, 4);
    allocate(&mut first, 0, BASE + PAGE, 16 * PAGE);
    allocate(&mut first, 2, BASE + 32 * PAGE, 8 * PAGE);
    touch(&mut first, BASE, 60);
    for design in Design::all() {
        let mut source = Coded(vec![first.clone()].into_iter());
        let run = simulate(&small_machine(), &design.name(), &mut source, &mut go_on).unwrap();
        adds_up(&run, true);
        assert_eq!(faults(&run).iter().sum::<u64>(), run.os.faults);
        let misses = of(&run).map(|at| at.tally.l1_tlb_misses);
        if design.name() == "radix" {
            assert_eq!(faults(&run), [40, 16, 0, 8]);
            assert_eq!(misses, [40, 16, 0, 8]);
        }
    }
}

#[test]
fn what_an_allocator_touches_in_a_call_is_charged_to_the_call() {
    let mut first = batch(0);
    define(&mut first);
    first.push_control(map(BASE, 64 * PAGE, Backing::Anonymous));
    allocate(&mut first, 1, BASE, 16);
    first.push_control(Control::Allocating { site: 0 });
    // Another's memory, too.
    touch(&mut first, BASE, 3);
    // Another thread is in no call.
    first.push_control(Control::Thread { thread: 1 });
    touch(&mut first, BASE + 3 * PAGE, 5);
    first.push_control(Control::Thread { thread: 0 });
    touch(&mut first, BASE + 8 * PAGE, 1);
    first.push_control(Control::Allocated { addr: 0, len: 100 });
    touch(&mut first, BASE + 9 * PAGE, 7);
    let run = run(&small_machine(), vec![first]);
    assert_eq!(faults(&run), [12, 4, 0, 0]);
    // It had none to give.
    assert_eq!(of(&run).map(|at| at.allocations), [0, 0, 1, 0]);
}

#[test]
fn memory_is_charged_to_whom_it_was_last_given() {
    let mut first = batch(0);
    define(&mut first);
    first.push_control(map(BASE, 64 * PAGE, Backing::Anonymous));
    allocate(&mut first, 0, BASE + PAGE, 8 * PAGE);
    first.push_control(Control::Freed { addr: BASE + PAGE });
    // Given back, and the header before it.
    touch(&mut first, BASE + PAGE, 2);
    touch(&mut first, BASE + PAGE - 16, 1);
    // A part of it for another.
    allocate(&mut first, 1, BASE + 4 * PAGE, 2 * PAGE);
    touch(&mut first, BASE + 3 * PAGE, 6);
    // Mapped anew it is nobody's.
    first.push_control(map(BASE, 64 * PAGE, Backing::Anonymous));
    touch(&mut first, BASE, 10);
    let run = run(&small_machine(), vec![first]);
    assert_eq!(faults(&run), [10, 7, 2, 0]);
}

#[test]
fn a_fork_has_its_parents_memory_and_moved_memory_stays_whose_it_was() {
    let mut first = batch(0);
    define(&mut first);
    first.push_control(map(BASE, 64 * PAGE, Backing::Anonymous));
    allocate(&mut first, 0, BASE, 8 * PAGE);
    first.push_control(Control::Fork { child: 1 });
    let mut child = batch(1);
    allocate(&mut child, 1, BASE + 4 * PAGE, 4 * PAGE);
    touch(&mut child, BASE, 8);
    child.push_control(Control::Exec);
    child.push_control(map(BASE, 64 * PAGE, Backing::Anonymous));
    touch(&mut child, BASE, 3);
    let mut second = batch(0);
    let to = BASE + (1 << 32);
    second.push_control(Control::Remap {
        old_addr: BASE,
        old_len: 8 * PAGE,
        new_addr: to,
        new_len: 10 * PAGE,
    });
    touch(&mut second, to, 10);
    let run = run(&small_machine(), vec![first, child, second]);
    assert_eq!(faults(&run), [3, 4 + 10, 4, 0]);
}

#[test]
fn bytes_are_counted_as_they_are_asked_for_and_as_they_come_in() {
    let program = || {
        let mut first = batch(0);
        define(&mut first);
        first.push_control(map(BASE, 16 * MIB, Backing::Anonymous));
        // Two large pages, of which two small ones are touched; and one that two sites share.
        allocate(&mut first, 0, BASE, 4 * MIB);
        allocate(&mut first, 1, BASE + 4 * MIB, MIB);
        allocate(&mut first, 2, BASE + 5 * MIB, MIB);
        touch(&mut first, BASE, 1);
        touch(&mut first, BASE + 2 * MIB, 1);
        touch(&mut first, BASE + 4 * MIB, 256);
        touch(&mut first, BASE + 5 * MIB, 256);
        first.push_control(Control::Freed { addr: BASE });
        first.push_control(Control::Unmap {
            addr: BASE,
            len: 4 * MIB,
        });
        first.push_control(map(BASE, 4 * MIB, Backing::Anonymous));
        allocate(&mut first, 0, BASE, MIB);
        touch(&mut first, BASE, 1);
        vec![first]
    };
    let small = of(&run(&small_machine(), program()));
    assert_eq!(small.map(|at| at.allocations), [0, 2, 1, 1]);
    assert_eq!(small.map(|at| at.bytes), [0, 5 * MIB, MIB, MIB]);
    assert_eq!(small.map(|at| at.peak_bytes), [0, 4 * MIB, MIB, MIB]);
    let resident = |all: [AtSite; 4]| all.map(|at| at.peak_resident_bytes);
    assert_eq!(resident(small), [0, 2 * PAGE, MIB, MIB]);
    let mut config = small_machine();
    config.memory.page_policy = pagelab_os::PagePolicy::THP;
    config.memory.fragmentation = 0.0;
    let large = of(&run(&config, program()));
    // The second site is the first to touch what it shares with the third.
    assert_eq!(resident(large), [0, 4 * MIB, 2 * MIB, 0]);
    assert_eq!(large.map(|at| at.tally.faults), [0, 3, 1, 0]);
    for sizes in ["64K", "64K+16K"] {
        config.memory.page_policy = pagelab_os::PagePolicy::try_from(sizes.to_owned()).unwrap();
        let middling = of(&run(&config, program()));
        assert_eq!(resident(middling), [0, 2 * 16 * PAGE, MIB, MIB], "{sizes}");
    }
}
