//! The guest's walks beside those of the simulator's radix tree and distributed page table.
//!
//! Both are given what the guest's memory management decided: which page an address is mapped to,
//! and in which frames the tables lie. Which entries a walk then reads, how many, and at which
//! addresses, is the simulator's own; for a distributed page table, too, which frames may be a
//! table's at all.

use crate::frames::GuestFrames;
use crate::spaces::{Change, Spaces};
use crate::stream::{ROOT, size};
use crate::{GuestError, GuestWalk, LEVEL_BITS};
use pagelab_addr::{Asid, PAGE_BYTES, PAGE_SHIFT, PageDirectory, PageSize, Pfn, Vpn};
use pagelab_translation::{
    ConfigError, DmcConfig, DmtConfig, Dpt, DptConfig, MAX_FRAMES, MapError, Page, PageTable,
    PwcConfig, Radix, RadixConfig, Translation, Walk, WalkCacheConfig, Work,
};
use std::collections::BTreeMap;

/// Number of differences that are described.
const DESCRIBED: usize = 10;

/// Comparison of the walks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Walks of the tree that found a page: by how many entries they read.
    pub walks: BTreeMap<u64, u64>,
    /// Walks by hash that found a page: by how many lines of metadata they read before the entry.
    pub hashed: BTreeMap<u64, u64>,
    /// As many walks, by how many the simulator read.
    pub hashed_simulated: BTreeMap<u64, u64>,
    /// Entries that all these read.
    pub reads: u64,
    /// Walks that ended in a fault; they are not compared, since which tables there are beside
    /// those on the way to pages is not known.
    pub faults: u64,
    /// Walks that read other entries than the simulator's, or another number.
    pub different: u64,
    /// Number of times that a table was found elsewhere than the last time: the guest had freed it.
    pub moved: u64,
    /// Levels of the guest's trees; 0 if none was walked.
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
    let mut judged = Judged::default();
    let mut tree: Option<Mirror<Radix>> = None;
    let mut hashed: Option<Mirror<Dpt>> = None;
    for walk in walks {
        let (process, walk) = walk?;
        if let Some(registers) = &walk.hashed {
            let beside = match &mut hashed {
                Some(beside) => beside,
                None => hashed.insert(Mirror::new(dpt().map_err(too_much)?)),
            };
            beside.frames.count = u32::try_from(registers.frames()).map_err(too_much)?;
            if beside.frames.count == 0 {
                return Err(too_much("no frame for a table"));
            }
            let space = beside.spaces.number_of(registers.key);
            let asid = Asid(u16::try_from(space).map_err(too_much)?);
            beside.table.set_key(asid, registers.key);
            judged.add(beside, process, space, &walk)?;
            continue;
        }
        let beside = match (&mut tree, walk.found) {
            (Some(beside), _) => beside,
            (None, Some((_, size))) => {
                judged.levels = walk.levels(size);
                let radix = radix(judged.levels).map_err(too_much)?;
                tree.insert(Mirror::new(radix))
            }
            (None, None) => {
                judged.faults += 1;
                continue;
            }
        };
        let space = beside.spaces.number(walk.root);
        judged.add(beside, process, space, &walk)?;
    }
    Ok(judged)
}

impl Judged {
    fn add<T: PageTable>(
        &mut self,
        beside: &mut Mirror<T>,
        process: u32,
        space: u32,
        walk: &GuestWalk,
    ) -> Result<(), GuestError> {
        let Some((paddr, size)) = walk.found else {
            self.faults += 1;
            return beside.learn(space, walk);
        };
        let page = beside.page_at(space, walk.addr)?;
        self.moved += beside.follow_tables(page, walk, size)?;
        beside.learn(space, walk)?;
        let mapped = beside.map(page, walk, paddr, size)?;
        let ours = beside.walk(page);
        let theirs = beside.entries(walk);
        self.reads += theirs.len() as u64;
        if walk.hashed.is_some() {
            let metadata = walk.reads.len() - theirs.len();
            *self.hashed.entry(metadata as u64).or_default() += 1;
            let metadata = u64::from(beside.walk.metadata());
            *self.hashed_simulated.entry(metadata).or_default() += 1;
        } else {
            *self.walks.entry(theirs.len() as u64).or_default() += 1;
        }
        let table = theirs.first().map_or(0, |entry| entry & ROOT);
        let why = match (mapped, named_by_metadata(walk, size)?) {
            (Err(error), _) => format!(": {error}"),
            (_, Some(frame)) if frame != table => format!("; the metadata name frame {frame:x}"),
            _ => String::new(),
        };
        if ours != theirs || !why.is_empty() {
            self.different += 1;
            if self.differences.len() < DESCRIBED {
                let at = format!("process {process}, {:#x}", walk.addr);
                self.differences.push(format!(
                    "{at}: the guest read {theirs:x?}, the simulator {ours:x?}{why}"
                ));
            }
        }
        Ok(())
    }
}

/// The frame's address that the simulator finds by the metadata that the guest found, for a walk by
/// hash, unless it led to an exception.
fn named_by_metadata(walk: &GuestWalk, size: PageSize) -> Result<Option<u64>, GuestError> {
    let Some(hashed) = &walk.hashed else {
        return Ok(None);
    };
    if hashed.metadata.is_some_and(Dpt::is_elsewhere) {
        return Ok(None);
    }
    let frames = u32::try_from(hashed.frames()).map_err(too_much)?;
    let tag = walk.addr >> (PAGE_SHIFT + LEVEL_BITS + size.order());
    let named = |code| Dpt::frame_of(code, tag, hashed.key, size, frames);
    let frame = hashed.metadata.and_then(named);
    // None is no frame's address.
    Ok(Some(frame.map_or(u64::MAX, |frame| Pfn(frame).address().0)))
}

fn too_much(what: impl ToString) -> GuestError {
    GuestError::TooMuch(what.to_string())
}

fn radix(levels: u32) -> Result<Radix, ConfigError> {
    let pwc = PwcConfig {
        pgd: WalkCacheConfig::NONE,
        p4d: WalkCacheConfig::NONE,
        pud: WalkCacheConfig::NONE,
        pmd: WalkCacheConfig::NONE,
    };
    Radix::new(&RadixConfig { levels, pwc }, 1)
}

/// Address spaces are numbered by the guest's ids, and addresses are the guest's.
fn dpt() -> Result<Dpt, ConfigError> {
    let config = DptConfig {
        first_pid: 0,
        max_soa_step: 15,
        max_cva_count: 0,
        cpd: false,
        ptp_mib: 0,
        dmc: DmcConfig {
            base: WalkCacheConfig::NONE,
            large: WalkCacheConfig::NONE,
            huge: WalkCacheConfig::NONE,
        },
        // More than one frame each: what is asked for as one is a page of PTEs.
        dmt: DmtConfig {
            huge: 128,
            ..DmtConfig::default()
        },
        ..DptConfig::default()
    };
    Dpt::new(&config, 1)
}

/// A page table of the simulator with what the guest has mapped.
struct Mirror<T> {
    table: T,
    directory: PageDirectory,
    spaces: Spaces,
    frames: GuestFrames,
    changes: Vec<Change>,
    walk: Walk,
    work: Work,
}

impl<T: PageTable> Mirror<T> {
    fn new(table: T) -> Self {
        Mirror {
            table,
            directory: PageDirectory::new(),
            spaces: Spaces::default(),
            frames: GuestFrames::default(),
            changes: Vec::new(),
            walk: Walk::new(),
            work: Work::default(),
        }
    }

    fn page_at(&mut self, space: u32, addr: u64) -> Result<Page, GuestError> {
        let asid = Asid(u16::try_from(space).map_err(too_much)?);
        let vpn = Vpn(addr >> PAGE_SHIFT);
        let id = self.directory.page(asid, vpn).map_err(too_much)?;
        Ok(Page { id, asid, vpn })
    }

    /// Takes pages out of the table that the guest has unmapped, or mapped elsewhere.
    fn learn(&mut self, space: u32, walk: &GuestWalk) -> Result<(), GuestError> {
        let mut changes = std::mem::take(&mut self.changes);
        self.spaces.learn(space, walk, &mut changes);
        let done = self.unmap(space, &changes);
        self.changes = changes;
        done
    }

    fn unmap(&mut self, space: u32, changes: &[Change]) -> Result<(), GuestError> {
        for change in changes {
            if let Change::Unmapped(start, len) = *change
                && let Some(size) = size(len)
            {
                let page = self.page_at(space, start)?;
                (self.table).unmap(&mut self.frames, page, size, &mut self.work);
            }
        }
        Ok(())
    }

    /// The entries that the guest read. Those of a walk by hash are where they would be if memory had no
    /// holes, as the simulator's has none; in no frame of its if they are in none that the hash names.
    fn entries(&self, walk: &GuestWalk) -> Vec<u64> {
        let place = |entry: u64| match &walk.hashed {
            Some(hashed) if !hashed.metadata.is_some_and(Dpt::is_elsewhere) => {
                let frame = hashed.frame_of(entry >> PAGE_SHIFT);
                let frame = frame.unwrap_or_else(|| hashed.frames());
                frame << PAGE_SHIFT | entry & (PAGE_BYTES - 1)
            }
            _ => entry,
        };
        let entries = walk.entries().iter();
        entries.map(|read| place(read.entry)).collect()
    }

    /// The entries that the simulator reads.
    fn walk(&mut self, page: Page) -> Vec<u64> {
        self.walk.clear();
        self.table.walk(0, page, &mut self.walk);
        let entries = &self.walk.reads()[usize::from(self.walk.metadata())..];
        entries.iter().map(|read| read.addr.0).collect()
    }

    /// Takes all that was below an old table out of the tree where the guest has a table elsewhere
    /// than before. How often that was so.
    fn follow_tables(
        &mut self,
        page: Page,
        walk: &GuestWalk,
        size: PageSize,
    ) -> Result<u64, GuestError> {
        let mut moved = 0;
        loop {
            let ours = self.walk(page);
            let theirs = self.entries(walk);
            let differs = |(ours, theirs): (&u64, &u64)| *ours & ROOT != *theirs & ROOT;
            let Some(level) = ours.iter().zip(&theirs).position(differs) else {
                return Ok(moved);
            };
            // The tree's root is what names the space.
            let is_root = walk.hashed.is_none() && level == 0;
            if is_root || moved > theirs.len() as u64 {
                return Ok(moved);
            }
            moved += 1;
            let below = (theirs.len() - level) as u32 + size.order() / LEVEL_BITS;
            let Some(len) = 1u64.checked_shl(PAGE_SHIFT + LEVEL_BITS * below) else {
                return Ok(moved);
            };
            self.empty(page, walk.addr & !(len - 1), len)?;
        }
    }

    /// Takes everything in a range out of the table, and what it had for it.
    fn empty(&mut self, page: Page, start: u64, len: u64) -> Result<(), GuestError> {
        let space = u32::from(page.asid.0);
        let mut changes = std::mem::take(&mut self.changes);
        self.spaces.forget(space, start, len, &mut changes);
        let done = self.unmap(space, &changes);
        self.changes = changes;
        done?;
        let first = self.page_at(space, start)?;
        (self.table).release(&mut self.frames, first, len >> PAGE_SHIFT);
        Ok(())
    }

    /// Maps the page where the guest has it, unless it is; whether its tables have a place.
    fn map(
        &mut self,
        page: Page,
        walk: &GuestWalk,
        paddr: u64,
        size: PageSize,
    ) -> Result<Result<(), MapError>, GuestError> {
        if self.table.lookup(page).is_some() {
            return Ok(Ok(()));
        }
        let frame = |addr: u64| {
            let frame = u32::try_from(addr >> PAGE_SHIFT).map_err(too_much)?;
            let named = frame < MAX_FRAMES;
            named.then_some(frame).ok_or_else(|| {
                too_much(format!(
                    "{addr:#x} lies beyond what the simulator's tables name"
                ))
            })
        };
        // A page's tables are asked for from the lowest up.
        self.frames.path.clear();
        for entry in self.entries(walk) {
            self.frames.path.push(Pfn(frame(entry)?));
        }
        (self.frames.free, self.frames.exceptional) = (None, None);
        if let Some(hashed) = &walk.hashed {
            if hashed.metadata.is_some_and(Dpt::is_elsewhere) {
                self.frames.exceptional = Some(Pfn(self.frames.count));
            } else {
                self.frames.free = self.frames.path.pop();
            }
        }
        let first = page.vpn.align_down(size);
        let page = self.page_at(u32::from(page.asid.0), first.address().0)?;
        let translation = Translation {
            pfn: Pfn(frame(paddr & !(size.bytes() - 1))?),
            size,
            writable: true,
        };
        Ok((self.table).map(&mut self.frames, page, translation, &mut self.work))
    }
}
