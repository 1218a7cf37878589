//! The flattened radix tree (Park, Vougioukas, Sandberg, Black-Schaffer, ASPLOS 2022). See
//! docs/designs/flattened.md.

mod config;
mod nodes;
#[cfg(test)]
mod tests;

pub use config::{FlattenedConfig, FlattenedPwcConfig};
pub use nodes::FlattenedCounters;

use crate::page_map::{GIB_ORDER, gib};
use crate::walk_cache::WalkCache;
use crate::{
    ConfigError, Frames, MapError, Organisation, Page, PageMap, Paged, Translation, Walk, Work,
};
use nodes::{Leaf, Node, Pud, Root, small_entry};
use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};
use std::collections::BTreeMap;

/// Bits of addresses that four levels translate.
const BITS: u32 = 48;

/// log2 of the base pages of 512 GiB.
const PUD_SHIFT: u32 = GIB_ORDER + 9;

/// A flattened page table.
pub type Flattened = Paged<FlattenedTree>;

/// The nodes of a radix page table of four levels, of which the upper two and the lower two are one node each
/// where a free block of 2 MiB was found for it. Pages above the reach of the root are refused.
#[derive(Clone, Debug)]
pub struct FlattenedTree {
    config: FlattenedConfig,
    /// By address space.
    roots: Vec<Option<Root>>,
    /// By 1 GiB region.
    leaves: Vec<Leaf>,
    /// The pages of PTEs below split nodes, by region.
    ptes: Vec<Option<Pfn>>,
    caches: Vec<PageWalkCache>,
    cache_cycles: u32,
    counters: FlattenedCounters,
}

/// The caches of one core.
#[derive(Clone, Debug)]
struct PageWalkCache {
    /// Keyed by region.
    pmd: WalkCache,
    /// Keyed by 1 GiB region.
    pud: WalkCache,
    /// Keyed by the frame of the PUD node.
    pgd: WalkCache,
}

/// Nodes that are to be added on the way to a page.
#[derive(Clone, Copy, Debug, Default)]
struct Missing {
    root: Option<Node>,
    pud: Option<Node>,
    leaf: Option<Node>,
    ptes: Option<Node>,
}

impl Missing {
    fn nodes(self) -> impl Iterator<Item = Node> {
        [self.root, self.pud, self.leaf, self.ptes]
            .into_iter()
            .flatten()
    }
}

impl Flattened {
    /// One line about it.
    pub const DESCRIPTION: &str = "the radix tree with two levels a node of 2 MiB";

    /// An empty table for a machine of `cores` cores.
    ///
    /// # Errors
    /// When a cache's geometry is impossible.
    pub fn new(config: &FlattenedConfig, cores: usize) -> Result<Self, ConfigError> {
        let pwc = &config.pwc;
        let of_core = PageWalkCache {
            pmd: WalkCache::new(&pwc.pmd, "flattened.pwc.pmd")?,
            pud: WalkCache::new(&pwc.pud, "flattened.pwc.pud")?,
            pgd: WalkCache::new(&pwc.pgd, "flattened.pwc.pgd")?,
        };
        Ok(Paged::over(FlattenedTree {
            cache_cycles: pwc.pmd.cycles.max(pwc.pud.cycles).max(pwc.pgd.cycles),
            config: config.clone(),
            roots: Vec::new(),
            leaves: Vec::new(),
            ptes: Vec::new(),
            caches: vec![of_core; cores],
            counters: FlattenedCounters::default(),
        }))
    }

    /// Work so far.
    pub fn counters(&self) -> FlattenedCounters {
        self.organisation.counters
    }
}

impl FlattenedTree {
    fn root(&self, page: Page) -> Option<&Root> {
        self.roots.get(usize::from(page.asid.0))?.as_ref()
    }

    fn root_mut(&mut self, page: Page) -> Option<&mut Root> {
        self.roots.get_mut(usize::from(page.asid.0))?.as_mut()
    }

    /// Makes the nodes down to the one that holds the entry of a page of `size`, all or none.
    fn make_path<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Result<(), MapError> {
        if !page.is_canonical(BITS) {
            return Err(MapError::OutOfReach { bits: BITS });
        }
        let mut missing = Missing::default();
        if self
            .allocate_path(frames, page, size, &mut missing)
            .is_none()
        {
            for node in missing.nodes() {
                node.free(frames);
            }
            return Err(MapError::OutOfFrames);
        }
        for node in missing.nodes() {
            self.counters.add(node);
            work.table_frames += node.frames();
            work.entries_written += u64::from(Some(node) != missing.root);
        }
        if let Some(node) = missing.root {
            self.counters.upper_fallbacks += u64::from(self.config.upper && !node.is_flat());
            let index = usize::from(page.asid.0);
            if self.roots.len() <= index {
                self.roots.resize(index + 1, None);
            }
            self.roots[index] = Some(Root {
                node,
                used: 0,
                puds: BTreeMap::new(),
                spare: None,
            });
        }
        if let (Some(Node::Split(frame)), Some(root)) = (missing.pud, self.root_mut(page)) {
            let pud = Pud { frame, used: 0 };
            root.puds.insert(page.vpn.0 >> PUD_SHIFT, pud);
        }
        if let Some(node) = missing.leaf {
            self.counters.lower_fallbacks += u64::from(self.config.lower && !node.is_flat());
            self.leaves[gib(page.id)].node = Some(node);
            self.count_gib(page, 1);
        }
        if let Some(Node::Split(frame)) = missing.ptes {
            self.ptes[page.id.region()] = Some(frame);
            self.leaves[gib(page.id)].used += 1;
        }
        Ok(())
    }

    /// Takes memory for the nodes that are missing; `None` when there is none for the next.
    fn allocate_path<F: Frames>(
        &self,
        frames: &mut F,
        page: Page,
        size: PageSize,
        missing: &mut Missing,
    ) -> Option<()> {
        let root = self.root(page);
        if root.is_none() {
            missing.root = Some(Node::allocate(frames, self.config.upper)?);
        }
        let node = root.map(|root| root.node).or(missing.root)?;
        let pud = root.and_then(|root| root.puds.get(&(page.vpn.0 >> PUD_SHIFT)));
        if !node.is_flat() && pud.is_none() {
            missing.pud = Some(Node::allocate(frames, false)?);
        }
        if size == PageSize::Huge1G {
            return Some(());
        }
        let leaf = self.leaves[gib(page.id)].node;
        if leaf.is_none() {
            missing.leaf = Some(Node::allocate(frames, self.config.lower)?);
        }
        let small = size == PageSize::Base4K && self.ptes[page.id.region()].is_none();
        if small && !leaf.or(missing.leaf)?.is_flat() {
            missing.ptes = Some(Node::allocate(frames, false)?);
        }
        Some(())
    }

    /// The entry of a 1 GiB region in the node above comes into use or falls out of it.
    fn count_gib(&mut self, page: Page, by: i32) {
        if let Some(root) = self.root_mut(page) {
            match root.puds.get_mut(&(page.vpn.0 >> PUD_SHIFT)) {
                Some(pud) => pud.used = pud.used.wrapping_add_signed(by),
                None => root.used = root.used.wrapping_add_signed(by),
            }
        }
    }

    /// The entry of a page of a size comes into use or falls out of it.
    fn count_entry(&mut self, page: Page, size: PageSize, by: i32, work: &mut Work) {
        let leaf = &mut self.leaves[gib(page.id)];
        let flat = size != PageSize::Huge1G && leaf.node.is_some_and(Node::is_flat);
        work.entries_written += entries(size, flat);
        match size {
            PageSize::Base4K if !flat => {}
            PageSize::Huge1G => self.count_gib(page, by),
            _ => leaf.used = leaf.used.wrapping_add_signed(by),
        }
    }

    /// Frees the page of PTEs of a region if there is one and it is empty.
    fn free_ptes<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, page: Page) {
        if mapped.has_base_pages(page.id) {
            return;
        }
        let Some(frame) = self.ptes[page.id.region()].take() else {
            return;
        };
        self.leaves[gib(page.id)].used -= 1;
        self.counters.drop(Node::Split(frame));
        Node::Split(frame).free(frames);
        let region = page.id.region() as u32;
        for core in &mut self.caches {
            core.pmd.remove(page.vpn.0 >> 9, region);
        }
    }

    /// Gives up the node of a 1 GiB region if it is empty, but for one flat node of an address space:
    /// the one that fell empty last stays where it is, full of zeros.
    fn give_up_leaf<F: Frames>(&mut self, frames: &mut F, page: Page) {
        let leaf = self.leaves[gib(page.id)];
        let mut freed = Some(page);
        if leaf.used == 0
            && leaf.node.is_some_and(Node::is_flat)
            && let Some(root) = self.root_mut(page)
        {
            let spare = root.spare.replace(page);
            freed = spare.filter(|spare| gib(spare.id) != gib(page.id));
        }
        if let Some(page) = freed {
            self.free_leaf(frames, page);
            self.free_pud(frames, page);
        }
    }

    /// Frees the node of a 1 GiB region if it is empty.
    fn free_leaf<F: Frames>(&mut self, frames: &mut F, page: Page) {
        let leaf = &mut self.leaves[gib(page.id)];
        if leaf.used > 0 {
            return;
        }
        let Some(node) = leaf.node.take() else {
            return;
        };
        self.counters.drop(node);
        node.free(frames);
        self.count_gib(page, -1);
        for core in &mut self.caches {
            core.pud
                .remove(page.vpn.0 >> GIB_ORDER, gib(page.id) as u32);
        }
    }

    /// Frees the PUD node on the way to a page if there is one and it is empty.
    fn free_pud<F: Frames>(&mut self, frames: &mut F, page: Page) {
        let number = page.vpn.0 >> PUD_SHIFT;
        let Some(root) = self.root_mut(page) else {
            return;
        };
        let pud = root.puds.get(&number).copied();
        if let Some(pud) = pud.filter(|pud| pud.used == 0) {
            root.puds.remove(&number);
            Node::Split(pud.frame).free(frames);
            self.counters.drop(Node::Split(pud.frame));
            for core in &mut self.caches {
                core.pgd.remove(number, pud.frame.0);
            }
        }
    }

    /// Reads the entries down to the one of the 1 GiB region that the caches do not spare.
    #[cold]
    fn walk_upper(&mut self, core: usize, page: Page, walk: &mut Walk) {
        let Some(root) = self.roots.get(usize::from(page.asid.0)) else {
            return;
        };
        let Some(root) = root else {
            return;
        };
        let number = page.vpn.0 >> GIB_ORDER;
        let pud = root.puds.get(&(page.vpn.0 >> PUD_SHIFT));
        let (false, Some(pud)) = (root.node.is_flat(), pud) else {
            walk.read(root.node.entry(number));
            return;
        };
        let cache = &mut self.caches[core].pgd;
        let hit = cache.get(page.vpn.0 >> PUD_SHIFT, pud.frame.0);
        walk.count_cache(hit);
        if !hit {
            walk.read(root.node.entry(number));
            walk.next_step();
            cache.insert(page.vpn.0 >> PUD_SHIFT, pud.frame.0);
        }
        walk.read(small_entry(pud.frame, number));
    }
}

impl Organisation for FlattenedTree {
    fn release<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, first: Page, pages: u64) {
        for region in mapped.regions_in(first, pages) {
            self.free_ptes(frames, mapped, region);
            self.give_up_leaf(frames, region);
        }
    }

    fn end<F: Frames>(&mut self, frames: &mut F, _: &PageMap, asid: Asid) {
        let number = usize::from(asid.0);
        let Some(Some(root)) = self.roots.get(number) else {
            return;
        };
        if let Some(spare) = root.spare {
            self.free_leaf(frames, spare);
            self.free_pud(frames, spare);
        }
        if let Some(root) = self.roots[number].take() {
            debug_assert!(root.used == 0 && root.puds.is_empty());
            self.counters.drop(root.node);
            root.node.free(frames);
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
        if self.leaves.len() <= gib(page.id) {
            self.leaves.resize(gib(page.id) + 1, Leaf::default());
            self.ptes.resize(self.leaves.len() << 9, None);
        }
        if size != PageSize::Base4K {
            for offset in (0..size.base_pages()).step_by(512) {
                let id = PageId(page.id.0 + offset);
                let vpn = Vpn(page.vpn.0 + u64::from(offset));
                self.free_ptes(frames, mapped, Page { id, vpn, ..page });
            }
        }
        if size == PageSize::Huge1G {
            self.free_leaf(frames, page);
        }
        self.make_path(frames, page, size, work)?;
        self.count_entry(page, size, 1, work);
        Ok(())
    }

    fn leave(&mut self, _: &PageMap, page: Page, size: PageSize, work: &mut Work) {
        self.count_entry(page, size, -1, work);
    }

    #[inline]
    fn walk(&mut self, core: usize, page: Page, _: Option<Translation>, walk: &mut Walk) {
        let vpn = page.vpn.0;
        let region = page.id.region();
        let number = gib(page.id);
        let node = self.leaves.get(number).and_then(|leaf| leaf.node);
        // Below a flat node there are none.
        let ptes = self.ptes.get(region).copied().flatten();
        walk.spend(self.cache_cycles);
        if let Some(frame) = ptes {
            let hit = self.caches[core].pmd.get(vpn >> 9, region as u32);
            walk.count_cache(hit);
            if hit {
                walk.read(small_entry(frame, vpn));
                return;
            }
        }
        let hit = self.caches[core].pud.get(vpn >> GIB_ORDER, number as u32);
        walk.count_cache(hit);
        if !hit {
            self.walk_upper(core, page, walk);
            if node.is_none() {
                return;
            }
            self.caches[core]
                .pud
                .insert(vpn >> GIB_ORDER, number as u32);
            walk.next_step();
        }
        let Some(node) = node else {
            return;
        };
        walk.read(node.entry(vpn));
        if let Some(frame) = ptes {
            self.caches[core].pmd.insert(vpn >> 9, region as u32);
            walk.next_step();
            walk.read(small_entry(frame, vpn));
        }
    }

    fn table_bytes(&self) -> u64 {
        self.counters.bytes()
    }
}

/// Entries that map a page: 512 of a flat node for a 2 MiB page, since a walker finds the one
/// for its 4 KiB.
fn entries(size: PageSize, flat: bool) -> u64 {
    if flat {
        u64::from(size.base_pages())
    } else {
        1
    }
}
