//! Small machines and streams that drive the tests of designs around the TLB, beside lists.

use crate::config::MachineConfig;
use pagelab_translation::TlbArrayConfig;
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Access { page: usize, line: u32, store: bool },
    Unmap { region: usize },
}

/// Each of so many regions of 2 MiB has one page of that size, or eight of 4 KiB.
pub(super) const REGIONS: usize = 36;

pub(super) fn is_large(region: usize) -> bool {
    region % 3 == 1
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = prop_oneof![0..REGIONS * 8, 0..REGIONS, (0..REGIONS).prop_map(|n| n * 8)];
    let access = (page, 0..64u32, any::<bool>());
    let access = access.prop_map(|(page, line, store)| Step::Access { page, line, store });
    let unmap = (0..REGIONS).prop_map(|region| Step::Unmap { region });
    proptest::collection::vec(prop_oneof![60 => access, 1 => unmap], 300..1200)
}

/// TLBs and caches of a few entries, so that all of them overflow.
pub(super) fn small_machine(memory: u64) -> MachineConfig {
    let mut config = MachineConfig::load("dpt-paper", &[]).unwrap();
    config.memory.memory_bytes = memory;
    config.memory.utilisation = 0.0;
    let usual = config.tlb.l1_4k;
    let array = |entries| TlbArrayConfig {
        entries,
        ways: entries,
        ..usual
    };
    config.tlb.l1_4k = array(4);
    config.tlb.l1_2m = Some(array(2));
    config.tlb.l2_4k = array(12);
    config.tlb.l2_2m = Some(array(4));
    config.caches.l1.kib = 2;
    config.caches.l2.kib = 8;
    config.caches.llc.kib = 16;
    config
}
