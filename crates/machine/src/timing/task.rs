use crate::caches::served::Served;
use crate::machine::payer::Payer;
use crate::machine::requests::{Cached, request};

/// A read of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    pub(super) line: u32,
    pub(super) served: Served,
    pub(super) step: u8,
}

/// A walk, but for its reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    pub(super) fixed: u64,
    pub(super) payer: Payer,
    pub(super) reads: u16,
    /// Reads at the end of these, which nothing waits for.
    pub(super) background: u16,
    /// log2 of the base pages of what it finds.
    pub(super) shift: u8,
    /// Part that has to do with translations in caches and buffers.
    pub(super) cached: Cached,
}

/// A line of an access that takes no more page faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Task {
    pub(super) page: u32,
    pub(super) line: u32,
    pub(super) bits: u8,
    pub(super) served: Served,
}

impl Task {
    /// When it has what it waits for, of which the data is there at `done`: a prefetch waits until it is
    /// `sent`, with a translation and, if the first level misses, a miss buffer.
    #[inline(always)]
    pub(super) fn ends(&self, done: u64, sent: u64) -> u64 {
        if self.bits & request::PREFETCH != 0 {
            sent
        } else {
            done
        }
    }
}
