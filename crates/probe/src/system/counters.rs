//! Hardware performance counters, where the machine has them and lets us.

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult};
use perf_event::{Builder, Counter};

/// A counter of loads that missed every TLB level.
#[derive(Debug)]
pub struct TlbMisses(Counter);

impl TlbMisses {
    /// Opens the counter for this thread, user mode only.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub fn open() -> Result<TlbMisses, String> {
        let event = Cache {
            which: CacheId::DTLB,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        };
        let mut builder = Builder::new(event);
        builder.exclude_kernel(true).exclude_hv(true);
        let counter = builder
            .build()
            .map_err(|error| format!("no TLB miss counter: perf_event_open: {error}"))?;
        Ok(TlbMisses(counter))
    }

    /// Result of `work` and how many misses it had; `None` if the counter failed.
    pub fn during<T>(&mut self, work: impl FnOnce() -> T) -> (T, Option<u64>) {
        let ready = self.0.reset().and_then(|()| self.0.enable()).is_ok();
        let result = work();
        let count = self.0.disable().and_then(|()| self.0.read()).ok();
        (result, count.filter(|_| ready))
    }
}
