use crate::simd::{Baseline, EMPTY, Simd};

/// Sets of 32-bit lanes, one set after the other, no set straddling a host cache line.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    lines: Vec<HostLine>,
    /// Lanes of one set, at least the ways: 4, 8, 16, or a multiple of 16.
    per_set: usize,
    sets: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct HostLine([u32; 16]);

impl Lanes {
    pub(crate) fn new(sets: usize, ways: usize, value: u32) -> Self {
        let per_set = match ways {
            0..=4 => 4,
            5..=8 => 8,
            _ => ways.next_multiple_of(16),
        };
        Lanes {
            lines: vec![HostLine([value; 16]); (sets * per_set).div_ceil(16)],
            per_set,
            sets,
        }
    }

    #[inline(always)]
    pub(crate) fn per_set(&self) -> usize {
        self.per_set
    }

    pub(crate) fn sets(&self) -> usize {
        self.sets
    }

    #[inline(always)]
    pub(crate) fn flat(&self) -> &[u32] {
        // SAFETY: a HostLine is sixteen u32 without padding, so `lines` are that many u32.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 16) }
    }

    #[inline(always)]
    pub(crate) fn flat_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `flat`; the borrow is exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * 16)
        }
    }

    /// All sets, of exactly `N` lanes each.
    #[inline(always)]
    pub(crate) fn sets_of<const N: usize>(&mut self) -> &mut [[u32; N]] {
        debug_assert_eq!(N, self.per_set);
        self.flat_mut().as_chunks_mut().0
    }

    /// The lanes of a set of exactly `N` lanes.
    #[inline(always)]
    pub(crate) fn exactly<const N: usize>(&mut self, set: usize) -> &mut [u32; N] {
        &mut self.sets_of::<N>()[set]
    }

    /// The first sixteen lanes of a set of more.
    #[inline(always)]
    pub(crate) fn front(&mut self, set: usize) -> &mut [u32; 16] {
        debug_assert!(self.per_set.is_multiple_of(16));
        &mut self.lines[set * (self.per_set / 16)].0
    }

    /// The first `ways` lanes of a set.
    #[inline]
    pub(crate) fn ways_mut(&mut self, set: usize, ways: usize) -> &mut [u32] {
        let start = set * self.per_set;
        &mut self.flat_mut()[start..start + ways]
    }

    /// The first `ways` lanes of a set, to be read.
    pub(crate) fn ways(&self, set: usize, ways: usize) -> &[u32] {
        let start = set * self.per_set;
        &self.flat()[start..start + ways]
    }

    /// Lane, of the first `ways` of a set, that holds a key.
    #[inline]
    pub(crate) fn find(&self, set: usize, ways: usize, key: u32) -> Option<usize> {
        if !self.per_set.is_multiple_of(16) {
            return self.ways(set, ways).iter().position(|&lane| lane == key);
        }
        let (blocks, _) = self.ways(set, self.per_set).as_chunks::<16>();
        blocks.iter().enumerate().find_map(|(number, block)| {
            // SAFETY: every processor has the features of `Baseline`.
            let found = unsafe { Baseline::find(block, key) };
            (found != 0).then(|| 16 * number + found.trailing_zeros() as usize)
        })
    }

    #[inline(always)]
    pub(crate) fn host_prefetch(&self, set: usize) {
        host_prefetch(&self.flat()[set * self.per_set]);
    }

    pub(crate) fn clear(&mut self) {
        self.flat_mut().fill(EMPTY);
    }
}

/// Puts a lane in front of others, of which the last, at this place, gives way to it; returns that one.
#[inline]
pub(crate) fn shift_in(lanes: &mut [u32], lane: u32, last: usize) -> u32 {
    let old = lanes[last];
    lanes.copy_within(..last, 1);
    lanes[0] = lane;
    old
}

/// Hints to the host that `place` will soon be used.
#[inline(always)]
pub fn host_prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is harmless; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
