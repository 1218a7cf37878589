//! kcompactd: a thread of the kernel that makes a block for faults to come (`kcompactd_do_work` in mm/compaction.c).
//! Linux has kswapd take pages before; here nothing is taken for it.

use crate::frames::frame_table::FrameTable;
use crate::pages::mapper::Mapper;
use pagelab_translation::PageTable;

impl FrameTable {
    /// Notes that a fault found no block and did not wait for one.
    pub(super) fn want_block(&mut self) {
        self.compaction.wanted |= self.compaction.defrag.defers();
    }

    /// Wakes kcompactd where a block is wanted and none is free. Whether it woke.
    pub(crate) fn wake_kcompactd(&mut self) -> bool {
        let compaction = &mut self.compaction;
        let wanted = std::mem::take(&mut compaction.wanted);
        let wakes = wanted && !compaction.awake && self.buddy.free_pageblocks() == 0;
        compaction.awake |= wakes;
        wakes
    }

    pub(crate) fn kcompactd_is_awake(&self) -> bool {
        self.compaction.awake
    }
}

impl<T: PageTable> Mapper<'_, T> {
    /// Makes a block, if that can be, and sleeps.
    pub(crate) fn kcompactd(&mut self) {
        self.frames.compaction.awake = false;
        if let Some((made, moved)) = self.compact_once() {
            let counts = self.statistics.compaction.get_or_insert_default();
            let own = counts.kcompactd.get_or_insert_default();
            own.made += u64::from(made);
            own.pages_moved += moved;
        }
    }
}
