use crate::Os;
use pagelab_addr::Pfn;
use pagelab_translation::{FrameUse, Frames};
use schemars::JsonSchema;
use serde::Serialize;

/// Use of the frames of one cell of the physical memory: numbers of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryCell {
    /// Free.
    pub free: u32,
    /// The programs' data.
    pub data: u32,
    /// Page tables.
    pub tables: u32,
    /// In use before the programs started.
    pub preallocated: u32,
}

impl MemoryCell {
    /// Its frames.
    pub fn frames(&self) -> u32 {
        self.free + self.data + self.tables + self.preallocated
    }
}

impl Os {
    /// Free aligned 2 MiB blocks.
    pub fn free_2m_blocks(&self) -> u32 {
        self.frames.buddy().free_pageblocks()
    }

    /// A picture of the physical memory: it is cut into `cells` pieces, equal but for rounding, and
    /// of each the frames are counted. Fewer cells come out when there are fewer frames.
    pub fn memory_map(&self, cells: u32) -> Vec<MemoryCell> {
        let frames = u64::from(self.frames.count());
        let cells = u64::from(cells).clamp(1, frames);
        let edge = |cell: u64| (cell * frames / cells) as u32;
        (0..cells)
            .map(|cell| self.memory_cell(edge(cell)..edge(cell + 1)))
            .collect()
    }

    fn memory_cell(&self, frames: std::ops::Range<u32>) -> MemoryCell {
        let mut cell = MemoryCell::default();
        for pfn in frames.map(Pfn) {
            match self.frames.usage(pfn) {
                FrameUse::Free => cell.free += 1,
                FrameUse::PageTable => cell.tables += 1,
                _ if self.frames.is_restricted(pfn) => cell.free += 1,
                _ if self.frames.is_reserved_part(pfn) => cell.free += 1,
                _ if self.frames.is_preallocated(pfn) => cell.preallocated += 1,
                FrameUse::Movable(_) | FrameUse::Unmovable(_) => cell.data += 1,
            }
        }
        cell
    }
}
