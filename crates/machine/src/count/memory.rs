use pagelab_os::{MemoryCell, Os};

/// Cells of the memory map: enough for a picture, few enough for a page.
const CELLS: u32 = 4096;

/// Physical memory at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) map: Vec<MemoryCell>,
    pub(crate) free_2m_blocks: u32,
    /// Frames with programs' data, by node.
    pub(crate) data_frames: Vec<u32>,
}

impl Memory {
    pub(crate) fn of(os: &Os) -> Self {
        Memory {
            map: os.memory_map(CELLS),
            free_2m_blocks: os.free_2m_blocks(),
            data_frames: os.frames().data_frames_by_node(),
        }
    }
    /// Nothing is known of it.
    pub(crate) fn unknown(os: &Os) -> Self {
        Memory {
            map: Vec::new(),
            free_2m_blocks: 0,
            data_frames: vec![0; os.frames().buddy().nodes()],
        }
    }
}
