//! Places of pages of data: any free frame, or what hashing or a restrictive segment says.

use crate::hashed::Hashed;
use crate::segments::Segments;

/// Placement of pages of data.
#[derive(Clone, Debug)]
pub(crate) enum Placing {
    /// In any free frame that the memory manager likes.
    Anywhere,
    /// Pages of 4 KiB in frames to which they are hashed.
    Hashed(Hashed),
    /// In restrictive segments, as far as there is room.
    Segmented(Box<Segments>),
}

impl Placing {
    pub(crate) fn hashed(&self) -> Option<&Hashed> {
        match self {
            Placing::Hashed(hashed) => Some(hashed),
            _ => None,
        }
    }

    pub(crate) fn segments(&self) -> Option<&Segments> {
        match self {
            Placing::Segmented(segments) => Some(segments),
            _ => None,
        }
    }

    pub(crate) fn segments_mut(&mut self) -> Option<&mut Segments> {
        match self {
            Placing::Segmented(segments) => Some(segments),
            _ => None,
        }
    }
}
