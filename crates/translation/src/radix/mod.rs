//! The radix tree of x86-64 with a split page-walk cache. See docs/designs/radix.md.

mod config;
#[cfg(test)]
mod tests;
mod upper;

pub use config::{PwcConfig, RadixConfig};

use crate::page_map::gib;
use crate::tiers::Tiers;
use crate::walk_cache::WalkCache;
use crate::{
    ConfigError, Frames, MapError, Organisation, Page, PageMap, Paged, Translation, Walk, Work,
};
use pagelab_addr::{PAGE_BYTES, PAGE_SHIFT, PageId, PageSize, Pfn, Vpn};
use serde::Serialize;
use upper::{PUD, UpperNodes, entry};

/// Levels, numbered from the leaf up. Those from `PUD` up are in `upper`.
const PTE: u32 = 0;
const PMD: u32 = 1;
const MAX_LEVELS: usize = 5;

/// A radix page table.
pub type Radix = Paged<RadixTree>;

/// The nodes of a radix page table.
///
/// Every node is a frame of simulated memory. A node is freed by `release` once it is empty, and
/// a page of PTEs also when its region is mapped as one larger page. Pages above the reach of the
/// root (48 bits with four levels) are refused.
#[derive(Clone, Debug)]
pub struct RadixTree {
    /// The pages of PTEs, by region.
    ptes: Vec<Option<Pfn>>,
    pmds: Vec<PmdNode>,
    upper: UpperNodes,
    /// Level of the root.
    root: u32,
    caches: Vec<PageWalkCache>,
    cache_cycles: u32,
    counters: RadixCounters,
    /// Places for pages of PTEs, if not any frame, by the number of their region.
    places: Option<Tiers>,
}

/// The node of the PMD level for one 1 GiB region.
#[derive(Clone, Copy, Debug, Default)]
struct PmdNode {
    frame: Option<Pfn>,
    /// Entries in use.
    used: u32,
    /// The PUD node with this 1 GiB region's entry, where that entry is in use.
    pud: Option<u32>,
}

/// The caches of one core.
#[derive(Clone, Debug)]
struct PageWalkCache {
    /// Keyed by region.
    pmd: WalkCache,
    /// Keyed by 1 GiB region.
    pud: WalkCache,
    /// Entries that point to PUD nodes, then to P4D nodes, keyed by the number of that node.
    upper: Vec<WalkCache>,
}

/// Nodes in use and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RadixCounters {
    /// Nodes that take a frame now.
    pub nodes: u64,
    /// Nodes ever allocated.
    pub nodes_allocated: u64,
}

impl Radix {
    /// One line about it.
    pub const DESCRIPTION: &str =
        "the radix tree of x86-64 with a split page-walk cache (4 or 5 levels)";

    /// An empty table for a machine of `cores` cores.
    ///
    /// # Errors
    /// When there are neither 4 nor 5 levels, or a cache's geometry is impossible.
    pub fn new(config: &RadixConfig, cores: usize) -> Result<Self, ConfigError> {
        let RadixConfig { levels, pwc } = config;
        let upper = match levels {
            4 => vec![(&pwc.pgd, "pwc.pgd")],
            5 => vec![(&pwc.p4d, "pwc.p4d"), (&pwc.pgd, "pwc.pgd")],
            _ => {
                return Err(ConfigError {
                    key: "levels",
                    reason: format!("{levels} levels; x86-64 has 4 or 5"),
                });
            }
        };
        let of_core = PageWalkCache {
            pmd: WalkCache::new(&pwc.pmd, "pwc.pmd")?,
            pud: WalkCache::new(&pwc.pud, "pwc.pud")?,
            upper: upper
                .iter()
                .map(|(cache, key)| WalkCache::new(cache, key))
                .collect::<Result<_, _>>()?,
        };
        let all = upper.iter().map(|(cache, _)| *cache);
        let cycles = all.chain([&pwc.pud, &pwc.pmd]).map(|cache| cache.cycles);
        Ok(Paged::over(RadixTree {
            ptes: Vec::new(),
            pmds: Vec::new(),
            upper: UpperNodes::default(),
            root: levels - 1,
            caches: vec![of_core; cores],
            cache_cycles: cycles.max().unwrap_or(0),
            counters: RadixCounters::default(),
            places: None,
        }))
    }

    /// Work so far.
    pub fn counters(&self) -> RadixCounters {
        self.organisation.counters
    }

    /// From now on pages of PTEs go where hashing their region says, as far as it is free there.
    pub fn hash_leaves(&mut self, places: Tiers) {
        self.organisation.places = Some(places);
    }
}

impl RadixTree {
    /// The page of PTEs of a page's region.
    #[inline]
    fn leaf(&self, id: PageId) -> Option<Pfn> {
        *self.ptes.get(id.region())?
    }

    /// Takes a frame for a node.
    fn take_frame<F: Frames>(
        &self,
        frames: &mut F,
        page: Page,
        level: u32,
        work: &mut Work,
    ) -> Option<Pfn> {
        if let Some(places) = self.places.filter(|_| level == PTE) {
            for frame in places.all(page.id.region() as u64) {
                work.probes += 1;
                if frames.claim_table(frame) {
                    return Some(frame);
                }
            }
        }
        frames.allocate_table(0)
    }

    fn has_node(&self, page: Page, level: u32) -> bool {
        match level {
            PTE => self.leaf(page.id).is_some(),
            PMD => self.pmds[gib(page.id)].frame.is_some(),
            _ => self.find_upper(page, level).is_some(),
        }
    }

    fn find_upper(&self, page: Page, level: u32) -> Option<u32> {
        self.upper.find(page.asid, level, self.root, page.vpn.0)
    }

    /// Makes the nodes from the root down to the one that holds the entry of a page of `size`.
    fn make_path<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let bits = PAGE_SHIFT + 9 * (self.root + 1);
        if !page.is_canonical(bits) {
            return Err(MapError::OutOfReach { bits });
        }
        let lowest = leaf_level(size);
        let present = (lowest..=self.root).find(|&level| self.has_node(page, level));
        let missing = lowest..present.unwrap_or(self.root + 1);
        // All frames first, so that running out leaves the table as it was.
        let mut taken = [Pfn(0); MAX_LEVELS];
        for level in missing.clone() {
            match self.take_frame(frames, page, level, work) {
                Some(frame) => taken[level as usize] = frame,
                None => {
                    for level in lowest..level {
                        frames.free_table(taken[level as usize], 0);
                    }
                    return Err(MapError::OutOfFrames);
                }
            }
        }
        for level in missing.rev() {
            self.add_node(page, level, taken[level as usize]);
            work.table_frames += 1;
            work.entries_written += u64::from(level != self.root);
        }
        Ok(())
    }

    fn add_node(&mut self, page: Page, level: u32, frame: Pfn) {
        self.counters.nodes += 1;
        self.counters.nodes_allocated += 1;
        match level {
            PTE => {
                self.ptes[page.id.region()] = Some(frame);
                self.pmds[gib(page.id)].used += 1;
            }
            PMD => {
                self.pmds[gib(page.id)].frame = Some(frame);
                self.use_pud_entry(page);
            }
            _ => {
                let (root, vpn) = (self.root, page.vpn.0);
                self.upper.add(page.asid, level, root, vpn, frame);
            }
        }
    }

    /// The 1 GiB region's entry in its PUD node, which exists, comes into use.
    fn use_pud_entry(&mut self, page: Page) {
        let pud = self.find_upper(page, PUD);
        self.upper
            .use_entry(pud.expect("nodes are added from the root down"));
        self.pmds[gib(page.id)].pud = pud;
    }

    fn drop_pud_entry(&mut self, page: Page) {
        if let Some(pud) = self.pmds[gib(page.id)].pud.take() {
            self.upper.drop_entry(pud);
        }
    }

    /// Frees the page of PTEs of a region if it is empty.
    fn free_pte_node<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, page: Page) {
        if !mapped.has_base_pages(page.id)
            && let Some(frame) = self.ptes[page.id.region()].take()
        {
            self.pmds[gib(page.id)].used -= 1;
            self.free_node(frames, frame);
            let region = page.id.region() as u32;
            for core in &mut self.caches {
                core.pmd.remove(page.vpn.0 >> 9, region);
            }
        }
    }

    /// Frees the PMD node of a 1 GiB region if it is empty.
    fn free_pmd_node<F: Frames>(&mut self, frames: &mut F, page: Page) {
        let gib = gib(page.id);
        let PmdNode {
            frame: Some(frame),
            used: 0,
            ..
        } = self.pmds[gib]
        else {
            return;
        };
        self.pmds[gib].frame = None;
        self.drop_pud_entry(page);
        self.free_node(frames, frame);
        for core in &mut self.caches {
            core.pud.remove(page.vpn.0 >> 18, gib as u32);
        }
    }

    /// Frees the nodes above the PMD on the way to a page as far as they are empty.
    fn free_upper_nodes<F: Frames>(&mut self, frames: &mut F, page: Page) {
        for level in PUD..=self.root {
            let removed = self
                .upper
                .remove_empty(page.asid, level, self.root, page.vpn.0);
            let Some((number, node)) = removed else {
                return;
            };
            self.free_node(frames, node.frame);
            if level < self.root {
                for core in &mut self.caches {
                    let index = page.vpn.0 >> (9 * (level + 1));
                    core.upper[(level - PUD) as usize].remove(index, number);
                }
            }
        }
    }

    fn free_node<F: Frames>(&mut self, frames: &mut F, frame: Pfn) {
        frames.free_table(frame, 0);
        self.counters.nodes -= 1;
    }

    /// Reads the entries above the PMD that the caches do not spare; the PMD node, if there is one.
    #[inline]
    fn walk_to_pmd(&mut self, core: usize, page: Page, walk: &mut Walk) -> Option<Pfn> {
        let gib = gib(page.id);
        let node = self.pmds.get(gib).copied().unwrap_or_default();
        let pud = &mut self.caches[core].pud;
        let hit = pud.get(page.vpn.0 >> 18, gib as u32);
        walk.count_cache(hit);
        if !hit {
            if !self.walk_to_pud(core, page, node.pud, walk) || node.frame.is_none() {
                return None;
            }
            let pud = &mut self.caches[core].pud;
            pud.insert(page.vpn.0 >> 18, gib as u32);
            walk.next_step();
        }
        node.frame
    }

    /// Reads the entries down to the PUD's that the caches do not spare; whether there is a PUD
    /// node.
    #[cold]
    fn walk_to_pud(&mut self, core: usize, page: Page, pud: Option<u32>, walk: &mut Walk) -> bool {
        let vpn = page.vpn.0;
        let lowest = match pud {
            Some(number) => Some((PUD, number)),
            None => (PUD..=self.root)
                .find_map(|level| self.find_upper(page, level).map(|number| (level, number))),
        };
        let Some((lowest, number)) = lowest else {
            return false;
        };
        // Up to the root or to a node that a cache knows, then down again.
        let caches = &mut self.caches[core].upper;
        let mut path = [number; MAX_LEVELS];
        let mut level = lowest;
        while level < self.root {
            let number = path[level as usize];
            let hit = caches[(level - PUD) as usize].get(vpn >> (9 * (level + 1)), number);
            walk.count_cache(hit);
            if hit {
                break;
            }
            level += 1;
            path[level as usize] = self.upper.get(number).parent;
        }
        while level > lowest {
            let frame = self.upper.get(path[level as usize]).frame;
            walk.read(entry(frame, level, vpn));
            walk.next_step();
            caches[(level - 1 - PUD) as usize].insert(vpn >> (9 * level), path[level as usize - 1]);
            level -= 1;
        }
        walk.read(entry(self.upper.get(number).frame, lowest, vpn));
        lowest == PUD
    }
}

impl Organisation for RadixTree {
    fn release<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, first: Page, pages: u64) {
        for region in mapped.regions_in(first, pages) {
            self.free_pte_node(frames, mapped, region);
            self.free_pmd_node(frames, region);
            self.free_upper_nodes(frames, region);
        }
    }

    fn enter<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Result<(), MapError> {
        if size == PageSize::Base4K && self.leaf(page.id).is_some() {
            work.entries_written += 1;
            return Ok(());
        }
        if self.pmds.len() <= gib(page.id) {
            self.pmds.resize(gib(page.id) + 1, PmdNode::default());
            self.ptes.resize(self.pmds.len() << 9, None);
        }
        if size != PageSize::Base4K {
            for offset in (0..size.base_pages()).step_by(512) {
                let id = PageId(page.id.0 + offset);
                let vpn = Vpn(page.vpn.0 + u64::from(offset));
                self.free_pte_node(frames, mapped, Page { id, vpn, ..page });
            }
        }
        if size == PageSize::Huge1G {
            self.free_pmd_node(frames, page);
        }
        self.make_path(frames, page, size, work)?;
        work.entries_written += 1;
        match size {
            PageSize::Base4K => {}
            PageSize::Large2M => self.pmds[gib(page.id)].used += 1,
            PageSize::Huge1G => self.use_pud_entry(page),
        }
        Ok(())
    }

    fn leave(&mut self, _: &PageMap, page: Page, size: PageSize, work: &mut Work) {
        work.entries_written += 1;
        match size {
            PageSize::Base4K => {}
            PageSize::Large2M => self.pmds[gib(page.id)].used -= 1,
            PageSize::Huge1G => self.drop_pud_entry(page),
        }
    }

    #[inline]
    fn walk(&mut self, core: usize, page: Page, _: Option<Translation>, walk: &mut Walk) {
        let vpn = page.vpn.0;
        let leaf = self.leaf(page.id);
        walk.spend(self.cache_cycles);
        let number = page.id.region() as u32;
        let hit = self.caches[core].pmd.get(vpn >> 9, number);
        walk.count_cache(hit);
        if !hit {
            let Some(pmd) = self.walk_to_pmd(core, page, walk) else {
                return;
            };
            walk.read(entry(pmd, PMD, vpn));
        }
        let Some(leaf) = leaf else {
            return;
        };
        if !hit {
            self.caches[core].pmd.insert(vpn >> 9, number);
            walk.next_step();
        }
        walk.read(entry(leaf, PTE, vpn));
    }

    #[inline]
    fn entry_frame(&self, page: Page) -> Option<Pfn> {
        self.leaf(page.id)
    }

    fn table_bytes(&self) -> u64 {
        self.counters.nodes * PAGE_BYTES
    }
}

/// The level that holds the entry of a page of a size.
fn leaf_level(size: PageSize) -> u32 {
    match size {
        PageSize::Base4K => PTE,
        PageSize::Large2M => PMD,
        PageSize::Huge1G => PUD,
    }
}
