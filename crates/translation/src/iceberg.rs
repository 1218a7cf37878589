use pagelab_addr::{PageId, Pfn};

/// Frames of a bucket: its front yard, then its back yard.
const BUCKET: u32 = 64;
/// Frames of a bucket that only pages of its own hash may have.
const FRONT: u32 = 56;
/// Frames of a bucket for pages whose own bucket has no front frame left.
const BACK: u32 = BUCKET - FRONT;
/// Back yards that a page may be in.
const CHOICES: u32 = 6;

/// Number of a page's place among those that it may have, which a mosaic TLB and its page table
/// keep instead of a frame number. Seven bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpfn(pub u8);

impl Cpfn {
    /// Places that a page has, numbered from 0.
    pub const PLACES: u32 = FRONT + CHOICES * BACK;
}

/// Yard in which a page was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yard {
    /// In the front yard of its own bucket.
    Front,
    /// In the back yard of one of its other buckets.
    Back,
}

/// Iceberg hashing of pages to frames: a page has [`Cpfn::PLACES`] frames that it may be in, and
/// its number says which they are.
///
/// The frames are cut into buckets of 56 front and 8 back frames. A page goes into the front yard
/// of the bucket that its hash names or, when that is full, into the emptiest of six back yards,
/// each in a sixth of the memory of its own (Gosakan et al., "Mosaic Pages", ASPLOS 2023; the
/// sizes are those of their Linux prototype). Bender et al., "Iceberg Hashing: Optimizing Many
/// Hash-Table Criteria at Once", JACM 2023, say why few pages need a back yard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iceberg {
    first: u32,
    buckets: u32,
}

impl Iceberg {
    /// Hashing over `frames` frames from `first` on, but for the last that fill no bucket. `None`
    /// when there are fewer than six buckets.
    ///
    /// # Panics
    /// When the first frame is not the first of a bucket.
    pub fn new(first: Pfn, frames: u32) -> Option<Self> {
        assert!(first.0.is_multiple_of(BUCKET));
        let buckets = frames / BUCKET;
        (buckets >= CHOICES).then_some(Iceberg {
            first: first.0,
            buckets,
        })
    }

    /// The frames that pages are hashed to.
    pub fn frames(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.buckets * BUCKET
    }

    /// The first front frame of a page.
    #[inline(always)]
    fn front(&self, key: u64) -> u32 {
        self.first + below(mix(key), self.buckets) * BUCKET
    }

    /// The first of a page's back frames of a choice.
    #[inline(always)]
    fn back(&self, key: u64, choice: u32) -> u32 {
        let part = self.buckets / CHOICES;
        let bucket = choice * part + below(mix(key | u64::from(choice + 1) << 32), part);
        self.first + bucket * BUCKET + FRONT
    }

    /// The frame for a page of its number: the lowest free one of its front yard, or of the back
    /// yard with the most free frames, the first among equals. `None` when all are in use: an
    /// associativity conflict.
    pub fn place(&self, key: u64, free: impl Fn(Pfn) -> bool) -> Option<(Pfn, Yard)> {
        let front = self.front(key);
        if let Some(pfn) = (front..front + FRONT).map(Pfn).find(|&pfn| free(pfn)) {
            return Some((pfn, Yard::Front));
        }
        let yard = |choice| self.back(key, choice)..self.back(key, choice) + BACK;
        let room = |choice: &u32| yard(*choice).filter(|&pfn| free(Pfn(pfn))).count();
        let best = (0..CHOICES).rev().max_by_key(room)?;
        let pfn = yard(best).map(Pfn).find(|&pfn| free(pfn))?;
        Some((pfn, Yard::Back))
    }

    /// Number of a page's place; `None` when it is in none of them.
    #[inline]
    pub fn compress(&self, page: PageId, pfn: Pfn) -> Option<Cpfn> {
        let key = u64::from(page.0);
        let place = |first: u32, length: u32| {
            let place = pfn.0.wrapping_sub(first);
            (place < length).then_some(place)
        };
        if let Some(place) = place(self.front(key), FRONT) {
            return Some(Cpfn(place as u8));
        }
        if pfn.0 % BUCKET < FRONT {
            return None;
        }
        (0..CHOICES).find_map(|choice| {
            let place = place(self.back(key, choice), BACK)?;
            Some(Cpfn((FRONT + choice * BACK + place) as u8))
        })
    }

    /// The frame of a page's place.
    #[inline(always)]
    pub fn expand(&self, page: PageId, cpfn: Cpfn) -> Pfn {
        let key = u64::from(page.0);
        let place = u32::from(cpfn.0);
        if place < FRONT {
            Pfn(self.front(key) + place)
        } else {
            let back = place - FRONT;
            Pfn(self.back(key, back / BACK) + back % BACK)
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). The paper's hardware has
/// tabulation hashing, its prototype xxHash; any that scatters well gives the same figures.
#[inline(always)]
fn mix(key: u64) -> u64 {
    let mut bits = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A hash as a number below `bound`.
#[inline(always)]
fn below(hash: u64, bound: u32) -> u32 {
    (((hash >> 32) * u64::from(bound)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn a_place_and_its_frame_name_each_other(
            page in 0u32..1 << 30, buckets in 6u32..100_000, place in 0..Cpfn::PLACES,
        ) {
            let iceberg = Iceberg::new(Pfn(1 << 10), buckets * BUCKET).unwrap();
            let frame = iceberg.expand(PageId(page), Cpfn(place as u8));
            prop_assert!(iceberg.frames().contains(&frame.0));
            let cpfn = iceberg.compress(PageId(page), frame).unwrap();
            prop_assert_eq!(iceberg.expand(PageId(page), cpfn), frame);
            prop_assert_eq!(cpfn, Cpfn(place as u8));
        }
    }

    /// The paper's table 3: the first conflict at 98.03 % of the memory on average, of 4 GiB.
    #[test]
    fn the_first_conflict_comes_at_98_percent() {
        let frames = 1 << 18;
        let mut at = 0.0;
        const RUNS: u64 = 4;
        for run in 0..RUNS {
            let iceberg = Iceberg::new(Pfn(0), frames).unwrap();
            let mut used = vec![false; frames as usize];
            let placed = (0u64..)
                .take_while(|page| {
                    let place = iceberg.place(run << 40 | page, |pfn| !used[pfn.0 as usize]);
                    place
                        .is_some_and(|(pfn, _)| !std::mem::replace(&mut used[pfn.0 as usize], true))
                })
                .count();
            at += placed as f64 / f64::from(frames);
        }
        let at = at / RUNS as f64;
        assert!((0.975..0.985).contains(&at), "first conflict at {at}");
    }

    #[test]
    fn a_page_is_placed_in_a_free_frame_of_its_own_as_long_as_there_is_one() {
        let iceberg = Iceberg::new(Pfn(64), 64 * 64).unwrap();
        let key = 12345;
        let mut used = HashSet::new();
        for count in 0..Cpfn::PLACES {
            let (pfn, yard) = iceberg.place(key, |pfn| !used.contains(&pfn)).unwrap();
            assert_eq!(yard == Yard::Front, count < FRONT);
            assert!(iceberg.compress(PageId(key as u32), pfn).is_some());
            assert!(used.insert(pfn));
        }
        assert_eq!(iceberg.place(key, |pfn| !used.contains(&pfn)), None);
    }
}
