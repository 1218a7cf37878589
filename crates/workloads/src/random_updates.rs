use crate::emitter::{Emitter, Loaded};
use crate::hash::below;
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameter, Parameters, Workload, footprint};
use pagelab_addr::PAGE_BYTES;

/// HPC Challenge RandomAccess ("giga updates per second"), the single-process kernel
/// `RandomAccessUpdate` of `core_single_cpu.c`: `table[r] ^= r` at random places of a table.
///
/// As there, 128 streams of one shift-register sequence, started an equal part of the updates
/// apart, take turns. An element is chosen by the low bits of a number when the table has a power
/// of two elements, which is what HPC Challenge allows; for other sizes by its high bits. The state
/// of the streams, 1 KiB that never leaves the first-level cache, is counted as instructions.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "random-updates",
    description: "read-modify-write of random 8-byte elements of a table (HPCC RandomAccess)",
    parameters: &[
        footprint(10 << 30, PAGE_BYTES),
        Parameter {
            name: "updates",
            description: "updates; HPC Challenge makes 4 for each element",
            default: 1_000_000_000,
            min: 0,
            max: 1 << 58,
        },
    ],
    build,
};

/// Streams that take turns.
const STREAMS: u64 = 128;

/// Instructions of the loop besides the update: loading, shifting, testing and storing the
/// stream's number, forming the address, and the loop itself.
const GAP: u32 = 8;

fn build(parameters: &Parameters) -> Program {
    let elements = parameters.get("footprint") / 8;
    let updates = parameters.get("updates");
    // Start of process number `seed`, as in the parallel version.
    let first = u128::from(updates) * u128::from(parameters.get("seed").wrapping_sub(1));
    let mut memory = Memory::default();
    let table = memory.allocate(8 * elements);
    let kernel = move |out: &mut Emitter| {
        let part = updates / STREAMS;
        let begin = |stream| nth(first + u128::from(part * stream));
        let mut streams: Vec<u64> = (0..STREAMS).map(begin).collect();
        for update in 0..updates {
            let number = &mut streams[(update % STREAMS) as usize];
            *number = next(*number);
            let addr = table + 8 * element(*number, elements);
            out.load(addr, 8, GAP, Loaded::NONE);
            out.store(addr, 8, 0, Loaded::NONE);
        }
    };
    Program::new(memory, Some(2 * updates), kernel)
}

fn element(number: u64, elements: u64) -> u64 {
    if elements.is_power_of_two() {
        number & (elements - 1)
    } else {
        below(number, elements)
    }
}

/// x^63 + x^2 + x + 1 over GF(2): what is shifted out comes back as these bits.
const POLYNOMIAL: u64 = 7;

/// After so many numbers the sequence begins again.
const PERIOD: u64 = 1_317_624_576_693_539_401;

/// The number that follows in the sequence.
#[inline(always)]
fn next(number: u64) -> u64 {
    let carry = if number >> 63 != 0 { POLYNOMIAL } else { 0 };
    (number << 1) ^ carry
}

/// Number `n` of the sequence, which begins with 1 (`HPCC_starts`): the step is linear over GF(2),
/// so that its 2^i-th power is the square of its 2^(i-1)-th.
fn nth(n: u128) -> u64 {
    // Column `bit` is what the power of the step makes of that bit alone.
    let mut power: [u64; 64] = std::array::from_fn(|bit| next(1 << bit));
    let apply = |matrix: &[u64; 64], number: u64| {
        let columns = matrix.iter().enumerate();
        let set = columns.filter(|(bit, _)| number >> bit & 1 != 0);
        set.fold(0, |sum, (_, column)| sum ^ column)
    };
    let mut number = 1;
    let mut left = (n % u128::from(PERIOD)) as u64;
    while left > 0 {
        if left & 1 != 0 {
            number = apply(&power, number);
        }
        power = power.map(|column| apply(&power, column));
        left >>= 1;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_places, run};

    #[test]
    fn a_number_far_on_is_reached_by_single_steps_too() {
        let mut number = 1;
        for n in 0..5000 {
            assert_eq!(nth(n), number, "{n}");
            number = next(number);
        }
    }

    /// The period that HPC Challenge states for this polynomial: 7 * 73 * 127 * 337 * 92737 *
    /// 649657, none of which may be left out.
    #[test]
    fn the_sequence_has_the_published_period() {
        assert_eq!(next(nth(u128::from(PERIOD) - 1)), 1);
        for prime in [7, 73, 127, 337, 92_737, 649_657] {
            assert_eq!(PERIOD % prime, 0);
            assert_ne!(nth(u128::from(PERIOD / prime)), 1, "{prime}");
        }
    }

    /// The base of HPC Challenge's own verification: the same updates once more restore the table.
    /// The numbers are made one after the other here.
    #[test]
    fn a_second_pass_of_single_steps_restores_the_table() {
        let (elements, updates) = (1 << 10, 1 << 14);
        let given = [
            ("footprint".to_owned(), (8 * elements).to_string()),
            ("updates".to_owned(), updates.to_string()),
        ];
        let parameters = Parameters::new(WORKLOAD.parameters, &given).expect("valid parameters");
        let program = build(&parameters);
        let ((), accesses) = run(|out| (program.kernel)(out));
        check_places(&program.memory, &accesses);
        let base = program.memory.mappings()[0].addr;
        let mut numbers = vec![1];
        for _ in 0..updates {
            numbers.push(next(numbers[numbers.len() - 1]));
        }
        let part = (updates / STREAMS) as usize;
        let mut table: Vec<u64> = (0..elements).collect();
        for number in &numbers[1..] {
            table[(number % elements) as usize] ^= number;
        }
        for (update, pair) in accesses.chunks(2).enumerate() {
            assert!(!pair[0].op.is_store() && pair[1].op.is_store());
            assert_eq!(pair[0].addr, pair[1].addr);
            let (turn, stream) = (update / STREAMS as usize, update % STREAMS as usize);
            table[((pair[1].addr - base) / 8) as usize] ^= numbers[part * stream + turn + 1];
        }
        assert!(table.iter().copied().eq(0..elements));
    }
}
