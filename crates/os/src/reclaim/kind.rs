//! Kinds of memory that have lists of their own.

/// Kind of memory, which has two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Anonymous,
    File,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Anonymous, Kind::File];

    pub(crate) fn list(self, active: bool) -> usize {
        self as usize * 2 + usize::from(active)
    }

    /// The kind of a list's pages, and whether they are active.
    pub(crate) fn of(list: usize) -> (Kind, bool) {
        (Self::ALL[list / 2], list % 2 == 1)
    }
}
