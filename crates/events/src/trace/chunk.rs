//! A chunk's payload: its streams, each compressed on its own.

use super::accesses::{self, Columns, FromCode, Layout, MAX_ACCESSES, MAX_FORMS, Streams, Work};
use super::block::{BlockHeader, Tag, le_u32};
use super::code::{self, Symbol};
use super::controls::{self, Entry};
use crate::{Batch, CodeTable, Flow, Mispredicted, NO_SITE, dependence};
use std::io;
use std::ops::Range;

/// The largest number of control entries in a chunk.
pub const MAX_CONTROLS: usize = 1 << 16;
/// The largest payload: what the streams of a full chunk can come to.
pub const MAX_PAYLOAD: u32 = 16 << 20;

/// Streams of a chunk of version 1. Later ones have those of the code as well.
const STREAMS: usize = 6;
/// A stream's bytes before and after compression, as two 32-bit numbers.
const STREAM_HEADER_BYTES: usize = 8;
/// The most bytes of each stream: controls, shapes, codes (low, high), classes, residuals.
/// A control entry takes at most 5 + 1 + 4 * 10 bytes, a shape 3 + 5 + 5.
const MAX_STREAM: [usize; STREAMS] = [
    MAX_CONTROLS * 46,
    MAX_ACCESSES * 13,
    MAX_ACCESSES,
    MAX_ACCESSES,
    MAX_ACCESSES,
    MAX_ACCESSES * 8,
];
/// The version since which executions have forms, and addresses follow from others.
const FORMS: u32 = 64;
/// The last version in which no access continued an instruction.
const WITHOUT_CONTINUED: u32 = 256;
/// zstd's fastest regular level. Higher ones save less than a tenth and halve the speed.
const LEVEL: i32 = 1;

/// Collects events into chunks.
pub struct ChunkEncoder {
    accesses: accesses::Encoder,
    streams: Streams,
    code: code::Encoder,
    /// The sites of accesses that have none.
    unknown: Box<[u32]>,
    controls: Vec<u8>,
    control_count: usize,
    /// Place of the last control entry.
    control_at: usize,
    compressor: zstd::bulk::Compressor<'static>,
    block: Vec<u8>,
}

impl ChunkEncoder {
    pub fn new() -> io::Result<ChunkEncoder> {
        Ok(ChunkEncoder {
            accesses: accesses::Encoder::new(),
            streams: Streams::default(),
            code: code::Encoder::new(),
            unknown: vec![NO_SITE; MAX_ACCESSES].into(),
            controls: Vec::new(),
            control_count: 0,
            control_at: 0,
            compressor: zstd::bulk::Compressor::new(LEVEL)?,
            block: Vec::new(),
        })
    }

    pub fn is_empty(&self) -> bool {
        self.accesses.len() == 0 && self.control_count == 0 && self.code.len() == 0
    }

    /// Accesses for which there is room.
    pub fn room(&self) -> usize {
        MAX_ACCESSES - self.accesses.len()
    }

    /// Control entries for which there is room.
    pub fn control_room(&self) -> usize {
        MAX_CONTROLS - self.control_count
    }

    /// Entries of the flow for which there is room.
    pub fn flow_room(&self) -> usize {
        self.code.room()
    }

    /// True if it has an entry of the flow.
    pub fn has_code(&self) -> bool {
        self.code.len() > 0
    }

    /// Appends accesses of a chunk without code, no more than there is room for.
    pub fn push(&mut self, batch: &Batch, range: Range<usize>) {
        self.accesses.push(batch, range, None);
    }

    /// Appends accesses that all belong to the last entry of the flow, no more than there is room for.
    pub fn push_with_code(&mut self, batch: &Batch, range: Range<usize>) {
        let sites = match batch.site.is_empty() {
            true => &self.unknown[..range.len()],
            false => &batch.site[range.clone()],
        };
        let gaps = self.code.push_sites(sites);
        let known = FromCode { sites, gaps };
        self.accesses.push(batch, range, Some(known));
    }

    /// Appends an entry of the flow.
    #[inline]
    pub fn push_flow(&mut self, symbol: Symbol) {
        self.code.push(symbol);
    }

    /// Appends what of the flow is as usual, with its accesses: see [`code::Encoder::push_usual`].
    pub fn push_usual(&mut self, batch: &Batch, flow: &[(u32, Flow)], until: usize) -> usize {
        (self.code).push_usual(&mut self.accesses, batch, flow, until)
    }

    /// A batch begins.
    pub fn start_batch(&mut self) {
        self.code.start_batch();
    }

    /// Blocks may have been defined.
    pub fn define(&mut self, table: &CodeTable) {
        self.code.define(table);
    }

    /// Appends a control entry.
    pub fn push_control(&mut self, entry: Entry) {
        let distance = self.accesses.len() - self.control_at;
        controls::put(&mut self.controls, distance as u32, entry);
        self.control_at = self.accesses.len();
        self.control_count += 1;
    }

    /// Ends the chunk: its header, and the block as it goes into the file. The next one starts.
    pub fn finish(&mut self) -> io::Result<(BlockHeader, &[u8])> {
        let code = self.code.finish();
        let accesses = self.accesses.len() as u32;
        self.accesses.finish(&mut self.streams);
        self.block.clear();
        self.block.resize(BlockHeader::BYTES, 0);
        for stream in [
            &self.controls,
            &self.streams.shapes,
            &self.streams.codes_low,
            &self.streams.codes_high,
            &self.streams.classes,
            &self.streams.residuals,
            &code.runs,
            &code.turns,
            &code.exceptions,
            &self.streams.forms,
        ] {
            put_stream(&mut self.compressor, stream, &mut self.block)?;
        }
        let (head, payload) = self.block.split_at_mut(BlockHeader::BYTES);
        let header = BlockHeader::of(Tag::Chunk, payload, accesses, self.control_count as u32);
        head.copy_from_slice(&header.to_bytes());
        self.code.clear();
        self.controls.clear();
        self.control_count = 0;
        self.control_at = 0;
        Ok((header, &self.block))
    }
}

/// Appends a stream, compressed if that makes it smaller.
pub fn put_stream(
    compressor: &mut zstd::bulk::Compressor,
    stream: &[u8],
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let head = out.len();
    let body = head + STREAM_HEADER_BYTES;
    out.resize(body + zstd::zstd_safe::compress_bound(stream.len()), 0);
    let mut stored = compressor.compress_to_buffer(stream, &mut out[body..])?;
    if stored >= stream.len() {
        stored = stream.len();
        out[body..body + stored].copy_from_slice(stream);
    }
    out[head..head + 4].copy_from_slice(&(stream.len() as u32).to_le_bytes());
    out[head + 4..body].copy_from_slice(&(stored as u32).to_le_bytes());
    out.truncate(body + stored);
    Ok(())
}

/// Takes chunks apart.
pub struct ChunkDecoder {
    accesses: accesses::Decoder,
    streams: Streams,
    layout: Layout,
    work: Box<Work>,
    /// A column of sites where there are none.
    no_sites: Vec<u32>,
    code_streams: code::Streams,
    old_code_streams: code::Version4Streams,
    /// In a file up to version 8 an access waits for one load.
    one_load: bool,
    /// Addresses follow from others in this file.
    follow: bool,
    /// Accesses decoded.
    decoded: usize,
    /// The chunk's code.
    pub code: code::Decoder,
    control_stream: Vec<u8>,
    /// The chunk's control entries and the accesses before which they stand, ascending.
    pub controls: Vec<(u32, Entry)>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl ChunkDecoder {
    pub fn new() -> io::Result<ChunkDecoder> {
        Ok(ChunkDecoder {
            accesses: accesses::Decoder::new(),
            streams: Streams::default(),
            layout: Layout::new(),
            work: Work::new(),
            no_sites: Vec::new(),
            code_streams: code::Streams::default(),
            old_code_streams: code::Version4Streams::default(),
            one_load: false,
            follow: false,
            decoded: 0,
            code: code::Decoder::new(),
            control_stream: Vec::new(),
            controls: Vec::new(),
            decompressor: zstd::bulk::Decompressor::new()?,
        })
    }

    /// Starts a chunk of a file of this version, of which `header` says how much it holds.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn start(
        &mut self,
        header: &BlockHeader,
        payload: &[u8],
        version: u32,
        table: &CodeTable,
    ) -> Result<(), &'static str> {
        if header.accesses as usize > MAX_ACCESSES || header.controls as usize > MAX_CONTROLS {
            return Err("it claims more events than a chunk can hold");
        }
        let mut input = payload;
        let streams = [
            &mut self.control_stream,
            &mut self.streams.shapes,
            &mut self.streams.codes_low,
            &mut self.streams.codes_high,
            &mut self.streams.classes,
            &mut self.streams.residuals,
        ];
        for (stream, max) in streams.into_iter().zip(MAX_STREAM) {
            take_stream(&mut self.decompressor, &mut input, stream, max)?;
        }
        let accesses = header.accesses as usize;
        self.one_load = version <= 8;
        match version {
            1 => {}
            2..=4 => {
                let old = &mut self.old_code_streams;
                let streams = [
                    &mut old.symbols,
                    &mut old.flow_low,
                    &mut old.flow_high,
                    &mut old.exceptions,
                ];
                for (stream, max) in streams.into_iter().zip(code::Version4Streams::MAX) {
                    take_stream(&mut self.decompressor, &mut input, stream, max)?;
                }
            }
            _ => {
                let new = &mut self.code_streams;
                let streams = [&mut new.runs, &mut new.turns, &mut new.exceptions];
                for (stream, max) in streams.into_iter().zip(code::MAX_STREAM) {
                    take_stream(&mut self.decompressor, &mut input, stream, max)?;
                }
            }
        }
        if version >= FORMS {
            let stream = &mut self.streams.forms;
            take_stream(&mut self.decompressor, &mut input, stream, MAX_FORMS)?;
        }
        if !input.is_empty() {
            return Err("there are bytes after the last stream");
        }
        self.layout.start(&self.streams)?;
        if version <= WITHOUT_CONTINUED {
            self.layout.continue_none();
        }
        match version {
            1 => self.code.start_without(),
            2..=4 => (self.code).start_old(&self.old_code_streams, accesses, table)?,
            _ => {
                let forms = (version >= FORMS).then_some(&*self.streams.forms);
                (self.code).start(&self.code_streams, accesses, table, &mut self.layout, forms)?;
            }
        }
        if let Some(sites) = self.code.old_sites() {
            self.layout.take_last_codes(sites);
        }
        self.follow = version >= FORMS;
        if self.follow && !self.code.has_flow() && !self.streams.forms.is_empty() {
            return Err("it has forms and no code");
        }
        // Forms, where there are any, have all codes.
        let forms = self.follow && self.code.has_flow();
        if !forms && self.layout.codes().len() != accesses {
            return Err("the streams do not hold as many accesses as the header says");
        }
        let own = if forms { self.code.own() } else { accesses };
        let with_code = self.has_code();
        (self.accesses).start(&mut self.streams, &self.layout, own, with_code)?;
        self.decoded = 0;
        self.start_controls(header)
    }

    fn start_controls(&mut self, header: &BlockHeader) -> Result<(), &'static str> {
        self.controls.clear();
        let mut input = self.control_stream.as_slice();
        let mut at = 0u32;
        for _ in 0..header.controls {
            let (distance, entry) =
                controls::take(&mut input).ok_or("the control events are damaged")?;
            at = at
                .checked_add(distance)
                .filter(|&at| at <= header.accesses)
                .ok_or("a control event stands after the last access")?;
            let entry = match entry {
                Entry::Mispredicted(branch) if self.one_load => Entry::Mispredicted(Mispredicted {
                    dep: dependence::of_two(branch.dep, 0),
                    ..branch
                }),
                entry => entry,
            };
            self.controls.push((at, entry));
        }
        if !input.is_empty() {
            return Err("there are more control events than the header says");
        }
        Ok(())
    }

    /// True if accesses are told by executions.
    fn has_code(&self) -> bool {
        self.code.has_flow() && self.code.old_sites().is_none()
    }

    /// Makes the next `count` accesses of the chunk, no more than [`accesses::BATCH`], those of the batch.
    pub fn decode(&mut self, count: usize, batch: &mut Batch) {
        let from = self.decoded;
        self.decoded += count;
        let has_code = self.has_code();
        if !has_code {
            std::mem::swap(&mut batch.site, &mut self.no_sites);
        }
        if count > 0 {
            let accesses = &mut self.accesses;
            let mut columns = Columns::of(batch, &mut self.work);
            if has_code {
                let deps = accesses.last_deps();
                (self.code).columns(&self.layout, count, deps, &mut columns);
            } else {
                accesses.plain(&self.layout, count, &mut columns);
            }
            if has_code && self.follow {
                accesses.addresses::<true>(&self.streams, count, &mut columns);
            } else {
                accesses.addresses::<false>(&self.streams, count, &mut columns);
            }
        }
        batch.addr.truncate(count);
        batch.op.truncate(count);
        batch.gap.truncate(count);
        batch.dep.truncate(count);
        if self.one_load {
            for dep in &mut batch.dep {
                *dep = dependence::of_two(*dep, 0);
            }
        }
        if has_code {
            batch.site.truncate(count);
            return;
        }
        std::mem::swap(&mut batch.site, &mut self.no_sites);
        batch.site.clear();
        if let Some(sites) = self.code.old_sites() {
            (batch.site).extend_from_slice(&sites[from..from + count]);
        }
    }
}

/// Takes a stream from the front of the payload.
pub fn take_stream(
    decompressor: &mut zstd::bulk::Decompressor,
    input: &mut &[u8],
    stream: &mut Vec<u8>,
    max: usize,
) -> Result<(), &'static str> {
    const SHORT: &str = "a stream is longer than the chunk";
    let (head, rest) = input.split_at_checked(STREAM_HEADER_BYTES).ok_or(SHORT)?;
    let len = le_u32(head) as usize;
    let (stored, rest) = rest
        .split_at_checked(le_u32(&head[4..]) as usize)
        .ok_or(SHORT)?;
    *input = rest;
    stream.clear();
    if len > max {
        return Err("a stream claims to be larger than a chunk's can be");
    }
    if stored.len() == len {
        stream.extend_from_slice(stored);
        return Ok(());
    }
    stream.reserve(len);
    match decompressor.decompress_to_buffer(stored, stream) {
        Ok(found) if found == len => Ok(()),
        _ => Err("a stream cannot be decompressed to the length it claims"),
    }
}
