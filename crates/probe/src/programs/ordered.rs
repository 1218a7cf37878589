//! Look-ups and sorting.

use fastrand::Rng;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

/// The standard library's, with the same keys each time.
type Hasher = BuildHasherDefault<DefaultHasher>;

pub fn hash_table(bytes: usize, steps: u64, rng: &mut Rng) -> u64 {
    // Sixteen bytes of data and a byte of control, at most seven eighths full.
    let count = (bytes / 20) as u64;
    let table: HashMap<u64, u64, Hasher> = (0..count).map(|key| (key, key + 1)).collect();
    (0..steps)
        .map(|_| table[&rng.u64(..count)])
        .fold(0, u64::wrapping_add)
}

pub fn sorted_array(bytes: usize, steps: u64, rng: &mut Rng) -> u64 {
    let count = (bytes / size_of::<u64>()) as u64;
    let array: Vec<u64> = (0..count).map(|i| 3 * i).collect();
    let found = |key: u64| array.partition_point(|&value| value < key) as u64 + 1;
    (0..steps)
        .map(|_| found(rng.u64(..3 * count)))
        .fold(0, u64::wrapping_add)
}

pub fn b_tree(bytes: usize, steps: u64, rng: &mut Rng) -> u64 {
    // A key and a value, nodes two thirds full.
    let count = (bytes / 24) as u64;
    let tree: BTreeMap<u64, u64> = (0..count)
        .map(|key| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key + 1))
        .collect();
    (0..steps)
        .map(|_| tree[&rng.u64(..count).wrapping_mul(0x9e37_79b9_7f4a_7c15)])
        .fold(0, u64::wrapping_add)
}

pub fn sort(bytes: usize, steps: u64, rng: &mut Rng) -> u64 {
    let mut numbers: Vec<u64> = (0..bytes / size_of::<u64>()).map(|_| rng.u64(..)).collect();
    for step in 0..steps {
        numbers.rotate_left(step as usize % 2);
        numbers.sort();
    }
    numbers[numbers.len() / 3]
}
