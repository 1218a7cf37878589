//! The core beside one that keeps the times of every single instruction.

use pagelab_cpu::{ArithmeticConfig, Core, CoreConfig, ExecutionConfig, Trapped, Waits};
use pagelab_execution::RegisterFile;
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
        let arithmetic = ArithmeticConfig { atomics, ..ArithmeticConfig::default() };
        let execution = ExecutionConfig { integer_registers, arithmetic: Some(arithmetic) };
        let config = CoreConfig {
            ghz: 1.0, width, reorder_buffer, store_buffer, store_ports, miss_buffers: 10, l2_miss_buffers: None, walkers: 1,
            misprediction: 0, execution: Some(execution),
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
