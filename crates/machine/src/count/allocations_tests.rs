//! Memory by whom it was last given to, against a slow twin.

use super::allocations::{Allocations, Charged};
use pagelab_events::Control;
use proptest::prelude::*;

const CELL: u64 = 16;
const CELLS: usize = 64;

#[derive(Clone, Debug)]
enum Act {
    Give {
        site: u32,
        at: usize,
        cells: usize,
    },
    Unmap {
        at: usize,
        cells: usize,
    },
    Remap {
        from: usize,
        cells: usize,
        to: usize,
        grown: usize,
    },
    Free {
        at: usize,
    },
    Fork,
}

fn any_act() -> impl Strategy<Value = Act> {
    let range = || (0..CELLS, 1..12usize).prop_map(|(at, n)| (at, n.min(CELLS - at)));
    prop_oneof![
        4 => (0..5u32, range()).prop_map(|(site, (at, cells))| Act::Give { site, at, cells }),
        1 => range().prop_map(|(at, cells)| Act::Unmap { at, cells }),
        1 => (0..16usize, 1..8usize, 0..3usize)
            .prop_map(|(from, cells, grown)| Act::Remap { from, cells, to: 32 + from, grown }),
        1 => (0..CELLS).prop_map(|at| Act::Free { at }),
        1 => Just(Act::Fork),
    ]
}

/// Sixteen bytes each, by who was given them last, or 0.
type Cells = [Charged; CELLS];

/// Does the act to the cells.
fn slowly(cells: &mut Cells, act: &Act) {
    match *act {
        Act::Give { site, at, cells: n } => cells[at..at + n].fill(site + 1),
        Act::Unmap { at, cells: n } => cells[at..at + n].fill(0),
        Act::Remap {
            from,
            cells: n,
            to,
            grown,
        } => {
            let moved = cells[from..from + n].to_vec();
            cells[from..from + n].fill(0);
            let last = moved[n - 1];
            cells[to..to + n + grown].fill(0);
            for (index, charged) in moved.into_iter().enumerate() {
                if charged != 0 {
                    cells[to + index] = charged;
                }
            }
            if last != 0 {
                cells[to + n..to + n + grown].fill(last);
            }
        }
        Act::Free { .. } | Act::Fork => {}
    }
}

fn events(act: &Act) -> Vec<Control> {
    let addr = |at: usize| 4096 + at as u64 * CELL;
    let bytes = |cells: usize| cells as u64 * CELL;
    match *act {
        Act::Give { site, at, cells } => vec![
            Control::Allocating { site },
            Control::Allocated {
                addr: addr(at),
                len: bytes(cells),
            },
        ],
        Act::Unmap { at, cells } => vec![Control::Unmap {
            addr: addr(at),
            len: bytes(cells),
        }],
        Act::Remap {
            from,
            cells,
            to,
            grown,
        } => vec![Control::Remap {
            old_addr: addr(from),
            old_len: bytes(cells),
            new_addr: addr(to),
            new_len: bytes(cells + grown),
        }],
        Act::Free { at } => vec![Control::Freed { addr: addr(at) }],
        Act::Fork => vec![Control::Fork { child: 1 }],
    }
}

proptest! {
    #[test]
    fn each_byte_is_charged_to_whom_it_was_last_given(
        acts in proptest::collection::vec((any::<bool>(), any_act()), 0..40),
    ) {
        let mut allocations = Allocations::default();
        let mut sites = Vec::new();
        let mut twins = [[0; CELLS]; 2];
        for (of_child, act) in &acts {
            let process = usize::from(*of_child && !matches!(act, Act::Fork));
            allocations.switch(process as u32, 0);
            for event in events(act) {
                allocations.control(process as u32, &event, &mut sites);
            }
            if matches!(act, Act::Fork) {
                twins[1] = twins[0];
            }
            slowly(&mut twins[process], act);
            for (process, twin) in twins.iter().enumerate() {
                for at in 0..CELLS {
                    // The header of what comes behind it, if it is nobody's.
                    let behind = twin.get(at + 1).copied().unwrap_or_default();
                    let expected = if twin[at] == 0 { behind } else { twin[at] };
                    let address = 4096 + at as u64 * CELL;
                    let found = allocations.charged(process as u32, address);
                    prop_assert_eq!(found, expected, "{:?} {} {}", act, process, at);
                }
            }
        }
    }
}
