//! Migrate types: pages that cannot be moved lie apart from those that can, by blocks of 2 MiB (pageblocks).
//!
//! There are two types, movable and unmovable; the kernel's own caches, which it can give up, have none of theirs. A
//! free block is in the list of the type of its pageblock. pageblocks.rs keeps types; mobility.rs and region.rs choose
//! among them.

mod mobility;
mod pageblocks;
mod region;

pub(crate) use region::gather;

use crate::frames::tag;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pages kept apart by whether they can be moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// None: any block has any pages.
    #[default]
    Off,
    /// Pageblocks are of a migrate type, as in Linux.
    Mobility,
    /// Pages that cannot be moved have a region of their own at the bottom of memory (Contiguitas).
    Region,
}

impl Grouping {
    /// True if it is the default.
    pub fn is_default(&self) -> bool {
        *self == Grouping::default()
    }
}

/// Pageblocks of 2 MiB whose migrate type changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupingStatistics {
    /// Pageblocks for pages that cannot be moved now.
    pub unmovable_blocks: u64,
    /// Pageblocks that one type took from the other, whole.
    pub claimed: u64,
    /// Allocations from a pageblock of the other type, which stayed one.
    pub stolen: u64,
    /// Pages of 4 KiB moved so that the region could grow.
    pub pages_moved: u64,
}

/// Migrate type of pages that can be moved, and of pages that cannot: an index of free lists.
pub(crate) const MOVABLE: usize = 0;
pub(crate) const UNMOVABLE: usize = 1;

/// Migrate type of a page in use.
pub(crate) fn type_of(tag: u8) -> usize {
    match tag {
        tag::TABLE | tag::UNMOVABLE => UNMOVABLE,
        _ => MOVABLE,
    }
}

/// Migrate types by pageblock, and how often they changed.
#[derive(Clone, Debug)]
pub(crate) struct PageblockTypes {
    grouping: Grouping,
    types: Vec<u8>,
    /// Pageblocks of the region for pages that cannot be moved, and whether any of these came or went lately.
    region: usize,
    used: bool,
    counts: GroupingStatistics,
}

impl PageblockTypes {
    fn new(grouping: Grouping, blocks: usize) -> Self {
        PageblockTypes {
            grouping,
            types: vec![MOVABLE as u8; blocks],
            region: 0,
            used: false,
            counts: GroupingStatistics::default(),
        }
    }

    /// True if free blocks of two pageblocks may not be one: the region has a border.
    #[inline]
    pub(crate) fn are_apart(&self, block: usize, other: usize) -> bool {
        self.grouping == Grouping::Region && self.types[block] != self.types[other]
    }

    #[inline]
    pub(crate) fn of(&self, block: usize) -> usize {
        usize::from(self.types[block])
    }

    /// Sets the type of some pageblocks.
    pub(crate) fn set(&mut self, first: usize, blocks: usize, migrate_type: usize) {
        self.types[first..first + blocks].fill(migrate_type as u8);
    }

    fn statistics(&self) -> GroupingStatistics {
        let types = self.types.iter();
        GroupingStatistics {
            unmovable_blocks: types.map(|&unmovable| u64::from(unmovable)).sum(),
            ..self.counts
        }
    }
}
