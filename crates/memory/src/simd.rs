//! The two vector operations behind every set look-up, at three levels of instruction set.
//!
//! A set keeps its keys in most-recently-used order, so looking a key up and making it the most
//! recent is one compare and one shift of lanes. All levels give the same bits; a run picks one
//! with [`SimdLevel::detect`] and stays with it. Code that is generic over [`Simd`] has to be
//! `#[inline(always)]` down from a function that enables the level's target features, as
//! [`dispatch!`](crate::dispatch!) makes; the operations do not inline otherwise.

/// The key of an empty place; no real key may be equal to it, bit 31 ignored.
pub const EMPTY: u32 = !FLAG;

/// Bit 31 of a lane is a flag that belongs to the entry and takes no part in a look-up.
pub const FLAG: u32 = 1 << 31;

/// Vector operations on the lanes of one set. `N` is 4, 8 or 16.
pub trait Simd: Copy {
    /// Bit `i` of the result says whether `lanes[i]` equals `key`, bit 31 ignored.
    ///
    /// # Safety
    /// The processor must have the level's features.
    unsafe fn find<const N: usize>(lanes: &[u32; N], key: u32) -> u32;

    /// Moves `lanes[..last]` one place up, over `lanes[last]`, and puts `front` at 0.
    ///
    /// # Safety
    /// The processor must have the level's features, and `last` must be below `N`.
    unsafe fn shift_in<const N: usize>(lanes: &mut [u32; N], front: u32, last: usize);
}

/// Instructions that every processor of the architecture has: SSE2 on x86-64, plain Rust elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Baseline;

impl Simd for Baseline {
    #[inline(always)]
    unsafe fn find<const N: usize>(lanes: &[u32; N], key: u32) -> u32 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: N is a multiple of four, and SSE2 is part of x86-64.
        unsafe {
            let lanes = lanes.as_ptr();
            let mut found = x86::find4(lanes, key);
            for block in 1..N / 4 {
                found |= x86::find4(lanes.add(4 * block), key) << (4 * block);
            }
            found
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let mut found = 0;
            for (i, &lane) in lanes.iter().enumerate() {
                found |= u32::from((lane ^ key) & !FLAG == 0) << i;
            }
            found
        }
    }

    #[inline(always)]
    unsafe fn shift_in<const N: usize>(lanes: &mut [u32; N], front: u32, last: usize) {
        debug_assert!(last < N);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: N is a multiple of four, at most 16, last < N, and SSE2 is part of x86-64.
        unsafe {
            let lanes = lanes.as_mut_ptr();
            // From the last four down: each takes its first lane from the four before.
            for block in (1..N / 4).rev() {
                let before = *lanes.add(4 * block - 1);
                x86::shift_in4(lanes.add(4 * block), before, last, 4 * block);
            }
            x86::shift_in4(lanes, front, last, 0);
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            lanes.copy_within(..last, 1);
            lanes[0] = front;
        }
    }
}

/// A level of instruction set that the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimdLevel {
    /// Instructions that every processor of the architecture has.
    Baseline,
    /// 256-bit vectors.
    Avx2,
    /// 512-bit vectors with masks (F and VL).
    Avx512,
}

impl SimdLevel {
    /// The best level of this processor.
    pub fn detect() -> SimdLevel {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
            {
                return SimdLevel::Avx512;
            }
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
            {
                return SimdLevel::Avx2;
            }
        }
        SimdLevel::Baseline
    }

    /// All levels of this processor.
    pub fn available() -> Vec<SimdLevel> {
        match Self::detect() {
            SimdLevel::Baseline => vec![SimdLevel::Baseline],
            SimdLevel::Avx2 => vec![SimdLevel::Baseline, SimdLevel::Avx2],
            SimdLevel::Avx512 => {
                vec![SimdLevel::Baseline, SimdLevel::Avx2, SimdLevel::Avx512]
            }
        }
    }
}

/// Runs a block at a [`SimdLevel`], compiled with that level's target features:
/// `dispatch!(level, <S>[generics](name: type, ...) -> result { block })`, where the block names
/// the level `S` and uses the arguments, which are captured by name. What the block calls with
/// `S` must be `#[inline(always)]`.
#[macro_export]
macro_rules! dispatch {
    ($level:expr, <$simd:ident> $([$($generics:tt)*])?
     ($($name:ident : $type:ty),* $(,)?) -> $result:ty $body:block) => {{
        // SAFETY (all three): a level other than `Baseline` comes from `SimdLevel::detect`, which
        // asked the processor for these features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512vl,avx2,bmi1,bmi2")]
        #[allow(clippy::too_many_arguments)]
        unsafe fn at_avx512 $(<$($generics)*>)? ($($name: $type),*) -> $result {
            type $simd = $crate::simd::Avx512;
            $body
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        #[allow(clippy::too_many_arguments)]
        unsafe fn at_avx2 $(<$($generics)*>)? ($($name: $type),*) -> $result {
            type $simd = $crate::simd::Avx2;
            $body
        }
        #[allow(clippy::too_many_arguments)]
        fn at_baseline $(<$($generics)*>)? ($($name: $type),*) -> $result {
            type $simd = $crate::simd::Baseline;
            $body
        }
        match $level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: see above.
            $crate::simd::SimdLevel::Avx512 => unsafe { at_avx512($($name),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: see above.
            $crate::simd::SimdLevel::Avx2 => unsafe { at_avx2($($name),*) },
            _ => at_baseline($($name),*),
        }
    }};
}

/// [`dispatch!`](crate::dispatch!), but at [`Baseline`] alone in a build for tests: for what is so
/// large, three times in each of many designs, that it is most of what a crate takes to compile. A
/// test of a released build has to see that the levels agree.
#[cfg(not(debug_assertions))]
#[macro_export]
macro_rules! dispatch_released {
    ($($all:tt)*) => { $crate::dispatch!($($all)*) };
}

/// [`dispatch!`](crate::dispatch!) in a released build; here at [`Baseline`] alone.
#[cfg(debug_assertions)]
#[macro_export]
macro_rules! dispatch_released {
    ($level:expr, <$simd:ident> $([$($generics:tt)*])?
     ($($name:ident : $type:ty),* $(,)?) -> $result:ty $body:block) => {{
        #[allow(clippy::too_many_arguments)]
        fn at_baseline $(<$($generics)*>)? ($($name: $type),*) -> $result {
            type $simd = $crate::simd::Baseline;
            $body
        }
        let _: $crate::simd::SimdLevel = $level;
        at_baseline($($name),*)
    }};
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{FLAG, Simd};
    use std::arch::x86_64::*;

    /// 256-bit vectors.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx2;

    /// 512-bit vectors with masks.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx512;

    /// `MASKS[15 - last ..]` starts with `last + 1` lanes of ones.
    static MASKS: [u32; 32] = {
        let mut masks = [0; 32];
        let mut i = 0;
        while i < 16 {
            masks[i] = u32::MAX;
            i += 1;
        }
        masks
    };

    #[inline(always)]
    pub(super) unsafe fn find4(lanes: *const u32, key: u32) -> u32 {
        // SAFETY: the caller passes four readable lanes; SSE2 is part of x86-64.
        unsafe {
            let keys = _mm_set1_epi32((key & !FLAG) as i32);
            let lanes = _mm_and_si128(_mm_loadu_si128(lanes.cast()), _mm_set1_epi32(!FLAG as i32));
            _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(lanes, keys))) as u32
        }
    }

    #[inline(always)]
    unsafe fn find8(lanes: *const u32, key: u32) -> u32 {
        // SAFETY: the caller passes eight readable lanes and has AVX2.
        unsafe {
            let keys = _mm256_set1_epi32((key & !FLAG) as i32);
            let lanes = _mm256_and_si256(
                _mm256_loadu_si256(lanes.cast()),
                _mm256_set1_epi32(!FLAG as i32),
            );
            _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(lanes, keys))) as u32
        }
    }

    /// Shifts four of the lanes of a set, those from `at` on, as far as they are at `last` or
    /// before.
    #[inline(always)]
    pub(super) unsafe fn shift_in4(lanes: *mut u32, front: u32, last: usize, at: usize) {
        // SAFETY: the caller passes four lanes and `last < 16`, `at <= 12`, so that the mask is
        // read from MASKS[at..at + 19]; SSE2 is part of x86-64.
        unsafe {
            let old = _mm_loadu_si128(lanes.cast());
            let shifted = _mm_or_si128(_mm_slli_si128(old, 4), _mm_cvtsi32_si128(front as i32));
            let mask = _mm_loadu_si128(MASKS.as_ptr().add(15 - last + at).cast());
            let new = _mm_or_si128(_mm_and_si128(mask, shifted), _mm_andnot_si128(mask, old));
            _mm_storeu_si128(lanes.cast(), new);
        }
    }

    /// Shifts eight lanes up by one, `front` coming in at 0.
    #[inline(always)]
    unsafe fn shifted8(lanes: __m256i, front: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe {
            let rotated =
                _mm256_permutevar8x32_epi32(lanes, _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6));
            _mm256_blend_epi32::<1>(rotated, front)
        }
    }

    #[inline(always)]
    unsafe fn shift_in8(lanes: *mut u32, front: u32, last: usize) {
        // SAFETY: the caller passes eight lanes, `last < 8`, and has AVX2.
        unsafe {
            let old = _mm256_loadu_si256(lanes.cast());
            let shifted = shifted8(old, _mm256_set1_epi32(front as i32));
            let mask = _mm256_loadu_si256(MASKS.as_ptr().add(15 - last).cast());
            _mm256_storeu_si256(lanes.cast(), _mm256_blendv_epi8(old, shifted, mask));
        }
    }

    #[inline(always)]
    unsafe fn shift_in16(lanes: *mut u32, front: u32, last: usize) {
        // SAFETY: the caller passes sixteen lanes, `last < 16`, and has AVX2.
        unsafe {
            let low = _mm256_loadu_si256(lanes.cast());
            let high = _mm256_loadu_si256(lanes.add(8).cast());
            let carry = _mm256_permutevar8x32_epi32(low, _mm256_set1_epi32(7));
            let shifted_low = shifted8(low, _mm256_set1_epi32(front as i32));
            let shifted_high = shifted8(high, carry);
            let mask = MASKS.as_ptr().add(15 - last);
            let mask_low = _mm256_loadu_si256(mask.cast());
            let mask_high = _mm256_loadu_si256(mask.add(8).cast());
            _mm256_storeu_si256(lanes.cast(), _mm256_blendv_epi8(low, shifted_low, mask_low));
            _mm256_storeu_si256(
                lanes.add(8).cast(),
                _mm256_blendv_epi8(high, shifted_high, mask_high),
            );
        }
    }

    impl Simd for Avx2 {
        #[inline(always)]
        unsafe fn find<const N: usize>(lanes: &[u32; N], key: u32) -> u32 {
            let lanes = lanes.as_ptr();
            // SAFETY: there are N lanes; the caller has AVX2.
            unsafe {
                match N {
                    4 => find4(lanes, key),
                    8 => find8(lanes, key),
                    16 => find8(lanes, key) | find8(lanes.add(8), key) << 8,
                    _ => unreachable!("a set has 4, 8 or 16 lanes"),
                }
            }
        }

        #[inline(always)]
        unsafe fn shift_in<const N: usize>(lanes: &mut [u32; N], front: u32, last: usize) {
            debug_assert!(last < N);
            let lanes = lanes.as_mut_ptr();
            // SAFETY: there are N lanes, last < N; the caller has AVX2.
            unsafe {
                match N {
                    4 => shift_in4(lanes, front, last, 0),
                    8 => shift_in8(lanes, front, last),
                    16 => shift_in16(lanes, front, last),
                    _ => unreachable!("a set has 4, 8 or 16 lanes"),
                }
            }
        }
    }

    impl Simd for Avx512 {
        #[inline(always)]
        unsafe fn find<const N: usize>(lanes: &[u32; N], key: u32) -> u32 {
            let lanes = lanes.as_ptr();
            // SAFETY: there are N lanes; the caller has AVX-512 F and VL.
            unsafe {
                match N {
                    4 => {
                        let different = _mm_xor_si128(
                            _mm_loadu_si128(lanes.cast()),
                            _mm_set1_epi32(key as i32),
                        );
                        let keys = _mm_set1_epi32(!FLAG as i32);
                        u32::from(_mm_testn_epi32_mask(different, keys))
                    }
                    8 => {
                        let different = _mm256_xor_si256(
                            _mm256_loadu_si256(lanes.cast()),
                            _mm256_set1_epi32(key as i32),
                        );
                        let keys = _mm256_set1_epi32(!FLAG as i32);
                        u32::from(_mm256_testn_epi32_mask(different, keys))
                    }
                    16 => {
                        let different = _mm512_xor_si512(
                            _mm512_loadu_si512(lanes.cast()),
                            _mm512_set1_epi32(key as i32),
                        );
                        let keys = _mm512_set1_epi32(!FLAG as i32);
                        u32::from(_mm512_testn_epi32_mask(different, keys))
                    }
                    _ => unreachable!("a set has 4, 8 or 16 lanes"),
                }
            }
        }

        #[inline(always)]
        unsafe fn shift_in<const N: usize>(lanes: &mut [u32; N], front: u32, last: usize) {
            debug_assert!(last < N);
            let lanes = lanes.as_mut_ptr();
            let order = SHIFTS[last].0.as_ptr();
            // A permutation and a whole store rather than a masked one, from which a look-up of
            // the same set soon after could not be forwarded.
            // SAFETY: there are N lanes, last < N; the caller has AVX-512 F and VL.
            unsafe {
                match N {
                    4 => {
                        let old = _mm_loadu_si128(lanes.cast());
                        let order = _mm_load_si128(order.cast());
                        let front = _mm_set1_epi32(front as i32);
                        let new = _mm_permutex2var_epi32(old, order, front);
                        _mm_storeu_si128(lanes.cast(), new);
                    }
                    8 => {
                        let old = _mm256_loadu_si256(lanes.cast());
                        let order = _mm256_load_si256(order.cast());
                        let front = _mm256_set1_epi32(front as i32);
                        let new = _mm256_permutex2var_epi32(old, order, front);
                        _mm256_storeu_si256(lanes.cast(), new);
                    }
                    16 => {
                        let old = _mm512_loadu_si512(lanes.cast());
                        let order = _mm512_load_si512(order.cast());
                        let front = _mm512_set1_epi32(front as i32);
                        let new = _mm512_permutex2var_epi32(old, order, front);
                        _mm512_storeu_si512(lanes.cast(), new);
                    }
                    _ => unreachable!("a set has 4, 8 or 16 lanes"),
                }
            }
        }
    }

    /// For each `last`, where each lane comes from when `0..last` move up by one. Lane 0 comes
    /// from the second operand: 28 says so to permutations of 4, 8 and 16 lanes alike, of which
    /// each looks at the low 3, 4 or 5 bits only.
    static SHIFTS: [Order; 16] = {
        let mut shifts = [const { Order([0; 16]) }; 16];
        let mut last = 0;
        while last < 16 {
            let mut lane = 0;
            while lane < 16 {
                shifts[last].0[lane] = match lane {
                    0 => 28,
                    _ if lane <= last => lane as u32 - 1,
                    _ => lane as u32,
                };
                lane += 1;
            }
            last += 1;
        }
        shifts
    };

    #[repr(align(64))]
    struct Order([u32; 16]);
}
