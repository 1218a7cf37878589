//! CityHash64 with a seed, for a key of eight bytes.
//!
//! Version 1.1 of the function, G. Pike and J. Alakuijala, Google, 2012
//! (<https://github.com/google/cityhash>), of which only the case of 8 to 16 bytes is needed.

const K2: u64 = 0x9ae1_6a3b_2f90_404f;
/// The multiplier where no length enters.
const K_MUL: u64 = 0x9ddf_ea08_eb38_2d69;

/// `CityHash64WithSeed` of the little-endian bytes of `key`.
#[inline]
pub(crate) fn city_hash64(key: u64, seed: u64) -> u64 {
    Unseeded::new(key).with_seed(seed)
}

/// The part of the function that comes before the seed: what several hashes of one key share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unseeded(u64);

impl Unseeded {
    #[inline]
    pub(crate) fn new(key: u64) -> Unseeded {
        let mul = K2.wrapping_add(16);
        let a = key.wrapping_add(K2);
        let c = key.rotate_right(37).wrapping_mul(mul).wrapping_add(a);
        let d = a.rotate_right(25).wrapping_add(key).wrapping_mul(mul);
        Unseeded(hash_len_16(c, d, mul))
    }

    #[inline]
    pub(crate) fn with_seed(self, seed: u64) -> u64 {
        hash_len_16(self.0.wrapping_sub(K2), seed, K_MUL)
    }
}

#[inline]
fn hash_len_16(u: u64, v: u64, mul: u64) -> u64 {
    let mut a = (u ^ v).wrapping_mul(mul);
    a ^= a >> 47;
    let mut b = (v ^ a).wrapping_mul(mul);
    b ^= b >> 47;
    b.wrapping_mul(mul)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector for length 8 of the authors' own test (src/city-test.cc): bytes 64 to 71 of
    /// their generated data, and seed 1234567.
    #[test]
    fn equals_the_published_vector() {
        const K0: u64 = 0xc3a5_c85c_97cb_3127;
        let (mut a, mut b) = (9u64, 777u64);
        let mut data = [0u8; 72];
        for (i, byte) in data.iter_mut().enumerate() {
            a = a.wrapping_add(b);
            b = b.wrapping_add(a);
            a = (a ^ (a >> 41)).wrapping_mul(K0);
            b = (b ^ (b >> 41)).wrapping_mul(K0).wrapping_add(i as u64);
            *byte = (b >> 37) as u8;
        }
        let key = u64::from_le_bytes(data[64..].try_into().unwrap());
        assert_eq!(city_hash64(key, 1_234_567), 0x69d0_08c2_0f87_419f);
    }
}
