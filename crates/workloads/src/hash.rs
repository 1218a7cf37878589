//! Numbers that look random and can be had in any order: what generated data are made of.

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection whose output
/// bits each depend on all input bits.
#[inline(always)]
pub(crate) fn mix(value: u64) -> u64 {
    let mut bits = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Number `index` of the random stream of a seed.
#[inline(always)]
pub(crate) fn random(seed: u64, index: u64) -> u64 {
    mix(mix(seed) ^ index)
}

/// A random number scaled to below `bound`.
#[inline(always)]
pub(crate) fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// A random number scaled to [0, 1), all its 53 bits used.
#[inline(always)]
pub(crate) fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}
