//! Chains of dependent loads, and the time one load takes.

use crate::detect::Curve;
use crate::rounds::Stopwatch;
use crate::stats::median;
use crate::system::mapping::flush_tlb;
use fastrand::Rng;
use std::time::{Duration, Instant};

/// A cycle of loads through memory, each giving the place of the next.
///
/// A link is the address of the next, so that one instruction follows it.
#[derive(Clone, Debug)]
pub struct Chain {
    start: *const Link,
    links: usize,
    /// [`MARKS`] links, evenly spaced: where several walkers may begin.
    marks: Box<[*const Link]>,
}

/// A place of a chain.
#[repr(transparent)]
pub struct Link(*const Link);

/// Bytes of a line of every x86 and most Arm caches.
pub const LINE: usize = 64;

/// Bytes of one link.
pub const LINK: usize = size_of::<Link>();

impl Chain {
    /// Links places into a cycle, in the order of their numbers in `order`. Place `i` is read at
    /// `base + offset(i)` and written at `store(i)`: elsewhere, if the same bytes are mapped twice.
    ///
    /// # Safety
    /// Each place must stay readable, and be writable now, for one aligned pointer, at the same
    /// physical bytes under both addresses. Nothing else may write them while the chain is walked.
    ///
    /// # Panics
    /// When there is no place.
    pub unsafe fn link(
        base: *const u8,
        order: &[usize],
        offset: impl Fn(usize) -> usize,
        store: impl Fn(usize) -> *mut u8,
    ) -> Chain {
        let at = |place| base.wrapping_add(offset(place)).cast::<Link>();
        for (&from, &to) in order.iter().zip(order.iter().cycle().skip(1)) {
            // SAFETY: the caller promises room for an aligned pointer.
            unsafe { store(from).cast::<Link>().write(Link(at(to))) };
        }
        Chain {
            start: at(order[0]),
            links: order.len(),
            marks: (0..MARKS)
                .map(|i| at(order[i * order.len() / MARKS]))
                .collect(),
        }
    }

    /// Follows `blocks` times sixteen links; where it ends.
    fn walk(start: *const Link, blocks: usize) -> *const Link {
        let mut at = start;
        for _ in 0..blocks {
            for _ in 0..BLOCK {
                // SAFETY: `link` was promised that every place stays readable, and every link
                // leads to a place.
                at = unsafe { at.read_volatile() }.0;
            }
        }
        at
    }

    /// Places from which `count` walkers begin that are as far from each other as the chain allows.
    fn starts(&self, count: usize) -> Vec<*const Link> {
        self.marks.iter().copied().step_by(MARKS / count).collect()
    }

    /// Two links that are half of the chain apart.
    pub fn two(&self) -> [*const Link; 2] {
        [self.marks[0], self.marks[MARKS / 2]]
    }

    /// Nanoseconds a load when `walkers` (one of [`WALKERS`]) follow the chain side by side, evenly
    /// spaced, each load waiting for its own walker's last one only.
    ///
    /// Every place is visited by each walker in turn, so that the places visited between two
    /// visits are all the others, as with one walker.
    pub fn parallel_latency(&self, walkers: usize) -> f64 {
        // A few milliseconds at the most: longer ones another thread would often disturb.
        const LEAST: usize = 1 << 14;
        const SAMPLES: usize = 9;
        let mut at = self.starts(walkers);
        let steps = LEAST.div_ceil(at.len());
        // The first one fills the caches and TLBs with what is within their reach.
        walk_side_by_side(&mut at, steps);
        let samples: Vec<(f64, bool)> = (0..SAMPLES)
            .map(|_| {
                let watch = Stopwatch::start();
                walk_side_by_side(&mut at, steps);
                let (taken, disturbed) = watch.stop();
                (taken / (steps * at.len()) as f64, disturbed)
            })
            .collect();
        let undisturbed = samples.iter().filter(|sample| !sample.1);
        let best: Vec<f64> = undisturbed.map(|sample| sample.0).collect();
        let all: Vec<f64> = samples.iter().map(|sample| sample.0).collect();
        median(&best).or(median(&all)).unwrap_or(f64::NAN)
    }

    /// Nanoseconds a load of one lap from the beginning, as the caches happen to be.
    pub fn one_lap(&self) -> f64 {
        let blocks = self.links.div_ceil(BLOCK);
        let watch = Stopwatch::start();
        std::hint::black_box(Self::walk(self.start, blocks));
        watch.stop().0 / (blocks * BLOCK) as f64
    }

    /// Nanoseconds of each load of one lap from the beginning, as the caches happen to be; `None` where
    /// the processor has no counter to read between two loads, or another thread ran meanwhile. What reading
    /// the counter takes is in each alike.
    pub fn each_of_one_lap(&self) -> Option<Vec<f64>> {
        let mut ticks = vec![0; self.links];
        let watch = Stopwatch::start();
        let mut at = self.start;
        let mut before = ticks_after_loads()?;
        for ticks in &mut ticks {
            // SAFETY: as in `walk`.
            at = unsafe { at.read_volatile() }.0;
            let now = ticks_after_loads()?;
            *ticks = now.wrapping_sub(before);
            before = now;
        }
        std::hint::black_box(at);
        let (taken, disturbed) = watch.stop();
        let all: u64 = ticks.iter().sum();
        let ns = |of: u64| of as f64 * taken / all as f64;
        (!disturbed && all > 0).then(|| ticks.into_iter().map(ns).collect())
    }

    /// Walks three laps; how many loads that was. For counters around it.
    pub fn laps(&self) -> usize {
        let blocks = (3 * self.links).div_ceil(BLOCK);
        std::hint::black_box(Self::walk(self.start, blocks));
        blocks * BLOCK
    }

    /// Nanoseconds a load, once the walk has settled.
    ///
    /// It begins with empty TLBs, and walks until the last two stretches were not faster than
    /// those before them: what does not replace the least recently used entry keeps what an
    /// earlier chain left for many laps (the second-level TLB of Zen 5 keeps three quarters of it
    /// for hundreds).
    pub fn latency(&self) -> f64 {
        // Long enough that reading the clock is less than 1 %, and short enough to fall between
        // two timer interrupts more often than not.
        const LEAST: usize = 16_384;
        const MOST: usize = 1 << 17;
        const LONGEST: Duration = Duration::from_millis(100);
        const SETTLED: f64 = 0.98;
        let lap = self.links.min(MOST);
        let blocks = (LEAST.div_ceil(lap) * lap).div_ceil(BLOCK);
        // Without memory for it, older entries stay: slower, not wrong.
        let _ = flush_tlb();
        let mut at = Self::walk(self.start, (2 * lap).div_ceil(BLOCK));
        let (mut best, mut patience) = (f64::INFINITY, 2);
        let mut last = f64::NAN;
        let begin = Instant::now();
        while begin.elapsed() < LONGEST {
            let watch = Stopwatch::start();
            at = std::hint::black_box(Self::walk(at, blocks));
            let (taken, disturbed) = watch.stop();
            let taken = taken / (blocks * BLOCK) as f64;
            // Another thread on this CPU leaves other entries behind.
            if disturbed && !last.is_nan() {
                continue;
            }
            last = taken;
            if last < best * SETTLED {
                best = last;
            } else if patience == 1 {
                break;
            } else {
                patience -= 1;
            }
        }
        last
    }
}

/// The processor's counter of time, once every load before has its data.
fn ticks_after_loads() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: SSE2 is part of x86-64; and Linux lets programs read the counter, but for those that
        // asked it not to (prctl(2), PR_SET_TSC), which this one has not.
        Some(unsafe {
            _mm_lfence();
            _rdtsc()
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

const BLOCK: usize = 16;

/// Walkers of [`Chain::parallel_latency`]: more than any core has misses under way.
pub const MOST_WALKERS: usize = 64;

/// Moves every walker `steps` links on, one link each at a time.
fn walk_side_by_side(at: &mut [*const Link], steps: usize) {
    // A fixed number of walkers is a loop without branches, whose loads the core sees side by side.
    fn fixed<const N: usize>(at: &mut [*const Link], steps: usize) {
        let Some(at) = at.first_chunk_mut::<N>() else {
            return;
        };
        for _ in 0..steps {
            for place in at.iter_mut() {
                // SAFETY: `link` was promised that every place stays readable, and every link
                // leads to a place.
                *place = unsafe { place.read_volatile() }.0;
            }
        }
    }
    match at.len() {
        1 => fixed::<1>(at, steps),
        2 => fixed::<2>(at, steps),
        3 => fixed::<3>(at, steps),
        4 => fixed::<4>(at, steps),
        6 => fixed::<6>(at, steps),
        8 => fixed::<8>(at, steps),
        12 => fixed::<12>(at, steps),
        16 => fixed::<16>(at, steps),
        24 => fixed::<24>(at, steps),
        32 => fixed::<32>(at, steps),
        48 => fixed::<48>(at, steps),
        MOST_WALKERS => fixed::<MOST_WALKERS>(at, steps),
        _ => unreachable!("WALKERS lists every count that is asked for"),
    }
    std::hint::black_box(at);
}

/// Marks of a chain: a multiple of every count of walkers.
const MARKS: usize = 192;

/// Counts of walkers that [`Chain::parallel_latency`] takes.
pub const WALKERS: [u64; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, MOST_WALKERS as u64];

/// Measures every abscissa once a round, in an order drawn anew for each round.
///
/// # Errors
/// Those of `sample`.
pub fn sweep<E>(
    x: &[u64],
    rounds: usize,
    rng: &mut Rng,
    mut sample: impl FnMut(u64, &mut Rng) -> Result<f64, E>,
) -> Result<Curve, E> {
    let mut curve = Curve {
        x: x.to_vec(),
        rounds: vec![vec![f64::NAN; x.len()]; rounds],
    };
    let mut order: Vec<usize> = (0..x.len()).collect();
    for round in &mut curve.rounds {
        rng.shuffle(&mut order);
        for &i in &order {
            round[i] = sample(x[i], rng)?;
        }
    }
    Ok(curve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walkers_start_evenly_spaced_and_each_goes_its_own_way() {
        let mut memory = vec![0u64; 960];
        let base = memory.as_mut_ptr().cast::<u8>();
        let order: Vec<usize> = (0..960).rev().collect();
        let offset = |place: usize| place * size_of::<u64>();
        // SAFETY: every place lies inside `memory`, which outlives the chain.
        let chain = unsafe { Chain::link(base, &order, offset, |p| base.add(offset(p))) };
        let place = |at: &*const Link| (*at as usize - base as usize) / size_of::<u64>();
        for count in WALKERS {
            let mut at = chain.starts(count as usize);
            let before: Vec<usize> = at.iter().map(place).collect();
            let apart = 960 / count as usize;
            let expected: Vec<usize> = (0..count as usize).map(|i| 959 - i * apart).collect();
            assert_eq!(before, expected, "{count} walkers");
            walk_side_by_side(&mut at, 7);
            let moved: Vec<usize> = expected.iter().map(|p| (p + 960 - 7) % 960).collect();
            assert_eq!(at.iter().map(place).collect::<Vec<_>>(), moved);
        }
    }

    #[test]
    fn a_chain_visits_every_place_once_a_lap() {
        let mut memory = vec![0u64; 1000];
        let mut order: Vec<usize> = (0..334).collect();
        Rng::with_seed(5).shuffle(&mut order);
        let base = memory.as_mut_ptr().cast::<u8>();
        let offset = |place: usize| 3 * place * size_of::<u64>();
        // SAFETY: every place lies inside `memory`, which outlives the chain.
        let chain = unsafe { Chain::link(base, &order, offset, |p| base.add(offset(p))) };
        let place = |at: *const Link| (at as usize - base as usize) / size_of::<u64>() / 3;
        let mut seen = Vec::new();
        let mut at = chain.start;
        for _ in 0..order.len() {
            seen.push(place(at));
            // SAFETY: a link of the chain above.
            at = unsafe { at.read() }.0;
        }
        assert_eq!(seen, order);
        assert_eq!(at, chain.start);
        // 334 places are not a multiple of a block: 21 blocks are a lap and two links.
        assert_eq!(place(Chain::walk(chain.start, 21)), order[2]);
    }
}
