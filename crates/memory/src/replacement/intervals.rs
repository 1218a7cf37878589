/// Predicted intervals until the entries of sets are used again: the two-bit values of Jaleel et
/// al., ISCA 2010.
#[derive(Clone, Debug)]
pub(super) struct Intervals {
    /// Two bits an entry.
    sets: Vec<u128>,
    ways: usize,
}

/// An entry is used again at once.
pub(super) const NEAR: u128 = 0;
/// An entry is used again in a while.
pub(super) const LONG: u128 = 2;
/// An entry is used again late, if ever: it may leave.
pub(super) const DISTANT: u128 = 3;

/// The lower bit of each entry's two.
const EACH: u128 = u128::MAX / 3;

/// The most ways of a set.
pub(super) const MAX_WAYS: u32 = 64;

impl Intervals {
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        Intervals {
            sets: vec![0; sets],
            ways,
        }
    }

    pub(super) fn set(&mut self, set: usize, way: usize, interval: u128) {
        let state = &mut self.sets[set];
        *state = *state & !(DISTANT << (2 * way)) | interval << (2 * way);
    }

    /// Takes one off.
    pub(super) fn shorten(&mut self, set: usize, way: usize) {
        let state = &mut self.sets[set];
        if *state >> (2 * way) & DISTANT != 0 {
            *state -= 1 << (2 * way);
        }
    }

    /// The first entry with a distant interval; when there is none, all have one more.
    pub(super) fn victim(&mut self, set: usize) -> usize {
        let state = &mut self.sets[set];
        let all = EACH & (u128::MAX >> (128 - 2 * self.ways));
        loop {
            let distant = *state & *state >> 1 & all;
            if distant != 0 {
                return distant.trailing_zeros() as usize / 2;
            }
            *state += all;
        }
    }

    /// The first entry with a distant interval that may leave.
    pub(super) fn distant(&self, set: usize, may: impl Fn(usize) -> bool) -> Option<usize> {
        let state = self.sets[set];
        (0..self.ways).find(|&way| state >> (2 * way) & DISTANT == DISTANT && may(way))
    }
}
