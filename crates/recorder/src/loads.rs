//! Loads that a value depends on, by their numbers.

use pagelab_events::{Stores, dependence};
use pagelab_recorder_wire::block::REGISTERS;

/// The youngest two loads that a value depends on: their numbers, from 1, the younger first; 0 for none.
pub(crate) type Loads = [u64; 2];

/// The youngest two of both.
#[inline(always)]
pub(crate) fn merge([a, b]: Loads, [c, d]: Loads) -> Loads {
    let first = a.max(c);
    let other = if a == c { 0 } else { a.min(c) };
    [first, other.max(b.max(d))]
}

/// The youngest two of the loads that produced these registers.
#[inline(always)]
pub(crate) fn youngest(mut mask: u32, registers: &[Loads; REGISTERS]) -> Loads {
    if mask == 0 {
        return [0; 2];
    }
    // Mostly there is one.
    let mut youngest = registers[mask.trailing_zeros() as usize % REGISTERS];
    mask &= mask - 1;
    while mask != 0 {
        let register = mask.trailing_zeros() as usize % REGISTERS;
        youngest = merge(youngest, registers[register]);
        mask &= mask - 1;
    }
    youngest
}

/// Dependences further back than this many accesses are left out: no core holds so many
/// instructions at once, so such a load has long been answered.
pub const MAX_DEP: u64 = 1023;

/// Dependence of access `number` if it waits for these loads. Those up to number `forgotten` are.
#[inline(always)]
pub(crate) fn dependence(number: u64, [near, far]: Loads, forgotten: u64) -> u32 {
    // None is number 0, and none are those up to here.
    let oldest = forgotten.max(number.saturating_sub(MAX_DEP + 1));
    let distance = if near > oldest { number - near } else { 0 };
    let apart = if far > oldest { near - far } else { 0 };
    (distance | apart << 16) as u32
}

/// Load that store `number` leaves for loads to find of a value that this load has produced: when it comes too far
/// back, nothing, so that it takes no other's place.
#[inline(always)]
pub(crate) fn stored_load(number: u64, load: u64) -> u64 {
    if number - load > Stores::REACH {
        0
    } else {
        load
    }
}

/// Loads that an access waits for that depends on `dep` by its address and on a load so many accesses back (0 for
/// none) by what it finds in memory: the nearer two. Without branches: none of this can be foretold.
#[inline(always)]
pub(crate) fn also(dep: u32, found: u32) -> u32 {
    // The nearest one, where 0 is the farthest.
    let [near, far, found] = [dependence::near(dep), dependence::far(dep), found]
        .map(|distance| distance.wrapping_sub(1));
    let first = near.min(found);
    let other = near.max(found);
    let second = if other == first { far } else { other.min(far) };
    let apart = if second == u32::MAX {
        0
    } else {
        second - first
    };
    first.wrapping_add(1) | apart << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The largest two different numbers that are not 0.
    fn two(mut numbers: Vec<u64>) -> Loads {
        numbers.retain(|&number| number != 0);
        numbers.sort_unstable();
        numbers.dedup();
        let mut largest = numbers.into_iter().rev();
        [largest.next().unwrap_or(0), largest.next().unwrap_or(0)]
    }

    proptest! {
        #[test]
        fn the_youngest_two_of_any_are_kept(sets in proptest::collection::vec((0u64..9, 0u64..9), 0..5)) {
            let all = sets.iter().flat_map(|&(a, b)| [a, b]).collect();
            let merged = sets.iter().fold([0; 2], |so_far, &(a, b)| merge(so_far, two(vec![a, b])));
            prop_assert_eq!(merged, two(all));
        }

        #[test]
        fn loads_too_far_back_are_none(a in 0u64..3000, b in 0u64..3000, before in 0u64..3000, forgotten in 0u64..3000) {
            let (near, far) = (a.max(b), if a == b { 0 } else { a.min(b) });
            let number = near + before + 1;
            let told = |load: u64| load > forgotten && number - load <= MAX_DEP;
            let distance = |load: u64| if told(load) { (number - load) as u32 } else { 0 };
            let dep = dependence(number, [near, far], forgotten);
            prop_assert_eq!(dep, dependence::of_two(distance(near), distance(far)));
        }

        #[test]
        fn what_memory_holds_is_one_more(a in 0u32..9, b in 0u32..9, found in 0u32..9) {
            let of = |distance: u32| if distance == 0 { 0 } else { 100 - u64::from(distance) };
            let dep = also(dependence::of_two(a, b), found);
            let got = [dependence::near(dep), dependence::far(dep)].map(of);
            prop_assert_eq!(got, two([a, b, found].map(of).to_vec()));
        }
    }
}
