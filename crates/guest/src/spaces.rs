//! Pages that a guest has mapped, as far as its walks tell.

use crate::stream::ROOT;
use crate::{GuestWalk, Hashed, LEVEL_BITS};
use pagelab_addr::{PAGE_BYTES, PAGE_SHIFT, PageSize};
use std::collections::{BTreeMap, HashMap};

const PRESENT: u64 = 1;

/// News of a walk about the pages that were known before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// So many bytes from here on are not mapped any more as they were.
    Unmapped(u64, u64),
    /// A page is mapped that was not, or elsewhere.
    Mapped(u64, PageSize),
}

/// The address spaces, each the tree below a root. Kernel addresses are in each of them, as the
/// processor has it.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    numbers: HashMap<u64, u32>,
    pages: HashMap<u32, Pages>,
    /// Levels of the trees: all have as many.
    levels: Option<u32>,
}

/// The pages of a space by address: the frame's address and the size.
type Pages = BTreeMap<u64, (u64, PageSize)>;

impl Spaces {
    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// The number of the space of a root, in the order in which they were first used.
    pub(crate) fn number(&mut self, root: u64) -> u32 {
        self.number_of(root & ROOT)
    }

    /// Spaces like these that have other names.
    pub(crate) fn number_of(&mut self, name: u64) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(name).or_insert(next)
    }

    /// Takes a walk in a space to the notes; what it changes.
    pub(crate) fn learn(&mut self, space: u32, walk: &GuestWalk, changes: &mut Vec<Change>) {
        changes.clear();
        let Some((paddr, size)) = walk.found else {
            if let Some((start, len)) = absent(walk, self.levels.unwrap_or(0)) {
                forget(self.pages(space), start, len, changes);
            }
            return;
        };
        if walk.hashed.is_none() {
            self.levels.get_or_insert(walk.levels(size));
        }
        let pages = self.pages(space);
        let inside = size.bytes() - 1;
        let (start, frame) = (walk.addr & !inside, paddr & !inside);
        if pages.get(&start) == Some(&(frame, size)) {
            return;
        }
        forget(pages, start, size.bytes(), changes);
        pages.insert(start, (frame, size));
        changes.push(Change::Mapped(start, size));
    }

    /// Forgets the pages that overlap a range; which those were.
    pub(crate) fn forget(&mut self, space: u32, start: u64, len: u64, changes: &mut Vec<Change>) {
        changes.clear();
        forget(self.pages(space), start, len, changes);
    }

    /// Place of an address in the guest's memory, as far as walks have told.
    pub(crate) fn physical(&self, space: u32, addr: u64) -> Option<u64> {
        let (&start, &(frame, size)) = self.pages.get(&space)?.range(..=addr).next_back()?;
        let inside = addr - start;
        (inside < size.bytes()).then(|| frame + inside)
    }

    fn pages(&mut self, space: u32) -> &mut Pages {
        self.pages.entry(space).or_default()
    }
}

/// Range that a walk in a tree of so many levels has found not to be mapped: that of the entry that
/// is not present. Other faults, of permissions, take nothing away.
fn absent(walk: &GuestWalk, levels: u32) -> Option<(u64, u64)> {
    let last = walk.reads.last()?;
    if let Some(Hashed { metadata, .. }) = &walk.hashed {
        // More than the page may be gone where there is no table; that is seen when it is used.
        let gone = metadata.is_none() || last.value & PRESENT == 0;
        return gone.then_some((walk.addr & !(PAGE_BYTES - 1), PAGE_BYTES));
    }
    if last.value & PRESENT != 0 {
        return None;
    }
    let below = levels.checked_sub(walk.reads.len() as u32)?;
    let len = 1u64.checked_shl(PAGE_SHIFT + LEVEL_BITS * below)?;
    Some((walk.addr & !(len - 1), len))
}

/// Removes the pages that overlap a range.
fn forget(pages: &mut Pages, start: u64, len: u64, changes: &mut Vec<Change>) {
    let last = start + (len - 1);
    let before = pages.range(..start).next_back();
    let first = match before {
        Some((&page, &(_, size))) if page + (size.bytes() - 1) >= start => page,
        _ => start,
    };
    let gone: Vec<u64> = pages.range(first..=last).map(|(&page, _)| page).collect();
    for page in gone {
        if let Some((_, size)) = pages.remove(&page) {
            changes.push(Change::Unmapped(page, size.bytes()));
        }
    }
}
