//! The distributed page table: all of physical memory as one hashed page table (Kwon et al.,
//! MICRO 2024). See docs/designs/dpt.md.

mod config;
mod counters;
mod dmt;
mod exceptions;
mod layout;
mod metadata;
mod placement;
mod reserve;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use placement::base_frame;

pub use config::{DmcConfig, DmtConfig, DptConfig, Prefer};
pub use counters::DptCounters;

use crate::city::city_hash64;
use crate::walk_cache::WalkCache;
use crate::{
    ConfigError, Frames, MapError, Organisation, Page, PageMap, Paged, Translation, Walk, Work,
};
use dmt::Dmt;
use exceptions::{Exceptions, Named};
use layout::{Layout, PtePage, Spot};
use pagelab_addr::{Asid, PAGE_BYTES, PageSize, Pfn};
use placement::Reachable;

/// A distributed page table.
pub type Dpt = Paged<Distributed>;

/// The pages of PTEs of a distributed page table.
///
/// A page of 512 PTEs serves 2 MiB of 4 KiB pages, 1 GiB of 2 MiB pages or 512 GiB of 1 GiB pages,
/// and lies in the frame that the hash of its tag names or a few strides further. Metadata that
/// say so exist exactly for the pages of PTEs that do. Where those of several page sizes exist,
/// the smallest size counts; so a page of PTEs may exist only where no larger page is mapped.
#[derive(Clone, Debug)]
pub struct Distributed {
    config: DptConfig,
    layout: Layout,
    processes: Vec<Process>,
    /// By core and page size.
    caches: Vec<[WalkCache; 3]>,
    cache_cycles: u32,
    counters: DptCounters,
}

/// State of one address space.
#[derive(Clone, Debug, Default)]
struct Process {
    /// Metadata tables by page size, made when first needed.
    dmts: [Option<Dmt>; 3],
    /// Made with the first exception.
    exceptions: Option<Exceptions>,
    /// Pages of PTEs.
    pages: u64,
    /// Number of those that lie in the pool.
    pooled_pages: u64,
    /// Regions of the pool that serve the process, and all.
    pool_in_use: u32,
    pool: Vec<u32>,
}

impl Dpt {
    /// One line about it.
    pub const DESCRIPTION: &str = "the distributed page table: physical memory as one hashed table";

    /// The frame where metadata, as the processor has them in six bits, say that the page of PTEs
    /// for a tag lies (equation 1); `None` if they are not valid. `size` is the pages' that it maps.
    pub fn frame_of(metadata: u8, tag: u64, key: u64, size: PageSize, frames: u32) -> Option<u32> {
        let seed = layout::seed(key, size);
        let base = base_frame(tag, seed, frames);
        metadata::Metadata::from_code(metadata).frame(base, frames)
    }

    /// Do metadata say that the page of PTEs is in none of the frames of equation 1?
    pub fn is_elsewhere(metadata: u8) -> bool {
        metadata::Metadata::from_code(metadata) == metadata::Metadata::ELSEWHERE
    }

    /// Gives an address space a key, which seeds the hash, other than its number. It must not have
    /// been used before.
    pub fn set_key(&mut self, asid: Asid, key: u64) {
        self.organisation.layout.set_key(asid, key);
    }

    /// An empty table for a machine of `cores` cores.
    ///
    /// # Errors
    /// When a value of the configuration is impossible.
    pub fn new(config: &DptConfig, cores: usize) -> Result<Self, ConfigError> {
        config.check()?;
        let DmcConfig { base, large, huge } = &config.dmc;
        let of_core = [
            WalkCache::new(base, "dmc.4K")?,
            WalkCache::new(large, "dmc.2M")?,
            WalkCache::new(huge, "dmc.1G")?,
        ];
        Ok(Paged::over(Distributed {
            config: config.clone(),
            layout: Layout::new(config.first_pid),
            processes: Vec::new(),
            caches: vec![of_core; cores],
            cache_cycles: base.cycles.max(large.cycles).max(huge.cycles),
            counters: DptCounters::default(),
        }))
    }

    /// Counts of the techniques so far.
    pub fn counters(&self) -> DptCounters {
        DptCounters {
            dmt_bytes: self.organisation.dmt_bytes(),
            ..self.organisation.counters.clone()
        }
    }
}

impl Distributed {
    fn dmt_bytes(&self) -> u64 {
        let dmts = self.processes.iter().flat_map(|process| &process.dmts);
        let exceptions = self
            .processes
            .iter()
            .flat_map(|process| &process.exceptions);
        let frames: u64 = dmts.flatten().map(Dmt::frames).sum();
        (frames + exceptions.map(Exceptions::frames).sum::<u64>()) * PAGE_BYTES
    }

    fn process(&mut self, asid: Asid) -> &mut Process {
        let index = usize::from(asid.0);
        if self.processes.len() <= index {
            self.processes.resize_with(index + 1, Process::default);
        }
        &mut self.processes[index]
    }

    fn seed(&self, spot: Spot) -> u64 {
        self.layout.seed(spot.asid, spot.size)
    }

    #[inline]
    fn region(&mut self, page: Page) -> u32 {
        match self.layout.region(page.id) {
            Some(region) => region,
            None => self.layout.link(page.id, page.asid, page.vpn.0),
        }
    }

    /// Places a page of PTEs by every technique but CVA; whether it found a place.
    fn place_by_hash<F: Frames>(
        &mut self,
        frames: &mut F,
        spot: Spot,
        work: &mut Work,
    ) -> Result<bool, MapError> {
        self.make_entry(frames, spot, work)?;
        let hashed = (spot.tag, self.seed(spot));
        let found = placement::search(&self.config, frames, hashed, &mut self.counters, work);
        let reachable = match found {
            Ok(reachable) => {
                self.claim(frames, reachable);
                Some(reachable)
            }
            Err(candidates) => {
                placement::take_victim(&self.config, frames, &candidates, &mut self.counters, work)
            }
        };
        if let Some(reachable) = reachable {
            self.add_page(spot, reachable, work);
        }
        Ok(reachable.is_some())
    }

    /// Places a page of PTEs: by hash, or else in any frame.
    fn place<F: Frames>(
        &mut self,
        frames: &mut F,
        spot: Spot,
        work: &mut Work,
    ) -> Result<(), MapError> {
        if self.place_by_hash(frames, spot, work)? {
            return Ok(());
        }
        let frame = frames.allocate_table(0).ok_or(MapError::OutOfFrames)?;
        if let Err(error) = self.add_exception(frames, spot, frame, work) {
            frames.free_table(frame, 0);
            return Err(error);
        }
        self.counters.placed_anywhere += 1;
        let metadata = metadata::Metadata::ELSEWHERE;
        self.add_page(spot, Reachable { frame, metadata }, work);
        Ok(())
    }

    fn add_exception<F: Frames>(
        &mut self,
        frames: &mut F,
        spot: Spot,
        frame: Pfn,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let named = self.named(spot);
        let exceptions = &mut self.process(spot.asid).exceptions;
        let exceptions = match exceptions {
            Some(exceptions) => exceptions,
            None => exceptions.insert(Exceptions::new(frames, work)?),
        };
        exceptions.add(frames, named, frame, work)
    }

    /// Name by which the table of exceptions knows a page of PTEs.
    fn named(&self, spot: Spot) -> Named {
        Named {
            tag: spot.tag,
            size: spot.size,
            hash: city_hash64(spot.tag, self.seed(spot)),
        }
    }

    /// Takes a frame that a search found free.
    fn claim<F: Frames>(&mut self, frames: &mut F, reachable: Reachable) {
        let claimed = frames.claim_table(reachable.frame);
        assert!(claimed, "{:?} was free when looked at", reachable.frame);
        self.counters.fap_hits += u64::from(self.config.fap);
    }

    fn unclaim<F: Frames>(&mut self, frames: &mut F, reachable: Reachable) {
        frames.free_table(reachable.frame, 0);
        self.counters.fap_hits -= u64::from(self.config.fap);
    }

    /// Makes sure that the metadata of a page of PTEs can be written.
    fn make_entry<F: Frames>(
        &mut self,
        frames: &mut F,
        spot: Spot,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let (seed, entries) = (self.seed(spot), self.config.dmt.entries(spot.size));
        let dmt = &mut self.process(spot.asid).dmts[spot.size as usize];
        let dmt = match dmt {
            Some(dmt) => dmt,
            None => dmt.insert(Dmt::new(frames, entries, seed, work)?),
        };
        dmt.make_entry(frames, spot.tag, work)
    }

    /// Enters a page of PTEs whose frame is taken.
    fn add_page(&mut self, spot: Spot, reachable: Reachable, work: &mut Work) {
        let Reachable { frame, metadata } = reachable;
        let elsewhere = metadata == metadata::Metadata::ELSEWHERE;
        *self.layout.page_mut(spot) = PtePage {
            frame,
            used: 0,
            elsewhere,
        };
        self.set_metadata(spot, metadata);
        let pooled = u64::from(self.layout.is_pooled(spot));
        let process = self.process(spot.asid);
        process.pages += 1;
        process.pooled_pages += pooled;
        if let Some((stride, step)) = metadata.decode() {
            self.counters.soa_steps[stride as usize][step as usize] += 1;
        }
        self.counters.pte_pages += 1;
        self.counters.pte_pages_placed += 1;
        work.table_frames += 1;
        work.entries_written += 1;
    }

    fn set_metadata(&mut self, spot: Spot, metadata: metadata::Metadata) {
        let dmt = &mut self.process(spot.asid).dmts[spot.size as usize];
        let dmt = dmt.as_mut().expect("made before the page of PTEs");
        dmt.set(spot.tag, metadata);
        // The whole entry leaves the caches: they hold no single metadata.
        let number = self.layout.group(spot.size, spot.group).number;
        for core in &mut self.caches {
            core[spot.size as usize].remove(number, spot.group);
        }
    }

    fn is_empty(&self, spot: Spot) -> bool {
        self.layout.page(spot).is_empty()
    }

    /// Frees a page of PTEs, which is empty.
    fn free_page<F: Frames>(&mut self, frames: &mut F, spot: Spot) {
        let page = std::mem::replace(self.layout.page_mut(spot), PtePage::NONE);
        assert!(page.used == 0, "a page of PTEs still maps pages");
        frames.free_table(page.frame, 0);
        self.set_metadata(spot, metadata::Metadata::INVALID);
        if page.elsewhere {
            let named = self.named(spot);
            let exceptions = &mut self.process(spot.asid).exceptions;
            exceptions.as_mut().expect("it is one").remove(named);
        }
        let pooled = u64::from(self.layout.is_pooled(spot));
        let process = self.process(spot.asid);
        process.pages -= 1;
        process.pooled_pages -= pooled;
        self.counters.pte_pages -= 1;
    }

    /// True if a recorded region lies in a mapped page of a size larger than 4 KiB.
    fn is_present(&self, mapped: &PageMap, size: PageSize, recorded: u32) -> bool {
        let page = self.layout.first_page(recorded);
        page.is_some_and(|id| mapped.get(id, size).is_present())
    }

    /// Frees what a recorded region has of empty pages of PTEs for pages smaller than 1 GiB, and
    /// lets it stand for itself again if nothing is mapped there.
    fn vacate<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, recorded: u32) {
        let region = self.layout.effective(recorded);
        let base = self.layout.spot(PageSize::Base4K, region);
        let pooled = self.layout.is_pooled(base);
        if self.is_empty(base) && !pooled {
            self.free_page(frames, base);
        }
        // A region that was given another address may have got one for its own before.
        for place in [region, recorded] {
            let large = self.layout.spot(PageSize::Large2M, place);
            if self.is_empty(large) {
                self.free_page(frames, large);
            }
        }
        let in_use = self.layout.page(base).exists() && !(pooled && self.is_empty(base));
        if region != recorded && !in_use && !self.is_present(mapped, PageSize::Large2M, recorded) {
            self.layout.move_home(recorded);
            self.process(base.asid).pool_in_use -= u32::from(pooled);
        }
    }

    /// Removes what stands in the way of a page of `size`, all of it empty.
    fn make_way<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        page: Page,
        size: PageSize,
    ) {
        let regions = match size {
            PageSize::Base4K => return,
            PageSize::Large2M => {
                let region = self.region(page);
                let base = self.layout.spot(PageSize::Base4K, region);
                if self.layout.page(base).exists() {
                    self.free_page(frames, base);
                }
                return;
            }
            PageSize::Huge1G => {
                self.layout
                    .regions_in(page.asid, page.vpn.0, u64::from(size.base_pages()))
            }
        };
        for recorded in regions {
            self.vacate(frames, mapped, recorded);
        }
    }

    /// Gives a process's tables back when nothing but its pool is left.
    fn free_process<F: Frames>(&mut self, frames: &mut F, asid: Asid) {
        let process = self.process(asid);
        if process.pages > process.pooled_pages || process.pool_in_use > 0 {
            return;
        }
        for region in std::mem::take(&mut process.pool) {
            let spot = self.layout.spot(PageSize::Base4K, region);
            if self.layout.page(spot).exists() {
                self.free_page(frames, spot);
            }
        }
        self.layout.drop_pool(asid);
        for dmt in self.process(asid).dmts.each_mut() {
            if let Some(dmt) = dmt.take() {
                dmt.free(frames);
            }
        }
        if let Some(exceptions) = self.process(asid).exceptions.take() {
            exceptions.free(frames);
        }
    }

    /// The frame that the walker computes from the metadata in memory, by equation 1.
    #[cfg(test)]
    fn frame_by_metadata(&self, spot: Spot, frames: u32) -> Option<u32> {
        let process = self.processes.get(usize::from(spot.asid.0))?;
        let dmt = process.dmts[spot.size as usize].as_ref()?;
        let base = placement::base_frame(spot.tag, self.seed(spot), frames);
        let metadata = dmt.get(spot.tag);
        if metadata == metadata::Metadata::ELSEWHERE {
            let exceptions = process.exceptions.as_ref()?;
            return exceptions.frame(self.named(spot)).map(|frame| frame.0);
        }
        metadata.frame(base, frames)
    }
}

impl Organisation for Distributed {
    fn reserve<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        first: Page,
        pages: u64,
        size: PageSize,
        work: &mut Work,
    ) {
        self.reserve_range(frames, mapped, first, pages, size, work);
    }

    fn release<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, first: Page, pages: u64) {
        for recorded in self.layout.regions_in(first.asid, first.vpn.0, pages) {
            self.vacate(frames, mapped, recorded);
            let huge = self.layout.spot(PageSize::Huge1G, recorded);
            if self.is_empty(huge) {
                self.free_page(frames, huge);
            }
        }
        self.free_process(frames, first.asid);
    }

    fn end<F: Frames>(&mut self, _: &mut F, _: &PageMap, asid: Asid) {
        self.layout.unlink(asid);
    }

    fn enter<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let mut region = self.region(page);
        if size != PageSize::Base4K {
            self.make_way(frames, mapped, page, size);
            region = self.region(page);
        }
        let spot = self.layout.spot(size, region);
        if !self.layout.page(spot).exists() {
            self.place(frames, spot, work)?;
        }
        self.layout.page_mut(spot).used += 1;
        work.entries_written += 1;
        Ok(())
    }

    fn leave(&mut self, _: &PageMap, page: Page, size: PageSize, work: &mut Work) {
        let region = self.region(page);
        let spot = self.layout.spot(size, region);
        self.layout.page_mut(spot).used -= 1;
        work.entries_written += 1;
    }

    #[inline]
    fn walk(&mut self, core: usize, page: Page, _: Option<Translation>, walk: &mut Walk) {
        self.walk_page(core, page, walk);
    }

    fn table_bytes(&self) -> u64 {
        self.counters.pte_pages * PAGE_BYTES + self.dmt_bytes()
    }
}
