//! Names of what is looked at, as keys.

use std::hash::Hasher;

/// Keys of [`super::survey::Uses`] are hashed where they are made.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        // The highest bits, by which a sample is taken, are the same for all keys.
        self.0.rotate_right(32)
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// Odd, so that a product modulo 2^64 can be undone.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
const UNMIX: u64 = 0xf1de_83e1_9937_733d;
const _: () = assert!(MIX.wrapping_mul(UNMIX) == 1);

/// A unit's name, mixed so that any bits of it will do as a sample (Knuth, TAOCP volume 3,
/// section 6.4).
#[inline(always)]
pub(super) fn name(unit: u64) -> u64 {
    unit.wrapping_mul(MIX)
}

/// The unit that has a name.
pub(super) fn unit(name: u64) -> u64 {
    name.wrapping_mul(UNMIX)
}
