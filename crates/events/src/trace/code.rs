//! Which blocks are executed, and which instruction makes each access, as small numbers.
//!
//! docs/trace-format.md is the definition. In short: a chunk's flow is a sequence of *symbols*, each
//! a thread or a block, numbered in the chunk; their numbers are left to the compressor, which finds
//! longer repetitions than a predictor of the next symbol does. An execution covers the accesses up
//! to the next entry; where they are not those of its definition they are listed.

use super::varint::{self, unzigzag, zigzag};
use crate::{Batch, CodeTable, Flow, NO_SITE};
use std::collections::HashMap;

/// The largest number of entries in a chunk's flow.
pub const MAX_FLOW: usize = 1 << 18;
/// The largest number of symbols in a chunk: a code fits 16 bits.
pub const MAX_SYMBOLS: usize = 1 << 16;
/// The most bytes of the streams: symbols, flow (low, high), exceptions. A symbol takes two varints of
/// 32 bits; an exception one of 33 for each access and two more.
pub const MAX_STREAM: [usize; 4] = [
    MAX_SYMBOLS * 10,
    MAX_FLOW,
    MAX_FLOW,
    (1 << 16) * 5 + MAX_FLOW * 10,
];

/// The streams of one chunk.
#[derive(Default)]
pub struct Streams {
    /// The distinct symbols in the order of their codes.
    pub symbols: Vec<u8>,
    /// Low byte of each entry's code.
    pub flow_low: Vec<u8>,
    /// High byte of each entry's code.
    pub flow_high: Vec<u8>,
    /// Entries whose accesses are not those of the definition.
    pub exceptions: Vec<u8>,
}

/// A symbol: who goes on, or what is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// This thread of this process.
    Thread { process: u32, thread: u32 },
    /// This block.
    Block(u32),
}

/// Encodes the code of one chunk after the other.
pub struct Encoder {
    streams: Streams,
    /// By block: the chunk in which it had a code last, and that.
    blocks: Vec<(u32, u16)>,
    threads: HashMap<(u32, u32), u16>,
    symbols: usize,
    chunk: u32,
    /// Entries since the last exception.
    regular: u64,
    /// The last entry, and where the sites of its accesses start.
    current: Option<Symbol>,
    started: usize,
    sites: Vec<u32>,
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder {
            streams: Streams::default(),
            blocks: Vec::new(),
            threads: HashMap::new(),
            symbols: 0,
            chunk: 1,
            regular: 0,
            current: None,
            started: 0,
            sites: Vec::new(),
        }
    }

    /// Entries so far in this chunk.
    pub fn len(&self) -> usize {
        self.streams.flow_low.len()
    }

    /// Entries for which there is room, whatever they are.
    pub fn room(&self) -> usize {
        (MAX_FLOW - self.len()).min(MAX_SYMBOLS - self.symbols)
    }

    /// Appends an entry. There is room.
    pub fn push(&mut self, symbol: Symbol, table: &CodeTable) {
        self.end_entry(table);
        self.current = Some(symbol);
        let [low, high] = self.code(symbol).to_le_bytes();
        self.streams.flow_low.push(low);
        self.streams.flow_high.push(high);
    }

    fn code(&mut self, symbol: Symbol) -> u16 {
        let new = self.symbols as u16;
        match symbol {
            Symbol::Block(block) => {
                if self.blocks.len() <= block as usize {
                    self.blocks.resize(block as usize + 1, (0, 0));
                }
                let known = &mut self.blocks[block as usize];
                if known.0 == self.chunk {
                    return known.1;
                }
                *known = (self.chunk, new);
                varint::put(&mut self.streams.symbols, u64::from(block) << 1);
            }
            Symbol::Thread { process, thread } => {
                if let Some(&known) = self.threads.get(&(process, thread)) {
                    return known;
                }
                self.threads.insert((process, thread), new);
                varint::put(&mut self.streams.symbols, u64::from(thread) << 1 | 1);
                varint::put(&mut self.streams.symbols, process.into());
            }
        }
        self.symbols += 1;
        new
    }

    /// Appends the sites of accesses that belong to the last entry.
    pub fn push_sites(&mut self, sites: &[u32]) {
        self.sites.extend_from_slice(sites);
    }

    fn end_entry(&mut self, table: &CodeTable) {
        let Some(symbol) = self.current else {
            return;
        };
        let (first, usual): (u32, &[u16]) = match symbol {
            Symbol::Block(block) => (
                table.first_site(block),
                &table.blocks()[block as usize].accesses,
            ),
            Symbol::Thread { .. } => (0, &[]),
        };
        let sites = &self.sites[self.started..];
        let expected = usual.iter().map(|&index| first + u32::from(index));
        if sites.len() == usual.len() && sites.iter().copied().eq(expected) {
            self.regular += 1;
        } else {
            let out = &mut self.streams.exceptions;
            varint::put(out, self.regular);
            varint::put(out, sites.len() as u64);
            let mut previous = first;
            for &site in sites {
                varint::put(out, zigzag(i64::from(site) - i64::from(previous)));
                previous = site;
            }
            self.regular = 0;
        }
        self.started = self.sites.len();
    }

    /// Ends the chunk: its streams, and the site of each access. The next one starts after
    /// [`Encoder::clear`].
    pub fn finish(&mut self, table: &CodeTable) -> (&Streams, &[u32]) {
        self.end_entry(table);
        (&self.streams, &self.sites)
    }

    /// Starts the next chunk.
    pub fn clear(&mut self) {
        self.streams.symbols.clear();
        self.streams.flow_low.clear();
        self.streams.flow_high.clear();
        self.streams.exceptions.clear();
        self.threads.clear();
        self.symbols = 0;
        self.chunk += 1;
        self.regular = 0;
        self.current = None;
        self.started = 0;
        self.sites.clear();
    }
}

/// Decodes the code of one chunk after the other.
#[derive(Default)]
pub struct Decoder {
    /// The chunk's entries, and the access before which each starts.
    pub flow: Vec<(u32, Symbol)>,
    /// The site of each access; empty when the chunk has no code.
    pub sites: Vec<u32>,
}

impl Decoder {
    /// A chunk without code.
    pub fn start_without(&mut self) {
        self.flow.clear();
        self.sites.clear();
    }

    /// Starts a chunk of `accesses`.
    ///
    /// # Errors
    /// What is wrong with the streams.
    pub fn start(
        &mut self,
        streams: &Streams,
        accesses: usize,
        table: &CodeTable,
    ) -> Result<(), &'static str> {
        self.start_without();
        if streams.flow_low.is_empty() {
            let empty = streams.symbols.is_empty()
                && streams.flow_high.is_empty()
                && streams.exceptions.is_empty();
            return if empty {
                Ok(())
            } else {
                Err("its code is damaged")
            };
        }
        let symbols = symbols(&streams.symbols, table).ok_or("a block is not defined")?;
        self.entries(streams, &symbols)
            .ok_or("the flow of its code is damaged")?;
        self.place(&streams.exceptions, accesses, table)
            .ok_or("the instructions of its accesses are damaged")
    }

    /// Reads the entries; where they start is found by `place`.
    fn entries(&mut self, streams: &Streams, symbols: &[Symbol]) -> Option<()> {
        if streams.flow_low.len() != streams.flow_high.len() {
            return None;
        }
        let codes = streams.flow_low.iter().zip(&streams.flow_high);
        for (&low, &high) in codes {
            let code = u16::from_le_bytes([low, high]);
            self.flow.push((0, *symbols.get(usize::from(code))?));
        }
        matches!(self.flow.first(), Some((_, Symbol::Thread { .. }))).then_some(())
    }

    fn place(&mut self, mut input: &[u8], accesses: usize, table: &CodeTable) -> Option<()> {
        let mut until_exception = next_exception(&mut input)?;
        for (at, symbol) in &mut self.flow {
            *at = self.sites.len() as u32;
            let (first, usual): (u32, &[u16]) = match *symbol {
                Symbol::Block(block) => (
                    table.first_site(block),
                    &table.blocks()[block as usize].accesses,
                ),
                Symbol::Thread { .. } => (0, &[]),
            };
            match &mut until_exception {
                Some(0) => {
                    let count = varint::take(&mut input)?;
                    if count > (accesses - self.sites.len()) as u64 {
                        return None;
                    }
                    let mut site = i64::from(first);
                    for _ in 0..count {
                        site = site.checked_add(unzigzag(varint::take(&mut input)?))?;
                        let known = u32::try_from(site).ok()?;
                        if known >= table.sites() && known != NO_SITE {
                            return None;
                        }
                        self.sites.push(known);
                    }
                    until_exception = next_exception(&mut input)?;
                }
                regular => {
                    if usual.len() > accesses - self.sites.len() {
                        return None;
                    }
                    let sites = usual.iter().map(|&index| first + u32::from(index));
                    self.sites.extend(sites);
                    if let Some(regular) = regular {
                        *regular -= 1;
                    }
                }
            }
        }
        (input.is_empty() && self.sites.len() == accesses).then_some(())
    }

    /// Moves what the next `count` accesses have, from number `from` on, into the batch.
    pub fn sites(&self, from: usize, count: usize, batch: &mut Batch) {
        if !self.sites.is_empty() {
            batch
                .site
                .extend_from_slice(&self.sites[from..from + count]);
        }
    }
}

/// How many entries come before the next exception; `None` inside when there is none.
fn next_exception(input: &mut &[u8]) -> Option<Option<u64>> {
    if input.is_empty() {
        return Some(None);
    }
    varint::take(input).map(Some)
}

fn symbols(mut input: &[u8], table: &CodeTable) -> Option<Vec<Symbol>> {
    let mut symbols = Vec::new();
    while !input.is_empty() {
        if symbols.len() == MAX_SYMBOLS {
            return None;
        }
        let value = varint::take(&mut input)?;
        let value_of = |value: u64| u32::try_from(value).ok();
        symbols.push(if value & 1 == 0 {
            let block = value_of(value >> 1)?;
            if block as usize >= table.blocks().len() {
                return None;
            }
            Symbol::Block(block)
        } else {
            Symbol::Thread {
                thread: value_of(value >> 1)?,
                process: value_of(varint::take(&mut input)?)?,
            }
        });
    }
    Some(symbols)
}

impl Symbol {
    /// The symbol of an entry of a batch of this process.
    pub fn of(flow: Flow, process: u32) -> Symbol {
        match flow {
            Flow::Thread(thread) => Symbol::Thread { process, thread },
            Flow::Block(block) => Symbol::Block(block),
        }
    }
}
