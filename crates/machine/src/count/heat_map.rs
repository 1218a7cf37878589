//! Misses by address and time: counts in a grid of bounded size.
//!
//! A row is a block of addresses that was accessed, of one kind of memory, and a column so many
//! accesses. Both are powers of two, and double when the grid would outgrow its bounds.
//! Address spaces of several processes and programs lie over one another.

use crate::machine::buffer::Buffer;
use crate::machine::chunk::CHUNK;
use crate::machine::requests::{TlbMiss, request};
use pagelab_addr::{Asid, PAGE_SHIFT, VirtAddr};
use pagelab_os::{Mapping, Os};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Columns at the most.
const COLUMNS: usize = 256;
/// Rows at the most: what a picture has room for.
const ROWS: usize = 128;

/// Counts of the accesses to a block of addresses, by time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeatRow {
    /// The kind of memory.
    pub kind: &'static str,
    /// The block's first address.
    pub address: u64,
    /// Accesses, by column.
    pub accesses: Vec<u64>,
    /// Second-level TLB misses; empty where there was none at all.
    pub l2_tlb_misses: Vec<u64>,
    /// Page faults; empty where there was none at all.
    pub faults: Vec<u64>,
}

/// Addresses over time. What was not accessed has no row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeatMapResult {
    /// Accesses that a column stands for.
    pub accesses_per_column: u64,
    /// Bytes of a row.
    pub bytes_per_row: u64,
    /// By kind of memory, then by address.
    pub rows: Vec<HeatRow>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    accesses: u64,
    l2_tlb_misses: u64,
    faults: u64,
}

impl Cell {
    fn add(&mut self, other: Cell) {
        self.accesses += other.accesses;
        self.l2_tlb_misses += other.l2_tlb_misses;
        self.faults += other.faults;
    }
}

/// A row's name: the block of addresses and, in the lowest bits, the kind of memory.
type Key = u64;
const KIND_BITS: u32 = 3;
const _: () = assert!(Mapping::ALL.len() <= 1 << KIND_BITS);
const NO_KEY: Key = u64::MAX;

fn key(block: u64, kind: u64) -> Key {
    block << KIND_BITS | kind
}

/// The block twice as large around a row's.
fn doubled(key: Key) -> Key {
    let kinds = (1 << KIND_BITS) - 1;
    key >> 1 & !kinds | key & kinds
}

/// Addresses of one kind of memory, from `start` on.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u64,
    bytes: u64,
    kind: u64,
}

/// Spans remembered of the address space that was last accessed.
const SPANS: usize = 8;
/// Rows remembered by a hash of their name: few collide.
const RECENT: usize = 512;

/// The grid while it is counted.
#[derive(Clone, Debug)]
pub(crate) struct HeatMap {
    /// log2 of the bytes of a row.
    row_shift: u32,
    /// log2 of the accesses of a column.
    column_shift: u32,
    /// Place in the stream of the next access that is counted.
    next: u64,
    numbers: BTreeMap<Key, u8>,
    /// By column, then by row's number.
    cells: Vec<[Cell; ROWS]>,
    asid: Asid,
    spans: [Span; SPANS],
    /// The span found last, and the one that makes room for the next.
    span: usize,
    oldest: usize,
    recent: Box<[(Key, u8); RECENT]>,
}

impl HeatMap {
    /// An empty grid.
    pub(crate) fn new() -> Self {
        HeatMap {
            row_shift: PAGE_SHIFT,
            column_shift: 0,
            next: 0,
            numbers: BTreeMap::new(),
            cells: Vec::new(),
            asid: Asid::default(),
            spans: [Span::default(); SPANS],
            span: 0,
            oldest: 0,
            recent: Box::new([(NO_KEY, 0); RECENT]),
        }
    }

    /// Memory may have been mapped or unmapped.
    pub(crate) fn forget_mappings(&mut self) {
        self.spans = [Span::default(); SPANS];
    }

    /// The row of each access.
    #[inline]
    fn rows(&mut self, addr: &[u64], os: &mut Os, rows: &mut [u8; CHUNK]) {
        let shift = self.row_shift;
        let mut span = self.spans[self.span];
        for (row, &at) in rows.iter_mut().zip(addr) {
            if at.wrapping_sub(span.start) >= span.bytes {
                self.find_span(at, os);
                span = self.spans[self.span];
            }
            let key = key(at >> shift, span.kind);
            let recent = self.recent[place(key)];
            *row = if recent.0 == key {
                recent.1
            } else {
                self.find_row(key)
            };
            if recent.0 != key && self.row_shift != shift {
                // The rows have new numbers.
                return self.rows(addr, os, rows);
            }
        }
    }

    #[cold]
    fn find_span(&mut self, addr: u64, os: &mut Os) {
        let found = |span: &Span| addr.wrapping_sub(span.start) < span.bytes;
        if let Some(span) = self.spans.iter().position(found) {
            self.span = span;
            return;
        }
        let (kind, pages) = os.mapping_around(self.asid, VirtAddr(addr).vpn());
        self.span = self.oldest;
        self.oldest = (self.oldest + 1) % SPANS;
        self.spans[self.span] = Span {
            start: pages.start << PAGE_SHIFT,
            bytes: (pages.end - pages.start) << PAGE_SHIFT,
            kind: kind as u64,
        };
    }

    /// The number of a row, which may be new: then the rows may double in size, and the number is
    /// that of the row of twice the size.
    #[cold]
    fn find_row(&mut self, mut key: Key) -> u8 {
        while !self.numbers.contains_key(&key) && self.numbers.len() == ROWS {
            self.double_rows();
            key = doubled(key);
        }
        let next = self.numbers.len() as u8;
        let number = *self.numbers.entry(key).or_insert(next);
        self.recent[place(key)] = (key, number);
        number
    }

    fn double_rows(&mut self) {
        let mut numbers = BTreeMap::new();
        let mut becomes = [0; ROWS];
        for (&key, &number) in &self.numbers {
            let next = numbers.len() as u8;
            becomes[usize::from(number)] = *numbers.entry(doubled(key)).or_insert(next);
        }
        for column in &mut self.cells {
            let mut doubled = [Cell::default(); ROWS];
            for (cell, &number) in column.iter().zip(&becomes) {
                doubled[usize::from(number)].add(*cell);
            }
            *column = doubled;
        }
        self.numbers = numbers;
        self.row_shift += 1;
        self.recent.fill((NO_KEY, 0));
    }

    fn double_columns(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        for (column, cells) in cells.into_iter().enumerate() {
            match self.cells.get_mut(column / 2) {
                Some(into) => into.iter_mut().zip(cells).for_each(|(a, b)| a.add(b)),
                None => self.cells.push(cells),
            }
        }
        self.column_shift += 1;
    }

    /// The column of an access, with room for it.
    fn column(&mut self, place: u64) -> usize {
        loop {
            let column = place >> self.column_shift;
            if column < COLUMNS as u64 {
                let column = column as usize;
                if self.cells.len() <= column {
                    self.cells.resize(column + 1, [Cell::default(); ROWS]);
                }
                return column;
            }
            self.double_columns();
        }
    }

    /// Counts a chunk of accesses of an MMU that is free, or looks into caches, or neither.
    #[inline(never)]
    pub(crate) fn count(
        &mut self,
        asid: Asid,
        addr: &[u64],
        requests: &Buffer<u8>,
        tlb_misses: &Buffer<TlbMiss>,
        (free, looks): (bool, bool),
        os: &mut Os,
    ) {
        if self.asid != asid {
            self.asid = asid;
            self.forget_mappings();
        }
        // Prefetches, which only ask for something, are counted nowhere.
        let dropped = dropped(requests.as_slice());
        let mut beside = [0; CHUNK];
        let mut addr = addr;
        if !dropped.is_empty() {
            let beside = &mut beside[..addr.len()];
            beside.copy_from_slice(addr);
            let accessed = (0..addr.len()).find(|access| !dropped.contains(access));
            let Some(accessed) = accessed else {
                self.next += addr.len() as u64;
                return;
            };
            dropped
                .iter()
                .for_each(|&access| beside[access] = addr[accessed]);
            addr = beside;
        }
        let mut rows = [0; CHUNK];
        self.rows(addr, os, &mut rows);
        let rows = &rows[..addr.len()];
        let mut done = 0;
        while done < rows.len() {
            let column = self.column(self.next + done as u64);
            let at = self.next + done as u64;
            let until_next = (1 << self.column_shift) - (at & ((1 << self.column_shift) - 1));
            let end = rows.len().min(done + until_next as usize);
            let cells = &mut self.cells[column];
            for &row in &rows[done..end] {
                cells[usize::from(row)].accesses += 1;
            }
            done = end;
        }
        for access in dropped {
            let column = self.column(self.next + access as u64);
            self.cells[column][usize::from(rows[access])].accesses -= 1;
        }
        // Without a TLB miss only what caches had may have missed.
        if looks || !tlb_misses.as_slice().is_empty() {
            self.misses(rows, requests.as_slice(), tlb_misses.as_slice(), free);
        }
        self.next += rows.len() as u64;
    }

    /// Counts what missed of a chunk.
    fn misses(&mut self, rows: &[u8], requests: &[u8], tlb_misses: &[TlbMiss], free: bool) {
        let mut tlb_misses = tlb_misses.iter();
        let mut next = 0;
        for &bits in requests {
            next += usize::from(bits & request::REST == 0);
            if bits & (request::SLOW | request::CACHED) == 0 || request::is_dropped(bits) {
                continue;
            }
            let mut cell = Cell {
                l2_tlb_misses: u64::from(!free),
                ..Cell::default()
            };
            if bits & request::SLOW != 0 {
                // The last TLB miss of a request is the one that finds the page.
                cell.faults = tlb_misses.by_ref().take_while(|e| e.faulted).count() as u64;
            }
            let column = self.column(self.next + next as u64 - 1);
            self.cells[column][usize::from(rows[next - 1])].add(cell);
        }
    }

    /// The result's form of it.
    pub(crate) fn finish(&self) -> HeatMapResult {
        let row = |(&key, &number): (&Key, &u8)| {
            let of = |count: fn(&Cell) -> u64| {
                let cells = self.cells.iter().map(|column| &column[usize::from(number)]);
                let counts: Vec<u64> = cells.map(count).collect();
                if counts.iter().any(|&count| count > 0) {
                    counts
                } else {
                    Vec::new()
                }
            };
            let kind = key & ((1 << KIND_BITS) - 1);
            let row = HeatRow {
                kind: Mapping::ALL[kind as usize].name(),
                address: key >> KIND_BITS << self.row_shift,
                accesses: of(|cell| cell.accesses),
                l2_tlb_misses: of(|cell| cell.l2_tlb_misses),
                faults: of(|cell| cell.faults),
            };
            (kind, row)
        };
        let mut rows: Vec<_> = self.numbers.iter().map(row).collect();
        rows.sort_by_key(|(kind, row)| (*kind, row.address));
        HeatMapResult {
            accesses_per_column: 1 << self.column_shift,
            bytes_per_row: 1 << self.row_shift,
            rows: rows.into_iter().map(|(_, row)| row).collect(),
        }
    }
}

/// The accesses that are prefetches of what is not mapped.
fn dropped(requests: &[u8]) -> Vec<usize> {
    if !requests.iter().any(|&bits| request::is_dropped(bits)) {
        return Vec::new();
    }
    let firsts = requests.iter().filter(|&&bits| bits & request::REST == 0);
    let numbered = firsts.enumerate();
    (numbered.filter(|&(_, &bits)| request::is_dropped(bits)))
        .map(|(access, _)| access)
        .collect()
}

fn place(key: Key) -> usize {
    // A multiplicative hash (Knuth, TAOCP volume 3, section 6.4).
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2())) as usize
}
