//! The parts of the measurement: one file each, one line here.

mod branches;
mod caches;
mod calls;
mod chain;
mod faults;
mod folios;
mod huge;
mod idle;
mod memory;
mod shared_code;
mod syscalls;
mod tlb;
mod window;

use crate::detect::Steps;
use crate::noise::Noise;
use crate::places::{Pages, Region, Spread};
use crate::system::mapping::HUGE;
use crate::system::tuning::Tuning;
use crate::system::{Refused, budget, claims};
use clap::{ArgMatches, Command};
use fastrand::Rng;
pub(crate) use faults::{Use, touched_life};
use serde::Serialize;
use serde_json::{Value, json};
pub(crate) use window::ReorderBufferCheck;

/// Every part, in the order in which a whole run takes them.
pub const PARTS: &[Part] = &[
    caches::PART,
    branches::PART,
    tlb::PART,
    chain::PART,
    memory::PART,
    window::PART,
    faults::PART,
    folios::PART,
    huge::PART,
    idle::PART,
    syscalls::PART,
    shared_code::PART,
    calls::PART,
];

/// One part of the measurement.
pub struct Part {
    /// Its subcommand, and its key in the result.
    pub name: &'static str,
    /// Question that it answers, for `--help`.
    pub about: &'static str,
    /// A whole run includes it: not if it needs arguments.
    pub in_all: bool,
    /// Adds options of its own.
    pub options: fn(Command) -> Command,
    /// Measures. The value goes into the result as it is.
    pub run: fn(&mut Context, &ArgMatches) -> Result<Value, Failure>,
}

/// No options of its own.
pub fn no_options(command: Command) -> Command {
    command
}

/// A curve with its plateaus and steps, for the result.
fn curve_with_steps(found: &Steps) -> Value {
    json!({
        "curve": found.curve.summary(),
        "plateaus": found.plateaus,
        "steps": found.steps,
    })
}

/// State that the parts share.
pub struct Context {
    /// Measure less: the whole run in under a minute.
    pub quick: bool,
    /// Everything random comes from here.
    pub rng: Rng,
    /// The CPU the process is bound to.
    pub cpu: Option<usize>,
    /// Leave to change settings.
    pub tuning: Tuning,
    /// Noise of the machine.
    pub noise: Noise,
    /// Measurements that could not be made.
    pub not_done: Vec<NotDone>,
    /// The part that runs now.
    pub part: &'static str,
}

/// Something that could not be measured, and why.
#[derive(Clone, Debug, Serialize)]
pub struct NotDone {
    /// The part.
    pub part: &'static str,
    /// Part of it.
    pub what: String,
    /// Reason.
    pub why: String,
}

/// Reason for which a part gave no result at all.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The system refused something it needs.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The machine is too small, or lacks something.
    #[error("{0}")]
    Lacking(String),
    /// The result could not be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Memory of lines in a row that no cache holds, in huge pages, or why there were none.
pub(crate) fn beyond_caches() -> Result<(Region, Option<Refused>), Failure> {
    let last = claims::caches().last().map_or(32 << 20, |c| c.size) as usize;
    let len = (4 * last).clamp(64 << 20, 1 << 30);
    let len = len.min(budget::bytes() as usize) / HUGE * HUGE;
    if len < 16 << 20 {
        return Err(Failure::Lacking("too little memory is free".into()));
    }
    match Region::new(len, Pages::Huge, Spread::Packed) {
        Ok(region) => Ok((region, None)),
        Err(error) => {
            let region = Region::new(len, Pages::Small, Spread::Packed)?;
            Ok((region, Some(error)))
        }
    }
}

impl Context {
    /// As the function of that name; notes it when there were no huge pages.
    fn beyond_caches(&mut self) -> Result<Region, Failure> {
        let (region, no_huge) = beyond_caches()?;
        if let Some(error) = no_huge {
            self.skip("huge pages (page walks are in the figures)", error);
        }
        Ok(region)
    }

    /// Notes that something could not be measured.
    pub fn skip(&mut self, what: impl Into<String>, why: impl ToString) {
        let (what, why) = (what.into(), why.to_string());
        self.say(&format!("not done: {what}: {why}"));
        self.not_done.push(NotDone {
            part: self.part,
            what,
            why,
        });
    }

    /// Runs `work`; notes a failure under `what` and goes on without the result.
    pub fn attempt<T>(
        &mut self,
        what: &str,
        work: impl FnOnce(&mut Context) -> Result<T, Failure>,
    ) -> Option<T> {
        self.say(what);
        match work(self) {
            Ok(value) => Some(value),
            Err(error) => {
                self.skip(what, error);
                None
            }
        }
    }

    /// Progress, for the person who waits.
    pub fn say(&self, what: &str) {
        eprintln!("{}: {what}", self.part);
    }
}
