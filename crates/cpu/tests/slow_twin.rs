//! The core beside one that keeps the times of every single instruction.

use pagelab_cpu::{Core, CoreConfig, Idle, RegisterFile, Trapped, Waits};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Access {
    gap: u32,
    /// Registers that the gap's instructions and it take, evenly.
    registers: u32,
    waits: Waits,
    store: bool,
    /// The store is a locked instruction's.
    locked: bool,
    translation: u64,
    data: u64,
    fault: u64,
}

/// Every instruction's dispatch and retirement, from the definitions: in-order dispatch, one a
/// slot, into a buffer of `rob`; in-order retirement, one a slot. What is dispatched and has not retired has
/// at most `registers`.
struct Twin {
    rob: usize,
    registers: Option<u32>,
    /// Registers that each instruction takes.
    taken: Vec<u32>,
    /// Slots that the store buffer takes to write a store, or one of a locked instruction.
    writes: [u64; 2],
    store_buffer: usize,
    dispatch: Vec<u64>,
    retire: Vec<u64>,
    completed: Vec<u64>,
    commits: Vec<u64>,
    /// When the next store can be written.
    next_write: u64,
}

impl Twin {
    fn instruction(&mut self, registers: u32) -> u64 {
        let n = self.dispatch.len();
        let mut time = self.dispatch.last().map_or(1, |&t| t + 1);
        if n >= self.rob {
            time = time.max(self.retire[n - self.rob]);
        }
        self.taken.push(registers);
        // From the youngest on: the first that finds no room any more has to have retired.
        let mut held = 0;
        for older in (0..=n).rev() {
            held += self.taken[older];
            if self.registers.is_some_and(|registers| held > registers) {
                time = time.max(self.retire[older]);
                break;
            }
        }
        time
    }

    fn plain(&mut self, registers: u32) {
        let time = self.instruction(registers);
        self.dispatch.push(time);
        let retired = self.retire.last().map_or(1, |&t| t + 1).max(time);
        self.retire.push(retired);
    }

    fn access(&mut self, access: &Access) {
        // Evenly: after k of them, so many of all.
        let of_first = |k: u32| access.registers * k / (access.gap + 1);
        let of = |k: u32| of_first(k + 1) - of_first(k);
        for number in 0..access.gap {
            self.plain(of(number));
        }
        let mut dispatched = self.instruction(of(access.gap));
        if access.store && self.commits.len() >= self.store_buffer {
            dispatched = dispatched.max(self.commits[self.commits.len() - self.store_buffer]);
        }
        let mut start = dispatched;
        for (load, arithmetic) in access.waits.loads.into_iter().zip(access.waits.arithmetic) {
            let load = load as usize;
            if load > 0 && load <= self.completed.len() {
                let loaded = self.completed[self.completed.len() - load];
                start = start.max(loaded + u64::from(arithmetic));
            }
        }
        let mut translated = start + access.translation;
        let after_older = self.retire.last().map_or(1, |&t| t + 1);
        if access.fault > 0 {
            translated = translated.max(after_older) + access.fault;
            dispatched = dispatched.max(translated);
        }
        let done = translated + access.data;
        let ready = if access.store { translated } else { done };
        self.dispatch.push(dispatched);
        self.retire.push(after_older.max(ready));
        self.completed.push(done);
        if access.store {
            let begins = self.next_write.max(after_older.max(ready)).max(done);
            let [other, locked] = self.writes;
            let takes = if access.locked { locked } else { other };
            self.next_write = begins + takes;
            self.commits.push(self.next_write - other);
        }
    }
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let access = (
        (0u32..30, 0u32..=100),
        (0u32..12, prop_oneof![Just(0), 1u32..9], any::<[u8; 2]>()),
        (
            any::<bool>(),
            prop_oneof![9 => Just(false), 1 => Just(true)],
        ),
        prop_oneof![3 => Just(0u64), 1 => 0u64..400],
        prop_oneof![3 => 1u64..20, 1 => 0u64..900],
        prop_oneof![30 => Just(0u64), 1 => 1u64..5000],
    )
        .prop_map(
            |(
                (gap, percent),
                (near, apart, arithmetic),
                (store, locks),
                translation,
                data,
                fault,
            )| Access {
                gap,
                registers: (gap + 1) * percent / 100,
                waits: Waits {
                    loads: match near {
                        0 => [0, 0],
                        near => [near, near + apart],
                    },
                    arithmetic: arithmetic.map(|slots| u16::from(slots) / 4),
                    ..Waits::default()
                },
                store,
                locked: store && locks,
                translation,
                data,
                fault,
            },
        );
    proptest::collection::vec(access, 1..400)
}

proptest! {
    #[test]
    fn equals_a_core_that_keeps_every_instruction(
        accesses in accesses(),
        (width, store_ports, atomics) in (1u32..7, 1u32..4, prop_oneof![Just(0u32), 1u32..40]),
        reorder_buffer in 1u32..300,
        store_buffer in 1u32..20,
        integer_registers in proptest::option::of(1u32..200),
    ) {
        let config = CoreConfig {
            ghz: 1.0, width, reorder_buffer, store_buffer, miss_buffers: 10, l2_miss_buffers: None, walkers: 1, misprediction: 0,
            integer_registers, arithmetic: true, scaled_index: 0, atomics, store_ports, forwarding: None, vector_forwarding: None,
        };
        let mut core = Core::new(&config, 0).unwrap();
        let mut registers = RegisterFile::new(&config);
        let mut twin = Twin {
            rob: reorder_buffer as usize,
            registers: integer_registers,
            taken: Vec::new(),
            writes: [0, atomics * width].map(|slots| slots.max(width.div_ceil(store_ports)).into()),
            store_buffer: store_buffer as usize,
            dispatch: Vec::new(),
            retire: Vec::new(),
            completed: Vec::new(),
            commits: Vec::new(),
            next_write: u64::from(width.div_ceil(store_ports)),
        };
        for access in &accesses {
            if let Some(registers) = &mut registers {
                core.look_ahead(registers.look_ahead(access.gap, access.registers));
            }
            if access.locked {
                core.locked();
            }
            let mut part = core.dispatch(access.gap, access.waits, access.store);
            let mut translated = part.start + access.translation;
            let mut trapped = Trapped::default();
            if access.fault > 0 {
                trapped.fault = access.fault;
                translated = core.trap(&mut part, translated, trapped);
            }
            core.complete(part, trapped, access.store, translated, translated + access.data);
            twin.access(access);
            let exact = *twin.retire.last().unwrap();
            if integer_registers.is_none() {
                prop_assert_eq!(core.now(), exact);
            }
        }
        // Registers may run out for a moment between two accesses; the core looks at the accesses only. In a short
        // stream that is a few slots.
        let exact = *twin.retire.last().unwrap();
let at_least = 0.995 * exact as f64 - 8.0;
        prop_assert!(core.now() <= exact && core.now() as f64 >= at_least);
        prop_assert_eq!(core.instructions(), twin.retire.len() as u64);
        // Whatever is not a stall is an instruction's own slot.
        prop_assert_eq!(core.now() - core.stalls().total(), core.instructions());
    }
}

fn core(reorder_buffer: u32, walkers: u32) -> Core {
    let config = CoreConfig {
        ghz: 1.0,
        width: 4,
        reorder_buffer,
        store_buffer: 56,
        miss_buffers: 10,
        l2_miss_buffers: None,
        integer_registers: None,
        arithmetic: true,
        scaled_index: 0,
        atomics: 0,
        forwarding: None,
        vector_forwarding: None,
        store_ports: 1,
        walkers,
        misprediction: 0,
    };
    Core::new(&config, 0).unwrap()
}

#[test]
fn independent_misses_overlap_and_dependent_ones_do_not() {
    let run = |dep| {
        let mut core = core(224, 1);
        for _ in 0..100 {
            let part = core.dispatch(0, [dep, 0].into(), false);
            core.complete(
                part,
                Trapped::default(),
                false,
                part.start,
                part.start + 800,
            );
        }
        core.now()
    };
    assert_eq!(run(1), 1 + 100 * 800);
    assert!(run(0) < 1100);
}

/// Anybody may ask for any time.
const ANY: Idle = Idle { from: 0, least: 1 };

#[test]
fn a_second_walk_waits_for_the_only_walker() {
    let mut one = core(224, 1);
    let walker = one.walker(10, || 290);
    assert_eq!(walker.begins, 10);
    one.walked(walker, 300, ANY);
    assert_eq!(one.walker(20, || 290).begins, 300);
    let mut two = core(224, 2);
    let walker = two.walker(10, || 290);
    two.walked(walker, 300, ANY);
    assert_eq!(two.walker(20, || 290).begins, 20);
}

#[test]
fn a_walk_that_is_ready_earlier_does_not_wait_for_one_that_comes_before_it_in_the_program() {
    let mut core = core(224, 1);
    let later = core.walker(1000, || 200);
    core.walked(later, 1200, ANY);
    // The walker is idle until 1000, which is time for one walk of 300 and two of 350.
    for (asked, length, begins) in [
        (20, 300, 20),
        (30, 350, 320),
        (40, 350, 1200),
        (50, 330, 670),
    ] {
        let walker = core.walker(asked, || length);
        assert_eq!(walker.begins, begins);
        core.walked(walker, begins + length, ANY);
    }
}

#[test]
fn idle_time_that_nobody_can_use_is_not_kept() {
    let mut core = core(224, 1);
    let later = core.walker(1000, || 200);
    // From 900 on, a walk of at least 60 fits, but not before a walk of at least 150.
    let mut other = core.clone();
    core.walked(
        later,
        1200,
        Idle {
            from: 900,
            least: 60,
        },
    );
    assert_eq!(core.walker(910, || 60).begins, 910);
    other.walked(
        later,
        1200,
        Idle {
            from: 900,
            least: 150,
        },
    );
    assert_eq!(other.walker(910, || 60).begins, 1200);
}

#[test]
fn a_value_out_of_range_is_named() {
    let good = CoreConfig {
        ghz: 2.66,
        width: 4,
        reorder_buffer: 224,
        store_buffer: 56,
        miss_buffers: 10,
        l2_miss_buffers: None,
        integer_registers: None,
        arithmetic: true,
        scaled_index: 0,
        atomics: 0,
        forwarding: None,
        vector_forwarding: None,
        store_ports: 1,
        walkers: 1,
        misprediction: 0,
    };
    let refused = |config: CoreConfig| Core::new(&config, 0).unwrap_err().to_string();
    let error = refused(CoreConfig { walkers: 0, ..good });
    assert!(error.contains("walkers"), "{error}");
    let error = refused(CoreConfig {
        l2_miss_buffers: Some(0),
        ..good
    });
    assert!(error.contains("l2_miss_buffers"), "{error}");
    let error = refused(CoreConfig {
        ghz: f64::NAN,
        ..good
    });
    assert!(error.contains("ghz"), "{error}");
}
