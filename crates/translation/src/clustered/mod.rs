//! The clustered hashed page table with open addressing (Yaniv and Tsafrir, SIGMETRICS 2016). See
//! docs/designs/clustered.md.

mod config;
mod counters;
mod table;
#[cfg(test)]
mod tests;

pub use config::ClusteredConfig;
pub use counters::ClusteredCounters;

use crate::hashed::Clusters;
use crate::{
    ConfigError, Frames, MapError, Organisation, Page, PageMap, Paged, Translation, Walk, Work,
};
use pagelab_addr::{Asid, PageId, PageSize, PhysAddr};
use table::{Search, Table};

/// log2 of the size of an entry.
const ENTRY_SHIFT: u32 = 3;

/// A clustered hashed page table.
pub type Clustered = Paged<ClusteredTables>;

/// For each process and page size a table of lines of eight entries, with
/// linear probing.
#[derive(Clone, Debug)]
pub struct ClusteredTables {
    config: ClusteredConfig,
    clusters: Clusters,
    /// By address space and page size, made when first needed.
    tables: Vec<[Option<Table>; 3]>,
    counters: ClusteredCounters,
}

impl Clustered {
    /// One line about it.
    pub const DESCRIPTION: &str = "a hashed table, eight entries a line, open addressing";

    /// An empty table. It has no walk caches, so nothing in it belongs to a core.
    ///
    /// # Errors
    /// When a value of the configuration is impossible.
    pub fn new(config: &ClusteredConfig, _cores: usize) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Paged::over(ClusteredTables {
            config: config.clone(),
            clusters: Clusters::default(),
            tables: Vec::new(),
            counters: ClusteredCounters::default(),
        }))
    }

    /// Contents, and work so far.
    pub fn counters(&self) -> ClusteredCounters {
        let mut counters = self.organisation.counters;
        for table in self.organisation.tables.iter().flatten().flatten() {
            let (lines, used) = table.fill();
            counters.lines += lines;
            counters.lines_used += used;
        }
        counters
    }
}

impl ClusteredTables {
    fn table(&mut self, asid: Asid, size: PageSize) -> &mut Option<Table> {
        let index = usize::from(asid.0);
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, Default::default);
        }
        &mut self.tables[index][size as usize]
    }

    fn insert<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        page: Page,
        size: PageSize,
        cluster: u32,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let mut table = match self.table(page.asid, size).take() {
            Some(table) => table,
            None => Table::new(&self.config, frames, size, &mut self.counters, work)?,
        };
        let (config, clusters) = (&self.config, self.clusters.with(mapped));
        let inserted = table.insert(config, frames, clusters, cluster, &mut self.counters, work);
        *self.table(page.asid, size) = Some(table);
        inserted
    }
}

impl Organisation for ClusteredTables {
    /// A table stays until its process ends, empty or not.
    fn release<F: Frames>(&mut self, _: &mut F, _: &PageMap, _: Page, _: u64) {}

    fn end<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, asid: Asid) {
        for size in PageSize::ALL {
            if let Some(table) = self.table(asid, size).take() {
                table.free(frames);
            }
        }
        for (_, gib) in mapped.gibs_of(asid) {
            self.clusters.forget(gib);
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
        let cluster = self.clusters.of(page, size);
        if self.clusters.with(mapped).present(size, cluster) == 0 {
            self.insert(frames, mapped, page, size, cluster, work)?;
        }
        self.counters.pages_mapped += 1;
        work.entries_written += 1;
        Ok(())
    }

    fn leave(&mut self, mapped: &PageMap, page: Page, size: PageSize, work: &mut Work) {
        work.entries_written += 1;
        let cluster = self.clusters.of(page, size);
        let clusters = self.clusters.with(mapped);
        if clusters.present(size, cluster) == 0 {
            let table = &mut self.tables[usize::from(page.asid.0)][size as usize];
            if let Some(table) = table {
                table.remove(clusters, cluster, &mut self.counters, work);
            }
        }
    }

    /// Tables of all page sizes that the process uses are searched side by side, until one has
    /// the page.
    #[inline]
    fn walk(&mut self, _: usize, page: Page, found: Option<Translation>, walk: &mut Walk) {
        walk.spend(self.config.hash_cycles);
        let Some(tables) = self.tables.get(usize::from(page.asid.0)) else {
            return;
        };
        let mut searches = [Search::default(); 3];
        let mut steps = 0;
        for (size, table) in PageSize::ALL.into_iter().zip(tables) {
            let Some(table) = table else {
                continue;
            };
            let cluster = self.clusters.find(page.id, size).unwrap_or(u32::MAX - 1);
            let search = table.search(Clusters::tag_of(page.vpn.0, size), cluster);
            searches[size as usize] = search;
            steps = match found {
                Some(found) if found.size == size => search.count,
                Some(_) => steps,
                None => steps.max(search.count),
            };
            self.counters.searches += 1;
        }
        for step in 0..steps {
            if step > 0 {
                walk.next_step();
            }
            for ((size, table), search) in PageSize::ALL.into_iter().zip(tables).zip(searches) {
                if let Some(table) = table
                    && step < search.count
                {
                    let line = table.address(search, step).0;
                    walk.read(PhysAddr(line + entry_offset(page.id, size)));
                    self.counters.probes += 1;
                }
            }
        }
    }

    fn table_bytes(&self) -> u64 {
        let tables = self.tables.iter().flatten().flatten();
        tables.map(Table::bytes).sum()
    }
}

/// Offset of the entry of a page of a size in its line.
#[inline]
fn entry_offset(id: PageId, size: PageSize) -> u64 {
    u64::from((id.0 >> size.order()) & 7) << ENTRY_SHIFT
}
