//! Data caches: size, line, associativity and latency of each level.
//!
//! A chain visits more and more lines of memory mapped by huge pages, so that the TLB plays no part
//! and the physical address is known up to bit 20. Where a hypervisor has broken the huge pages up
//! neither holds; therefore eight lines of a base page are visited together, so that a walk is
//! shared by eight loads. They come in random order, and few of the 64 lines of the page, no two of
//! a pair, so that prefetchers find no pattern. The latency steps where a level overflows. For the
//! associativity, a chain visits lines that all fall into one set of every level: it overflows a
//! level when there are more of them than the level has ways.

use super::{Context, Failure, Part, curve_with_steps, no_options};
use crate::chain::{Chain, LINE, sweep};
use crate::core_speed;
use crate::detect::{Options, Steps, crossing, find_steps, shared_level};
use crate::flushed_lines::FlushedLines;
use crate::places::{Grouped, Pages, Places, Region, Spread, latency};
use crate::random_loads::{WALKERS, spreads};
use crate::stats::{Estimate, median};
use crate::system::mapping::{HUGE, Mapping};
use crate::system::{budget, claims};
use clap::ArgMatches;
use serde_json::{Value, json};
use std::time::Duration;

pub const PART: Part = Part {
    name: "caches",
    about: "Size, line, associativity and latency of each data cache",
    in_all: true,
    options: no_options,
    run,
};

/// Places of the conflict curve. More ways than any set has.
const MOST_WAYS: u64 = 64;

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    let claims = claims::caches();
    let largest = claims.iter().map(|c| c.size).max().unwrap_or(32 << 20);
    let wanted = if context.quick {
        2 * largest
    } else {
        4 * largest
    };
    let len = wanted.clamp(64 << 20, 1 << 30).min(budget::bytes());
    if len < 16 << 20 {
        return Err(Failure::Lacking("too little memory is free".into()));
    }
    let (region, pages) = region(context, len as usize)?;
    let mut region = region;
    context.say(&format!("latency of up to {} MiB", len >> 20));
    // Linking a chain of millions of lines takes seconds: fewer of those.
    let few = context.quick || len > 256 << 20;
    let options = Options {
        rounds: if few { 4 } else { 9 },
        per_octave: if few { 5 } else { 8 },
        dense_sweeps: if context.quick { 2 } else { 3 },
        dense_points: if context.quick { 30 } else { 40 },
        dense_limit: 1 << 16,
        ..Options::new(16, region.count() as u64)
    };
    let mut rng = context.rng.fork();
    let found = find_steps(&options, &mut rng.fork(), |x, rounds| {
        sweep(x, rounds, &mut rng, |x, rng| {
            let mut grouped = Grouped::lines_of_a_page(&mut region);
            Ok::<f64, Failure>(latency(&mut grouped, x, rng))
        })
    })?;
    let flushed = flushed(context)?;
    let memory = flushed.all.as_ref().map(|ns| ns.median);
    let at_random = loads_at_random(context, &region, &claims, memory)?;
    let line = line_size(context, &found);
    let ways = if pages == Pages::Huge {
        associativity(context, region, &found)?
    } else {
        context.skip(
            "associativity",
            "addresses are not known without huge pages",
        );
        Value::Null
    };
    Ok(json!({
        "pages": format!("{pages:?}").to_lowercase(),
        "lines": curve_with_steps(&found),
        "at_random": at_random,
        "flushed_ns": flushed.all,
        "flushed_sixteenths_ns": flushed.sixteenths,
        "line_bytes": line,
        "associativity": ways,
        "claimed": claims,
        "claimed_code": claims::code_caches(),
        "core_ghz": core_speed::ghz(),
        "scaled_index_cycles": core_speed::scaled_index(),
    }))
}

/// Latency of flushed lines. Others who use memory come and go: the rounds are spread over two seconds,
/// a quarter of one for a quick measurement.
fn flushed(context: &mut Context) -> Result<Flushed, Failure> {
    const APART: Duration = Duration::from_millis(5);
    let rounds = if context.quick { 50 } else { 400 };
    let mut lines = FlushedLines::new()?;
    let mut rng = context.rng.fork();
    let (mut samples, mut each) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        std::thread::sleep(APART);
        samples.extend(lines.latency(&mut rng));
        each.extend(lines.each(&mut rng).into_iter().flatten());
    }
    if samples.is_empty() {
        context.skip("memory's own latency", "no instruction flushes a line here");
    }
    Ok(Flushed {
        all: Estimate::of(&samples),
        sixteenths: sixteenths(each),
    })
}

/// Latencies of lines that no cache has, in ns.
struct Flushed {
    /// Time of a load in a chain of them. `None` where no instruction flushes a line.
    all: Option<Estimate>,
    /// Times of the sixteenths of its loads, the shortest first, with the time that it takes to read a counter
    /// between two of them.
    sixteenths: Option<[f64; SIXTEENTHS]>,
}

const SIXTEENTHS: usize = 16;

/// The means of the sixteenths of some times, the shortest first. `None` of too few to tell.
fn sixteenths(mut each: Vec<f64>) -> Option<[f64; SIXTEENTHS]> {
    const LEAST: usize = 100 * SIXTEENTHS;
    // A time so many times longer than most is an interrupt, and no memory.
    const INTERRUPTED: f64 = 20.0;
    let limit = INTERRUPTED * median(&each)?;
    each.retain(|ns| *ns <= limit);
    each.sort_unstable_by(f64::total_cmp);
    let part = |number: usize| {
        let part = &each[number * each.len() / SIXTEENTHS..][..each.len() / SIXTEENTHS];
        part.iter().sum::<f64>() / part.len() as f64
    };
    (each.len() >= LEAST).then(|| std::array::from_fn(part))
}

/// Latency of loads at random by the lines they are spread over, for several numbers of walkers, and
/// what it says of a last level that others use, too.
fn loads_at_random(
    context: &mut Context,
    region: &Region,
    claims: &[claims::CacheClaim],
    memory: Option<f64>,
) -> Result<Value, Failure> {
    context.say("loads at random");
    let below = claims::before_last(claims) / LINE as u64;
    let x = spreads(below, region.count() as u64, 2);
    let rounds = if context.quick { 2 } else { 5 };
    let mut rng = context.rng.fork();
    let mut curves = Vec::new();
    for walkers in WALKERS {
        curves.push(sweep(&x, rounds, &mut rng, |x, rng| {
            Ok::<f64, Failure>(region.latency_at_random(x as usize * LINE, walkers, rng))
        })?);
    }
    let by_walkers: serde_json::Map<String, Value> = WALKERS
        .iter()
        .zip(&curves)
        .map(|(walkers, curve)| (walkers.to_string(), json!(curve.summary())))
        .collect();
    let level = shared_level(&curves, below, memory, 40, &mut rng);
    Ok(json!({ "walkers": by_walkers, "level": level }))
}

/// Huge pages if they can be had.
fn region(context: &mut Context, len: usize) -> Result<(Region, Pages), Failure> {
    match Region::new(len, Pages::Huge, Spread::Packed) {
        Ok(region) => Ok((region, Pages::Huge)),
        Err(error) => {
            context.skip(
                "huge pages for the cache chains (TLB misses are in the curve)",
                error,
            );
            Ok((
                Region::new(len, Pages::Small, Spread::Packed)?,
                Pages::Small,
            ))
        }
    }
}

/// Latency of pairs of loads, random block by random block, by their distance in the block. The
/// second load of a pair hits if the line that the first one brought holds it.
fn line_size(context: &mut Context, found: &Steps) -> Value {
    const BLOCK: usize = 512;
    let levels = found.levels();
    let Some(first_level) = found.steps.first().and_then(|s| s.nominal) else {
        context.skip("line size", "the first level was not found");
        return Value::Null;
    };
    // Four times as many blocks as the first level has room for.
    let blocks = (4 * first_level as usize * 64 / BLOCK).max(64);
    let Ok(memory) = Mapping::anonymous_huge_aligned((blocks * BLOCK).next_multiple_of(HUGE))
    else {
        context.skip("line size", "no memory");
        return Value::Null;
    };
    // Without huge pages the curve is the same but for TLB misses, which all distances share.
    let _ = memory.advise(0, memory.len(), libc::MADV_HUGEPAGE);
    let distances = [8u64, 16, 32, 64, 128, 256];
    let mut rng = context.rng.fork();
    let curve = sweep(&distances, 9, &mut rng.clone(), |distance, _| {
        let mut order: Vec<usize> = (0..blocks).collect();
        rng.shuffle(&mut order);
        let pairs: Vec<usize> = order.iter().flat_map(|b| [2 * b, 2 * b + 1]).collect();
        let offset = |i: usize| i / 2 * BLOCK + i % 2 * distance as usize;
        let base = memory.as_ptr();
        // SAFETY: blocks lie inside the memory, distances inside a block; nobody else writes it.
        let chain = unsafe { Chain::link(base, &pairs, offset, |i| base.add(offset(i))) };
        Ok::<f64, std::convert::Infallible>(chain.latency())
    });
    let Ok(curve) = curve;
    let medians = curve.medians();
    let (low, high) = (medians[0], medians[medians.len() - 1]);
    if high < low * 1.15 || levels.len() < 2 {
        context.skip(
            "line size",
            "the distance makes no difference: a prefetcher, or noise",
        );
        return json!({ "curve": curve.summary(), "line": null });
    }
    let crossing = crossing(&curve, low, high, 200, &mut rng);
    // The first distance above is the line: 32 is still on it, 64 on the next one.
    let line = crossing.map(|c| c.last_below * 2);
    json!({
        "curve": curve.summary(),
        "line": line,
        "confidence": crossing.map(|c| c.confidence),
    })
}

/// Ways of each level whose latency is known, from lines a power of two apart.
fn associativity(
    context: &mut Context,
    mut region: Region,
    found: &Steps,
) -> Result<Value, Failure> {
    // Far enough apart to agree in every set bit below it.
    let stride = (region.count() * 64 / MOST_WAYS as usize).min(HUGE);
    region.respread(Spread::Stride(stride));
    context.say("associativity");
    let x: Vec<u64> = (2..=MOST_WAYS.min(region.count() as u64)).collect();
    let rounds = if context.quick { 5 } else { 15 };
    let mut rng = context.rng.fork();
    let curve = sweep(&x, rounds, &mut rng.fork(), |x, rng| {
        Ok::<f64, Failure>(latency(&mut region, x, rng))
    })?;
    let levels: Vec<Value> = found
        .levels()
        .windows(2)
        .enumerate()
        .map(|(i, pair)| {
            let found = crossing(&curve, pair[0], pair[1], 200, &mut rng);
            json!({ "level": i + 1, "ways": found })
        })
        .collect();
    Ok(json!({ "stride": stride, "curve": curve.summary(), "levels": levels }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_no_latency() {
        let mut each: Vec<f64> = (0..3200)
            .rev()
            .map(|at| 100.0 + f64::from(at % 16))
            .collect();
        each[7] = 5000.0;
        let found = sixteenths(each.clone()).unwrap();
        assert!(found.is_sorted() && found[15] < 116.0, "{found:?}");
        assert!(sixteenths(each[..100].into()).is_none());
    }
}
