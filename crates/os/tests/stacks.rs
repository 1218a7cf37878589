//! Stacks: of a program's first thread, and of others.

mod support;

use pagelab_addr::{Asid, Vpn};
use pagelab_events::{Backing, Control};
use pagelab_os::{Accounting, Mapping, OsConfig, PagePolicy};
use support::{Machine, MapTable, Placement, config, map_of};

fn machine(policy: PagePolicy) -> Machine<MapTable> {
    let config = OsConfig {
        accounting: Accounting::PerPage,
        ..config(policy, 0.0)
    };
    Machine::new(config, MapTable::new(Placement::Anywhere))
}

/// Pages that a store to one maps.
fn stores(machine: &mut Machine<MapTable>, process: u32, vpn: u64) -> u32 {
    let before = machine.os.frames().data_frames();
    machine.store(process, vpn, 1).unwrap();
    machine.os.frames().data_frames() - before
}

/// 132 KiB are there when a program begins (`setup_arg_pages`); below, the mapping ends with the page of the last
/// fault (`expand_stack`), so that a folio fits only where that is its first.
#[test]
fn a_stack_grows_and_folios_fit_into_what_it_has_grown_to() {
    let mut machine = machine(PagePolicy::folio(4));
    map_of(&mut machine, 0, 2048..4096, Backing::Stack);
    for (vpn, kind) in [(2048, Mapping::Stack), (2047, Mapping::None)] {
        assert_eq!(machine.os.mapping(Asid(0), Vpn(vpn)), kind);
    }
    for (vpn, pages) in [(4095, 16), (4063, 1), (4000, 16), (3998, 1), (3990, 1)] {
        assert_eq!(stores(&mut machine, 0, vpn), pages, "{vpn}");
    }
    // A child's goes on where its parent's was, and a new program begins anew.
    machine.control(0, Control::Fork { child: 1 }).unwrap();
    assert_eq!(stores(&mut machine, 1, 3968), 16);
    machine.control(1, Control::Exec).unwrap();
    map_of(&mut machine, 1, 2048..4096, Backing::Stack);
    assert_eq!(stores(&mut machine, 1, 4050), 1);
    let statistics = machine.os.statistics(&machine.table);
    assert_eq!(statistics.stray_touches, 0);
    // It was announced from page 2048 on, and the limit is none.
    stores(&mut machine, 0, 2048);
    assert_eq!(machine.os.statistics(&machine.table).stray_touches, 0);
    stores(&mut machine, 0, 2047);
    assert_eq!(machine.os.statistics(&machine.table).stray_touches, 1);
    machine.check();
}

/// Memory mapped with MAP_STACK has no huge pages (since Linux 6.7), and is there at once.
#[test]
fn stacks_of_further_threads_have_pages_of_4_kib() {
    for policy in [PagePolicy::THP, PagePolicy::folio(4)] {
        let mut machine = machine(policy);
        map_of(&mut machine, 0, 2048..4096, Backing::Stack);
        map_of(&mut machine, 0, 512..1536, Backing::Stack);
        assert_eq!(stores(&mut machine, 0, 1040), 1);
        assert_eq!(stores(&mut machine, 0, 520), 1);
        machine.control(0, Control::Fork { child: 1 }).unwrap();
        map_of(&mut machine, 1, 8192..9216, Backing::Stack);
        assert_eq!(stores(&mut machine, 1, 8200), 1);
        machine.check();
    }
}
