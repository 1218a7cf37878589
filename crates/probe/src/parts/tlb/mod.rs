//! TLBs: levels, entries, associativity, cost of a miss, and coalescing, for each page size.
//!
//! Every latency here is corrected (see [`twin`]): what a plain chain of one line a page adds to
//! it, past 512 pages, is the cache (Zhai, Measuring the Linux Virtual Memory Subsystem, 3.4).

mod twin;
mod ways;

use self::twin::{Links, Twin};
use super::{Context, Failure, Part, curve_with_steps, no_options};
use crate::chain::sweep;
use crate::detect::{Options, Step, Steps, find_steps};
use crate::places::{Aliases, Grouped, Pages, Places, Region, Spread};
use crate::system::counters::TlbMisses;
use crate::system::mapping::{HUGE, PAGE};
use crate::system::tuning::NOT_ALLOWED;
use crate::system::{budget, claims, files};
use clap::ArgMatches;
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
    let small = corrected_steps(context, &mut aliases, &mut twin, Links::Dense)?;
    let misses = counted_misses(context, &mut aliases, &small);
    drop(aliases);
    let kinds = context.attempt("4 KiB pages, nine pages apart", |context| {
        // An address and the hole behind it are two areas.
        spaced(context, most / 2, &mut twin, &small)
    });
    let associativity = context.attempt("4 KiB pages a power of two apart", |context| {
        ways::measure(context, &mut twin, &small)
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
        "hit_ns": twin.hit(),
        "alias_penalty_ns": twin.alias_penalty(),
        "small": curve_with_steps(&small),
        "misses_per_load": misses,
        "kinds": kinds,
        "associativity": associativity,
        "contiguous": neighbours,
        "pieces_of_huge_pages": pieces,
        "huge": huge,
        "giant": giant,
        "claimed": claims::tlbs(),
        "claimed_code": claims::code_tlbs(),
    }))
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
    links: Links,
) -> Result<Steps, Failure> {
    let most = places.count().min(twin.count());
    let options = options(context, most as u64);
    let mut rng = context.rng.fork();
    find_steps(&options, &mut rng.fork(), |x, rounds| {
        sweep(x, rounds, &mut rng, |x, rng| {
            Ok(twin.correct(places, links, x, rng))
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
    let found = corrected_steps(context, &mut aliases, twin, Links::Dense)?;
    let place = |step: &Step| step.fit.map_or(step.before, |f| f.capacity) as f64;
    let kinds: Vec<&str> = dense
        .steps
        .iter()
        .map(|step| {
            // The walks cost more here, so that the plateau above may be beyond the sweep.
            let stays = found.plateaus.iter().any(|plateau| {
                let last = plateau.last as f64;
                plateau.last < most as u64 / 2 && (last / step.before as f64 - 1.0).abs() < SAME
            });
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
    const NEIGHBOURS: usize = 8;
    let mut groups = Grouped {
        places: Region::new(len, pages, Spread::LineInEachPage)?,
        block: NEIGHBOURS,
        group: NEIGHBOURS,
        apart: 1,
    };
    let found = corrected_steps(context, &mut groups, twin, Links::Lines)?;
    Ok(curve_with_steps(&found))
}

/// 2 MiB pages: one hugetlb page at many addresses, or as many transparent ones as the budget
/// allows.
fn huge_pages(context: &mut Context, twin: &mut Twin) -> Result<Value, Failure> {
    let most = if context.quick { 2_048 } else { 4_096 };
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
    let mut region = Region::new(count * HUGE, Pages::Huge, Spread::LineInEachHugePage)?;
    let found = corrected_steps(context, &mut region, twin, Links::Lines)?;
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
    let found = corrected_steps(context, &mut aliases, twin, Links::Dense)?;
    let mut value = curve_with_steps(&found);
    value["backing"] = json!("one hugetlb page at many addresses");
    Ok(value)
}
