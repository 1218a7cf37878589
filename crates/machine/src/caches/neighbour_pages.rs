//! Pages beside those that a chunk accesses.

use pagelab_addr::PAGE_SHIFT;

/// The pages beside those of a chunk's accesses as they were at each access, though the caches take
/// the chunk after all of its faults: results are the same however accesses come in chunks.
#[derive(Clone, Debug, Default)]
pub(crate) struct NeighbourPages {
    /// Addresses of the chunk's accesses; empty where no prefetcher goes on in other pages.
    addresses: Vec<u64>,
    /// The access that is translated.
    pub(crate) now: usize,
    /// First access whose neighbours were not kept.
    until: usize,
    /// The frames after and before the pages of the accesses from each of these on.
    kept: Vec<(usize, [Option<u32>; 2])>,
}

impl NeighbourPages {
    /// For a chunk of accesses to these addresses. Without, nothing is kept.
    pub(crate) fn begin(&mut self, addresses: &[u64]) {
        self.addresses.clear();
        self.addresses.extend_from_slice(addresses);
        self.kept.clear();
        (self.now, self.until) = (0, 0);
    }

    /// The frame of the page after that of an access (with `up`), or before it, at that access.
    ///
    /// `frame` finds that of an address as it is now.
    pub(crate) fn frame(
        &self,
        access: usize,
        up: bool,
        frame: impl FnOnce(u64, bool) -> Option<u32>,
    ) -> Option<u32> {
        if access >= self.until {
            return frame(*self.addresses.get(access)?, up);
        }
        let after = self.kept.partition_point(|&(first, _)| first <= access);
        let (_, frames) = self.kept.get(after.checked_sub(1)?)?;
        frames[usize::from(!up)]
    }

    /// A fault is about to change what is mapped: keeps what is beside the accesses before it.
    #[cold]
    pub(crate) fn keep(&mut self, mut frame: impl FnMut(u64, bool) -> Option<u32>) {
        let mut last = None;
        let accesses = self.addresses.iter().enumerate();
        for (access, &addr) in accesses.take(self.now).skip(self.until) {
            if last.replace(addr >> PAGE_SHIFT) != Some(addr >> PAGE_SHIFT) {
                let frames = [true, false].map(|up| frame(addr, up));
                self.kept.push((access, frames));
            }
        }
        self.until = self.now;
    }
}
