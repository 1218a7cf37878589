use crate::config::MachineConfig;
use crate::count::result::RunResult;
use crate::error::BuildError;
use crate::mmu::ConfiguredMmu;
use crate::run::drive::{Drive, run};

pub(crate) type Run = fn(&MachineConfig, &mut Drive) -> Result<RunResult, BuildError>;

/// A design around the conventional TLB and some page tables, as its folder says.
#[derive(Debug)]
pub(crate) struct Composed {
    /// One line about it.
    pub(crate) description: &'static str,
    /// By the name of the page table.
    pub(crate) with: &'static [(&'static str, Compiled)],
}

/// A design as it is compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    pub(crate) run: Run,
    pub(crate) looks_into_caches: bool,
}

pub(crate) const fn compiled<M: ConfiguredMmu>() -> Compiled {
    Compiled {
        run: run::<M>,
        looks_into_caches: M::LOOKS_INTO_CACHES,
    }
}
