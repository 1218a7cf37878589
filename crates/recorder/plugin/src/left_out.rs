//! Instructions and accesses that threads leave out, and how many they still may.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicU64, Ordering};

/// Linux has at most so many threads (PID_MAX_LIMIT), and QEMU numbers them from 0.
pub const THREADS: usize = 1 << 22;

/// Bits of each of the two counts, in a counter's lower bits: instructions, then accesses.
const COUNT: u32 = 21;
const MASK: u64 = (1 << COUNT) - 1;

/// Place of the third number: what the thread may still leave out, which has a sign.
const ALLOWED_AT: u32 = 2 * COUNT;

/// The most a thread may be allowed: with a block more it fits in either count.
pub const MOST: u64 = 1 << 20;

/// All three in one word, in a cache line of its own: blocks outside windows add a constant to it and look at its
/// sign, and nothing else. Only its thread writes it.
#[repr(align(64))]
struct Counter(AtomicU64);

/// The counter of each thread, by QEMU's number. Untouched pages of this table cost nothing.
static COUNTERS: [Counter; THREADS] = [const { Counter(AtomicU64::new(0)) }; THREADS];

fn counter(vcpu: c_uint) -> &'static AtomicU64 {
    &COUNTERS[vcpu as usize % THREADS].0
}

/// Addition of one block to a counter. The allowance shrinks by the larger of its counts, so that no count outgrows
/// it.
pub fn step(instructions: u64, accesses: u64) -> u64 {
    let larger = instructions.max(accesses);
    debug_assert!(larger < MOST);
    (accesses << COUNT | instructions).wrapping_sub(larger << ALLOWED_AT)
}

/// Leaves out a block; true if the thread is now beyond its allowance, as one is that was never given any.
#[inline(always)]
pub fn pass(vcpu: c_uint, step: u64) -> bool {
    let counter = counter(vcpu);
    let now = counter.load(Ordering::Relaxed).wrapping_add(step);
    counter.store(now, Ordering::Relaxed);
    (now as i64) < 0
}

/// Instructions and accesses since this was last asked.
pub fn take(vcpu: c_uint) -> [u64; 2] {
    let counter = counter(vcpu);
    let now = counter.load(Ordering::Relaxed);
    counter.store(now >> ALLOWED_AT << ALLOWED_AT, Ordering::Relaxed);
    [now & MASK, now >> COUNT & MASK]
}

/// Lets a thread leave out so much, of which it has left out nothing yet.
pub fn allow(vcpu: c_uint, allowance: u64) {
    counter(vcpu).store(allowance.min(MOST) << ALLOWED_AT, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of blocks of all sizes are those of plain sums, and the sign turns with the allowance.
    #[test]
    fn a_counter_holds_both_counts_until_its_allowance_is_spent() {
        let vcpu = 3;
        assert!(pass(vcpu, step(1, 0)), "a thread without an allowance");
        take(vcpu);
        for (allowance, sizes) in [
            (0, [1u64, 0]),
            (1, [1, 3]),
            (1000, [512, 90]),
            (MOST, [7, 2]),
            (MOST, [1, 65_535]),
            (2 * MOST, [512, 65_535]),
        ] {
            allow(vcpu, allowance);
            let (mut sums, mut left) = ([0; 2], allowance.min(MOST) as i64);
            loop {
                let beyond = pass(vcpu, step(sizes[0], sizes[1]));
                sums = [sums[0] + sizes[0], sums[1] + sizes[1]];
                left -= sizes[0].max(sizes[1]) as i64;
                assert_eq!(beyond, left < 0);
                if sums[0] % 5 == 0 {
                    assert_eq!(take(vcpu), sums);
                    sums = [0; 2];
                }
                if beyond {
                    break;
                }
            }
            assert_eq!(take(vcpu), sums);
            assert_eq!(take(vcpu), [0; 2]);
        }
    }
}
