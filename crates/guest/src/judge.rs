//! The guest's walks beside those of the simulator's radix tree.
//!
//! The tree is given what the guest's memory management decided: which page an address is mapped to,
//! and in which frames the tables lie. Which entries a walk then reads, how many, and at which
//! addresses, is the simulator's own.

use crate::spaces::{Change, Spaces};
use crate::stream::ROOT;
use crate::{EntryRead, GuestError, GuestWalk};
use pagelab_addr::{Asid, PageDirectory, PageSize, Pfn, Vpn};
use pagelab_translation::{
    Displaced, FrameUse, Frames, Page, PageTable, PwcConfig, Radix, RadixConfig, Translation, Walk,
    WalkCacheConfig, Work,
};
use std::collections::BTreeMap;

/// How many differences are described.
const DESCRIBED: usize = 10;

/// How the walks compare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Walks that found a page: by how many entries they read.
    pub walks: BTreeMap<u64, u64>,
    /// Entries that they read.
    pub reads: u64,
    /// Walks that ended in a fault; they are not compared, since which tables there are beside
    /// those on the way to pages is not known.
    pub faults: u64,
    /// Walks that read other entries than the simulator's, or another number.
    pub different: u64,
    /// How often a table was found elsewhere than the last time: the guest had freed it.
    pub moved: u64,
    /// Levels of the guest's trees.
    pub levels: u32,
    /// The first differences, in words.
    pub differences: Vec<String>,
}

/// Compares walks, each with the number of its process.
///
/// # Errors
/// When a walk cannot be read, or the guest used more memory than the simulator numbers.
pub fn judge(
    walks: impl Iterator<Item = Result<(u32, GuestWalk), GuestError>>,
) -> Result<Judged, GuestError> {
    let mut judge: Option<Judge> = None;
    let mut judged = Judged::default();
    for walk in walks {
        let (process, walk) = walk?;
        let Some((_, size)) = walk.found else {
            judged.faults += 1;
            if let Some(judge) = &mut judge {
                judge.learn(&walk)?;
            }
            continue;
        };
        let judge = match &mut judge {
            Some(judge) => judge,
            None => {
                judged.levels = walk.levels(size);
                judge.insert(Judge::new(judged.levels)?)
            }
        };
        let page = judge.page(&walk)?;
        judged.moved += judge.follow_tables(page, &walk)?;
        judge.learn(&walk)?;
        judge.map(page, &walk)?;
        let ours = judge.walk(page);
        let theirs: Vec<u64> = walk.reads.iter().map(|read| read.entry).collect();
        *judged.walks.entry(theirs.len() as u64).or_default() += 1;
        judged.reads += theirs.len() as u64;
        if ours != theirs {
            judged.different += 1;
            if judged.differences.len() < DESCRIBED {
                judged.differences.push(format!(
                    "process {process}, {:#x}: the guest read {theirs:x?}, the simulator {ours:x?}",
                    walk.addr
                ));
            }
        }
    }
    Ok(judged)
}

struct Judge {
    table: Radix,
    directory: PageDirectory,
    spaces: Spaces,
    frames: GuestFrames,
    changes: Vec<Change>,
    walk: Walk,
    work: Work,
}

impl Judge {
    fn new(levels: u32) -> Result<Self, GuestError> {
        let none = WalkCacheConfig {
            entries: 0,
            ways: 1,
            cycles: 0,
        };
        let config = RadixConfig {
            levels,
            pwc: PwcConfig {
                pgd: none,
                p4d: none,
                pud: none,
                pmd: none,
            },
        };
        let table =
            Radix::new(&config, 1).map_err(|error| GuestError::TooMuch(error.to_string()))?;
        Ok(Judge {
            table,
            directory: PageDirectory::new(),
            spaces: Spaces::default(),
            frames: GuestFrames::default(),
            changes: Vec::new(),
            walk: Walk::new(),
            work: Work::default(),
        })
    }

    /// Takes pages out of the tree that the guest has unmapped, or mapped elsewhere.
    fn learn(&mut self, walk: &GuestWalk) -> Result<(), GuestError> {
        let space = self.spaces.number(walk.root);
        let mut changes = std::mem::take(&mut self.changes);
        self.spaces.learn(space, walk, &mut changes);
        for change in &changes {
            if let Change::Unmapped(start, len) = *change {
                let page = self.page_at(space, start)?;
                self.unmap(page, len);
            }
        }
        self.changes = changes;
        Ok(())
    }

    fn unmap(&mut self, page: Page, len: u64) {
        if let Some(size) = crate::stream::size(len) {
            (self.table).unmap(&mut self.frames, page, size, &mut self.work);
        }
    }

    fn page(&mut self, walk: &GuestWalk) -> Result<Page, GuestError> {
        let space = self.spaces.number(walk.root);
        self.page_at(space, walk.addr)
    }

    fn page_at(&mut self, space: u32, addr: u64) -> Result<Page, GuestError> {
        let too_much = |_| GuestError::TooMuch(format!("{space} address spaces"));
        let asid = Asid(u16::try_from(space).map_err(too_much)?);
        let vpn = Vpn(addr >> pagelab_addr::PAGE_SHIFT);
        let id = self.directory.page(asid, vpn);
        let id = id.map_err(|full| GuestError::TooMuch(full.to_string()))?;
        Ok(Page { id, asid, vpn })
    }

    /// The entries that the simulator reads.
    fn walk(&mut self, page: Page) -> Vec<u64> {
        self.walk.clear();
        self.table.walk(0, page, &mut self.walk);
        self.walk.reads().iter().map(|read| read.addr.0).collect()
    }

    /// Where the guest has a table elsewhere than it was before, takes all that was below the old
    /// one out of the tree. How often that was so.
    fn follow_tables(&mut self, page: Page, walk: &GuestWalk) -> Result<u64, GuestError> {
        let mut moved = 0;
        loop {
            let ours = self.walk(page);
            let differs = |(ours, theirs): (&u64, &EntryRead)| *ours & ROOT != theirs.entry & ROOT;
            let Some(level) = ours.iter().zip(&walk.reads).position(differs) else {
                return Ok(moved);
            };
            // The root is what names the space.
            if level == 0 || moved > walk.reads.len() as u64 {
                return Ok(moved);
            }
            moved += 1;
            let found = walk.found.map_or(PageSize::Base4K, |(_, size)| size);
            let below = walk.levels(found) - level as u32;
            let len = 1u64 << (pagelab_addr::PAGE_SHIFT + crate::LEVEL_BITS * below);
            self.empty(page, walk.addr & !(len - 1), len)?;
        }
    }

    /// Takes everything in a range out of the tree, and its tables.
    fn empty(&mut self, page: Page, start: u64, len: u64) -> Result<(), GuestError> {
        let space = u32::from(page.asid.0);
        let mut changes = std::mem::take(&mut self.changes);
        self.spaces.forget(space, start, len, &mut changes);
        for change in &changes {
            if let Change::Unmapped(start, len) = *change {
                let page = self.page_at(space, start)?;
                self.unmap(page, len);
            }
        }
        self.changes = changes;
        let first = self.page_at(space, start)?;
        let pages = len >> pagelab_addr::PAGE_SHIFT;
        self.table.release(&mut self.frames, first, pages);
        Ok(())
    }

    /// Maps the page where the guest has it, unless it is.
    fn map(&mut self, page: Page, walk: &GuestWalk) -> Result<(), GuestError> {
        let Some((paddr, size)) = walk.found else {
            return Ok(());
        };
        let frame = |addr: u64| {
            let frame = u32::try_from(addr >> pagelab_addr::PAGE_SHIFT);
            let too_much = |_| GuestError::TooMuch("memory beyond 16 TiB".to_owned());
            frame.map(Pfn).map_err(too_much)
        };
        if self.table.lookup(page).is_some() {
            return Ok(());
        }
        // A page's tables are asked for from the lowest up.
        self.frames.given.clear();
        for read in &walk.reads {
            self.frames.given.push(frame(read.entry)?);
        }
        let first = page.vpn.align_down(size);
        let page = self.page_at(u32::from(page.asid.0), first.address().0)?;
        let translation = Translation {
            pfn: frame(paddr & !(size.bytes() - 1))?,
            size,
            writable: true,
        };
        let mapped = (self.table).map(&mut self.frames, page, translation, &mut self.work);
        mapped.map_err(|error| GuestError::TooMuch(error.to_string()))
    }
}

/// The guest's memory: tables go where the guest has them.
#[derive(Default)]
struct GuestFrames {
    /// The frames of the tables on the way to a page, the lowest last.
    given: Vec<Pfn>,
}

impl Frames for GuestFrames {
    fn count(&self) -> u32 {
        u32::MAX
    }

    fn usage(&self, _: Pfn) -> FrameUse {
        FrameUse::PageTable
    }

    fn in_fragmented_block(&self, _: Pfn) -> bool {
        true
    }

    fn allocate_table(&mut self, _: u32) -> Option<Pfn> {
        self.given.pop()
    }

    fn claim_table(&mut self, _: Pfn) -> bool {
        false
    }

    fn displace(&mut self, _: Pfn) -> Option<Displaced> {
        None
    }

    fn free_table(&mut self, _: Pfn, _: u32) {}
}
