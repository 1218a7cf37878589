//! Collisions of keys in one hashed table, by the table's size (DPT paper, Figure 4).

use crate::city::city_hash64;

/// Bits of a virtual page number with five levels of page table.
const VPN_BITS: u32 = 45;

/// Enters random pages in a hashed table of `entries` entries, and counts those whose entry is
/// taken. The same seed gives the same pages, whatever the size.
///
/// Pages that are drawn twice count as collisions: of 100 million one in 700,000.
pub fn hash_collisions(entries: u64, pages: u64, seed: u64) -> u64 {
    let entries = entries.max(1);
    let mut taken = vec![0u64; entries.div_ceil(64) as usize];
    let mut collisions = 0;
    for number in 0..pages {
        let vpn = city_hash64(number, seed) >> (64 - VPN_BITS);
        let entry = city_hash64(vpn, 0) % entries;
        let (word, bit) = ((entry / 64) as usize, 1 << (entry % 64));
        collisions += u64::from(taken[word] & bit != 0);
        taken[word] |= bit;
    }
    collisions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `pages` entered at random in `entries`, entries (1 - (1 - 1/entries)^pages) are
    /// expected to be taken; every other page has collided.
    #[test]
    fn as_many_as_balls_in_bins() {
        for (entries, pages) in [(4096, 100_000), (1 << 20, 500_000), (1 << 24, 1_000_000)] {
            let (bins, balls) = (entries as f64, pages as f64);
            let expected = balls - bins * (1.0 - (balls * (-1.0 / bins).ln_1p()).exp());
            let counted = hash_collisions(entries, pages, 1) as f64;
            // Four standard deviations; the variance of empty bins is below their number.
            let error = 4.0 * expected.min(bins).sqrt();
            assert!((counted - expected).abs() < error, "{counted} {expected}");
        }
    }
}
