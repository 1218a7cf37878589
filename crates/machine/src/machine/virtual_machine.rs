//! The host under a virtual machine.

use crate::config::MachineConfig;
use crate::config::check::MAX_MEMORY_BYTES;
use crate::error::BuildError;
use crate::mmu::ConfiguredTable;
use pagelab_addr::{PAGE_BYTES, PageDirectory, Pfn};
use pagelab_events::{Backing, Control, Protection};
use pagelab_os::{Effects, Os, OsConfig, PagePolicy};
use pagelab_translation::{Nested, host_page};
use serde_json::{Value, json};

impl<G: ConfiguredTable, H: ConfiguredTable> ConfiguredTable for Nested<G, H> {
    fn build(config: &MachineConfig) -> Result<Self, BuildError> {
        let (guest, host) = (G::build(config)?, back(H::build(config)?, config)?);
        let cores = config.cores as usize;
        Ok(Nested::new(guest, host, &config.nested, cores)?)
    }

    fn physical_bytes(config: &MachineConfig) -> u64 {
        host_bytes(config)
    }

    fn statistics(&self) -> serde_json::Result<Value> {
        Ok(json!({
            "nested": self.counters(),
            "guest": self.guest().statistics()?,
        }))
    }
}

/// Memory of the host.
fn host_bytes(config: &MachineConfig) -> u64 {
    match config.nested.host_memory_bytes {
        0 => config.memory.memory_bytes * 2,
        bytes => bytes,
    }
}

/// Maps the whole memory of the virtual machine in the host's page table, as a host does that
/// populates it at the start. What that costs is not in the run.
fn back<H: ConfiguredTable>(mut table: H, config: &MachineConfig) -> Result<H, BuildError> {
    if !config.memory.nodes.is_empty() {
        return Err(BuildError::Value {
            key: "memory.nodes",
            value: format!("{} nodes", config.memory.nodes.len()),
            expected: "empty, as a virtual machine's memory has to be",
        });
    }
    let guest_bytes = config.memory.memory_bytes;
    let host_bytes = host_bytes(config);
    if host_bytes > MAX_MEMORY_BYTES {
        return Err(BuildError::Value {
            key: "nested.host_memory_bytes",
            value: host_bytes.to_string(),
            expected: "at most 128 GiB",
        });
    }
    let memory = OsConfig {
        memory_bytes: host_bytes,
        utilisation: 0.0,
        free_blocks: Vec::new(),
        page_policy: if config.nested.host_thp {
            PagePolicy::THP
        } else {
            PagePolicy::BASE
        },
        ..config.memory.clone()
    };
    let mut os = Os::new(memory, config.seed)?;
    let populate = Control::Map {
        addr: 0,
        len: guest_bytes,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing: Backing::Anonymous,
        populate: true,
    };
    let mut directory = PageDirectory::new();
    let mut effects = Effects::new();
    os.control(&mut table, &mut directory, 0, &populate, &mut effects)
        .map_err(BuildError::Host)?;
    let last = host_page(Pfn((guest_bytes / PAGE_BYTES) as u32 - 1));
    debug_assert_eq!(directory.page(last.asid, last.vpn).ok(), Some(last.id));
    Ok(table)
}
