/// Remainders by a divisor fixed at construction, without a division.
///
/// Powers of two take a mask. Others take two multiplications: Lemire, Kaser, Kurz, "Faster
/// remainder by direct computation" (2019), exact for 32-bit operands.
#[derive(Clone, Copy, Debug)]
pub struct Modulo {
    divisor: u32,
    mask: u32,
    inverse: u64,
}

impl Modulo {
    /// # Panics
    /// When `divisor` is 0.
    pub fn new(divisor: u32) -> Self {
        assert!(divisor > 0, "a remainder needs a divisor");
        Modulo {
            divisor,
            mask: divisor - 1,
            inverse: if divisor.is_power_of_two() {
                0
            } else {
                u64::MAX / u64::from(divisor) + 1
            },
        }
    }

    /// `number % divisor`.
    #[inline(always)]
    pub fn of(self, number: u32) -> usize {
        if self.inverse == 0 {
            return (number & self.mask) as usize;
        }
        let fraction = self.inverse.wrapping_mul(u64::from(number));
        ((u128::from(fraction) * u128::from(self.divisor)) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_remainder(number: u32, divisor in 1u32..) {
            prop_assert_eq!(Modulo::new(divisor).of(number), (number % divisor) as usize);
        }

        #[test]
        fn equals_the_remainder_for_set_counts(number: u32, divisor in 1u32..100_000) {
            prop_assert_eq!(Modulo::new(divisor).of(number), (number % divisor) as usize);
        }
    }
}
