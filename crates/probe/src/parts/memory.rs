//! Parallelism of memory: first-level misses, page walks, bytes a second, and prefetching.
//!
//! Each comes from dependent chains followed side by side. Of `n` chains a core keeps `n` loads
//! under way until something runs out; from then on a load takes as long as with one chain,
//! divided by how many fit.

use super::{Context, Failure, Part, no_options};
use crate::chain::{Chain, LINE, WALKERS, sweep};
use crate::detect::Curve;
use crate::places::{Aliases, Grouped, LINES_TOGETHER, Places, Region, Spread};
use crate::rounds::{Clock, timed_by};
use crate::stats::{Estimate, median, quantile, resample};
use crate::streams::{STREAMS, Way, go_through};
use crate::system::mapping::{HUGE, Mapping, PAGE};
use crate::system::{claims, files, process};
use clap::ArgMatches;
use fastrand::Rng;
use serde_json::{Value, json};
use std::sync::Barrier;
use std::time::Duration;

pub const PART: Part = Part {
    name: "memory",
    about: "Misses and page walks under way at a time, bandwidth, prefetchers",
    in_all: true,
    options: no_options,
    run,
};

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    let mut region = context.beyond_caches()?;
    let len = region.count() * LINE;
    let claims = claims::caches();
    let second = claims.iter().find(|c| c.level == 2).map(|c| c.size);
    context.say("prefetchers");
    let prefetching = prefetching(context, &mut region)?;
    context.say("bandwidth");
    let bandwidth = bandwidth(context, len);
    context.say("misses under way at a time");
    let near = second.unwrap_or(1 << 20) as usize * 4;
    let beyond_second = side_by_side(context, &mut region, near.min(len) / LINE)?;
    let beyond_last = side_by_side(context, &mut region, len / LINE)?;
    drop(region);
    let walks = context.attempt("page walks under way at a time", walks);
    Ok(json!({
        "bytes": len,
        "misses": { "beyond_second_level": beyond_second, "beyond_last_level": beyond_last },
        "walks": walks,
        "bandwidth": bandwidth,
        "prefetching": prefetching,
    }))
}

/// The first `lines` lines, followed by more and more walkers.
fn side_by_side(
    context: &mut Context,
    region: &mut Region,
    lines: usize,
) -> Result<Value, Failure> {
    let mut grouped = Grouped::lines_of_a_page(&mut *region);
    let order = grouped.first(lines as u64, &mut context.rng);
    let chain = grouped.chain(&order);
    let curve = parallel_curve(context, &chain)?;
    let overlap = overlap(&curve, |ns| ns[0], &mut context.rng);
    Ok(json!({ "bytes": lines * LINE, "chains": curve.summary(), "under_way": overlap }))
}

fn parallel_curve(context: &mut Context, chain: &Chain) -> Result<Curve, Failure> {
    let rounds = if context.quick { 5 } else { 11 };
    sweep(&WALKERS, rounds, &mut context.rng, |walkers, _| {
        Ok(chain.parallel_latency(walkers as usize))
    })
}

/// Number of loads under way at the most: what one takes alone over what one takes at the best
/// number of chains. `alone` makes the first from the medians.
fn overlap(curve: &Curve, alone: impl Fn(&[f64]) -> f64, rng: &mut Rng) -> Option<Estimate> {
    const RESAMPLES: usize = 200;
    let of = |curve: &Curve| {
        let medians = curve.medians();
        let best = medians.iter().copied().filter(|m| *m > 0.0);
        alone(&medians) / best.fold(f64::INFINITY, f64::min)
    };
    let resampled: Vec<f64> = (0..RESAMPLES)
        .map(|_| of(&curve.resampled(&resample(curve.rounds.len(), rng))))
        .collect();
    Some(Estimate {
        median: of(curve),
        low: quantile(&resampled, 0.025)?,
        high: quantile(&resampled, 0.975)?,
        samples: curve.rounds.len(),
    })
}

/// Page walks under way: chains of which each load misses every TLB level, over few lines that the
/// second cache level holds (see [`Aliases`]). What a load takes without a walk is taken off.
fn walks(context: &mut Context) -> Result<Value, Failure> {
    const FEW: usize = 16;
    let areas = files::number("/proc/sys/vm/max_map_count").unwrap_or(65_530);
    let most = areas.saturating_sub(2_000).min(60_000) as usize;
    if most < FEW {
        let why = format!("vm.max_map_count allows {areas} areas");
        return Err(Failure::Lacking(why));
    }
    let mut aliases = Aliases::small(most, 1)?;
    let mut hits = Aliases::lines(FEW)?;
    let samples: Vec<f64> = (0..9)
        .map(|_| crate::places::latency(&mut hits, FEW as u64, &mut context.rng))
        .collect();
    let penalty = Aliases::penalty(&mut context.rng)?;
    let hit = median(&samples).unwrap_or(0.0) + penalty.max(0.0);
    let order = aliases.first(most as u64, &mut context.rng);
    let chain = aliases.chain(&order);
    let curve = parallel_curve(context, &chain)?;
    let walk = |ns: &[f64]| (ns[0] - hit).max(0.0);
    let overlap = overlap(&curve, walk, &mut context.rng);
    Ok(json!({
        "pages": most,
        "hit_ns": hit,
        "walk_ns": walk(&curve.medians()),
        "chains": curve.summary(),
        "under_way": overlap,
    }))
}

/// Gigabytes a second that go from memory where it is read, and from it and to it where it is written, too:
/// by one core, and by all together. Others who use memory come and go: the rounds are spread over seconds,
/// but for a quick measurement.
fn bandwidth(context: &mut Context, len: usize) -> Value {
    const MOST: usize = 512 << 20;
    const APART: Duration = Duration::from_millis(100);
    let (rounds, apart) = if context.quick {
        (3, Duration::ZERO)
    } else {
        (7, APART)
    };
    // By the number of streams that is fastest.
    let rate = |threads: usize, way: Way| {
        let len = (len.min(MOST) / threads / HUGE * HUGE).max(HUGE);
        let of = |streams: usize| {
            let sample = |_| {
                std::thread::sleep(apart);
                going_through(len, threads, streams, way)
            };
            let samples: Vec<f64> = (0..rounds).filter_map(sample).collect();
            Estimate::of(&samples)
        };
        let each = STREAMS.into_iter().filter_map(of);
        each.max_by(|a, b| a.median.total_cmp(&b.median))
    };
    let one = [Way::Read, Way::Update].map(|way| rate(1, way));
    // All cores: this process was bound to one of them.
    let unpinned = process::unpin();
    let cpus = process::allowed_cpus();
    let why = match unpinned {
        Err(error) => Some(error.to_string()),
        Ok(()) => (cpus == 1).then(|| "one core is all there is".into()),
    };
    let all = match why {
        None => [Way::Read, Way::Update].map(|way| rate(cpus, way)),
        Some(why) => {
            context.skip("bandwidth of all cores", why);
            [None; 2]
        }
    };
    if let Some(cpu) = context.cpu {
        let _ = process::pin(cpu);
    }
    json!({
        "one_core": one[0],
        "all_cores": all[0],
        "one_core_moves": one[1],
        "all_cores_moves": all[1],
        "cores": cpus,
    })
}

/// Bytes a nanosecond that go to memory and from it where so many threads go through memory in order, each
/// through `len` bytes of its own. One thread alone is timed by the time it ran.
fn going_through(len: usize, threads: usize, streams: usize, way: Way) -> Option<f64> {
    let clock = if threads == 1 {
        Clock::Cpu
    } else {
        Clock::Wall
    };
    let ready = Barrier::new(threads);
    let go = || {
        let memory = Mapping::anonymous_huge_aligned(len).ok();
        if let Some(memory) = &memory {
            // Small pages cost what walks cost, and the memory is gone through all the same.
            let _ = memory.advise(0, len, libc::MADV_HUGEPAGE);
            memory.touch(0, len, PAGE);
        }
        ready.wait();
        memory.map(|memory| timed_by(clock, || go_through(&memory, 0, len, streams, way)))
    };
    let each = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(go)).collect();
        let each = handles.into_iter().map(|handle| handle.join().ok()?);
        each.collect::<Option<Vec<(f64, usize)>>>()
    })?;
    let slowest = each.iter().fold(0.0, |most: f64, (ns, _)| most.max(*ns));
    Some(each.iter().map(|(_, moved)| moved).sum::<usize>() as f64 / slowest)
}

/// Dependent loads at a stride in the order of addresses, against the same lines in random order,
/// all from memory. What prefetchers make of a chain is all that can make the first much faster;
/// rows that are open in memory make it a little faster.
fn prefetching(context: &mut Context, region: &mut Region) -> Result<Value, Failure> {
    const STRIDES: [u64; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
    // Short enough to fall between two switches to another thread.
    const MOST: usize = 1 << 13;
    let rounds = if context.quick { 3 } else { 5 };
    let part = region.count() * LINE / 4;
    let mut rng = context.rng.fork();
    let mut measure = |in_order: bool| {
        let mut sample = |stride: u64, rng: &mut Rng| {
            region.respread(Spread::Stride(stride as usize));
            let count = (part / stride as usize).min(MOST);
            let block = (PAGE / stride as usize).max(1);
            let order = if in_order {
                (0..count).collect()
            } else {
                Grouped {
                    places: &mut *region,
                    block,
                    group: LINES_TOGETHER.min(block),
                    apart: 1,
                }
                .first(count as u64, rng)
            };
            let chain = region.chain(&order);
            // The last read takes the place of the chain in every cache.
            region.read_from(part);
            chain.one_lap()
        };
        sweep(&STRIDES, rounds, &mut rng.fork(), |stride, rng| {
            Ok::<f64, Failure>(sample(stride, rng))
        })
    };
    let (ordered, random) = (measure(true)?, measure(false)?);
    region.respread(Spread::Packed);
    let pages = pages_in_random_order(region, part, rounds, &mut rng)?;
    Ok(json!({
        "in_order": ordered.summary(),
        "random": random.summary(),
        "pages_in_random_order": pages.summary(),
    }))
}

/// Dependent loads at short strides in pages that come at random, from memory: what is waited for until
/// prefetchers follow, and nothing that they have in the next page helps.
fn pages_in_random_order(
    region: &mut Region,
    len: usize,
    rounds: usize,
    rng: &mut Rng,
) -> Result<Curve, Failure> {
    const STRIDES: [u64; 4] = [64, 128, 192, 256];
    const LINES: usize = PAGE / LINE;
    const MOST: usize = 1 << 7;
    let pages = (len / LINE / LINES).min(MOST);
    sweep(&STRIDES, rounds, &mut rng.fork(), |stride, rng| {
        let mut order: Vec<usize> = (0..pages).collect();
        rng.shuffle(&mut order);
        let lines = order.iter().flat_map(|page| {
            let within = (0..LINES).step_by(stride as usize / LINE);
            within.map(move |line| page * LINES + line)
        });
        let chain = region.chain(&lines.collect::<Vec<usize>>());
        region.read_from(len);
        Ok::<f64, Failure>(chain.one_lap())
    })
}
