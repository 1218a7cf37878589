//! The flow as files of versions 2 and 4 have it: symbols, numbered in the chunk.

use super::{Entries, MAX_FLOW, Symbol};
use crate::CodeTable;
use crate::trace::varint;

/// The largest number of symbols in a chunk: a code fits 16 bits.
const MAX_SYMBOLS: usize = 1 << 16;

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

impl Streams {
    /// The most bytes of each, in this order. A symbol takes two varints of 32 bits.
    pub const MAX: [usize; 4] = [MAX_SYMBOLS * 10, MAX_FLOW, MAX_FLOW, super::MAX_STREAM[2]];

    pub fn symbols(&self, table: &CodeTable) -> Option<Vec<Symbol>> {
        let mut input = self.symbols.as_slice();
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

    /// The entries.
    pub fn entries(&self, symbols: &[Symbol], entries: &mut Entries) -> Option<()> {
        if self.flow_low.len() != self.flow_high.len() {
            return None;
        }
        for (&low, &high) in self.flow_low.iter().zip(&self.flow_high) {
            let code = u16::from_le_bytes([low, high]);
            match *symbols.get(usize::from(code))? {
                Symbol::Block(block) => entries.push_block(block),
                Symbol::Thread { process, thread } => entries.push_thread(process, thread),
            }
        }
        entries.begin_with_thread().then_some(())
    }
}
