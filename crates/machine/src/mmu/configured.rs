use super::contract::Mmu;
use crate::config::MachineConfig;
use crate::design::name::DesignName;
use crate::error::BuildError;
use pagelab_os::{Os, Placement};
use pagelab_translation::{PageTable, Tlb};
use serde_json::Value;
use std::borrow::Cow;

/// A page table that a configuration describes.
pub(crate) trait ConfiguredTable: PageTable + Sized {
    fn build(config: &MachineConfig) -> Result<Self, BuildError>;

    /// Physical memory of a machine with it.
    fn physical_bytes(config: &MachineConfig) -> u64 {
        config.memory.memory_bytes
    }

    /// The design's own counters.
    fn statistics(&self) -> serde_json::Result<Value>;
}

/// A TLB that a configuration describes.
pub(crate) trait ConfiguredTlb: Tlb + Sized {
    /// Page table made from the one that is given.
    type Table<P: ConfiguredTable>: ConfiguredTable;

    /// Placement of pages by the operating system of a machine with this TLB.
    fn placement(_: &MachineConfig) -> Placement {
        Placement::Buddy
    }

    fn build(config: &MachineConfig, os: &Os) -> Result<Self, BuildError>;

    /// True if translations can be prefetched for it.
    fn prefetches(_: &MachineConfig) -> bool {
        false
    }
}

/// A design that a configuration describes.
pub(crate) trait ConfiguredMmu: Mmu<Table: ConfiguredTable> + Sized {
    /// Placement of pages by the operating system of a machine with this design.
    fn placement(config: &MachineConfig) -> Placement;

    /// The machine that it makes of one; why not, if it does not go with that.
    fn machine(config: &MachineConfig) -> Result<Cow<'_, MachineConfig>, &'static str> {
        Ok(Cow::Borrowed(config))
    }

    /// The design over a page table, in which pages may be mapped already.
    fn over(table: Self::Table, config: &MachineConfig, os: &Os) -> Result<Self, BuildError>;

    /// [`ConfiguredMmu::machine`] of a design of this name.
    fn machine_of<'a>(
        design: DesignName,
        config: &'a MachineConfig,
    ) -> Result<Cow<'a, MachineConfig>, BuildError> {
        Self::machine(config).map_err(|why| BuildError::Refused {
            design: design.name(),
            why,
        })
    }

    fn build(config: &MachineConfig, os: &Os) -> Result<Self, BuildError> {
        Self::over(Self::Table::build(config)?, config, os)
    }

    /// The page table's own counters.
    fn statistics(&self) -> serde_json::Value {
        // They are plain numbers, which always have a JSON form.
        self.table().statistics().unwrap_or_default()
    }
}
