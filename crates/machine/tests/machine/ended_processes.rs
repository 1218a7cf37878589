//! More processes, one after the other, than address spaces can be told apart at a time.

use crate::common::{BASE, map, run, small_machine};
use pagelab_events::{Access, Batch, Control, Op, Source, SourceError};
use pagelab_machine::RunResult;

/// Addresses that a process stores to, of which no two share a GiB.
const PLACES: [u64; 3] = [0x5555_5555_4000, BASE, 0x7fff_ffff_d000];

/// A parent with a page at each place, and its children, of which each writes to all and ends.
struct Forks {
    children: u32,
    next: u32,
    /// It is the parent's turn.
    parent: bool,
}

impl Source for Forks {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.next > self.children {
            return Ok(false);
        }
        let touch = |batch: &mut Batch| {
            for addr in PLACES {
                batch.push(Access {
                    addr,
                    op: Op::store(8),
                    ..Access::default()
                });
            }
        };
        if self.parent {
            batch.process = 0;
            if self.next == 1 {
                for addr in PLACES {
                    let crate::common::Event::Control(event) = map(addr, 4096) else {
                        unreachable!();
                    };
                    batch.push_control(event);
                }
                touch(batch);
            }
            batch.push_control(Control::Fork { child: self.next });
        } else {
            batch.process = self.next;
            touch(batch);
            batch.push_control(Control::Exit { status: 0 });
            self.next += 1;
        }
        self.parent = !self.parent;
        Ok(true)
    }
}

fn forks(design: &str, children: u32) -> RunResult {
    let mut source = Forks {
        children,
        next: 1,
        parent: true,
    };
    let result = run(&small_machine(), design, &mut source);
    assert!(result.complete, "{design}: {:?}", result.stopped);
    result
}

/// 1,365 processes with three GiBs each can be told apart. Those after them take the same as those
/// before.
#[test]
fn numbers_of_processes_that_ended_are_others() {
    for design in [
        "radix",
        "flattened",
        "clustered",
        "ecpt",
        "me_hpt",
        "dpt",
        "nested-ecpt",
        "radix+range",
        "victima",
        "pom_tlb",
        "utopia",
    ] {
        let [first, second, third, fourth] =
            [1000, 1200, 1800, 2000].map(|children| forks(design, children));
        let more = |less: &RunResult, more: &RunResult| {
            let of = |result: &RunResult| {
                [
                    result.os.faults,
                    result.os.cow_copies,
                    result.tlb.l2_misses,
                    result.walks.count,
                ]
            };
            let (less, more) = (of(less), of(more));
            std::array::from_fn::<u64, 4, _>(|number| more[number] - less[number])
        };
        let early = more(&first, &second);
        assert_eq!(early[..2], [600, 600], "{design}");
        assert_eq!(more(&third, &fourth), early, "{design}");
        assert_eq!(fourth.os.peak_table_bytes, first.os.peak_table_bytes);
    }
}
