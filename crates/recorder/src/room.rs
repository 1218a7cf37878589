//! Writing accesses into the columns of a batch.

use pagelab_events::{Batch, Op};
use pagelab_recorder_wire::word::MAX_ENTRIES;

/// Accesses are copied into the columns so many at a time.
pub(crate) const GROUP: usize = 4;

/// Room for a block's accesses, and for what is copied too many.
pub(crate) const ROOM: usize = MAX_ENTRIES + GROUP;

/// Columns of some accesses that are known beforehand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    pub(crate) op: [Op; GROUP],
    pub(crate) gap: [u32; GROUP],
    pub(crate) dep: [u32; GROUP],
    /// Their instructions, once the block has its place in the recording.
    pub(crate) site: [u32; GROUP],
}

/// Places in the columns of a batch, from its end on.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    addr: *mut u64,
    op: *mut Op,
    gap: *mut u32,
    dep: *mut u32,
    /// Sites of recordings without code, too: to write what nobody reads is faster than to ask.
    site: *mut u32,
    len: usize,
}

impl Room {
    /// Room for `len` accesses, of the [`ROOM`] that there is.
    #[inline(always)]
    pub(crate) fn after(batch: &mut Batch, len: usize) -> Room {
        debug_assert!(len <= MAX_ENTRIES);
        debug_assert!(batch.addr.capacity() - batch.addr.len() >= ROOM);
        Room {
            addr: batch.addr.spare_capacity_mut().as_mut_ptr().cast(),
            op: batch.op.spare_capacity_mut().as_mut_ptr().cast(),
            gap: batch.gap.spare_capacity_mut().as_mut_ptr().cast(),
            dep: batch.dep.spare_capacity_mut().as_mut_ptr().cast(),
            site: batch.site.spare_capacity_mut().as_mut_ptr().cast(),
            len,
        }
    }

    /// Makes the accesses that have been put part of the batch: all of them, perhaps with their sites.
    #[inline(always)]
    pub(crate) fn commit(self, batch: &mut Batch, with_sites: bool) {
        // SAFETY: there is as much room in each column, and `run` has put every access.
        unsafe {
            batch.addr.set_len(batch.addr.len() + self.len);
            batch.op.set_len(batch.op.len() + self.len);
            batch.gap.set_len(batch.gap.len() + self.len);
            batch.dep.set_len(batch.dep.len() + self.len);
            if with_sites {
                batch.site.set_len(batch.site.len() + self.len);
            }
        }
    }

    /// Puts what is known of all accesses beforehand.
    #[inline(always)]
    pub(crate) fn put(self, groups: &[Group]) {
        for (number, group) in groups.iter().enumerate() {
            let at = number * GROUP;
            // SAFETY: the groups hold as many accesses as there are, and less than `GROUP` more, for
            // which there is room, too.
            unsafe {
                self.op
                    .add(at)
                    .cast::<[Op; GROUP]>()
                    .write_unaligned(group.op);
                self.gap
                    .add(at)
                    .cast::<[u32; GROUP]>()
                    .write_unaligned(group.gap);
                self.dep
                    .add(at)
                    .cast::<[u32; GROUP]>()
                    .write_unaligned(group.dep);
                self.site
                    .add(at)
                    .cast::<[u32; GROUP]>()
                    .write_unaligned(group.site);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn set_address(self, index: usize, address: u64) {
        debug_assert!(index <= self.len);
        // SAFETY: it is the number of an access, or one more, for which there is room.
        unsafe { self.addr.add(index).write(address) }
    }

    #[inline(always)]
    pub(crate) fn address(self, index: usize) -> u64 {
        debug_assert!(index < self.len);
        // SAFETY: an access is relative only to one that is reported, and those are put first.
        unsafe { self.addr.add(index).read() }
    }

    #[inline(always)]
    pub(crate) fn set_gap(self, index: usize, gap: u32) {
        debug_assert!(index < self.len);
        // SAFETY: there is at least one access.
        unsafe { self.gap.add(index).write(gap) }
    }

    /// The first access is a further one of the instruction before.
    #[cold]
    pub(crate) fn continue_first(self) {
        debug_assert!(self.len > 0);
        // SAFETY: there is at least one access, and it has been put.
        unsafe { self.op.write(self.op.read().continuing(true)) }
    }

    #[inline(always)]
    pub(crate) fn dep(self, index: usize) -> u32 {
        debug_assert!(index < self.len);
        // SAFETY: every access has been put.
        unsafe { self.dep.add(index).read() }
    }

    #[inline(always)]
    pub(crate) fn set_dep(self, index: usize, dep: u32) {
        debug_assert!(index < self.len);
        // SAFETY: it is the number of an access.
        unsafe { self.dep.add(index).write(dep) }
    }
}
