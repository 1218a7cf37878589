/// Place of a key among so many: multiplicative hashing (Knuth, TAOCP volume 3, section 6.4).
pub(super) fn hashed(key: u64, places: u32) -> u32 {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((hash * u64::from(places)) >> 32) as u32
}
