//! The open-addressed table of one process and page size.

use super::config::ClusteredConfig;
use super::counters::ClusteredCounters;
use crate::city::city_hash64;
use crate::hashed::{Block, MappedClusters};
use crate::{Frames, MapError, Work};
use pagelab_addr::{LINE_BYTES, PageSize, PhysAddr};

const NONE: u32 = u32::MAX;
/// Lines in a frame: the smallest table.
const FRAME_LINES: usize = 64;
/// Lines that a search reads at most: none is placed further from its hash, so that the steps of
/// a walk have numbers of eight bits.
const MAX_PROBES: usize = 255;

/// Lines, each with the cluster that it holds, found by linear probing.
#[derive(Clone, Debug)]
pub(super) struct Table {
    size: PageSize,
    block: Block,
    /// Numbers of clusters.
    lines: Vec<u32>,
    used: usize,
    /// Number of lines that must be in use before a rehash that failed is tried again.
    retry_at: usize,
}

/// The lines that a search reads: `count` of them from `first` on, around the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Search {
    first: usize,
    pub(super) count: usize,
    pub(super) found: bool,
}

impl Table {
    pub(super) fn new<F: Frames>(
        config: &ClusteredConfig,
        frames: &mut F,
        size: PageSize,
        counters: &mut ClusteredCounters,
        work: &mut Work,
    ) -> Result<Table, MapError> {
        let contiguity = &mut counters.contiguity;
        let mut entries = config.entries as usize;
        loop {
            // Data are moved for a table that has to grow, not for one that may start smaller.
            let last = entries == FRAME_LINES;
            let order = Block::order_of(entries);
            let compaction = last && config.compaction;
            if let Some(block) = Block::allocate(frames, order, compaction, contiguity, work) {
                return Ok(Table {
                    size,
                    block,
                    lines: vec![NONE; entries],
                    used: 0,
                    retry_at: 0,
                });
            }
            if last {
                return Err(MapError::OutOfFrames);
            }
            entries /= 2;
        }
    }

    pub(super) fn free<F: Frames>(self, frames: &mut F) {
        self.block.free(frames);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.block.bytes()
    }

    #[inline]
    fn home(&self, tag: u64) -> usize {
        home(tag, self.size, self.lines.len())
    }

    /// Lines that a search for a cluster reads.
    #[inline]
    pub(super) fn search(&self, tag: u64, cluster: u32) -> Search {
        let mask = self.lines.len() - 1;
        let limit = self.lines.len().min(MAX_PROBES);
        let first = self.home(tag);
        let mut count = 1;
        loop {
            let line = self.lines[(first + count - 1) & mask];
            if line == cluster || line == NONE || count == limit {
                return Search {
                    first,
                    count,
                    found: line == cluster,
                };
            }
            count += 1;
        }
    }

    /// The address of the `number`th line that a search reads.
    #[inline]
    pub(super) fn address(&self, search: Search, number: usize) -> PhysAddr {
        let mask = self.lines.len() - 1;
        self.block.line((search.first + number) & mask)
    }

    /// Enters a cluster that is not there.
    ///
    /// # Errors
    /// When every line that it may have is in use and the table cannot grow.
    pub(super) fn insert<F: Frames>(
        &mut self,
        config: &ClusteredConfig,
        frames: &mut F,
        clusters: MappedClusters<'_>,
        cluster: u32,
        counters: &mut ClusteredCounters,
        work: &mut Work,
    ) -> Result<(), MapError> {
        let limit = (self.lines.len() as f64 * config.occupancy) as usize;
        if self.used + 1 > limit && self.used >= self.retry_at {
            self.grow(config, frames, clusters, counters, work);
        }
        let home = self.home(clusters.tag(self.size, cluster).1);
        if !put(&mut self.lines, home, cluster) {
            self.grow(config, frames, clusters, counters, work);
            let home = self.home(clusters.tag(self.size, cluster).1);
            if !put(&mut self.lines, home, cluster) {
                return Err(MapError::OutOfFrames);
            }
        }
        self.used += 1;
        counters.clusters_inserted += 1;
        Ok(())
    }

    /// Rehashes everything into twice the memory, if there is such.
    fn grow<F: Frames>(
        &mut self,
        config: &ClusteredConfig,
        frames: &mut F,
        clusters: MappedClusters<'_>,
        counters: &mut ClusteredCounters,
        work: &mut Work,
    ) {
        // Again when another 32nd of the table is in use.
        self.retry_at = self.used + self.lines.len().div_ceil(32);
        let entries = self.lines.len() * 2;
        let order = Block::order_of(entries);
        let contiguity = &mut counters.contiguity;
        let Some(block) = Block::allocate(frames, order, config.compaction, contiguity, work)
        else {
            return;
        };
        let mut lines = vec![NONE; entries];
        let kept = self.lines.iter().filter(|&&cluster| cluster != NONE);
        for &cluster in kept.clone() {
            let tag = clusters.tag(self.size, cluster).1;
            if !put(&mut lines, home(tag, self.size, entries), cluster) {
                // In another order, clusters can crowd more. The old table stays.
                block.free(frames);
                return;
            }
        }
        for &cluster in kept {
            counters.moved_by_rehash += 1;
            counters.ptes_migrated += u64::from(clusters.present(self.size, cluster));
            work.entries_migrated += 1;
        }
        self.lines = lines;
        self.retry_at = 0;
        counters.rehashes += 1;
        std::mem::replace(&mut self.block, block).free(frames);
    }

    /// Takes a cluster out, and moves back those behind it that a search would not find over the
    /// gap (Knuth, volume 3, algorithm 6.4R).
    pub(super) fn remove(
        &mut self,
        clusters: MappedClusters<'_>,
        cluster: u32,
        counters: &mut ClusteredCounters,
        work: &mut Work,
    ) {
        let mask = self.lines.len() - 1;
        let search = self.search(clusters.tag(self.size, cluster).1, cluster);
        assert!(search.found, "cluster {cluster} is in no line");
        let mut gap = (search.first + search.count - 1) & mask;
        let mut at = gap;
        self.used -= 1;
        loop {
            self.lines[gap] = NONE;
            loop {
                at = (at + 1) & mask;
                let moved = self.lines[at];
                if moved == NONE {
                    return;
                }
                let home = self.home(clusters.tag(self.size, moved).1);
                let distance = |to: usize| to.wrapping_sub(home) & mask;
                if distance(gap) < distance(at) {
                    self.lines[gap] = moved;
                    counters.moved_by_removal += 1;
                    counters.ptes_migrated += u64::from(clusters.present(self.size, moved));
                    work.entries_migrated += 1;
                    gap = at;
                    break;
                }
            }
        }
    }

    /// Lines, and how many of them are in use.
    pub(super) fn fill(&self) -> (u64, u64) {
        (self.bytes() / LINE_BYTES, self.used as u64)
    }
}

/// The line that a tag's hash names, of a power of two of them.
#[inline]
fn home(tag: u64, size: PageSize, lines: usize) -> usize {
    city_hash64(tag, size as u64) as usize & (lines - 1)
}

/// Puts a cluster into the first free line from its home on; `false` when that is too far.
fn put(lines: &mut [u32], home: usize, cluster: u32) -> bool {
    let mask = lines.len() - 1;
    let mut reachable = (home..home + lines.len().min(MAX_PROBES)).map(|line| line & mask);
    let free = reachable.find(|&line| lines[line] == NONE);
    if let Some(free) = free {
        lines[free] = cluster;
    }
    free.is_some()
}
