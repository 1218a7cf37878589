//! TLBs whose entries do not say of which address space they are.

use crate::common::{BASE, Event, map, run};
use pagelab_events::{Access, Batch, Op, Source, SourceError};
use pagelab_machine::MachineConfig;

const PAGES: u64 = 3;
const TURNS: u64 = 20;

/// Two processes that touch the same pages, of their own, by turns.
struct ByTurns {
    turn: u64,
}

impl Source for ByTurns {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        batch.process = (self.turn % 2) as u32;
        if self.turn < 2 {
            let Event::Control(map) = map(BASE, PAGES * 4096) else {
                unreachable!();
            };
            batch.push_control(map);
        }
        for page in 0..PAGES {
            batch.push(Access {
                addr: BASE + page * 4096,
                op: Op::store(8),
                ..Access::default()
            });
        }
        self.turn += 1;
        Ok(self.turn <= TURNS)
    }
}

fn misses(asids: bool, cores: u32) -> u64 {
    let keys = [format!("tlb.asids={asids}"), format!("cores={cores}")];
    let config = MachineConfig::load("dpt-paper", &keys).unwrap();
    run(&config, "radix", &mut ByTurns { turn: 0 })
        .tlb
        .l2_misses
}

#[test]
fn a_core_that_changes_its_address_space_forgets() {
    assert_eq!(misses(true, 1), 2 * PAGES);
    assert_eq!(misses(false, 1), TURNS * PAGES);
}

#[test]
fn cores_with_a_process_each_forget_nothing() {
    assert_eq!(misses(false, 2), misses(true, 2));
}
