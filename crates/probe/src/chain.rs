//! Chains of dependent loads, and the time one load takes.

use crate::detect::Curve;
use crate::system::mapping::flush_tlb;
use crate::system::process;
use fastrand::Rng;
use std::time::{Duration, Instant};

/// A cycle of loads through memory, each giving the place of the next.
///
/// A link is the address of the next, so that one instruction follows it.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    start: *const Link,
    links: usize,
}

#[repr(transparent)]
struct Link(*const Link);

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
            let switches = process::thread_usage().switches;
            let start = Instant::now();
            at = std::hint::black_box(Self::walk(at, blocks));
            let taken = start.elapsed().as_nanos() as f64 / (blocks * BLOCK) as f64;
            // Another thread on this CPU leaves other entries behind, and took its time.
            if process::thread_usage().switches != switches && !last.is_nan() {
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

const BLOCK: usize = 16;

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
