//! The whole of the operating system, over every page table, against processes that are nothing but
//! maps from pages to contents.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Advice, Backing, Control, HugePages, Protection};
use pagelab_os::{
    Accounting, Defrag, Grouping, KhugepagedConfig, ManagerConfig, NodeConfig, Os, OsConfig,
    OsError, PagePolicy, ReclaimConfig, TieredConfig,
};
use pagelab_translation::{Dpt, DptConfig, Ideal, PageTable, Radix, RadixConfig, RestSegs};
use proptest::prelude::*;
use std::ops::Range;
use support::{Machine, MapTable, Placement, READ_WRITE, config};

const PROCESSES: u32 = 3;

/// Frames of the memory that `config` has.
const MEMORY_FRAMES: u32 = 64 << 8;

#[derive(Clone, Debug)]
enum Step {
    Load(u64),
    Store(u64),
    Control(Control),
    /// The memory manager's interval is over.
    Tick,
    /// Walks to this page are costly.
    MoveIn(u64),
}

/// Places where a range may begin or end: in and around 2 MiB regions, on both sides of the
/// border of a 1 GiB region.
fn vpn() -> impl Strategy<Value = u64> {
    let region = prop_oneof![4 => 0u64..4, 1 => 510u64..514];
    let inside = prop_oneof![3 => Just(0u64), 1 => Just(511), 1 => 0u64..8, 1 => 0u64..512];
    (region, inside).prop_map(|(region, inside)| (1 << 18) + region * 512 + inside)
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    let long = prop_oneof![Just(512u64), Just(1024), Just(1536), 1u64..1500];
    let length = prop_oneof![2 => 1u64..6, 3 => long];
    (vpn(), length).prop_map(|(vpn, pages)| (vpn * PAGE_BYTES, pages * PAGE_BYTES))
}

fn event() -> impl Strategy<Value = Control> {
    let backing = prop_oneof![
        4 => Just(Backing::Anonymous),
        2 => Just(Backing::SharedAnonymous),
        1 => Just(Backing::PrivateFile),
        1 => Just(Backing::SharedFile),
        1 => Just(Backing::Stack),
    ];
    let advice = prop_oneof![
        3 => Just(Advice::DontNeed),
        2 => Just(Advice::HugePage),
        1 => Just(Advice::NoHugePage),
        1 => Just(Advice::Free),
        2 => Just(Advice::Populate),
        1 => Just(Advice::Other(1)),
        2 => Just(Advice::COLLAPSE),
        1 => Just(Advice::PAGE_OUT),
        1 => Just(Advice::POPULATE_READ),
    ];
    let prot = prop_oneof![
        Just(READ_WRITE),
        Just(Protection(Protection::READ)),
        Just(Protection(0))
    ];
    prop_oneof![
        5 => (range(), backing).prop_map(|((addr, len), backing)| Control::Map {
            addr, len, prot: READ_WRITE, backing, populate: false
        }),
        3 => range().prop_map(|(addr, len)| Control::Unmap { addr, len }),
        3 => (range(), prot).prop_map(|((addr, len), prot)| Control::Protect { addr, len, prot }),
        3 => (range(), range(), any::<bool>()).prop_map(|((old_addr, old_len), (to, new_len), stay)| {
            let new_addr = if stay { old_addr } else { to };
            Control::Remap { old_addr, old_len, new_addr, new_len }
        }),
        1 => (vpn(), range()).prop_map(|(old, (new_addr, new_len))| Control::Remap {
            old_addr: old * PAGE_BYTES, old_len: 0, new_addr, new_len
        }),
        3 => (range(), advice).prop_map(|((addr, len), advice)| Control::Advise { addr, len, advice }),
        1 => prop_oneof![Just(HugePages::Anywhere), Just(HugePages::Nowhere), Just(HugePages::WhereAdvised)]
            .prop_map(|allowed| Control::HugePages { allowed }),
        2 => vpn().prop_map(|vpn| Control::Brk { end: vpn * PAGE_BYTES }),
        3 => (0..PROCESSES).prop_map(|child| Control::Fork { child }),
        1 => Just(Control::Exec),
        1 => Just(Control::Exit { status: 0 }),
        1 => Just(Control::ThreadStart { thread: 1 }),
    ]
}

fn steps(length: Range<usize>) -> impl Strategy<Value = Vec<(u32, Step)>> {
    let step = prop_oneof![
        5 => vpn().prop_map(Step::Load),
        9 => vpn().prop_map(Step::Store),
        6 => event().prop_map(Step::Control),
        4 => Just(Step::Tick),
        2 => vpn().prop_map(Step::MoveIn),
    ];
    proptest::collection::vec((0..PROCESSES, step), length)
}

fn policy() -> impl Strategy<Value = PagePolicy> {
    prop_oneof![
        1 => Just(PagePolicy::BASE),
        3 => Just(PagePolicy::THP),
        1 => Just(PagePolicy::THP_MADVISE),
        1 => (2u32..=8).prop_map(PagePolicy::folio),
        2 => Just(PagePolicy::RESERVED),
        2 => Just(PagePolicy::QUICKSILVER),
    ]
}

/// A page table.
#[derive(Clone, Debug)]
enum Design {
    Map(Placement),
    Ideal,
    Radix(u32),
    Dpt(Box<DptConfig>),
}

fn dpt() -> impl Strategy<Value = Design> {
    let techniques = (0u32..5, 0u32..3, any::<bool>(), any::<bool>(), 0u64..2);
    techniques.prop_map(|(max_soa_step, max_cva_count, cpd, fap, pool)| {
        Design::Dpt(Box::new(DptConfig {
            max_soa_step,
            max_cva_count,
            cpd: cpd || max_soa_step == 0,
            fap,
            ptp_mib: 8 * pool,
            ..DptConfig::default()
        }))
    })
}

fn design() -> impl Strategy<Value = Design> {
    prop_oneof![
        5 => placement().prop_map(Design::Map),
        1 => Just(Design::Ideal),
        2 => (4u32..6).prop_map(Design::Radix),
        4 => dpt(),
    ]
}

/// Calls `$call(table, ..)` with the page table of a design.
macro_rules! with_table {
    ($design:expr, $call:ident($($argument:expr),*)) => {
        match $design {
            Design::Map(placement) => $call(MapTable::new(placement), $($argument),*),
            Design::Ideal => $call(Ideal::new(), $($argument),*),
            Design::Radix(levels) => {
                let config = RadixConfig { levels, ..RadixConfig::default() };
                $call(Radix::new(&config, 1).unwrap(), $($argument),*)
            }
            Design::Dpt(config) => $call(Dpt::new(&config, 1).unwrap(), $($argument),*),
        }
    };
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        1 => Just(Placement::None),
        1 => Just(Placement::Anywhere),
        2 => Just(Placement::Hashed),
        2 => Just(Placement::Hostile),
    ]
}

fn run<T: PageTable>(
    machine: &mut Machine<T>,
    process: u32,
    step: &Step,
    serial: u64,
) -> Result<(), OsError> {
    match step {
        Step::Load(vpn) => {
            let found = machine.load(process, *vpn)?;
            assert_eq!(Some(found), machine.processes.read(process, *vpn));
            Ok(())
        }
        Step::Store(vpn) => machine.store(process, *vpn, serial),
        Step::Control(event) => machine.control(process, *event),
        Step::Tick => machine.tick(),
        Step::MoveIn(vpn) => {
            let page = machine.page(process, *vpn);
            machine.move_in(page);
            Ok(())
        }
    }
}

/// Every page reads back what was written last, as long as there is room for the page table.
fn reads_back<T: PageTable>(table: T, os: Os, steps: &[(u32, Step)]) {
    // A pool runs out, and one mapping may have all memory.
    let ends = matches!(
        os.config().manager,
        ManagerConfig::Basic { .. } | ManagerConfig::Contiguous
    );
    let mut machine = Machine::with_os(os, table);
    for (serial, (process, step)) in steps.iter().enumerate() {
        match run(&mut machine, *process, step, serial as u64 + 1) {
            // With some techniques off, DPT gives up early.
            Err(OsError::NoPlace { .. }) => break,
            Err(OsError::OutOfMemory { .. }) if ends => break,
            done => done.unwrap(),
        }
        machine.check();
        if serial % 4 == 3 {
            machine.check_contents();
        }
    }
    machine.check_end(0..PROCESSES);
}

/// Every page reads back what was written last where memory is so short that pages leave it, until not even one
/// can.
fn reads_back_from_swap<T: PageTable>(table: T, os: Os, steps: &[(u32, Step)]) {
    let mut machine = Machine::with_os(os, table);
    for (serial, (process, step)) in steps.iter().enumerate() {
        match run(&mut machine, *process, step, serial as u64 + 1) {
            Err(OsError::NoPlace { .. } | OsError::OutOfMemory { .. }) => break,
            done => done.unwrap(),
        }
        machine.check();
        if serial % 4 == 3 {
            machine.check_contents();
        }
    }
    machine.check_end(0..PROCESSES);
    assert_eq!(
        machine
            .os
            .statistics(&machine.table)
            .reclaim
            .unwrap_or_default()
            .in_swap,
        0
    );
}

/// Files keep their contents, which the programs' own pages here do not say.
fn without_files(steps: Vec<(u32, Step)>) -> Vec<(u32, Step)> {
    let mut steps = steps;
    for (_, step) in &mut steps {
        if let Step::Control(Control::Map { backing, .. }) = step
            && *backing == Backing::SharedFile
        {
            *backing = Backing::PrivateFile;
        }
    }
    steps
}

/// Frames, reverse map and cached translations agree where allocations have frames at once. The
/// programs' contents are not compared: what is mapped untouched they do not have.
fn agrees<T: PageTable>(table: T, os: Os, steps: &[(u32, Step)]) {
    let mut machine = Machine::with_os(os, table);
    for (process, step) in steps {
        let done = match step {
            Step::Load(vpn) => machine.load(*process, *vpn).map(|_| ()),
            Step::Store(vpn) => machine.store(*process, *vpn, 1),
            Step::Control(event) => machine.control(*process, *event),
            Step::Tick | Step::MoveIn(_) => Ok(()),
        };
        machine.check();
        if done.is_err() {
            break;
        }
    }
    machine.check_end(0..PROCESSES);
}

/// When the page table finds no place for an entry, or memory runs out, everything still agrees.
fn survives<T: PageTable>(table: T, os: Os, maps_left: u64, steps: &[(u32, Step)]) {
    let mut machine = Machine::with_os(os, table);
    machine.table.maps_left = maps_left;
    for (serial, (process, step)) in steps.iter().enumerate() {
        let done = run(&mut machine, *process, step, serial as u64 + 1);
        machine.check();
        // An access that could not be done can be tried again; an event is half done.
        if done.is_err() && matches!(step, Step::Control(_)) {
            break;
        }
        if done.is_err() {
            machine.check_contents();
        }
    }
    machine.check_end(0..PROCESSES);
}

fn os(config: OsConfig, placement: pagelab_os::Placement) -> Os {
    let frames = (config.memory_bytes / PAGE_BYTES) as u32;
    let placement = match placement {
        pagelab_os::Placement::Segmented {
            at_faults,
            evicting,
            ..
        } if frames != MEMORY_FRAMES => pagelab_os::Placement::Segmented {
            segments: RestSegs::new(frames, [16 * PAGE_BYTES, 4 << 20], 1, 1 << 10),
            at_faults,
            evicting,
        },
        as_it_is => as_it_is,
    };
    // Folios go with neither hashed frames nor another manager.
    let folios = config.page_policy.is_of_folios();
    let alone = placement == pagelab_os::Placement::Buddy && config.manager == ManagerConfig::Linux;
    let config = OsConfig {
        unhashed_share: 0.5,
        page_policy: if folios && !alone {
            PagePolicy::BASE
        } else {
            config.page_policy
        },
        ..config
    };
    Os::with_placement(config, placement, 7).unwrap()
}

/// A machine whose memory is two nodes, and a manager for them.
fn two_nodes(policy: PagePolicy, near_mib: u64, manager: ManagerConfig) -> OsConfig {
    let node = |bytes| NodeConfig {
        bytes,
        latency_ns: 100.0,
        gigabytes_per_second: 10.0,
    };
    let config = config(policy, 0.1);
    OsConfig {
        nodes: vec![
            node(near_mib << 20),
            node(config.memory_bytes - (near_mib << 20)),
        ],
        manager,
        ..config
    }
}

fn manager() -> impl Strategy<Value = ManagerConfig> {
    // The programs use little of the near node: everything cold leaves it, or nothing does.
    let tiered = (0.0f64..0.9, any::<bool>(), 0u32..300).prop_map(|(allocation, leave, pages)| {
        ManagerConfig::Tiered(TieredConfig {
            allocation,
            reclamation: if leave { 1.0 } else { allocation },
            pages,
            ..TieredConfig::default()
        })
    });
    prop_oneof![
        1 => Just(ManagerConfig::Linux),
        2 => (0u16..4, 1u16..4).prop_map(|(near, far)| ManagerConfig::Bandwidth {
            weights: format!("{near}:{far}")
        }),
        // Pools from 4 pages on: they run out.
        2 => (4u64..3000).prop_map(|pages| ManagerConfig::Basic { size: format!("{}KiB", 4 * pages) }),
        2 => Just(ManagerConfig::Contiguous),
        5 => tiered,
    ]
}

/// Placement of data by the operating system, not that of a [`MapTable`].
fn frames() -> impl Strategy<Value = pagelab_os::Placement> {
    prop_oneof![
        Just(pagelab_os::Placement::Buddy),
        Just(pagelab_os::Placement::Hashed),
        (1u32..5).prop_map(|functions| pagelab_os::Placement::Tiered { functions }),
        (0u32..8, any::<bool>(), any::<bool>()).prop_map(|(sets, at_faults, evicting)| {
            // Few ways, so that pages meet.
            let bytes = [PAGE_BYTES << sets, 4 << 20];
            pagelab_os::Placement::Segmented {
                segments: RestSegs::new(MEMORY_FRAMES, bytes, 1, 1 << 10),
                at_faults,
                evicting,
            }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn every_page_reads_back_what_was_written(
        policy in policy(),
        design in design(),
        utilisation in prop_oneof![Just(0.0), Just(0.3)],
        frames in frames(),
        steps in steps(1..60),
    ) {
        with_table!(design, reads_back(os(config(policy, utilisation), frames), &steps));
    }

    #[test]
    fn every_page_reads_back_wherever_a_manager_moves_it(
        policy in policy(),
        design in design(),
        manager in manager(),
        near_blocks in 1u64..4,
        steps in steps(1..60),
    ) {
        let config = two_nodes(policy, near_blocks * 4, manager);
        with_table!(design, reads_back(os(config, pagelab_os::Placement::Buddy), &steps));
    }

    #[test]
    fn every_page_reads_back_what_khugepaged_collapses(
        design in design(),
        accounting in prop_oneof![Just(Accounting::MmOwner), Just(Accounting::FolioMap)],
        max_ptes_none in prop_oneof![Just(0u32), Just(511), 0u32..512],
        pages_to_scan in prop_oneof![Just(4096u32), 1u32..2048],
        mthp in any::<bool>(),
        steps in steps(1..60),
    ) {
        let khugepaged = KhugepagedConfig { max_ptes_none, pages_to_scan, mthp, ..KhugepagedConfig::default() };
        let sizes = if mthp { "thp-madvise+64K-madvise+16K-madvise" } else { "thp-madvise" };
        let config = OsConfig {
            accounting,
            khugepaged: Some(khugepaged),
            ..config(PagePolicy::try_from(sizes.to_owned()).unwrap(), 0.1)
        };
        with_table!(design, reads_back(os(config, pagelab_os::Placement::Buddy), &steps));
    }

    #[test]
    fn every_page_reads_back_what_was_swapped_out(
        policy in policy(),
        design in design(),
        accounting in prop_oneof![Just(Accounting::PerPage), Just(Accounting::MmOwner), Just(Accounting::FolioMap)],
        max_pages in prop_oneof![48u64..160, 160u64..1500],
        swap_pages in prop_oneof![3 => Just(None), 1 => (0u64..600).prop_map(Some)],
        max_ptes_none in prop_oneof![1 => Just(None), 1 => (0u32..511).prop_map(Some)],
        lru_gen in any::<bool>(),
        steps in steps(1..60).prop_map(without_files),
    ) {
        let reclaim = ReclaimConfig {
            max_bytes: Some(max_pages * PAGE_BYTES),
            swap_bytes: swap_pages.map(|pages| pages * PAGE_BYTES),
            shrink_underused: max_ptes_none.is_some(),
            lru_gen,
            ..ReclaimConfig::default()
        };
        let khugepaged = max_ptes_none.map(|max_ptes_none| KhugepagedConfig {
            max_ptes_none,
            ..KhugepagedConfig::default()
        });
        let config = OsConfig {
            accounting,
            khugepaged,
            reclaim: Some(reclaim),
            ..config(policy, 0.1)
        };
        with_table!(design, reads_back_from_swap(os(config, pagelab_os::Placement::Buddy), &steps));
    }

    #[test]
    fn every_page_reads_back_wherever_compaction_moves_it(
        design in design(),
        accounting in prop_oneof![Just(Accounting::PerPage), Just(Accounting::FolioMap)],
        unmovable_share in prop_oneof![Just(0.0), Just(0.02)],
        grouping in prop_oneof![Just(Grouping::Off), Just(Grouping::Mobility), Just(Grouping::Region)],
        steps in steps(1..60),
    ) {
        let config = OsConfig {
            utilisation: 0.6,
            fragmentation: 1.0,
            unmovable_share,
            grouping,
            accounting,
            defrag: Defrag::Always,
            ..config(PagePolicy::THP, 0.6)
        };
        with_table!(design, reads_back(os(config, pagelab_os::Placement::Buddy), &steps));
    }

    #[test]
    fn everything_agrees_with_eager_placement(
        policy in policy(),
        design in design(),
        steps in steps(1..60),
        memory_blocks in 1u64..48,
    ) {
        let config = OsConfig { memory_bytes: memory_blocks << 22, ..config(policy, 0.1) };
        let os = os(config, pagelab_os::Placement::Eager);
        with_table!(design, agrees(os, &steps));
    }

    #[test]
    fn a_failure_at_any_point_leaves_everything_in_agreement(
        policy in policy(),
        design in design(),
        steps in steps(10..50),
        maps_left in prop_oneof![Just(u64::MAX), 0u64..3000],
        memory_blocks in 1u64..8,
        frames in frames(),
    ) {
        let config = OsConfig { memory_bytes: memory_blocks << 22, ..config(policy, 0.1) };
        let os = os(config, frames);
        with_table!(design, survives(os, maps_left, &steps));
    }
}

/// Making room for a second place of shared memory takes a huge page apart, for which the page
/// table has no place: the memory goes with its process all the same.
#[test]
fn shared_memory_goes_when_showing_it_twice_has_failed() {
    let huge = Step::Store(263_680);
    let shared = Step::Control(Control::Map {
        addr: 263_167 * PAGE_BYTES,
        len: 512 * PAGE_BYTES,
        prot: READ_WRITE,
        backing: Backing::SharedAnonymous,
        populate: false,
    });
    let twice = Step::Control(Control::Remap {
        old_addr: 263_168 * PAGE_BYTES,
        old_len: 0,
        new_addr: 264_191 * PAGE_BYTES,
        new_len: PAGE_BYTES,
    });
    let steps = [huge, shared, Step::Load(263_168), twice].map(|step| (2, step));
    let config = OsConfig {
        memory_bytes: 24 << 20,
        ..config(PagePolicy::THP, 0.1)
    };
    let table = MapTable::new(Placement::None);
    survives(table, os(config, pagelab_os::Placement::Buddy), 244, &steps);
}

/// A page of a file that nothing maps any more is pushed out of its set of a restrictive segment:
/// the page that comes in its place is empty, and the file keeps its contents.
#[test]
fn a_page_that_nothing_maps_is_moved_out_with_its_contents() {
    let file = 0x4000_0000;
    let steps = [
        Step::Control(Control::Map {
            addr: file,
            len: 6 << 20,
            prot: READ_WRITE,
            backing: Backing::SharedFile,
            populate: false,
        }),
        Step::Store(263_679),
        Step::Control(Control::Remap {
            old_addr: file,
            old_len: PAGE_BYTES,
            new_addr: file + (2 << 20),
            new_len: 6 << 20,
        }),
        Step::Load(262_144),
    ];
    let segments = pagelab_os::Placement::Segmented {
        segments: RestSegs::new(MEMORY_FRAMES, [PAGE_BYTES, 4 << 20], 1, 1 << 10),
        at_faults: true,
        evicting: true,
    };
    let table = MapTable::new(Placement::None);
    let os = os(config(PagePolicy::BASE, 0.0), segments);
    reads_back(table, os, &steps.map(|step| (0, step)));
}

/// Memory that a heap grows over goes, and its frames are the heap's at once: they are empty.
#[test]
fn memory_that_a_heap_grows_over_is_empty_though_it_has_the_same_frames() {
    let heap = 0x4000_0000;
    let steps = [
        Step::Control(Control::Brk { end: heap }),
        Step::Control(Control::Map {
            addr: heap,
            len: 8 * PAGE_BYTES,
            prot: READ_WRITE,
            backing: Backing::Anonymous,
            populate: false,
        }),
        Step::Store(heap / PAGE_BYTES + 3),
        Step::Control(Control::Brk {
            end: heap + 8 * PAGE_BYTES,
        }),
        Step::Load(heap / PAGE_BYTES + 3),
    ];
    let config = OsConfig {
        manager: ManagerConfig::Contiguous,
        ..config(PagePolicy::BASE, 0.0)
    };
    let table = MapTable::new(Placement::None);
    let os = os(config, pagelab_os::Placement::Buddy);
    reads_back(table, os, &steps.map(|step| (0, step)));
}
