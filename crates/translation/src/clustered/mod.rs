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
use crate::{ConfigError, Frames, MapError, Page, PageTable, Translation, Walk, Work};
use pagelab_addr::{Asid, PageId, PageSize, PhysAddr};
use table::{Search, Table};

/// log2 of the size of an entry.
const ENTRY_SHIFT: u32 = 3;

/// A hashed page table: for each process and page size a table of lines of eight entries, with
/// linear probing.
#[derive(Clone, Debug)]
pub struct Clustered {
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
        Ok(Clustered {
            config: config.clone(),
            clusters: Clusters::default(),
            tables: Vec::new(),
            counters: ClusteredCounters::default(),
        })
    }

    /// What it holds, and did so far.
    pub fn counters(&self) -> ClusteredCounters {
        let mut counters = self.counters;
        for table in self.tables.iter().flatten().flatten() {
            let (lines, used) = table.fill();
            counters.lines += lines;
            counters.lines_used += used;
        }
        counters
    }

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
        page: Page,
        size: PageSize,
        cluster: u32,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let mut table = match self.table(page.asid, size).take() {
            Some(table) => table,
            None => Table::new(&self.config, frames, size, &mut self.counters, work)?,
        };
        let (config, clusters) = (&self.config, &self.clusters);
        let inserted = table.insert(config, frames, clusters, cluster, &mut self.counters, work);
        *self.table(page.asid, size) = Some(table);
        inserted
    }
}

impl PageTable for Clustered {
    fn release<F: Frames>(&mut self, frames: &mut F, first: Page, pages: u64) {
        self.clusters.release(first, pages);
        for size in PageSize::ALL {
            let table = self.table(first.asid, size);
            if table.as_ref().is_some_and(Table::is_empty)
                && let Some(table) = table.take()
            {
                table.free(frames);
            }
        }
    }

    fn map<F: Frames>(
        &mut self,
        frames: &mut F,
        page: Page,
        translation: Translation,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let size = translation.size;
        let cluster = self.clusters.prepare(page, size);
        let mut entered = translation;
        if self.clusters.present(size, cluster) == 0 {
            let moved = work.displaced.len();
            let inserted = self.insert(frames, page, size, cluster, work);
            entered = self.clusters.follow(&work.displaced[moved..], translation);
            inserted?;
        }
        self.clusters.set(page, entered);
        self.counters.pages_mapped += 1;
        work.entries_written += 1;
        Ok(())
    }

    fn unmap<F: Frames>(
        &mut self,
        _: &mut F,
        page: Page,
        size: PageSize,
        work: &mut Work,
    ) -> Option<Translation> {
        let old = self.clusters.remove(page, size)?;
        work.entries_written += 1;
        let cluster = self.clusters.find(page.id, size)?;
        if self.clusters.present(size, cluster) == 0 {
            let table = &mut self.tables[usize::from(page.asid.0)][size as usize];
            if let Some(table) = table {
                table.remove(&self.clusters, cluster, &mut self.counters, work);
            }
        }
        Some(old)
    }

    fn update(&mut self, page: Page, translation: Translation) -> bool {
        self.clusters.update(page, translation)
    }

    #[inline]
    fn lookup(&self, page: Page) -> Option<Translation> {
        self.clusters.lookup(page.id)
    }

    /// Tables of all page sizes that the process uses are searched side by side, until one has
    /// the page.
    #[inline]
    fn walk(&mut self, _: usize, page: Page, walk: &mut Walk) -> Option<Translation> {
        walk.spend(self.config.hash_cycles);
        let tables = self.tables.get(usize::from(page.asid.0))?;
        let found = self.clusters.lookup(page.id);
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
        found
    }

    #[inline]
    fn host_prefetch(&self, page: Page) {
        self.clusters.host_prefetch(page.id);
    }

    fn table_bytes(&self) -> u64 {
        let tables = self.tables.iter().flatten().flatten();
        tables.map(Table::bytes).sum()
    }
}

/// Where in its line the entry of a page of a size is.
#[inline]
fn entry_offset(id: PageId, size: PageSize) -> u64 {
    u64::from((id.0 >> size.order()) & 7) << ENTRY_SHIFT
}
