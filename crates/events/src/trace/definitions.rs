//! Definitions of code as bytes: docs/trace-format.md, "Code".

use super::chunk::{put_stream, take_stream};
use super::varint::{self, unzigzag, zigzag};
use crate::{AllocationCall, AllocationSite, CodeBlock, Definition, Follows, Frame, Range};
use std::io;

/// The most bytes of definitions together, before compression.
const MAX_BYTES: usize = 4 << 20;
/// Definitions are written out when they have come to so many bytes.
const ENOUGH: usize = 1 << 20;

const FILE: u64 = 0;
const BLOCK: u64 = 1;
const FUNCTION: u64 = 2;
const MAPPING: u64 = 3;
const LINES: u64 = 4;
/// A block of which is known how addresses follow from others.
const PLACED: u64 = 5;
const ALLOCATION_SITE: u64 = 6;

/// The address and place in the file that come next if blocks follow each other.
#[derive(Clone, Copy, Default)]
struct NextBlock {
    pc: u64,
    file_offset: u64,
}

/// Collects definitions.
pub struct Definitions {
    bytes: Vec<u8>,
    count: u32,
    last: NextBlock,
    compressor: zstd::bulk::Compressor<'static>,
}

impl Definitions {
    pub fn new() -> io::Result<Definitions> {
        Ok(Definitions {
            bytes: Vec::new(),
            count: 0,
            last: NextBlock::default(),
            compressor: zstd::bulk::Compressor::new(3)?,
        })
    }

    /// Adds one. Whether it is time to write them out.
    ///
    /// # Errors
    /// When it is too large.
    pub fn push(&mut self, definition: &Definition) -> io::Result<bool> {
        put(&mut self.bytes, &mut self.last, definition);
        self.count += 1;
        if self.bytes.len() > MAX_BYTES {
            let what = "a definition of code is larger than 3 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(self.bytes.len() >= ENOUGH)
    }

    /// Number of the definitions, and a payload with all of them, if there are any; none are left.
    ///
    /// # Errors
    /// When they cannot be compressed.
    pub fn finish(&mut self) -> io::Result<Option<(u32, Vec<u8>)>> {
        if self.count == 0 {
            return Ok(None);
        }
        let mut payload = Vec::new();
        put_stream(&mut self.compressor, &self.bytes, &mut payload)?;
        let count = self.count;
        self.bytes.clear();
        self.count = 0;
        self.last = NextBlock::default();
        Ok(Some((count, payload)))
    }
}

/// The definitions in a payload.
///
/// # Errors
/// What is wrong with it.
pub fn read(payload: &[u8], count: u32) -> Result<Vec<Definition>, &'static str> {
    let mut input = payload;
    let mut bytes = Vec::new();
    let mut decompressor =
        zstd::bulk::Decompressor::new().map_err(|_| "there is no memory to decompress it")?;
    take_stream(&mut decompressor, &mut input, &mut bytes, MAX_BYTES)?;
    let mut rest = bytes.as_slice();
    let mut last = NextBlock::default();
    let mut definitions = Vec::new();
    while !rest.is_empty() {
        definitions.push(take(&mut rest, &mut last).ok_or("a definition is damaged")?);
    }
    if !input.is_empty() || definitions.len() != count as usize {
        return Err("it does not hold as many definitions as its header says");
    }
    Ok(definitions)
}

/// Appends a definition.
fn put(out: &mut Vec<u8>, last: &mut NextBlock, definition: &Definition) {
    match definition {
        Definition::File(path) => {
            varint::put(out, FILE);
            put_text(out, path);
        }
        Definition::Block(block) => {
            let placed = !block.addresses.is_empty();
            varint::put(out, if placed { PLACED } else { BLOCK });
            put_block(out, last, block);
        }
        Definition::Function { name, blocks } => {
            varint::put(out, FUNCTION);
            put_text(out, name);
            varint::put(out, blocks.len() as u64);
            let mut before = 0;
            for &block in blocks {
                varint::put(out, zigzag(i64::from(block) - before));
                before = i64::from(block);
            }
        }
        Definition::Mapping { path, ranges } => {
            varint::put(out, MAPPING);
            put_text(out, path);
            varint::put(out, ranges.len() as u64);
            let mut end = 0u64;
            for range in ranges {
                varint::put(out, range.process.into());
                varint::put(out, zigzag(range.addr.wrapping_sub(end) as i64));
                varint::put(out, range.len);
                end = range.addr.wrapping_add(range.len);
            }
        }
        Definition::AllocationSite(site) => {
            varint::put(out, ALLOCATION_SITE);
            varint::put(out, site.call as u64);
            varint::put(out, site.frames.len() as u64);
            for frame in &site.frames {
                varint::put(out, frame.file.into());
                varint::put(out, frame.offset);
            }
        }
        Definition::Lines { path, sites } => {
            varint::put(out, LINES);
            put_text(out, path);
            varint::put(out, sites.len() as u64);
            let mut before = (0, 0);
            for &(site, line) in sites {
                let here = (i64::from(site), i64::from(line));
                varint::put(out, zigzag(here.0 - before.0));
                varint::put(out, zigzag(here.1 - before.1));
                before = here;
            }
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    varint::put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_block(out: &mut Vec<u8>, last: &mut NextBlock, block: &CodeBlock) {
    varint::put(out, block.process.into());
    varint::put(out, zigzag(block.pc.wrapping_sub(last.pc) as i64));
    varint::put(out, block.file.into());
    varint::put(
        out,
        zigzag(block.file_offset.wrapping_sub(last.file_offset) as i64),
    );
    varint::put(out, block.lengths.len() as u64);
    out.extend_from_slice(&block.lengths);
    varint::put(out, block.bytes.len() as u64);
    out.extend_from_slice(&block.bytes);
    varint::put(out, block.accesses.len() as u64);
    let mut before = 0;
    for (index, &instruction) in block.accesses.iter().enumerate() {
        varint::put(out, zigzag(i64::from(instruction) - before));
        before = i64::from(instruction);
        if let Some(follows) = block.addresses.get(index) {
            varint::put(out, follows.back.into());
            if follows.back > 0 {
                varint::put(out, zigzag(follows.offset.into()));
            }
        }
    }
    let length: u64 = block.lengths.iter().map(|&length| u64::from(length)).sum();
    last.pc = block.pc.wrapping_add(length);
    last.file_offset = block.file_offset.wrapping_add(length);
}

/// Takes a definition from the front of `input`; `None` when it is damaged.
fn take(input: &mut &[u8], last: &mut NextBlock) -> Option<Definition> {
    match varint::take(input)? {
        FILE => take_text(input).map(Definition::File),
        BLOCK => take_block(input, last, false).map(Definition::Block),
        PLACED => take_block(input, last, true).map(Definition::Block),
        FUNCTION => {
            let name = take_text(input)?;
            let mut before = 0i64;
            let blocks = take_all(input, |input| {
                before = before.checked_add(unzigzag(varint::take(input)?))?;
                u32::try_from(before).ok()
            })?;
            Some(Definition::Function { name, blocks })
        }
        MAPPING => {
            let path = take_text(input)?;
            let mut end = 0u64;
            let ranges = take_all(input, |input| {
                let process = u32::try_from(varint::take(input)?).ok()?;
                let addr = end.wrapping_add(unzigzag(varint::take(input)?) as u64);
                let len = varint::take(input)?;
                end = addr.wrapping_add(len);
                Some(Range { process, addr, len })
            })?;
            Some(Definition::Mapping { path, ranges })
        }
        ALLOCATION_SITE => {
            let call = usize::try_from(varint::take(input)?).ok()?;
            let call = *AllocationCall::ALL.get(call)?;
            let frames = take_all(input, |input| {
                let file = u32::try_from(varint::take(input)?).ok()?;
                let offset = varint::take(input)?;
                Some(Frame { file, offset })
            })?;
            Some(Definition::AllocationSite(AllocationSite { call, frames }))
        }
        LINES => {
            let path = take_text(input)?;
            let mut before = (0i64, 0i64);
            let sites = take_all(input, |input| {
                before.0 = before.0.checked_add(unzigzag(varint::take(input)?))?;
                before.1 = before.1.checked_add(unzigzag(varint::take(input)?))?;
                Some((u32::try_from(before.0).ok()?, u32::try_from(before.1).ok()?))
            })?;
            Some(Definition::Lines { path, sites })
        }
        _ => None,
    }
}

fn take_text(input: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_bytes(input)?.to_vec()).ok()
}

/// As many elements as the next number says.
fn take_all<T>(
    input: &mut &[u8],
    mut each: impl FnMut(&mut &[u8]) -> Option<T>,
) -> Option<Box<[T]>> {
    let count = usize::try_from(varint::take(input)?).ok()?;
    // Each takes a byte at least: a damaged count allocates no more than the input's length.
    if count > input.len() {
        return None;
    }
    (0..count).map(|_| each(input)).collect()
}

fn take_block(input: &mut &[u8], last: &mut NextBlock, placed: bool) -> Option<CodeBlock> {
    let process = u32::try_from(varint::take(input)?).ok()?;
    let pc = last.pc.wrapping_add(unzigzag(varint::take(input)?) as u64);
    let file = u32::try_from(varint::take(input)?).ok()?;
    let moved = unzigzag(varint::take(input)?) as u64;
    let file_offset = last.file_offset.wrapping_add(moved);
    let lengths: Box<[u8]> = take_bytes(input)?.into();
    let bytes: Box<[u8]> = take_bytes(input)?.into();
    let mut before = 0i64;
    let mut addresses = Vec::new();
    let accesses = take_all(input, |input| {
        before = before.checked_add(unzigzag(varint::take(input)?))?;
        if placed {
            let back = u8::try_from(varint::take(input)?).ok()?;
            let offset = match back {
                0 => 0,
                _ => i32::try_from(unzigzag(varint::take(input)?)).ok()?,
            };
            addresses.push(Follows { back, offset });
        }
        u16::try_from(before).ok()
    })?;
    let length: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    last.pc = pc.wrapping_add(length);
    last.file_offset = file_offset.wrapping_add(length);
    Some(CodeBlock {
        process,
        pc,
        file,
        file_offset,
        lengths,
        bytes,
        accesses,
        addresses: addresses.into(),
    })
}

fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(varint::take(input)?).ok()?;
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(bytes)
}
