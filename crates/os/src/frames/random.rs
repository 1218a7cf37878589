//! Random numbers that are the same in every run.

/// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, as good as uniform.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Every order as likely as any other (Fisher and Yates).
    pub(crate) fn shuffle(&mut self, numbers: &mut [u32]) {
        for last in (1..numbers.len()).rev() {
            numbers.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

/// Draws exactly `wanted` out of `left`, one by one, each subset as likely as any other (Knuth,
/// The Art of Computer Programming 2, algorithm 3.4.2S).
pub(crate) struct Draw {
    wanted: u32,
    left: u32,
}

impl Draw {
    pub(crate) fn new(wanted: u32, left: u32) -> Self {
        Draw { wanted, left }
    }

    #[inline]
    pub(crate) fn next(&mut self, random: &mut SplitMix64) -> bool {
        let drawn = random.below(self.left) < self.wanted;
        self.left -= 1;
        self.wanted -= u32::from(drawn);
        drawn
    }
}
