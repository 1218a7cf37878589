//! Pages of PTEs that lie in none of the frames that metadata name, of one process: the last resort,
//! which the paper leaves open. See docs/designs/dpt.md.

use crate::{Frames, MapError, Work};
use pagelab_addr::{LINE_SHIFT, PageSize, Pfn, PhysAddr};

/// Slots of 16 bytes in a line.
const SLOTS_A_LINE: usize = 4;
const LINES: usize = 64;
const MOST_PAGES: usize = 512;
/// log2 of the size of an address in the folder.
const ADDRESS_SHIFT: u32 = 3;

/// Name of a page of PTEs in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) tag: u64,
    pub(super) size: PageSize,
    /// The tag's hash. Its upper half says where the search begins.
    pub(super) hash: u64,
}

impl Named {
    fn page(self, pages: usize) -> usize {
        (self.hash >> 32) as usize & (pages - 1)
    }

    fn line(self, probe: usize) -> usize {
        ((self.hash >> 48) as usize + probe) % LINES
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Unused,
    Gone,
    Taken(Named, Pfn),
}

#[derive(Clone, Debug)]
struct SlotPage {
    base: Pfn,
    slots: Vec<Slot>,
}

/// A folder with the addresses of a power of two of pages, each of 64 lines.
///
/// All of it is single frames, so that it grows where memory is in pieces.
#[derive(Clone, Debug)]
pub(super) struct Exceptions {
    folder: Pfn,
    pages: Vec<SlotPage>,
    /// Slots that are or were some page's of PTEs.
    used: usize,
}

/// End of a search.
struct Found {
    /// Lines read.
    probes: usize,
    /// The slot, by number.
    at: Option<usize>,
    /// Place at which it could be.
    free: Option<usize>,
}

impl Exceptions {
    pub(super) fn new<F: Frames>(frames: &mut F, work: &mut Work) -> Result<Self, MapError> {
        Self::with_pages(frames, 1, work)
    }

    fn with_pages<F: Frames>(
        frames: &mut F,
        pages: usize,
        work: &mut Work,
    ) -> Result<Self, MapError> {
        if pages > MOST_PAGES {
            return Err(MapError::OutOfFrames);
        }
        let folder = frames.allocate_table(0).ok_or(MapError::OutOfFrames)?;
        let mut made = Exceptions {
            folder,
            pages: Vec::with_capacity(pages),
            used: 0,
        };
        while made.pages.len() < pages {
            let Some(base) = frames.allocate_table(0) else {
                made.free(frames);
                return Err(MapError::OutOfFrames);
            };
            made.pages.push(SlotPage {
                base,
                slots: vec![Slot::Unused; SLOTS_A_LINE * LINES],
            });
        }
        work.table_frames += made.frames();
        Ok(made)
    }

    /// Gives its memory back.
    pub(super) fn free<F: Frames>(self, frames: &mut F) {
        for page in self.pages {
            frames.free_table(page.base, 0);
        }
        frames.free_table(self.folder, 0);
    }

    pub(super) fn frames(&self) -> u64 {
        1 + self.pages.len() as u64
    }

    fn find(&self, named: Named) -> Found {
        let slots = &self.pages[named.page(self.pages.len())].slots;
        let mut free = None;
        for probe in 0..LINES {
            let first = named.line(probe) * SLOTS_A_LINE;
            let line = first..first + SLOTS_A_LINE;
            let is_named = |&at: &usize| matches!(slots[at], Slot::Taken(other, _) if (other.tag, other.size) == (named.tag, named.size));
            if let Some(at) = line.clone().find(is_named) {
                let at = Some(at);
                let probes = probe + 1;
                return Found { probes, at, free };
            }
            let is_free = |&at: &usize| !matches!(slots[at], Slot::Taken(..));
            free = free.or(line.clone().find(is_free));
            if slots[line].contains(&Slot::Unused) {
                let (probes, at) = (probe + 1, None);
                return Found { probes, at, free };
            }
        }
        Found {
            probes: LINES,
            at: None,
            free,
        }
    }

    fn slot(&mut self, named: Named, at: usize) -> &mut Slot {
        let page = named.page(self.pages.len());
        &mut self.pages[page].slots[at]
    }

    /// Notes where a page of PTEs is.
    ///
    /// Grows past three quarters, as the metadata tables do.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) fn add<F: Frames>(
        &mut self,
        frames: &mut F,
        named: Named,
        frame: Pfn,
        work: &mut Work,
    ) -> Result<(), MapError> {
        loop {
            let free = self.find(named).free;
            let room = self.pages.len() * SLOTS_A_LINE * LINES;
            let crowded = (self.used + 1) * 4 > room * 3;
            let free = free.map(|at| (at, *self.slot(named, at)));
            match free {
                Some((_, Slot::Unused)) if crowded => {}
                None => {}
                Some((at, slot)) => {
                    self.used += usize::from(slot == Slot::Unused);
                    *self.slot(named, at) = Slot::Taken(named, frame);
                    return Ok(());
                }
            }
            self.grow(frames, work)?;
        }
    }

    fn grow<F: Frames>(&mut self, frames: &mut F, work: &mut Work) -> Result<(), MapError> {
        let mut new = Self::with_pages(frames, 2 * self.pages.len(), work)?;
        for page in &self.pages {
            for &slot in &page.slots {
                if let Slot::Taken(named, _) = slot {
                    let at = new.find(named).free.expect("each page becomes two");
                    *new.slot(named, at) = slot;
                    new.used += 1;
                }
            }
        }
        work.entries_migrated += new.used as u64;
        std::mem::replace(self, new).free(frames);
        Ok(())
    }

    pub(super) fn remove(&mut self, named: Named) {
        let at = self.find(named).at.expect("it was added");
        *self.slot(named, at) = Slot::Gone;
    }

    /// Place of a page of PTEs.
    #[cfg(test)]
    pub(super) fn frame(&self, named: Named) -> Option<Pfn> {
        let at = self.find(named).at?;
        match self.pages[named.page(self.pages.len())].slots[at] {
            Slot::Taken(_, frame) => Some(frame),
            Slot::Unused | Slot::Gone => None,
        }
    }

    /// Addresses that a search reads, one after the other: the page's address in the folder, then lines.
    pub(super) fn reads(&self, named: Named) -> impl Iterator<Item = PhysAddr> + use<> {
        let page = named.page(self.pages.len());
        let entry = self.folder.address().0 + ((page as u64) << ADDRESS_SHIFT);
        let base = self.pages[page].base.address().0;
        let lines = (0..self.find(named).probes)
            .map(move |probe| base + ((named.line(probe) as u64) << LINE_SHIFT));
        std::iter::once(entry).chain(lines).map(PhysAddr)
    }
}
