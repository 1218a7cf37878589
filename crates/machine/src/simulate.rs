use crate::config::{MachineConfig, suggestion};
use crate::machine::{BuildError, Machine, RunError};
use crate::result::RunResult;
use pagelab_events::{Batch, Source};
use pagelab_os::Os;
use pagelab_translation::{ConventionalTlb, Dpt, Ideal, PageTable, PerfectTlb, Radix, Tlb};
use std::ops::ControlFlow;

/// A design that can be simulated: a page table and a TLB.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line about it.
    pub description: &'static str,
    run: Run,
}

type Run = fn(&MachineConfig, Os, &mut Drive) -> Result<RunResult, BuildError>;

/// Every design. To add one, implement `PageTable` (and `Tlb`, where it is one) and add a line.
pub const DESIGNS: &[Design] = &[
    Design {
        name: "radix",
        description: "the radix tree of x86-64 with a split page-walk cache (4 or 5 levels)",
        run: |config, os, drive| {
            let table = Radix::new(&config.radix, config.cores as usize)?;
            let counters = |table: &Radix| serde_json::to_value(table.counters());
            drive.run(config, os, table, conventional(config), counters)
        },
    },
    Design {
        name: "dpt",
        description: "the distributed page table: physical memory as one hashed table",
        run: |config, os, drive| {
            let table = Dpt::new(&config.dpt, config.cores as usize)?;
            let counters = |table: &Dpt| serde_json::to_value(table.counters());
            drive.run(config, os, table, conventional(config), counters)
        },
    },
    Design {
        name: "ideal",
        description: "every translation free: the bound that no design can pass",
        run: |config, os, drive| {
            let counters = |_: &Ideal| Ok(serde_json::Value::Null);
            drive.run(config, os, Ideal::new(), || Ok(PerfectTlb), counters)
        },
    },
];

fn conventional(config: &MachineConfig) -> impl Fn() -> Result<ConventionalTlb, BuildError> {
    || Ok(ConventionalTlb::new(&config.tlb)?)
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Accesses simulated.
    pub accesses: u64,
    /// Accesses yet to come, as far as the source knows.
    pub remaining: Option<u64>,
}

/// Why nothing was simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// No such design.
    #[error(
        "unknown design {name:?}: there are {}{}",
        DESIGNS.iter().map(|d| d.name).collect::<Vec<_>>().join(", "),
        suggestion(name, DESIGNS.iter().map(|d| d.name)),
    )]
    UnknownDesign {
        /// What was asked for.
        name: String,
    },
    /// The machine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Simulates a source on a machine with a design, to the source's end, to the first error, or
/// until `progress` breaks it off; the result says which, and holds for what was simulated.
///
/// # Errors
/// [`SimulateError`] when nothing could be simulated at all.
pub fn simulate(
    config: &MachineConfig,
    design: &str,
    source: &mut dyn Source,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, SimulateError> {
    let Some(design) = DESIGNS.iter().find(|d| d.name == design) else {
        return Err(SimulateError::UnknownDesign {
            name: design.to_owned(),
        });
    };
    let os = Os::new(config.memory.clone(), config.seed).map_err(BuildError::Os)?;
    let mut drive = Drive {
        design: design.name,
        source,
        progress,
    };
    Ok((design.run)(config, os, &mut drive)?)
}

/// What a run needs besides the machine.
struct Drive<'a> {
    design: &'static str,
    source: &'a mut dyn Source,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
}

impl Drive<'_> {
    fn run<P: PageTable, T: Tlb>(
        &mut self,
        config: &MachineConfig,
        os: Os,
        table: P,
        tlb: impl Fn() -> Result<T, BuildError>,
        counters: impl Fn(&P) -> serde_json::Result<serde_json::Value>,
    ) -> Result<RunResult, BuildError> {
        let mut machine = Machine::new(config, os, table, tlb)?;
        let mut batch = Batch::default();
        let stopped = loop {
            match self.source.next_batch(&mut batch) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(RunError::from(error).to_string()),
            }
            if let Err(error) = machine.run(&batch) {
                break Some(error.to_string());
            }
            let progress = Progress {
                accesses: machine.accesses(),
                remaining: self.source.remaining(),
            };
            if (self.progress)(progress).is_break() {
                break Some("interrupted".to_owned());
            }
        };
        Ok(machine.result(config, self.design, stopped, counters))
    }
}
