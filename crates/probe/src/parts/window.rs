//! Look-ahead of a core: its reorder buffer, its integer registers and its store buffer, as much of them as it has
//! now.
//!
//! Two chains of loads from memory, with so many instructions between a load of one and the next of the
//! other. As long as both loads fit into the reorder buffer with what is between them they are waited
//! for together, and beyond that one after the other (Wong, "Measuring Reorder Buffer Capacity", 2013).
//! Between stores it is the store buffer that is full first, and between additions of integers, each of
//! which takes a physical register until it retires, these may run out first.
//!
//! How fast the store buffer is written to the first level is measured beside that.
//!
//! There may be less of them for a part of the time: cores give each of two threads half of such
//! buffers (Intel's optimization manual, "Partitioned Resources"), and a guest does not see who has
//! the core's other one.

use super::{Context, Failure, Part, no_options};
use crate::chain::{Chain, LINE, Link};
use crate::core_speed;
use crate::places::{Places, Region};
use crate::rounds::{Stopwatch, estimate};
use crate::stats::{Estimate, median};
use crate::streams::Way;
use crate::system::Refused;
use crate::system::mapping::Mapping;
use clap::ArgMatches;
use fastrand::Rng;
use serde_json::{Value, json};

pub const PART: Part = Part {
    name: "window",
    about: "Instructions, integer registers and stores that a core looks ahead",
    in_all: true,
    options: no_options,
    run,
};

/// Loads of each chain in a sample: longer than what reading the clock costs, and short enough to
/// fall between two timer interrupts.
const LOADS: u64 = 1024;

/// Loads that are waited for one after the other take twice as long as together; this is between.
const APART: f64 = 1.5;

/// Pairs of samples of [`ReorderBufferCheck::share_apart`].
const PAIRS: usize = 32;

/// Instructions between two loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filler {
    /// Additions of integers and of vectors in turn, so that neither kind of register runs out as soon as
    /// with one kind alone.
    Additions,
    /// Additions of integers alone.
    Integers,
    /// Stores to one place of the stack.
    Stores,
}

impl Filler {
    /// Numbers of them between two loads.
    fn lengths(self) -> Vec<usize> {
        match self {
            Filler::Additions => (16..=640).step_by(8).collect(),
            Filler::Integers => (16..=480).step_by(8).collect(),
            Filler::Stores => (4..=160).step_by(2).collect(),
        }
    }

    fn code(self, index: usize) -> &'static [u8] {
        match self {
            // add eax, ecx
            Filler::Integers => &[0x01, 0xc8],
            Filler::Additions if index.is_multiple_of(2) => &[0x01, 0xc8],
            // paddd xmm0, xmm1
            Filler::Additions => &[0x66, 0x0f, 0xfe, 0xc1],
            // mov [rsp-64], rax: in the red zone, which a function that calls none may use.
            Filler::Stores => &[0x48, 0x89, 0x44, 0x24, 0xc0],
        }
    }
}

/// Places of two chains.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pair {
    first: *const Link,
    second: *const Link,
}

/// A loop that follows two chains `times` links on each, called as the System V ABI has it.
type Loop = unsafe extern "C" fn(first: *const Link, second: *const Link, times: u64) -> Pair;

/// The machine code of a loop: `first` is in rdi, `second` in rsi, `times` in rdx.
fn code(filler: Filler, between: usize) -> Vec<u8> {
    let fill = |code: &mut Vec<u8>| {
        for index in 0..between {
            code.extend_from_slice(filler.code(index));
        }
    };
    let mut code = Vec::new();
    code.extend_from_slice(&[0x48, 0x8b, 0x3f]); // mov rdi, [rdi]
    fill(&mut code);
    code.extend_from_slice(&[0x48, 0x8b, 0x36]); // mov rsi, [rsi]
    fill(&mut code);
    code.extend_from_slice(&[0x48, 0xff, 0xca]); // dec rdx
    code.extend_from_slice(&[0x0f, 0x85]); // jnz back to the beginning
    let back = -(code.len() as i32 + 4);
    code.extend_from_slice(&back.to_le_bytes());
    code.extend_from_slice(&[0x48, 0x89, 0xf8]); // mov rax, rdi
    code.extend_from_slice(&[0x48, 0x89, 0xf2]); // mov rdx, rsi
    code.push(0xc3); // ret
    code
}

/// A loop that can be called.
struct Compiled {
    memory: Mapping,
}

impl Compiled {
    fn new(filler: Filler, between: usize) -> Result<Compiled, Refused> {
        let code = code(filler, between);
        let len = code.len().next_multiple_of(4096);
        let memory = Mapping::anonymous(len)?;
        // SAFETY: the mapping is ours alone and has room for the code.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), memory.as_ptr(), code.len()) };
        memory.protect(0, len, libc::PROT_READ | libc::PROT_EXEC)?;
        Ok(Compiled { memory })
    }

    /// Follows both chains; nanoseconds for a link of each.
    ///
    /// # Safety
    /// `at` must be links of a chain that stays readable.
    unsafe fn follow(&self, at: &mut Pair) -> f64 {
        // SAFETY: what `code` has made for these arguments, whose registers the convention lets it use.
        let follow: Loop = unsafe { std::mem::transmute(self.memory.as_ptr()) };
        let watch = Stopwatch::start();
        // SAFETY: it loads links only, each of which leads to one, and stores into its red zone.
        *at = unsafe { follow(at.first, at.second, LOADS) };
        watch.stop().0 / LOADS as f64
    }
}

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Failure::Lacking("not written for this processor".into()));
    }
    let mut region = context.beyond_caches()?;
    let order = region.first(region.count() as u64, &mut context.rng);
    let chain = region.chain(&order);
    Ok(json!({
        "additions": measure(context, &chain, Filler::Additions)?,
        "integers": measure(context, &chain, Filler::Integers)?,
        "stores": measure(context, &chain, Filler::Stores)?,
        "store_cycles": core_speed::store(false),
        "locked_cycles": core_speed::store(true),
        "added_to_memory_cycles": core_speed::through_memory(false),
        "vector_through_memory_cycles": core_speed::through_memory(true),
    }))
}

/// Tells now and then whether a core has all of its reorder buffer.
pub(crate) struct ReorderBufferCheck {
    few: Compiled,
    many: Compiled,
    at: Pair,
    /// Holds what `at` leads through.
    region: Region,
}

impl ReorderBufferCheck {
    /// Samples for cores that, with all of it, have room for `between` instructions between two loads. The first half
    /// of `region` is what they load, from memory.
    ///
    /// # Errors
    /// When memory is short, or this processor's code is not known.
    pub(crate) fn new(
        between: usize,
        mut region: Region,
        rng: &mut Rng,
    ) -> Result<ReorderBufferCheck, Failure> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Failure::Lacking("not written for this processor".into()));
        }
        let order = region.first(region.count() as u64 / 2, rng);
        let [first, second] = region.chain(&order).two();
        Ok(ReorderBufferCheck {
            few: Compiled::new(Filler::Additions, Filler::Additions.lengths()[0])?,
            many: Compiled::new(Filler::Additions, between)?,
            at: Pair { first, second },
            region,
        })
    }

    /// The share of samples in which it has not.
    pub(crate) fn share_apart(&mut self) -> f64 {
        let at = &mut self.at;
        // SAFETY: `at` goes on in the chain that it began in, in the first half of the region, which nobody
        // writes.
        let mut follow = |compiled: &Compiled| unsafe { compiled.follow(at) };
        // Runs before this have left their own lines and translations.
        follow(&self.few);
        let pairs = (0..PAIRS).map(|_| [follow(&self.few), follow(&self.many)]);
        share_apart(&pairs.collect::<Vec<_>>())
    }

    /// Region that they load, in its first half.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Goes through `len` bytes from byte `at` on of the second half of that.
    ///
    /// # Panics
    /// When they reach past the end.
    pub(crate) fn go_through(&mut self, at: usize, len: usize, streams: usize, way: Way) -> usize {
        let half = self.half();
        self.region.go_through(half + at, len, streams, way)
    }

    /// Bytes of a half.
    pub(crate) fn half(&self) -> usize {
        self.region.count() * LINE / 2
    }
}

/// The share of the second ones that take half as long again as the first ones, whose loads wait
/// together.
fn share_apart(pairs: &[[f64; 2]]) -> f64 {
    let together: Vec<f64> = pairs.iter().map(|[few, _]| *few).collect();
    let limit = APART * median(&together).unwrap_or(f64::INFINITY);
    let apart = pairs.iter().filter(|[_, many]| *many >= limit).count();
    apart as f64 / pairs.len().max(1) as f64
}

/// The time for a load of each chain, by how many instructions are between them, and from which
/// number on the two are not waited for together.
fn measure(context: &mut Context, chain: &Chain, filler: Filler) -> Result<Value, Failure> {
    let lengths = filler.lengths();
    let loops: Vec<Compiled> = (lengths.iter())
        .map(|&between| Compiled::new(filler, between))
        .collect::<Result<_, _>>()?;
    let [first, second] = chain.two();
    let mut at = Pair { first, second };
    let cases: Vec<usize> = (0..lengths.len()).collect();
    let rounds = if context.quick { 9 } else { 31 };
    let mut rng = context.rng.fork();
    let mut samples = vec![Vec::new(); lengths.len()];
    let estimates = estimate(&cases, rounds, &mut rng, |case| {
        // SAFETY: `at` goes on in the chain that it began in, which outlives this.
        let ns = unsafe { loops[case].follow(&mut at) };
        samples[case].push(ns);
        Ok::<_, Failure>([ns])
    })?;
    let ns: Vec<Option<Estimate>> = estimates.into_iter().map(|[ns]| ns).collect();
    let apart = apart(&samples);
    let steps = steps(&apart).map(|steps| {
        let [smaller, larger] = steps.at.map(|at| [lengths[at - 1], lengths[at]]);
        json!({ "smaller": smaller, "larger": larger, "share_of_smaller": steps.between })
    });
    Ok(json!({ "x": lengths, "ns": ns, "apart": apart, "together_and_apart": steps }))
}

/// The share of the samples of each length in which loads were not waited for together.
fn apart(samples: &[Vec<f64>]) -> Vec<f64> {
    const SHORTEST: usize = 3;
    let together = samples.iter().take(SHORTEST).filter_map(|ns| median(ns));
    let limit = APART * together.fold(f64::INFINITY, f64::min);
    let share = |ns: &Vec<f64>| {
        let apart = ns.iter().filter(|&&ns| ns >= limit).count();
        apart as f64 / ns.len().max(1) as f64
    };
    samples.iter().map(share).collect()
}

/// Places from which loads are apart: in `between` of the samples from the first on, and in all
/// from the second on. They are the same where the buffer was as large in all samples.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Steps {
    at: [usize; 2],
    between: f64,
}

/// The two steps that explain the shares best, by least squares; none where that is not well or
/// loads are never, or always, together.
fn steps(apart: &[f64]) -> Option<Steps> {
    /// Mean square of what is not explained.
    const MOST_LEFT: f64 = 0.02;
    /// In fewer samples than this, or in all but so many, there is one step and disturbances.
    const FEW: f64 = 0.15;
    let squares = |shares: &[f64], level: f64| -> f64 {
        shares.iter().map(|share| (share - level).powi(2)).sum()
    };
    let mut best: Option<(f64, Steps)> = None;
    for first in 1..apart.len() {
        for second in first..apart.len() {
            let middle = &apart[first..second];
            let between = match middle.len() {
                0 => 0.0,
                count => middle.iter().sum::<f64>() / count as f64,
            };
            let left = squares(&apart[..first], 0.0)
                + squares(middle, between)
                + squares(&apart[second..], 1.0);
            if best.is_none_or(|(least, _)| left < least) {
                let at = [first, second];
                best = Some((left, Steps { at, between }));
            }
        }
    }
    let (left, steps) = best?;
    let [first, second] = steps.at;
    let one = match steps.between {
        share if share < FEW => Steps {
            at: [second; 2],
            between: 0.0,
        },
        share if share > 1.0 - FEW => Steps {
            at: [first; 2],
            between: 0.0,
        },
        _ => steps,
    };
    (left <= MOST_LEFT * apart.len() as f64).then_some(one)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::places::{Pages, Spread};
    use crate::system::mapping::HUGE;

    #[test]
    fn a_loop_follows_both_chains_so_many_links() {
        for filler in [Filler::Additions, Filler::Integers, Filler::Stores] {
            for between in [0, 1, 40, 640] {
                let compiled = Compiled::new(filler, between).unwrap();
                let mut region = Region::new(HUGE, Pages::Small, Spread::Packed).unwrap();
                // More links than are followed, in order, so that it is known where it ends.
                let order: Vec<usize> = (0..4096).collect();
                let chain = region.chain(&order);
                let [first, second] = chain.two();
                let mut at = Pair { first, second };
                // SAFETY: links of `chain`, which lives.
                assert!(unsafe { compiled.follow(&mut at) } > 0.0);
                let moved = |from: *const Link, to: *const Link| to as usize - from as usize;
                assert_eq!(moved(first, at.first), LOADS as usize * LINE);
                assert_eq!(moved(second, at.second), LOADS as usize * LINE);
            }
        }
    }

    #[test]
    fn samples_are_apart_from_those_they_alternate_with() {
        let slow = [
            [100.0, 240.0],
            [100.0, 110.0],
            [300.0, 140.0],
            [100.0, 149.0],
        ];
        assert_eq!(share_apart(&slow), 0.25);
        assert_eq!(share_apart(&[[100.0, 200.0]; 8]), 1.0);
    }

    #[test]
    fn samples_are_apart_that_take_half_as_long_again() {
        let samples = [200.0, 205.0, 210.0, 290.0, 310.0].map(|ns| vec![ns, ns, 2.0 * ns, ns]);
        assert_eq!(apart(&samples), [0.25, 0.25, 0.25, 0.25, 1.0]);
    }

    fn found(apart: &[f64]) -> Option<([usize; 2], f64)> {
        steps(apart).map(|steps| (steps.at, steps.between))
    }

    #[test]
    fn one_step_is_where_loads_begin_to_wait_for_each_other() {
        assert_eq!(found(&[0.0, 0.0, 0.0, 1.0, 1.0]), Some(([3, 3], 0.0)));
        // With what is disturbed here and there.
        assert_eq!(
            found(&[0.0, 0.1, 0.0, 0.05, 0.9, 1.0, 1.0, 0.95]),
            Some(([4, 4], 0.0))
        );
        // None, or no step.
        assert_eq!(found(&[0.0, 0.0, 0.0, 0.0]), None);
        assert_eq!(found(&[0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]), None);
    }

    #[test]
    fn a_buffer_that_was_divided_for_a_third_of_the_time_has_two_steps() {
        let third = 1.0 / 3.0;
        let shares = [0.0, 0.0, third, third, third, third, 1.0, 1.0];
        let (at, between) = found(&shares).unwrap();
        assert_eq!(at, [2, 6]);
        assert!((between - third).abs() < 1e-9);
    }
}
