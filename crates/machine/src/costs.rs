use crate::config::CostConfig;
use crate::error::BuildError;
use pagelab_os::Effects;

/// [`CostConfig`] in slots of the core's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Taking a fault and returning.
    pub(crate) fault: u64,
    zero_4k: u64,
    copy_4k: u64,
    table_page: u64,
    entry: u64,
    probe: u64,
    migrate_4k: u64,
    shootdown: u64,
}

impl Costs {
    pub(crate) fn new(config: &CostConfig, slots_per_ns: f64) -> Result<Self, BuildError> {
        let slots = |key, ns: f64| {
            if ns.is_finite() && (0.0..1e12).contains(&ns) {
                Ok((ns * slots_per_ns).round() as u64)
            } else {
                Err(BuildError::Value {
                    key,
                    value: ns.to_string(),
                    expected: "a time from 0 to 10^12 ns",
                })
            }
        };
        Ok(Costs {
            fault: slots("cost.fault_ns", config.fault_ns)?,
            zero_4k: slots("cost.zero_4k_ns", config.zero_4k_ns)?,
            copy_4k: slots("cost.copy_4k_ns", config.copy_4k_ns)?,
            table_page: slots("cost.table_page_ns", config.table_page_ns)?,
            entry: slots("cost.entry_ns", config.entry_ns)?,
            probe: slots("cost.probe_ns", config.probe_ns)?,
            migrate_4k: slots("cost.migrate_4k_ns", config.migrate_4k_ns)?,
            shootdown: slots("cost.shootdown_ns", config.shootdown_ns)?,
        })
    }

    /// Time of what an operation did: (in the kernel at large, on migrations).
    pub(crate) fn of(&self, effects: &Effects) -> (u64, u64) {
        let work = &effects.work;
        let entries = work.entries_migrated + effects.entries_forked + effects.entries_moved;
        let kernel = effects.pages_zeroed * self.zero_4k
            + effects.pages_copied * self.copy_4k
            + work.table_frames * self.table_page
            + entries * self.entry
            + work.probes * self.probe;
        let shootdowns = work.displaced.len() as u64 + effects.shootdowns;
        let migration = effects.pages_migrated * self.migrate_4k + shootdowns * self.shootdown;
        (kernel, migration)
    }
}
