use serde::Serialize;

/// Time that retirement stood still, by cause, in slots (see [`crate::Core`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// Waiting for data, for addresses that are computed from them, and for room in the store buffer.
    pub data: u64,
    /// Waiting for translations: second-level TLB, page walks, a free walker.
    pub translation: u64,
    /// Waiting for the instructions after a mispredicted branch.
    pub mispredictions: u64,
    /// Waiting for instructions to be fetched.
    pub fetch: u64,
    /// In page faults, without migrations.
    pub faults: u64,
    /// Moving pages and invalidating their translations on other cores.
    pub migrations: u64,
}

impl Stalls {
    /// Splits a stall over the parts of the access that caused it.
    ///
    /// A fault is not overlapped with anything, so its time counts in full. What is left divides
    /// between translation and data in the ratio of their latencies: either one, were it free,
    /// would shorten the access by its own length, so neither has a better claim to the part
    /// that the window could not hide.
    #[inline]
    pub(crate) fn charge(
        &mut self,
        stall: u64,
        translation: u64,
        data: u64,
        fault: u64,
        migration: u64,
    ) {
        let mut left = stall;
        if fault + migration > 0 {
            let migration = migration.min(left);
            self.migrations += migration;
            left -= migration;
            let fault = fault.min(left);
            self.faults += fault;
            left -= fault;
        }
        let latency = translation + data;
        let for_translation = if data == 0 || translation == 0 {
            if data == 0 { left.min(translation) } else { 0 }
        } else {
            left.min(latency) * translation / latency
        };
        self.translation += for_translation;
        self.data += left - for_translation;
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.data
            + self.translation
            + self.mispredictions
            + self.fetch
            + self.faults
            + self.migrations
    }
}
