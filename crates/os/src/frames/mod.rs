//! Frames: which are free, what the others are used for, and by which pages.

pub mod buddy;
pub(crate) mod folio_frames;
pub(crate) mod folios;
pub(crate) mod frame_lists;
pub(crate) mod frame_table;
pub(crate) mod free_blocks;
pub(crate) mod free_map;
pub(crate) mod preallocate;
pub(crate) mod random;
pub(crate) mod rmap;
pub(crate) mod table_frames;
pub(crate) mod tag;
