use super::lines::{CANONICAL, is_canonical};
use super::records::{Progress, Records};
use crate::code::{CodeBlock, Definition, Flow, MAX_SITES, NO_SITE};
use crate::{Access, Batch, Control, Op, SourceError, Stores, dependence};
use std::collections::HashMap;
use std::io::{BufRead, Read};

/// Record that a trace is made of, of ChampSim's two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `input_instr`, 64 bytes.
    Input,
    /// `cloudsuite_instr`, 96 bytes.
    CloudSuite,
}

/// Offsets of a record's fields, in bytes from its start.
struct Fields {
    bytes: usize,
    destination_registers: std::ops::Range<usize>,
    source_registers: std::ops::Range<usize>,
    destination_memory: std::ops::Range<usize>,
    source_memory: std::ops::Range<usize>,
}

impl Layout {
    /// ChampSim's inc/trace_instruction.h.
    fn fields(self) -> Fields {
        match self {
            Layout::Input => Fields {
                bytes: 64,
                destination_registers: 10..12,
                source_registers: 12..16,
                destination_memory: 16..32,
                source_memory: 32..64,
            },
            Layout::CloudSuite => Fields {
                bytes: 96,
                destination_registers: 10..14,
                source_registers: 14..18,
                destination_memory: 24..56,
                source_memory: 56..88,
            },
        }
    }

    /// The layout of a trace that starts with `head`; `preferred` if it can be either.
    pub fn of(head: &[u8], preferred: Layout) -> Option<Layout> {
        let other = match preferred {
            Layout::Input => Layout::CloudSuite,
            Layout::CloudSuite => Layout::Input,
        };
        match (preferred.fit(head), other.fit(head)) {
            (None, None) => None,
            (fits, better) if better > fits => Some(other),
            _ => Some(preferred),
        }
    }

    /// Share of the records that have an instruction pointer, of 1000, if most records are sound; all
    /// where none has one. Records of the other layout, cut at the wrong places, have fewer.
    fn fit(self, head: &[u8]) -> Option<usize> {
        let fields = self.fields();
        let records = head.chunks_exact(fields.bytes);
        let (mut all, mut sound, mut pointed) = (0, 0, 0);
        for record in records.filter(|record| record.iter().any(|&byte| byte != 0)) {
            all += 1;
            if fields.fault(record).is_none() {
                sound += 1;
                pointed += usize::from(word(record) != 0);
            }
        }
        // A damaged record is an error of its own.
        let fits = all > 0 && sound * 4 >= all * 3;
        fits.then(|| {
            if pointed == 0 {
                1000
            } else {
                pointed * 1000 / all
            }
        })
    }
}

impl Fields {
    /// Says what is wrong with a record, if no tracer writes such a one.
    fn fault(&self, record: &[u8]) -> Option<String> {
        let ip = word(record);
        if !is_canonical(ip) {
            return Some(format!("instruction pointer {ip:#x}, expected {CANONICAL}"));
        }
        if let Some(flag) = record[8..10].iter().find(|&&flag| flag > 1) {
            return Some(format!("{flag} as a flag of a branch, expected 0 or 1"));
        }
        let memory = [&self.source_memory, &self.destination_memory];
        memory
            .into_iter()
            .flat_map(|fields| addresses(&record[fields.clone()]))
            .find(|&addr| !is_canonical(addr))
            .map(|addr| format!("memory operand {addr:#x}, expected {CANONICAL}"))
    }
}

/// ChampSim's numbers for registers that carry no loaded address on: stack pointer, flags,
/// instruction pointer (inc/trace_instruction.h).
const NO_CARRIERS: [u8; 3] = [6, 25, 26];

/// A ChampSim trace says nothing of sizes: every access is given that of a register.
const SIZE: u16 = 8;

/// A load finds a store to the same address, as in ChampSim: to the same unit of so many bytes.
const UNIT: u16 = 4;

/// Reads a ChampSim trace.
///
/// Loads of an instruction come before its stores. The dependence is that of the instruction's
/// source registers on the youngest load, also through arithmetic: an upper bound, since a
/// trace does not say which registers make the address. A load also depends on the youngest load that
/// what it finds stored was made of.
///
/// Of code, an instruction that makes accesses is a block of its own, of which only the address is
/// known; the others are the gaps between them.
pub struct ChampSim<R> {
    input: R,
    name: String,
    fields: Fields,
    record: Vec<u8>,
    records: u64,
    /// Instructions since the last access.
    gap: u32,
    /// Accesses so far.
    accesses: u64,
    /// By instruction pointer, its block. Blocks have one instruction, so that the number of a block is
    /// the site of that.
    blocks: HashMap<u64, u32>,
    /// By register: one more than the number of the access that its value depends on; 0 for none.
    producers: [u64; 256],
    stores: Stores,
}

impl<R: BufRead> ChampSim<R> {
    /// Reads from `input`; `name` stands in error messages.
    pub fn new(input: R, name: impl Into<String>, layout: Layout) -> Self {
        ChampSim {
            input,
            name: name.into(),
            fields: layout.fields(),
            record: Vec::new(),
            records: 0,
            gap: 0,
            accesses: 0,
            blocks: HashMap::new(),
            producers: [0; 256],
            stores: Stores::default(),
        }
    }

    /// Reads a record; `false` at the end.
    fn read(&mut self) -> Result<bool, SourceError> {
        self.record.clear();
        let bytes = self.fields.bytes as u64;
        let result = (&mut self.input).take(bytes).read_to_end(&mut self.record);
        let name = || format!("{}: instruction {}", self.name, self.records);
        match result {
            Err(error) => Err(SourceError::Io {
                name: name(),
                error,
            }),
            Ok(0) => Ok(false),
            Ok(read) if read < self.fields.bytes => Err(SourceError::Corrupt {
                name: name(),
                what: format!(
                    "the trace ends after {read} of its {} bytes",
                    self.fields.bytes
                ),
            }),
            Ok(_) => {
                if let Some(what) = self.fields.fault(&self.record) {
                    return Err(SourceError::Corrupt { name: name(), what });
                }
                self.records += 1;
                Ok(true)
            }
        }
    }

    fn end(&self) -> Result<Progress, SourceError> {
        if self.accesses > 0 {
            return Ok(Progress::End);
        }
        Err(SourceError::Corrupt {
            name: self.name.clone(),
            what: format!("{} instructions, and no access to memory", self.records),
        })
    }

    /// The site of an instruction that makes so many accesses, which is defined when it comes for
    /// the first time, and is executed now.
    fn enter(&mut self, batch: &mut Batch, ip: u64, accesses: usize) -> u32 {
        let next = self.blocks.len() as u32;
        let site = *self.blocks.entry(ip).or_insert(next);
        if site == next {
            if next == MAX_SITES {
                self.blocks.remove(&ip);
                return NO_SITE;
            }
            batch.definitions.push(Definition::Block(CodeBlock {
                pc: ip,
                lengths: [0].into(),
                accesses: vec![0; accesses].into(),
                ..CodeBlock::default()
            }));
        }
        batch.flow.push((batch.len() as u32, Flow::Block(site)));
        site
    }

    fn push(&mut self, batch: &mut Batch, addr: u64, op: Op, producer: u64) {
        let dep = match producer {
            0 => 0,
            // A dependence too far back to count is none that anything waits for.
            _ => (u32::try_from(self.accesses + 1 - producer).ok())
                .filter(|&dep| dep <= dependence::FARTHEST)
                .unwrap_or(0),
        };
        batch.push(Access {
            addr,
            op,
            gap: self.gap,
            dep,
        });
        self.gap = 0;
        self.accesses += 1;
    }
}

impl<R: BufRead> Records for ChampSim<R> {
    fn begin(&mut self, batch: &mut Batch) {
        batch.push_control(Control::Thread { thread: 0 });
        batch.flow.push((0, Flow::Thread(0)));
    }

    fn has_code(&self) -> bool {
        true
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        if !self.read()? {
            return self.end();
        }
        let record = std::mem::take(&mut self.record);
        let sources = &record[self.fields.source_registers.clone()];
        let producer = sources
            .iter()
            .map(|&register| self.producers[usize::from(register)])
            .max()
            .unwrap_or(0);
        let before = self.accesses;
        let mut carried = producer;
        let loads = addresses(&record[self.fields.source_memory.clone()]).count();
        let stores = addresses(&record[self.fields.destination_memory.clone()]).count();
        if loads + stores > 0 {
            let site = self.enter(batch, word(&record), loads + stores);
            batch.site.resize(batch.len() + loads + stores, site);
        }
        for addr in addresses(&record[self.fields.source_memory.clone()]) {
            let stored = self.stores.find(unit(addr), UNIT);
            let recent = self.accesses + 1 - stored <= Stores::REACH;
            let producer = if recent {
                producer.max(stored)
            } else {
                producer
            };
            let op = Op::load(SIZE).continuing(self.accesses > before);
            self.push(batch, addr, op, producer);
            carried = self.accesses;
        }
        for addr in addresses(&record[self.fields.destination_memory.clone()]) {
            let op = Op::store(SIZE).continuing(self.accesses > before);
            self.push(batch, addr, op, producer);
            self.stores.put(unit(addr), UNIT, carried);
        }
        for &register in &record[self.fields.destination_registers.clone()] {
            if register != 0 && !NO_CARRIERS.contains(&register) {
                self.producers[usize::from(register)] = carried;
            }
        }
        if self.accesses == before {
            self.gap = self.gap.saturating_add(1);
        }
        self.record = record;
        Ok(Progress::More)
    }
}

/// The memory operands that are there.
fn addresses(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(word).filter(|&addr| addr != 0)
}

fn unit(addr: u64) -> u64 {
    addr & !(u64::from(UNIT) - 1)
}

fn word(bytes: &[u8]) -> u64 {
    bytes[..8]
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}
