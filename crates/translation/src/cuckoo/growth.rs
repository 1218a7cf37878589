//! Growth of a table's ways, and the places of their lines.

use super::counters::Moves;
use super::way::{Lines, Storage, Way};
use crate::hashed::{Block, ContiguityCounters};
use crate::{Frames, MapError, Work};
use pagelab_addr::LINE_SHIFT;

/// Lines in a frame: no way is smaller.
const FRAME_LINES: usize = 64;

/// The memory that tables are made of.
pub(super) struct Memory<'a, F> {
    pub(super) frames: &'a mut F,
    /// Data may be moved to make room.
    pub(super) compaction: bool,
    pub(super) contiguity: &'a mut ContiguityCounters,
    pub(super) work: &'a mut Work,
}

impl<F: Frames> Memory<'_, F> {
    fn block(&mut self, lines: usize, compaction: bool) -> Option<Block> {
        let order = Block::order_of(lines);
        let compaction = compaction && self.compaction;
        Block::allocate(self.frames, order, compaction, self.contiguity, self.work)
    }

    /// So many blocks of so many lines, or none.
    fn blocks(&mut self, count: usize, lines: usize, compaction: bool) -> Option<Vec<Block>> {
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            match self.block(lines, compaction) {
                Some(block) => blocks.push(block),
                None => {
                    for block in blocks {
                        self.work.table_frames -= 1 << Block::order_of(lines);
                        block.free(self.frames);
                    }
                    return None;
                }
            }
        }
        Some(blocks)
    }
}

/// A way of growing.
#[derive(Clone, Debug)]
pub(crate) enum Growth {
    /// All ways at once, each into a new contiguous block `factor` times as large, with new
    /// hashes (ECPT).
    Together { factor: usize },
    /// A way by itself, to twice its entries, in chunks that a table in the MMU points to
    /// (ME-HPT): in place as long as that table has room for more chunks of the same size, else
    /// into larger chunks.
    PerWay {
        /// Bytes of a chunk, ascending.
        chunk_bytes: Vec<u64>,
        /// Chunks of a way.
        max_chunks: usize,
    },
}

impl Growth {
    /// So many ways of a new table, of so many entries each, or less where there is no memory for them.
    pub(super) fn first_ways<F: Frames>(
        &self,
        count: usize,
        entries: usize,
        memory: &mut Memory<'_, F>,
    ) -> Result<Vec<Way>, MapError> {
        let way = |seed: usize, entries, chunks, chunk_lines: usize| {
            let chunk_shift = chunk_lines.ilog2();
            let lines = Lines {
                chunks,
                chunk_shift,
            };
            Way::new(Storage::new(seed as u64, entries, lines))
        };
        match self {
            Growth::Together { .. } => {
                let mut entries = entries;
                loop {
                    let last = entries <= FRAME_LINES;
                    if let Some(blocks) = memory.blocks(count, entries, last) {
                        let ways = blocks.into_iter().enumerate();
                        return Ok(ways
                            .map(|(number, block)| way(number, entries, vec![block], entries))
                            .collect());
                    }
                    if last {
                        return Err(MapError::OutOfFrames);
                    }
                    entries /= 2;
                }
            }
            Growth::PerWay { chunk_bytes, .. } => {
                let chunk_lines = lines_of(chunk_bytes[0]);
                let chunks = entries.div_ceil(chunk_lines);
                let mut blocks = memory
                    .blocks(count * chunks, chunk_lines, true)
                    .ok_or(MapError::OutOfFrames)?;
                Ok((0..count)
                    .map(|number| {
                        let own = blocks.split_off(blocks.len() - chunks);
                        way(number, entries, own, chunk_lines)
                    })
                    .collect())
            }
        }
    }

    /// Weight of a way when one is chosen, relative to the others. ME-HPT chooses in proportion to
    /// the free entries, so that ways fill evenly whatever their sizes.
    pub(super) fn weight(&self, way: &Way) -> u64 {
        match self {
            Growth::Together { .. } => 1,
            Growth::PerWay { .. } => (way.entries() - way.used) as u64,
        }
    }

    /// True if a way is to grow before another key is entered: past this share of its entries, where `used` are in
    /// use of all ways together.
    pub(super) fn is_due(&self, occupancy: f64, ways: &[Way], used: usize, way: usize) -> bool {
        let full = |used: usize, entries: usize| used + 1 > share(entries, occupancy);
        let entries = ways.iter().map(Way::entries);
        match self {
            Growth::Together { .. } => full(used, entries.sum()),
            // No way gets more than twice as large as another.
            Growth::PerWay { .. } => {
                let own = ways[way].entries();
                full(ways[way].used, own) && entries.min() == Some(own)
            }
        }
    }

    /// Starts to grow these ways, no resize of which is under way; whether all can.
    pub(super) fn start<F: Frames>(
        &self,
        ways: &mut [Way],
        due: &[usize],
        memory: &mut Memory<'_, F>,
        moves: &mut Moves,
    ) -> bool {
        match self {
            Growth::Together { factor } => {
                let entries = ways[0].entries();
                // Half the growth asks for half the contiguous memory.
                let factors = std::iter::successors(Some(*factor), |f| (*f > 2).then_some(f / 2));
                let found = factors.map(|factor| factor * entries).find_map(|entries| {
                    let blocks = memory.blocks(ways.len(), entries, true)?;
                    Some((entries, blocks))
                });
                let Some((entries, blocks)) = found else {
                    return false;
                };
                let count = ways.len() as u64;
                for (way, block) in ways.iter_mut().zip(blocks) {
                    let chunk_shift = entries.ilog2();
                    let chunks = vec![block];
                    let lines = Lines {
                        chunks,
                        chunk_shift,
                    };
                    let seed = way.seed() + count;
                    way.start_moving(Storage::new(seed, entries, lines));
                }
                moves.resizes += 1;
                true
            }
            Growth::PerWay {
                chunk_bytes,
                max_chunks,
            } => due
                .iter()
                .all(|&way| start_chunked(&mut ways[way], chunk_bytes, *max_chunks, memory, moves)),
        }
    }
}

/// Doubles a way, in place if its table of chunks has room.
fn start_chunked<F: Frames>(
    way: &mut Way,
    chunk_bytes: &[u64],
    max_chunks: usize,
    memory: &mut Memory<'_, F>,
    moves: &mut Moves,
) -> bool {
    let entries = 2 * way.entries();
    let chunk_lines = 1 << way.lines().chunk_shift;
    let wanted = entries.div_ceil(chunk_lines);
    if wanted <= max_chunks {
        let more = wanted - way.lines().chunks.len();
        let Some(blocks) = memory.blocks(more, chunk_lines, true) else {
            return false;
        };
        way.start_in_place(blocks);
        moves.resizes += 1;
        return true;
    }
    let larger = chunk_bytes.iter().map(|&bytes| lines_of(bytes));
    let mut fitting = larger.filter(|&lines| lines > chunk_lines);
    let Some(lines) = fitting.find(|&lines| entries.div_ceil(lines) <= max_chunks) else {
        moves.chunk_tables_full += 1;
        return false;
    };
    let Some(chunks) = memory.blocks(entries.div_ceil(lines), lines, true) else {
        return false;
    };
    moves.resizes += 1;
    moves.chunk_size_changes += 1;
    let chunk_shift = lines.ilog2();
    let lines = Lines {
        chunks,
        chunk_shift,
    };
    way.start_moving(Storage::new(way.seed(), entries, lines));
    true
}

fn lines_of(bytes: u64) -> usize {
    (bytes >> LINE_SHIFT) as usize
}

fn share(entries: usize, of: f64) -> usize {
    (entries as f64 * of) as usize
}
