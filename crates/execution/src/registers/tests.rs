use super::*;
use crate::pieces::Times;
use crate::step::{Step, UNITS, Unit};
use proptest::prelude::*;
use std::collections::HashMap;

const TIMES: Times = Times {
    width: 4,
    scaled_index: 2,
    hit: 20,
    forwarded: [8, 44],
};

/// Executes instruction by instruction.
#[derive(Default)]
struct OneByOne {
    ready: [u64; REGISTERS],
    stored: HashMap<u64, u64>,
    /// When the next instruction can have each unit.
    units: [u64; UNITS],
}

impl OneByOne {
    fn latest(&self, set: u32) -> u64 {
        let members = (0..REGISTERS).filter(|register| set & 1 << register != 0);
        members
            .map(|register| self.ready[register])
            .max()
            .unwrap_or(0)
    }

    /// When it has its address and what it computes.
    fn execute(&mut self, of: &Step, time: u64, addr: u64) -> Computed {
        let scaled = match self.latest(of.scaled) {
            0 => 0,
            ready => ready + u64::from(TIMES.scaled_index * TIMES.width),
        };
        let address = self.latest(of.addresses).max(scaled);
        let takes = u64::from(TIMES.width) * u64::from(of.cycles);
        let mut begins = self.latest(of.data).max(time);
        if of.loads {
            let found = self.stored.get(&addr).copied().unwrap_or(0);
            let vector = (16..31).any(|register| (of.writes | of.merges) >> register & 1 == 1);
            let forwarded = if vector { 44 } else { 8 };
            begins = begins.max(address.max(time) + TIMES.hit);
            begins = begins.max(found + forwarded);
        }
        let made = begins + takes;
        if of.stores {
            self.stored.insert(addr, made);
        }
        let brings = of.loads && !of.stores && of.data == 0 && takes == 0 && of.merges == 0;
        let mut done = if brings { 0 } else { made };
        if let Some((unit, halves)) = of.unit {
            let free = &mut self.units[unit as usize];
            *free = (*free).max(time) + u64::from(TIMES.width) * u64::from(halves) / 2;
            done = done.max(*free);
        }
        for register in 0..REGISTERS {
            if of.writes >> register & 1 == 1 {
                self.ready[register] = made;
            } else if of.merges >> register & 1 == 1 {
                let kept = self.ready[register] + takes;
                self.ready[register] = kept.max(made);
                done = done.max(kept);
            }
        }
        Computed { address, done }
    }
}

/// Some of the first eight registers, a vector's, and the last one.
fn registers() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0u32),
        (0u32..8).prop_map(|register| 1 << register),
        any::<u8>().prop_map(u32::from),
        Just(1 << 20),
        Just(1 << 31)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let sets = proptest::array::uniform5(registers());
    let unit = prop_oneof![
        Just(Unit::Divider),
        Just(Unit::VectorDivider),
        Just(Unit::VectorAdder),
        Just(Unit::VectorMultiplier)
    ];
    let unit = proptest::option::weighted(0.3, (unit, 1u8..20));
    (sets, 0u8..10, unit).prop_map(
        |([addresses, data, writes, merges, scaled], cycles, unit)| Step {
            addresses: addresses | scaled,
            scaled,
            data,
            writes,
            merges: merges & !writes,
            cycles,
            unit,
            ..Step::default()
        },
    )
}

/// Pieces, each with the address of its access and whether it loads and stores, if it ends with one.
fn pieces() -> impl Strategy<Value = Vec<(Vec<Step>, u64, bool, bool)>> {
    let piece = (
        proptest::collection::vec(step(), 1..7),
        0u64..4,
        any::<bool>(),
        any::<bool>(),
    );
    proptest::collection::vec(piece, 1..60)
}

proptest! {
    #[test]
    fn equals_instructions_that_are_executed_one_by_one(
        pieces in pieces(),
        order in proptest::collection::vec(any::<(proptest::sample::Index, u8)>(), 1..100),
    ) {
        let mut all = Pieces::default();
        let pieces: Vec<_> = pieces
            .into_iter()
            .map(|(mut steps, word, loads, stores)| {
                let last = steps.last_mut().expect("no piece is empty");
                (last.loads, last.stores) = (loads, stores);
                all.add(&steps, u32::MAX, &TIMES);
                (steps, 0x1000 + word * 8, loads, stores)
            })
            .collect();
        let mut registers = Registers::new(1 << 20);
        let mut twin = OneByOne::default();
        // Nothing is dispatched at 0, which stands for registers that were always there.
        let mut time = 1000;
        for (which, pause) in order {
            let number = which.index(pieces.len());
            let (steps, addr, loads, stores) = &pieces[number];
            let store = *stores && !loads;
            let got = registers.execute(&all, &[number as u32], time, *addr, store);
            if *loads && *stores {
                // Another access of the same instruction.
                let again = registers.execute(&all, &[], time, *addr, true);
                prop_assert_eq!(again, Computed::default());
            }
            let mut expected = Computed::default();
            let mut done = 0;
            for step in steps {
                time += 1;
                expected = twin.execute(step, time, *addr);
                done = done.max(expected.done);
            }
            // A result that is overwritten, or goes nowhere, does not count.
            prop_assert!(got.done <= done);
            let all_kept = steps.iter().rev().try_fold(0, |later, of| {
                let made = of.writes | of.merges;
                (made & later == 0 && (of.stores || made != 0)).then_some(later | of.writes)
            });
            if all_kept.is_some() {
                prop_assert!(got.done >= done);
            }
            if *loads || *stores {
                prop_assert_eq!(got.address.max(time), expected.address.max(time));
            }
            prop_assert_eq!(&registers.ready[..8], &twin.ready[..8]);
            prop_assert_eq!(registers.ready[20], twin.ready[20]);
            prop_assert_eq!(registers.ready[31], twin.ready[31]);
            time += u64::from(pause % 64);
        }
    }
}

#[test]
fn pieces_in_a_row_are_one() {
    let step = |data, writes| Step {
        data,
        writes,
        cycles: 3,
        ..Step::default()
    };
    let load = Step {
        addresses: 2,
        writes: 1,
        loads: true,
        ..Step::default()
    };
    let chain = [step(1, 2), step(2, 2), load];
    let mut all = Pieces::default();
    let whole = all.add(&chain, u32::MAX, &TIMES);
    let parts = [&chain[..1], &chain[1..]].map(|part| all.add(part, u32::MAX, &TIMES));
    let [mut one, mut two, mut three] = [1, 2, 3].map(|_| Registers::new(1 << 20));
    let computed = one.execute(&all, &[whole], 100, 8, false);
    assert_eq!(computed, two.execute(&all, &parts, 100, 8, false));
    three.run(&all, &parts[..1], 100);
    assert_eq!(computed, three.execute(&all, &parts[1..], 100, 8, false));
    assert_eq!(computed.address, 101 + 24);
    assert_eq!(one.ready[0], 101 + 24 + TIMES.hit);
}

/// Chains that are begun anew, of instructions that take ten cycles each, against each instruction's
/// dispatch and retirement by themselves.
#[test]
fn a_reorder_buffer_bounds_how_many_chains_overlap() {
    let begin = Step {
        writes: 1,
        ..Step::default()
    };
    let link = Step {
        data: 1,
        writes: 1,
        cycles: 10,
        ..Step::default()
    };
    for (buffer, links) in [(32, 5), (100, 11), (448, 24), (448, 3), (64, 100)] {
        let mut all = Pieces::default();
        let mut steps = vec![link; links + 1];
        steps[0] = begin;
        all.add(&steps, u32::MAX, &TIMES);
        let mut registers = Registers::new(buffer as u32);
        let (mut retired, mut dispatched, mut ready) = (vec![0], 0, 0);
        for _ in 0..2000 {
            registers.run(&all, &[0], 0);
            for step in &steps {
                let leaving = retired.len().saturating_sub(buffer);
                dispatched = (dispatched + 1).max(retired[leaving]);
                let takes = u64::from(u32::from(step.cycles) * TIMES.width);
                ready = dispatched.max(if step.data == 0 { 0 } else { ready }) + takes;
                retired.push(ready.max(retired[retired.len() - 1] + 1));
            }
        }
        let load = Step {
            loads: true,
            ..Step::default()
        };
        let access = all.add(&[load], u32::MAX, &TIMES);
        let computed = registers.execute(&all, &[access], 0, 8, false);
        for (got, expected) in [
            (computed.done, *retired.last().unwrap()),
            (computed.address, dispatched),
        ] {
            let off = got as f64 / expected as f64 - 1.0;
            assert!(off.abs() < 0.15, "{buffer} {links}: {got} {expected}");
        }
    }
}

#[test]
fn what_a_block_says_that_is_very_long_is_capped() {
    let mut all = Pieces::default();
    let divide = Step {
        data: 1,
        writes: 1,
        cycles: 17,
        ..Step::default()
    };
    all.add(&[divide; 1000], u32::MAX, &TIMES);
    let mut registers = Registers::new(1 << 20);
    let computed = registers.execute(&all, &[0], 0, 0, false);
    assert_eq!(computed.done, u64::from(u16::MAX));
}
