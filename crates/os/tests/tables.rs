//! The memory of page tables over a program's life.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Backing, Control};
use pagelab_os::{OsConfig, OsError, PagePolicy};
use pagelab_translation::{
    Clustered, ClusteredConfig, Ecpt, EcptConfig, Flattened, FlattenedConfig, MeHpt, MeHptConfig,
    PageTable, Radix, RadixConfig,
};
use support::{Machine, READ_WRITE, config};

const MIB: u64 = 1 << 20;

fn machine<T: PageTable>(table: T, policy: PagePolicy) -> Machine<T> {
    let config = OsConfig {
        memory_bytes: 512 * MIB,
        fragmentation: 0.0,
        ..config(policy, 0.0)
    };
    Machine::new(config, table)
}

fn map<T: PageTable>(machine: &mut Machine<T>, addr: u64, len: u64) {
    let event = Control::Map {
        addr,
        len,
        prot: READ_WRITE,
        backing: Backing::Anonymous,
        populate: false,
    };
    machine.control(0, event).unwrap();
}

/// A program has small pages at one place, and maps and unmaps a large one at another.
fn large_pages_come_and_go<T: PageTable>(table: T) {
    let mut machine = machine(table, PagePolicy::THP);
    map(&mut machine, 0x4000_0000, 4 * PAGE_BYTES);
    machine.store(0, 0x4_0000, 1).unwrap();
    let mut taken = Vec::new();
    for round in 0..4 {
        let (addr, len) = (0x7f00_0000_0000, 2 * MIB);
        map(&mut machine, addr, len);
        machine.store(0, addr / PAGE_BYTES, round).unwrap();
        taken.push(machine.effects.work.table_frames);
        machine.control(0, Control::Unmap { addr, len }).unwrap();
    }
    assert!(taken[0] > 0);
    assert_eq!(taken[1..], [0; 3]);
    machine.check();
    machine.check_end(0..1);
}

#[test]
fn tables_stay_when_their_last_page_goes_and_go_with_their_process() {
    large_pages_come_and_go(Clustered::new(&ClusteredConfig::default(), 1).unwrap());
    large_pages_come_and_go(Ecpt::new(&EcptConfig::default(), 1).unwrap());
    large_pages_come_and_go(MeHpt::new(&MeHptConfig::default(), 1).unwrap());
    large_pages_come_and_go(Flattened::new(&FlattenedConfig::default(), 1).unwrap());
}

/// A flattened tree keeps the node that fell empty last, and no other.
#[test]
fn an_address_space_keeps_one_empty_flat_node() {
    let flattened = Flattened::new(&FlattenedConfig::default(), 1).unwrap();
    let mut machine = machine(flattened, PagePolicy::BASE);
    for gib in 1..5 {
        let (addr, len) = (gib << 30, PAGE_BYTES);
        map(&mut machine, addr, len);
        machine.store(0, addr / PAGE_BYTES, gib).unwrap();
        machine.control(0, Control::Unmap { addr, len }).unwrap();
        // The root, and the node.
        assert_eq!(machine.table.table_bytes(), 4 * MIB);
    }
    let peak = machine.os.statistics(&machine.table).peak_table_bytes;
    assert_eq!(peak, 6 * MIB);
    machine.check_end(0..1);
}

/// During a rehash there are two tables.
#[test]
fn the_peak_of_tables_has_the_old_one_of_a_rehash() {
    let clustered = Clustered::new(&ClusteredConfig::default(), 1).unwrap();
    let mut machine = machine(clustered, PagePolicy::BASE);
    map(&mut machine, 0x4000_0000, 512 * MIB);
    let mut store = |clusters: std::ops::Range<u64>| {
        for cluster in clusters {
            machine.store(0, 0x4_0000 + 8 * cluster, 1).unwrap();
        }
        let statistics = machine.os.statistics(&machine.table);
        (
            statistics.table_bytes / MIB,
            statistics.peak_table_bytes / MIB,
        )
    };
    // Half of 16,384 lines.
    assert_eq!(store(0..8192), (1, 1));
    assert_eq!(store(8192..8193), (2, 3));
}

#[test]
fn addresses_beyond_a_trees_reach_are_refused() {
    let refused = |result: Result<(), OsError>| match result {
        Ok(()) => None,
        Err(error) => Some(error.to_string()),
    };
    let four = RadixConfig::default();
    let five = RadixConfig {
        levels: 5,
        ..four.clone()
    };
    let mut radix =
        [&four, &five].map(|config| machine(Radix::new(config, 1).unwrap(), PagePolicy::BASE));
    let flattened = Flattened::new(&FlattenedConfig::default(), 1).unwrap();
    let mut flattened = machine(flattened, PagePolicy::BASE);
    for (addr, bits) in [
        (0x1000u64, 48),
        (0x7fff_ffff_f000, 48),
        (0xffff_8000_0000_1000, 48),
        (0x8000_0000_1000, 57),
        (0x1_0000_0000_1000, 57),
        (0x100_0000_0000_1000, 64),
    ] {
        let vpn = addr / PAGE_BYTES;
        let found = [
            (48, refused(radix[0].store(0, vpn, 1))),
            (57, refused(radix[1].store(0, vpn, 1))),
            (48, refused(flattened.store(0, vpn, 1))),
        ];
        for (has, refused) in found {
            assert_eq!(refused.is_some(), bits > has, "{addr:#x}");
            let why = format!("address {addr:#x} of process 0 is none of the {has} bits");
            assert!(refused.is_none_or(|refused| refused.starts_with(&why)));
        }
    }
}
