//! Loads at random, each to a place drawn anew: no lap brings a line back when it is due, so that
//! a cache of which others take a part hits as often as what is left of it holds of the memory.

use crate::chain::LINE;
use crate::detect::geometric_grid;
use crate::rounds::Stopwatch;
use crate::stats::median;
use crate::system::mapping::PAGE;
use fastrand::Rng;
use std::time::{Duration, Instant};

/// Loads of a page that follow each other: a walk is shared by them where a hypervisor has broken
/// huge pages up.
const GROUP: usize = 8;

/// Orders of the eight parts of a page, and the line in each.
const ORDERS: usize = 256;

/// Numbers of walkers that go side by side, each waiting for its own last load only: what others
/// take of a cache depends on how fast a program comes back to its lines.
pub const WALKERS: [usize; 3] = [1, 4, 16];

/// Lines of a page that a group loads, as byte offsets: one of each eighth of it, in random order.
/// No two lie in the same 128 bytes, which spatial prefetchers complete.
struct Lines(Box<[[u16; GROUP]; ORDERS]>);

impl Lines {
    fn new(rng: &mut Rng) -> Lines {
        let mut all = Box::new([[0; GROUP]; ORDERS]);
        for lines in all.iter_mut() {
            let mut eighths: [u16; GROUP] = std::array::from_fn(|i| i as u16);
            rng.shuffle(&mut eighths);
            *lines = eighths.map(|eighth| (eighth * 8 + rng.u16(0..8)) * LINE as u16);
        }
        Lines(all)
    }
}

/// Lines to spread loads over, so many spreads an octave, from twice what the level before the last one
/// holds, `below`, to `most`: whole pages.
pub fn spreads(below: u64, most: u64, per_octave: u32) -> Vec<u64> {
    let mut spreads: Vec<u64> = geometric_grid(2 * below, most, per_octave)
        .into_iter()
        .map(|lines| lines.next_multiple_of((PAGE / LINE) as u64))
        .filter(|&lines| lines <= most)
        .collect();
    spreads.dedup();
    spreads
}

/// Nanoseconds a load at random in the first `len` bytes from `base`, of `walkers` (one of
/// [`WALKERS`]) side by side, once `settle` loads have gone before or a tenth of a second has.
///
/// # Safety
/// `len` bytes, a multiple of a page and at least one, must be readable from `base`, and nobody
/// may write them meanwhile.
pub unsafe fn latency(
    base: *const u8,
    len: usize,
    walkers: usize,
    settle: usize,
    rng: &mut Rng,
) -> f64 {
    // As long as a sample of a chain, and more of them: each finds other lines.
    const SAMPLE: usize = 16_384;
    const SAMPLES: usize = 9;
    const LONGEST: Duration = Duration::from_millis(100);
    let lines = Lines::new(rng);
    let pages = (len / PAGE) as u64;
    let mut states: Vec<u64> = (0..walkers).map(|_| rng.u64(..)).collect();
    // SAFETY: as this function was promised.
    let mut walk = || unsafe { walk(base, pages, &lines, &mut states, SAMPLE) };
    let begin = Instant::now();
    for _ in 0..settle.div_ceil(SAMPLE) {
        walk();
        if begin.elapsed() > LONGEST {
            break;
        }
    }
    let samples: Vec<(f64, bool)> = (0..SAMPLES)
        .map(|_| {
            let watch = Stopwatch::start();
            walk();
            let (taken, disturbed) = watch.stop();
            (taken / SAMPLE as f64, disturbed)
        })
        .collect();
    let undisturbed = samples.iter().filter(|sample| !sample.1);
    let best: Vec<f64> = undisturbed.map(|sample| sample.0).collect();
    let all: Vec<f64> = samples.iter().map(|sample| sample.0).collect();
    median(&best).or(median(&all)).unwrap_or(f64::NAN)
}

/// Loads `loads` places in the pages from `base`, by as many walkers as there are states.
///
/// # Safety
/// As for [`latency`].
unsafe fn walk(base: *const u8, pages: u64, lines: &Lines, states: &mut [u64], loads: usize) {
    // SAFETY: as this function was promised.
    unsafe {
        match states.len() {
            1 => walk_fixed::<1>(base, pages, lines, states, loads),
            4 => walk_fixed::<4>(base, pages, lines, states, loads),
            16 => walk_fixed::<16>(base, pages, lines, states, loads),
            _ => unreachable!("WALKERS lists every count that is asked for"),
        }
    }
}

/// The same, of a fixed number: a loop without branches, whose loads the core sees side by side.
///
/// # Safety
/// As for [`latency`].
unsafe fn walk_fixed<const N: usize>(
    base: *const u8,
    pages: u64,
    lines: &Lines,
    states: &mut [u64],
    loads: usize,
) {
    let Some(states) = states.first_chunk_mut::<N>() else {
        return;
    };
    // Not known to the compiler, which would otherwise let loads of a walker overtake each other.
    let zero = std::hint::black_box(0u64);
    let mut last = [0u64; N];
    for _ in 0..loads / (GROUP * N) {
        let places: [(usize, &[u16; GROUP]); N] = std::array::from_fn(|walker| {
            states[walker] = next(states[walker]);
            let (page, order) = choose(states[walker], pages);
            (page * PAGE, &lines.0[order])
        });
        for at in 0..GROUP {
            for walker in 0..N {
                let (page, order) = places[walker];
                let offset = page + usize::from(order[at]) + (last[walker] & zero) as usize;
                // SAFETY: the page lies among those promised, the line inside of it.
                last[walker] = unsafe { base.add(offset).cast::<u64>().read_volatile() };
            }
        }
    }
    std::hint::black_box(last);
}

/// Knuth's linear congruential generator (MMIX): two instructions beside a load. Its upper bits choose
/// the page.
fn next(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// Page, of so many, that a state chooses, and the order of lines.
fn choose(state: u64, pages: u64) -> (usize, usize) {
    let page = ((u128::from(state) * u128::from(pages)) >> 64) as usize;
    (page, (state >> 24) as usize % ORDERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_and_every_line_is_visited_and_no_group_has_both_lines_of_a_pair() {
        const PAGES: u64 = 1024;
        let mut rng = Rng::with_seed(7);
        let lines = Lines::new(&mut rng);
        let mut pages = vec![0u32; PAGES as usize];
        let mut seen = [0u32; PAGE / LINE];
        let mut state = rng.u64(..);
        let groups = 64 * PAGES;
        for _ in 0..groups {
            state = next(state);
            let (page, order) = choose(state, PAGES);
            pages[page] += 1;
            let group = lines.0[order];
            let mut pairs = group.map(|at| at / 128);
            pairs.sort_unstable();
            assert!(pairs.windows(2).all(|pair| pair[0] != pair[1]), "{group:?}");
            for at in group {
                seen[usize::from(at) / LINE] += 1;
            }
        }
        // 64 visits a page, with a standard deviation of eight.
        assert!(pages.iter().all(|&n| (16..=128).contains(&n)));
        // An eighth of all groups load each line; 256 orders are a sample of some 17 % off.
        let expected = f64::from(groups as u32) / 8.0;
        assert!(
            seen.iter()
                .all(|&n| (f64::from(n) / expected - 1.0).abs() < 0.7),
            "{seen:?}"
        );
    }
}
