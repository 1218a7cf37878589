use crate::config::{CostConfig, Shootdowns};
use crate::error::BuildError;
use pagelab_os::{Effects, Os, ReclaimConfig};

/// Base pages of a page of 2 MiB.
const PAGES_OF_2M: u64 = 512;

/// [`CostConfig`], and times of the swap device, in slots of the core's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Taking a fault and returning.
    pub(crate) fault: u64,
    give: u64,
    zero_4k: u64,
    zero_2m: u64,
    copy_4k: u64,
    table_page: u64,
    entry: u64,
    unmap: u64,
    free_4k: u64,
    probe: u64,
    migrate_4k: u64,
    shootdown: u64,
    shootdowns: Shootdowns,
    read_page: u64,
    write_page: u64,
}

impl Costs {
    pub(crate) fn new(
        config: &CostConfig,
        reclaim: Option<ReclaimConfig>,
        slots_per_ns: f64,
    ) -> Result<Self, BuildError> {
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
        let zero_4k = slots("cost.zero_4k_ns", config.zero_4k_ns)?;
        let zero_2m = match config.zero_2m_ns {
            Some(ns) => slots("cost.zero_2m_ns", ns)?,
            None => PAGES_OF_2M * zero_4k,
        };
        Ok(Costs {
            fault: slots("cost.fault_ns", config.fault_ns)?,
            give: slots("cost.give_ns", config.give_ns)?,
            zero_4k,
            zero_2m,
            copy_4k: slots("cost.copy_4k_ns", config.copy_4k_ns)?,
            table_page: slots("cost.table_page_ns", config.table_page_ns)?,
            entry: slots("cost.entry_ns", config.entry_ns)?,
            unmap: slots("cost.unmap_ns", config.unmap_ns)?,
            free_4k: slots("cost.free_4k_ns", config.free_4k_ns)?,
            probe: slots("cost.probe_ns", config.probe_ns)?,
            migrate_4k: slots("cost.migrate_4k_ns", config.migrate_4k_ns)?,
            shootdown: slots("cost.shootdown_ns", config.shootdown_ns)?,
            shootdowns: config.shootdowns,
            read_page: slots(
                "memory.reclaim.read_us",
                reclaim.map_or(0.0, |to| to.read_us * 1e3),
            )?,
            write_page: slots(
                "memory.reclaim.write_us",
                reclaim.map_or(0.0, |to| to.write_us * 1e3),
            )?,
        })
    }

    /// Part of an operation's time in the kernel that fills pages with zeros.
    pub(crate) fn zeroing(&self, effects: &Effects) -> u64 {
        let large = effects.pages_zeroed_in_large;
        (effects.pages_zeroed - large) * self.zero_4k + large / PAGES_OF_2M * self.zero_2m
    }

    /// True if an operation has other cores drop translations, where others may have them.
    pub(crate) fn shoots_down(&self, effects: &Effects) -> bool {
        effects.narrowed && self.shootdowns == Shootdowns::All
    }

    /// Time of having other cores drop translations.
    pub(crate) fn shootdown(&self) -> u64 {
        self.shootdown
    }

    /// Time of making room, which few operations need.
    #[inline]
    fn of_scarce_memory(&self, effects: &Effects) -> u64 {
        if effects.pages_compacted | effects.pages_read | effects.pages_written == 0 {
            return 0;
        }
        effects.pages_compacted * self.migrate_4k
            + effects.pages_read * self.read_page
            + effects.pages_written * self.write_page
    }

    /// Time of what an operation did: (in the kernel at large, on migrations).
    pub(crate) fn of(&self, effects: &Effects) -> (u64, u64) {
        let work = &effects.work;
        let entries = work.entries_migrated
            + effects.entries_around
            + effects.entries_forked
            + effects.entries_moved;
        let kernel = self.zeroing(effects)
            + effects.blocks_given * self.give
            + effects.pages_copied * self.copy_4k
            + work.table_frames * self.table_page
            + entries * self.entry
            + effects.entries_unmapped * self.unmap
            + effects.frames_freed * self.free_4k
            + work.probes * self.probe
            + self.of_scarce_memory(effects);
        let shootdowns = work.displaced.len() as u64 + effects.shootdowns;
        let migration = effects.pages_migrated * self.migrate_4k + shootdowns * self.shootdown;
        (kernel, migration)
    }
}

/// When the memory manager or khugepaged is to work next, in slots.
pub(crate) fn next_tick(os: &Os, slots_per_ns: f64, now: u64) -> u64 {
    os.tick_ns().map_or(u64::MAX, |ns| {
        now.saturating_add((ns * slots_per_ns).round() as u64)
    })
}
