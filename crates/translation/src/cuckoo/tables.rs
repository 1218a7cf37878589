use super::counters::{CuckooCounters, Moves};
use super::elastic::{Elastic, ElasticConfig, Keys};
use super::growth::Memory;
use super::header_cache::HeaderCache;
use super::headers::{GROUP_SHIFT, Headers, MAX_WAYS, around};
use crate::hashed::{Clusters, MappedClusters};
use crate::{
    ConfigError, Frames, MapError, Organisation, Page, PageMap, Paged, Translation, Walk,
    WalkCacheConfig, Work,
};
use pagelab_addr::{Asid, PageSize};
use std::marker::PhantomData;

/// log2 of the 2 MiB regions in 1 GiB.
const GIB_TO_REGION_SHIFT: u32 = 9;

/// Settings of the engine by a design.
#[derive(Clone, Debug)]
pub(crate) struct CuckooConfig {
    /// The tables of PTEs.
    pub(crate) tables: ElasticConfig,
    /// The walk tables, by page size; `None` for no walk table and cache.
    pub(crate) walk_tables: [Option<ElasticConfig>; 3],
    /// The walk caches, by page size, with the keys of their configuration.
    pub(crate) walk_caches: [(WalkCacheConfig, &'static str); 3],
    pub(crate) hash_cycles: u32,
    pub(crate) compaction: bool,
}

/// A page table of elastic cuckoo hash tables. `D` is the configuration of the design.
pub type CuckooPageTable<D> = Paged<CuckooTables<D>>;

/// Elastic cuckoo hash tables, one for each process and page size.
#[derive(Clone, Debug)]
pub struct CuckooTables<D> {
    pub(super) design: PhantomData<D>,
    pub(super) config: CuckooConfig,
    pub(super) clusters: Clusters,
    pub(super) headers: Headers,
    pub(super) processes: Vec<Process>,
    /// By core and page size.
    pub(super) caches: Vec<[HeaderCache; 3]>,
    /// Time of what every walk begins with.
    pub(super) cycles: u32,
    pub(super) counters: CuckooCounters,
}

/// The tables of one process by page size, made when first needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) tables: [Option<Elastic>; 3],
    pub(super) walk_tables: [Option<Elastic>; 3],
}

/// Clusters as keys of a table of PTEs.
struct ClusterKeys<'a> {
    size: PageSize,
    clusters: MappedClusters<'a>,
    headers: &'a mut Headers,
    ptes_migrated: &'a mut u64,
}

impl Keys for ClusterKeys<'_> {
    fn tag(&self, key: u32) -> u64 {
        self.clusters.tag(self.size, key).1
    }

    fn placed(&mut self, key: u32, way: usize) {
        self.headers.place(self.size, key, way);
    }

    fn moved(&mut self, key: u32) {
        *self.ptes_migrated += u64::from(self.clusters.present(self.size, key));
    }
}

/// Groups of clusters as keys of a walk table.
struct GroupKeys<'a> {
    size: PageSize,
    clusters: MappedClusters<'a>,
}

impl Keys for GroupKeys<'_> {
    fn tag(&self, key: u32) -> u64 {
        self.clusters.tag(self.size, key << GROUP_SHIFT).1 >> GROUP_SHIFT
    }

    fn placed(&mut self, _: u32, _: usize) {}

    fn moved(&mut self, _: u32) {}
}

impl<D> CuckooPageTable<D> {
    pub(crate) fn with(config: CuckooConfig, cores: usize) -> Result<Self, ConfigError> {
        debug_assert!(config.tables.ways <= MAX_WAYS);
        let mut of_core = Vec::with_capacity(3);
        for (cache, key) in &config.walk_caches {
            of_core.push(HeaderCache::new(cache, key)?);
        }
        let Ok(of_core) = <[HeaderCache; 3]>::try_from(of_core) else {
            unreachable!("there are three page sizes");
        };
        let looked_up = config.walk_caches.iter().filter(|(c, _)| c.entries > 0);
        let slowest = looked_up.map(|(cache, _)| cache.cycles).max();
        Ok(Paged::over(CuckooTables {
            design: PhantomData,
            cycles: slowest.unwrap_or(0).saturating_add(config.hash_cycles),
            config,
            clusters: Clusters::default(),
            headers: Headers::default(),
            processes: Vec::new(),
            caches: vec![of_core; cores],
            counters: CuckooCounters::default(),
        }))
    }

    /// Contents, and work so far.
    pub fn counters(&self) -> CuckooCounters {
        let mut counters = self.organisation.counters;
        counters.walk_table_updates = self.organisation.headers.updates;
        for process in &self.organisation.processes {
            for (size, table) in process.tables.iter().enumerate() {
                counters.entries[size] += table.as_ref().map_or(0, |t| t.entries() as u64);
                counters.entries_used[size] += table.as_ref().map_or(0, |t| t.used as u64);
            }
            let walk_tables = process.walk_tables.iter().flatten();
            counters.walk_table_bytes += walk_tables.map(Elastic::bytes).sum::<u64>();
        }
        counters
    }
}

impl<D> CuckooTables<D> {
    fn process(&mut self, asid: Asid) -> &mut Process {
        let index = usize::from(asid.0);
        if self.processes.len() <= index {
            self.processes.resize_with(index + 1, Process::default);
        }
        &mut self.processes[index]
    }

    /// Makes an entry for a cluster, and those of the walk tables that are missing; all or none.
    fn make_entry<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        asid: Asid,
        size: PageSize,
        cluster: u32,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let missing: Vec<(PageSize, u32)> = around(&self.clusters, size, cluster)
            .filter(|&(larger, around)| {
                let wanted = self.config.walk_tables[larger as usize].is_some();
                wanted && !self.headers.has_group(larger, around)
            })
            .collect();
        for (done, &(larger, around)) in missing.iter().enumerate() {
            if let Err(error) = self.enter_group(frames, mapped, asid, larger, around, work) {
                self.leave_groups(mapped, asid, &missing[..done]);
                return Err(error);
            }
        }
        let entered = self.enter_cluster(frames, mapped, asid, size, cluster, work);
        match entered {
            Ok(()) => self.headers.enter(&self.clusters, size, cluster),
            Err(_) => self.leave_groups(mapped, asid, &missing),
        }
        entered
    }

    fn enter_cluster<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        asid: Asid,
        size: PageSize,
        cluster: u32,
        work: &mut Work,
    ) -> Result<(), MapError> {
        self.process(asid);
        let table = &mut self.processes[usize::from(asid.0)].tables[size as usize];
        let mut memory = Memory {
            frames,
            compaction: self.config.compaction,
            contiguity: &mut self.counters.contiguity,
            work,
        };
        let mut keys = ClusterKeys {
            size,
            clusters: self.clusters.with(mapped),
            headers: &mut self.headers,
            ptes_migrated: &mut self.counters.ptes_migrated,
        };
        let moves = &mut self.counters.moves;
        let config = &self.config.tables;
        let entered = enter(table, config, cluster, &mut keys, &mut memory, moves);
        self.counters.entries_inserted += u64::from(entered.is_ok());
        entered
    }

    fn enter_group<F: Frames>(
        &mut self,
        frames: &mut F,
        mapped: &PageMap,
        asid: Asid,
        size: PageSize,
        cluster: u32,
        work: &mut Work,
    ) -> Result<(), MapError> {
        self.process(asid);
        let Some(config) = &self.config.walk_tables[size as usize] else {
            return Ok(());
        };
        let table = &mut self.processes[usize::from(asid.0)].walk_tables[size as usize];
        let mut memory = Memory {
            frames,
            compaction: self.config.compaction,
            contiguity: &mut self.counters.contiguity,
            work,
        };
        let mut keys = GroupKeys {
            size,
            clusters: self.clusters.with(mapped),
        };
        let moves = &mut self.counters.walk_table_moves;
        let group = cluster >> GROUP_SHIFT;
        enter(table, config, group, &mut keys, &mut memory, moves)
    }

    /// Takes the entries of walk tables out for groups of which no cluster has one.
    fn leave_groups(&mut self, mapped: &PageMap, asid: Asid, groups: &[(PageSize, u32)]) {
        for &(size, cluster) in groups {
            let keys = GroupKeys {
                size,
                clusters: self.clusters.with(mapped),
            };
            let table = &mut self.processes[usize::from(asid.0)].walk_tables[size as usize];
            if let Some(table) = table {
                table.remove(cluster >> GROUP_SHIFT, &keys);
            }
        }
    }

    /// Has the walk caches forget a 1 GiB region: the groups of its clusters of 4 KiB pages and that
    /// of its clusters of 2 MiB pages. A group of clusters of 1 GiB pages keeps its number.
    fn forget_copies(&mut self, address: u64, gib: u32) {
        for [base, large, _] in &mut self.caches {
            large.remove(address, gib);
            for region in 0..1 << GIB_TO_REGION_SHIFT {
                let of = |gib: u64| gib << GIB_TO_REGION_SHIFT | region;
                base.remove(of(address), of(gib.into()) as u32);
            }
        }
    }

    /// Takes the entry of a cluster out, of which nothing is mapped any more.
    fn leave_cluster(&mut self, mapped: &PageMap, asid: Asid, size: PageSize, cluster: u32) {
        let keys = ClusterKeys {
            size,
            clusters: self.clusters.with(mapped),
            headers: &mut self.headers,
            ptes_migrated: &mut self.counters.ptes_migrated,
        };
        if let Some(table) = &mut self.processes[usize::from(asid.0)].tables[size as usize] {
            table.remove(cluster, &keys);
        }
        self.headers.leave(&self.clusters, size, cluster);
        let empty: Vec<(PageSize, u32)> = around(&self.clusters, size, cluster)
            .filter(|&(larger, around)| {
                let kept = self.config.walk_tables[larger as usize].is_some();
                kept && !self.headers.has_group(larger, around)
            })
            .collect();
        self.leave_groups(mapped, asid, &empty);
    }
}

impl<D> Organisation for CuckooTables<D> {
    /// A table stays until its process ends, empty or not.
    fn release<F: Frames>(&mut self, _: &mut F, _: &PageMap, _: Page, _: u64) {}

    fn end<F: Frames>(&mut self, frames: &mut F, mapped: &PageMap, asid: Asid) {
        let Process {
            tables,
            walk_tables,
        } = std::mem::take(self.process(asid));
        for table in tables.into_iter().chain(walk_tables).flatten() {
            table.free(frames);
        }
        for (address, gib) in mapped.gibs_of(asid) {
            self.forget_copies(address, gib);
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
            self.make_entry(frames, mapped, page.asid, size, cluster, work)?;
        }
        self.counters.pages_mapped += 1;
        work.entries_written += 1;
        Ok(())
    }

    fn leave(&mut self, mapped: &PageMap, page: Page, size: PageSize, work: &mut Work) {
        work.entries_written += 1;
        let cluster = self.clusters.of(page, size);
        if self.clusters.with(mapped).present(size, cluster) == 0 {
            self.leave_cluster(mapped, page.asid, size, cluster);
        }
    }

    #[inline]
    fn walk(&mut self, core: usize, page: Page, found: Option<Translation>, walk: &mut Walk) {
        self.walk_page(core, page, found, walk);
    }

    #[inline]
    fn host_prefetch(&self, page: Page) {
        if let Some(cluster) = self.clusters.find(page.id, PageSize::Base4K) {
            self.headers.host_prefetch(cluster);
        }
    }

    fn table_bytes(&self) -> u64 {
        let tables = self.processes.iter().flat_map(|process| {
            let all = process.tables.iter().chain(&process.walk_tables);
            all.flatten()
        });
        tables.map(Elastic::bytes).sum()
    }
}

/// Enters a key into a table, which is made if there is none.
fn enter<F: Frames>(
    table: &mut Option<Elastic>,
    config: &ElasticConfig,
    key: u32,
    keys: &mut impl Keys,
    memory: &mut Memory<'_, F>,
    moves: &mut Moves,
) -> Result<(), MapError> {
    let before = moves.total();
    let table = match table {
        Some(table) => table,
        None => table.insert(Elastic::new(config, memory)?),
    };
    let entered = table.insert(config, key, keys, memory, moves);
    memory.work.entries_migrated += moves.total() - before;
    entered
}

/// Refuses a table that cannot be; `keys` name its ways, entries and occupancy.
pub(crate) fn check_elastic(
    config: &ElasticConfig,
    [ways, entries, occupancy]: [&'static str; 3],
) -> Result<(), ConfigError> {
    let refuse = |key, reason| Err(ConfigError { key, reason });
    if !(2..=MAX_WAYS).contains(&config.ways) {
        let reason = format!("{} is not between 2 and {MAX_WAYS}", config.ways);
        return refuse(ways, reason);
    }
    if config.entries < 64 || !config.entries.is_power_of_two() {
        let reason = format!("{}; must be a power of two, at least 64", config.entries);
        return refuse(entries, reason);
    }
    if !(config.occupancy > 0.0 && config.occupancy < 1.0) {
        let reason = format!("{} is not between 0 and 1", config.occupancy);
        return refuse(occupancy, reason);
    }
    Ok(())
}
