//! The memory of page tables over a program's life.

mod support;

use pagelab_addr::PAGE_BYTES;
use pagelab_events::{Backing, Control};
use pagelab_os::{OsConfig, PagePolicy};
use pagelab_translation::{
    Clustered, ClusteredConfig, Ecpt, EcptConfig, Flattened, FlattenedConfig, MeHpt, MeHptConfig,
    PageTable,
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
    let mut machine = machine(table, PagePolicy::Thp);
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
    let mut machine = machine(flattened, PagePolicy::Base);
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
