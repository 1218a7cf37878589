//! Tables and arrays.

use fastrand::Rng;

pub fn random_updates(bytes: usize, steps: u64, rng: &mut Rng) -> u64 {
    let words = (bytes / size_of::<u64>()).next_power_of_two();
    let mut table = vec![0u64; words];
    let mut sum = 0u64;
    for _ in 0..steps {
        let random = rng.u64(..);
        let word = &mut table[random as usize & (words - 1)];
        *word ^= random;
        sum = sum.wrapping_add(*word);
    }
    sum
}

pub fn triad(bytes: usize, steps: u64, _: &mut Rng) -> u64 {
    let count = (bytes / 3 / size_of::<f64>()).max(1);
    let (mut a, b, c) = (vec![0.0; count], vec![1.0; count], vec![2.0; count]);
    for step in 0..steps {
        let scale = step as f64;
        for ((a, b), c) in a.iter_mut().zip(&b).zip(&c) {
            *a += b + scale * c;
        }
        std::hint::black_box(&mut a);
    }
    a.iter().sum::<f64>() as u64
}
