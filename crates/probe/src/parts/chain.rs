//! The plain chain: one dependent load a page over ordinary memory, nothing taken out. What a
//! simulator can run as well, to be compared point by point (`pagelab validate`).

use super::{Context, Failure, Part, no_options};
use crate::chain::sweep;
use crate::detect::geometric_grid;
use crate::places::{Pages, Places, Region, Spread, latency};
use crate::system::budget;
use crate::system::mapping::PAGE;
use clap::ArgMatches;
use serde_json::{Value, json};

pub const PART: Part = Part {
    name: "chain",
    about: "Latency of a plain chain of one load a page, 4 KiB to 256 MiB of pages",
    in_all: true,
    options: no_options,
    run,
};

const LARGEST: usize = 256 << 20;

fn run(context: &mut Context, _: &ArgMatches) -> Result<Value, Failure> {
    let len = LARGEST.min(budget::bytes() as usize);
    if len < LARGEST {
        context.skip(
            format!("more than {} MiB", len >> 20),
            "too little memory is free",
        );
    }
    let mut region = Region::new(len, Pages::Small, Spread::LineInEachPage)?;
    let pages = (len / PAGE).min(region.count());
    let x = geometric_grid(1, pages as u64, if context.quick { 2 } else { 4 });
    let rounds = if context.quick { 5 } else { 11 };
    let mut rng = context.rng.fork();
    let curve = sweep(&x, rounds, &mut rng, |x, rng| {
        Ok::<f64, Failure>(latency(&mut region, x, rng))
    })?;
    Ok(json!({ "pages": curve.summary() }))
}
