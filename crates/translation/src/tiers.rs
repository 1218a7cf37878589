use crate::dpt::base_frame;
use pagelab_addr::Pfn;

/// Tiered hashing to frames: several hash functions, each of which names one frame. Whatever is
/// placed goes to the frame of the first function whose frame is free, so that whoever knows the
/// functions knows the few frames where it probably is (Kanellopoulos et al., "Revelator",
/// arXiv 2508.02007). The hash is the one by which DPT places its page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiers {
    frames: u32,
    functions: u32,
    first_seed: u64,
}

impl Tiers {
    /// The most functions there can be.
    pub const MAX_FUNCTIONS: u32 = 8;

    /// Hashing of pages of data over the first `frames` frames. `None` without frames, or with no
    /// function or more than [`Tiers::MAX_FUNCTIONS`].
    pub fn of_data(frames: u32, functions: u32) -> Option<Self> {
        Self::new(frames, functions, 0)
    }

    /// The same of pages of a page table, by other functions.
    pub fn of_tables(frames: u32, functions: u32) -> Option<Self> {
        Self::new(frames, functions, u64::from(Self::MAX_FUNCTIONS))
    }

    fn new(frames: u32, functions: u32, first_seed: u64) -> Option<Self> {
        let possible = frames > 0 && (1..=Self::MAX_FUNCTIONS).contains(&functions);
        possible.then_some(Tiers {
            frames,
            functions,
            first_seed,
        })
    }

    /// The frames that are hashed to.
    pub fn frames(&self) -> std::ops::Range<u32> {
        0..self.frames
    }

    /// Number of functions.
    pub fn functions(&self) -> u32 {
        self.functions
    }

    /// The frame that a function, numbered from 0, names for a key.
    #[inline]
    pub fn frame(&self, key: u64, function: u32) -> Pfn {
        let seed = self.first_seed + u64::from(function);
        Pfn(base_frame(key, seed, self.frames))
    }

    /// The frames that all functions name for a key, in the order in which they are tried.
    pub fn all(&self, key: u64) -> impl Iterator<Item = Pfn> + use<> {
        let tiers = *self;
        (0..self.functions).map(move |function| tiers.frame(key, function))
    }

    /// The first frame of a key that is free, and the function that names it.
    pub fn place(&self, key: u64, free: impl Fn(Pfn) -> bool) -> Option<(Pfn, u32)> {
        let mut all = self.all(key).zip(0..);
        all.find(|&(pfn, _)| free(pfn))
    }

    /// The function that names a frame for a key, the first if several do.
    pub fn function(&self, key: u64, frame: Pfn) -> Option<u32> {
        self.place(key, |pfn| pfn == frame)
            .map(|(_, function)| function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::city::city_hash64;

    #[test]
    fn the_first_function_with_a_free_frame_has_the_page() {
        let tiers = Tiers::of_data(1000, 3).unwrap();
        let by_hand = |seed| Pfn((city_hash64(77, seed) % 1000) as u32);
        let all: Vec<Pfn> = tiers.all(77).collect();
        assert_eq!(all, [by_hand(0), by_hand(1), by_hand(2)]);
        assert_eq!(tiers.place(77, |_| true), Some((all[0], 0)));
        assert_eq!(tiers.place(77, |pfn| pfn != all[0]), Some((all[1], 1)));
        assert_eq!(tiers.place(77, |_| false), None);
        assert_eq!(tiers.function(77, all[2]), Some(2));
        assert_eq!(tiers.function(77, Pfn(1000)), None);
        // Page tables have functions of their own.
        let tables = Tiers::of_tables(1000, 3).unwrap();
        assert_eq!(tables.frame(77, 0), by_hand(8));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(Tiers::of_data(0, 3), None);
        assert_eq!(Tiers::of_data(1000, 0), None);
        assert_eq!(Tiers::of_data(1000, 9), None);
    }
}
