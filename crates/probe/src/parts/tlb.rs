//! TLBs: levels, entries, associativity, cost of a miss, and coalescing, for each page size.
//!
//! Every latency here is corrected: a second chain visits as many lines of a few huge pages in
//! turn with the first, and only what the first takes longer is the translation's. What a plain
//! chain of one line a page adds to it, past 512 pages, is the cache (Zhai, Measuring the Linux
//! Virtual Memory Subsystem, 3.4).

use super::{Context, Failure, Part, curve_with_steps, no_options};
use crate::chain::{Chain, sweep};
use crate::detect::{Curve, Options, Step, Steps, crossing, find_steps};
use crate::places::{Aliases, Pages, Places, Region, Spread, latency};
use crate::stats::median;
use crate::system::counters::TlbMisses;
use crate::system::mapping::{HUGE, PAGE};
use crate::system::tuning::NOT_ALLOWED;
use crate::system::{budget, claims, files};
use clap::ArgMatches;
use fastrand::Rng;
use serde_json::{Value, json};

pub const PART: Part = Part {
    name: "tlb",
    about: "Levels, entries, associativity and miss cost of the TLBs, for each page size",
    in_all: true,
    options: no_options,
    run,
};

const GIANT: usize = 1 << 30;

/// Address areas left to the rest of the process.
const SPARE_AREAS: u64 = 2_000;

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    let areas = files::number("/proc/sys/vm/max_map_count").unwrap_or(65_530);
    let most = areas.saturating_sub(SPARE_AREAS).min(60_000) as usize;
    let most = if context.quick {
        most.min(32_768)
    } else {
        most
    };
    context.say(&format!("4 KiB pages: up to {most} addresses"));
    let mut twin = Twin::new(context, most)?;
    let mut aliases = Aliases::small(most, 1)?;
    let small = corrected_steps(context, &mut aliases, &mut twin)?;
    let misses = counted_misses(context, &mut aliases, &small);
    drop(aliases);
    let kinds = context.attempt("4 KiB pages, nine pages apart", |context| {
        // An address and the hole behind it are two areas.
        spaced(context, most / 2, &mut twin, &small)
    });
    let associativity = context.attempt("4 KiB pages a power of two apart", |context| {
        associativity(context, &mut twin, &small)
    });
    let neighbours = context.attempt("contiguous 4 KiB pages", |context| {
        contiguous(context, &mut twin, most, Pages::Contiguous)
    });
    // If the hypervisor maps the guest's memory by small pages, a TLB holds pieces of the huge
    // page, and the curve steps as if there were no huge pages.
    let pieces = context.attempt("4 KiB pieces of huge pages", |context| {
        contiguous(context, &mut twin, most, Pages::Huge)
    });
    let huge = context.attempt("2 MiB pages", |context| huge_pages(context, &mut twin));
    let giant = context.attempt("1 GiB pages", |context| {
        hugetlb(context, &mut twin, GIANT, 256)
    });
    Ok(json!({
        "hit_ns": twin.hit,
        "small": curve_with_steps(&small),
        "misses_per_load": misses,
        "kinds": kinds,
        "associativity": associativity,
        "contiguous": neighbours,
        "pieces_of_huge_pages": pieces,
        "huge": huge,
        "giant": giant,
        "claimed": claims::tlbs(),
    }))
}

/// The chain that the cost of the caches is taken from: the same number of lines, packed.
struct Twin {
    region: Region,
    /// Nanoseconds of a load that hits everywhere.
    hit: f64,
}

impl Twin {
    fn new(context: &mut Context, lines: usize) -> Result<Twin, Failure> {
        let len = lines * crate::chain::LINE;
        let region = Region::new(len, Pages::Huge, Spread::Packed).or_else(|error| {
            context.skip(
                "huge pages for the comparison chain (it has few misses itself)",
                error,
            );
            Region::new(len, Pages::Small, Spread::Packed)
        });
        let mut region = region?;
        let samples: Vec<f64> = (0..15)
            .map(|_| latency(&mut region, 32, &mut context.rng))
            .collect();
        let hit = median(&samples).unwrap_or(f64::NAN);
        Ok(Twin { region, hit })
    }

    /// Nanoseconds of a load of `places` if the caches cost nothing beyond a hit.
    fn correct(&mut self, places: &mut dyn Places, count: u64, rng: &mut Rng) -> f64 {
        let with = latency(places, count, rng);
        let without = latency(&mut self.region, count, rng);
        // Noise must not make it vanish: logarithms are taken of it.
        (with - without + self.hit).max(self.hit / 4.0)
    }
}

fn options(context: &Context, last: u64) -> Options {
    Options {
        rounds: if context.quick { 7 } else { 15 },
        per_octave: if context.quick { 6 } else { 8 },
        dense_sweeps: if context.quick { 2 } else { 3 },
        ..Options::new(8, last)
    }
}

fn corrected_steps(
    context: &mut Context,
    places: &mut dyn Places,
    twin: &mut Twin,
) -> Result<Steps, Failure> {
    let options = options(context, places.count() as u64);
    let mut rng = context.rng.fork();
    find_steps(&options, &mut rng.fork(), |x, rounds| {
        sweep(x, rounds, &mut rng, |x, rng| {
            Ok(twin.correct(places, x, rng))
        })
    })
}

/// Misses of all TLB levels a load, on and a little beyond each plateau, where the machine counts.
fn counted_misses(context: &mut Context, places: &mut dyn Places, found: &Steps) -> Value {
    let mut counter = match TlbMisses::open() {
        Ok(counter) => counter,
        Err(why) => {
            context.skip("counted TLB misses", why);
            return Value::Null;
        }
    };
    let x: Vec<u64> = found
        .plateaus
        .iter()
        .flat_map(|p| [p.first, p.last])
        .collect();
    let ratios: Vec<Option<f64>> = x
        .iter()
        .map(|&x| {
            let order = places.first(x, &mut context.rng);
            let chain = places.chain(&order);
            let (loads, misses) = counter.during(|| chain.laps());
            Some(misses? as f64 / loads as f64)
        })
        .collect();
    json!({ "x": x, "misses": ratios })
}

/// Tells TLB entries from what makes walks slower. With pages nine apart, each has a leaf-table
/// line of its own and a ninth of the reach of a walk cache, and since nine is odd the pages
/// still spread over the sets of a TLB: a step that stays is the TLB's, one that moves the walk's.
fn spaced(
    context: &mut Context,
    most: usize,
    twin: &mut Twin,
    dense: &Steps,
) -> Result<Value, Failure> {
    const SPACING: usize = 9;
    const SAME: f64 = 0.25;
    let mut aliases = Aliases::small(most, SPACING)?;
    let found = corrected_steps(context, &mut aliases, twin)?;
    let place = |step: &Step| step.fit.map_or(step.before, |f| f.capacity) as f64;
    let kinds: Vec<&str> = dense
        .steps
        .iter()
        .map(|step| {
            let stays = found
                .steps
                .iter()
                .any(|other| (place(other) / place(step) - 1.0).abs() < SAME);
            if stays {
                "tlb"
            } else if place(step) * 1.5 > most as f64 {
                "unknown: beyond the spaced sweep"
            } else {
                "walk"
            }
        })
        .collect();
    Ok(json!({ "spacing": SPACING, "spaced": curve_with_steps(&found), "kinds": kinds }))
}

/// Ways of the first two levels, from pages that fall into one set if the set is chosen by the
/// low bits of the page number: as many as fit, by their distance.
///
/// If the capacity of the first level does not depend on the distance, it is fully associative
/// or hashed. It hides the second level, unless something else flushes it: for that, a lap also
/// visits twice as many pages as it holds, one to each of the other sets.
fn associativity(context: &mut Context, twin: &mut Twin, dense: &Steps) -> Result<Value, Failure> {
    let levels = dense.levels();
    let Some(first) = dense.steps.first().and_then(|s| s.nominal) else {
        return Err(Failure::Lacking("no level was found".into()));
    };
    // Leaf tables for so much address space are a small part of any budget.
    const REACH: usize = 16 << 30;
    let mut rng = context.rng.fork();
    let rounds = if context.quick { 5 } else { 11 };
    let powers = if context.quick { 9..=10 } else { 4..=13 };
    let (mut l1, mut l2) = (Vec::new(), Vec::new());
    for distance in powers.map(|power| 1usize << power) {
        let count = (first as usize * 5 / 4).min(REACH / (distance * PAGE));
        let mut aliases = Aliases::small(count, distance)?;
        let grid: Vec<u64> = (2..=count as u64).collect();
        let curve = sweep(&grid, rounds, &mut rng.fork(), |x, rng| {
            Ok::<f64, Failure>(twin.correct(&mut aliases, x, rng))
        })?;
        let ways = crossing(&curve, levels[0], levels[1], 100, &mut rng);
        l1.push(json!({ "distance": distance, "ways": ways }));
        let fillers = 2 * first as usize;
        if levels.len() > 2 && fillers < distance {
            let height = levels[levels.len() - 1] - levels[1];
            let curve = conflicts(distance, fillers, height, rounds, &mut rng)?;
            let ways = crossing(&curve, 1.0, 2.0, 100, &mut rng);
            l2.push(json!({ "distance": distance, "ways": ways, "curve": curve.summary() }));
        }
    }
    Ok(json!({ "first_level": l1, "second_level": l2 }))
}

/// What conflicting pages cost more than as many pages, one further apart, that do not conflict,
/// both behind `fillers`: 1 for nothing, 2 for a walk (`height`) at each of them.
fn conflicts(
    distance: usize,
    fillers: usize,
    height: f64,
    rounds: usize,
    rng: &mut Rng,
) -> Result<Curve, Failure> {
    const MOST_WAYS: usize = 64;
    let flushed = |distance: usize| -> Result<Flushed, Failure> {
        let page = |i: usize| i.checked_sub(fillers).map_or(i + 1, |i| i * distance);
        let aliases = Aliases::at(MOST_WAYS + fillers, page)?;
        Ok(Flushed { aliases, fillers })
    };
    let (mut conflicting, mut spread) = (flushed(distance)?, flushed(distance + 1)?);
    let grid: Vec<u64> = (3..=MOST_WAYS as u64).collect();
    sweep(&grid, rounds, rng, |x, rng| {
        let extra = latency(&mut conflicting, x, rng) - latency(&mut spread, x, rng);
        let share = x as f64 / (x as usize + fillers) as f64;
        Ok(1.0 + (extra / height / share).clamp(0.0, 2.0))
    })
}

/// Pages behind pages that flush the first level.
struct Flushed {
    aliases: Aliases,
    fillers: usize,
}

impl Places for Flushed {
    fn count(&self) -> usize {
        self.aliases.count() - self.fillers
    }

    fn chain(&mut self, order: &[usize]) -> Chain {
        let fillers = 0..self.fillers;
        let all: Vec<usize> = fillers
            .chain(order.iter().map(|i| i + self.fillers))
            .collect();
        self.aliases.chain(&all)
    }
}

/// Physically contiguous base pages: how many more of them fit is what the TLB coalesces.
///
/// Groups of eight neighbours are visited in turn, the groups in random order: a TLB that holds
/// `k` neighbours in an entry overflows at `k` times as many pages, and then misses once for `k`
/// loads. In a fully random order it would overflow by and by.
fn contiguous(
    context: &mut Context,
    twin: &mut Twin,
    most: usize,
    pages: Pages,
) -> Result<Value, Failure> {
    let len = (most * PAGE).min(budget::bytes() as usize / 2);
    let mut groups = Groups {
        region: Region::new(len, pages, Spread::LineInEachPage)?,
        most,
    };
    let found = corrected_steps(context, &mut groups, twin)?;
    Ok(curve_with_steps(&found))
}

/// Places visited in groups of neighbours.
struct Groups {
    region: Region,
    /// No more than the places the twin can follow.
    most: usize,
}

impl Places for Groups {
    fn count(&self) -> usize {
        self.region.count().min(self.most)
    }

    fn chain(&mut self, order: &[usize]) -> Chain {
        self.region.chain(order)
    }

    fn first(&self, count: u64, rng: &mut Rng) -> Vec<usize> {
        const GROUP: usize = 8;
        let count = count as usize;
        let mut groups: Vec<usize> = (0..count.div_ceil(GROUP)).collect();
        rng.shuffle(&mut groups);
        let places = groups
            .iter()
            .flat_map(|g| g * GROUP..count.min((g + 1) * GROUP));
        places.collect()
    }
}

/// 2 MiB pages: one hugetlb page at many addresses, or as many transparent ones as the budget
/// allows.
fn huge_pages(context: &mut Context, twin: &mut Twin) -> Result<Value, Failure> {
    let most = if context.quick { 2_048 } else { 8_192 };
    match hugetlb(context, twin, HUGE, most) {
        Ok(value) => return Ok(value),
        Err(why) => context.skip("one 2 MiB page at many addresses", why),
    }
    const LEAST: usize = 32;
    const MOST: usize = 1_024;
    let cap = if context.quick { MOST / 4 } else { MOST };
    let count = (budget::bytes() as usize / HUGE).min(cap);
    if count < LEAST {
        return Err(Failure::Lacking("too little memory is free".into()));
    }
    let spread = Spread::Stride(HUGE + crate::chain::LINE);
    let mut region = Region::new((count + 1) * HUGE, Pages::Huge, spread)?;
    let found = corrected_steps(context, &mut region, twin)?;
    let mut value = curve_with_steps(&found);
    value["backing"] = json!("transparent huge pages");
    Ok(value)
}

fn hugetlb(
    context: &mut Context,
    twin: &mut Twin,
    page: usize,
    most: usize,
) -> Result<Value, Failure> {
    let directory = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", page >> 10);
    if files::number(format!("{directory}/free_hugepages")).unwrap_or(0) == 0 {
        if !context.tuning.is_allowed() {
            return Err(Failure::Lacking(format!(
                "no free hugetlb page: {NOT_ALLOWED}"
            )));
        }
        if budget::bytes() < page as u64 {
            return Err(Failure::Lacking("too little memory is free".into()));
        }
        context
            .tuning
            .set(format!("{directory}/nr_hugepages"), "1")?;
    }
    let mut aliases = Aliases::hugetlb(most, page)?;
    let found = corrected_steps(context, &mut aliases, twin)?;
    let mut value = curve_with_steps(&found);
    value["backing"] = json!("one hugetlb page at many addresses");
    Ok(value)
}
