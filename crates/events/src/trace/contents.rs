//! Begin and end of a trace file: the metadata, and the index or what stands for one.

use super::block::{BlockHeader, Tag, le_u32, le_u64, read_up_to};
use super::{
    INDEX_ENTRY_BYTES, IndexEntry, MAGIC, MAX_METADATA, Metadata, TAIL, TAIL_BYTES, VERSION,
    VERSIONS,
};
use std::io::{self, Read, Seek, SeekFrom};

pub(super) fn read_header(input: &mut impl Read) -> io::Result<Option<BlockHeader>> {
    let mut bytes = [0; BlockHeader::BYTES];
    match input.read_exact(&mut bytes) {
        Ok(()) => Ok(BlockHeader::from_bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn read_metadata(
    input: &mut impl Read,
    buffer: &mut Vec<u8>,
) -> io::Result<Result<(u32, Metadata), String>> {
    let head = MAGIC.len() + size_of_val(&VERSION);
    read_up_to(input, head as u64, buffer)?;
    if buffer.len() < head || !buffer.starts_with(&MAGIC) {
        return Ok(Err("not a pagelab trace".to_owned()));
    }
    let version = le_u32(&buffer[MAGIC.len()..]);
    if !VERSIONS.contains(&version) {
        return Ok(Err(format!(
            "a pagelab trace of version {version}; this program reads powers of two up to {VERSION}"
        )));
    }
    let damaged = || Ok(Err("the metadata at byte 12 are damaged".to_owned()));
    let header = match read_header(input)? {
        Some(header) if header.tag == Tag::Metadata && header.len <= MAX_METADATA => header,
        _ => return damaged(),
    };
    if !read_up_to(input, u64::from(header.len), buffer)?
        || crc32fast::hash(buffer) != header.checksum
    {
        return damaged();
    }
    match serde_json::from_slice(buffer) {
        Ok(map) => Ok(Ok((version, Metadata(map)))),
        Err(_) => damaged(),
    }
}

/// Places of everything.
#[derive(Default)]
pub(super) struct Contents {
    /// The chunks.
    pub(super) index: Vec<IndexEntry>,
    /// The definitions of code.
    pub(super) code_index: Vec<IndexEntry>,
    /// Damage that ends the file before its time, and where.
    pub(super) damage: Option<(u64, &'static str)>,
    /// Place behind the last whole block, of a file that was scanned.
    pub(super) end: u64,
    /// The index is there.
    pub(super) has_index: bool,
}

/// The index of a complete file; `None` when the file has none, or a damaged one.
pub(super) fn read_index(
    input: &mut (impl Read + Seek),
    first: u64,
    size: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Contents>> {
    let Some(tail_at) = size
        .checked_sub(TAIL_BYTES as u64)
        .filter(|&at| at >= first)
    else {
        return Ok(None);
    };
    input.seek(SeekFrom::Start(tail_at))?;
    if !read_up_to(input, TAIL_BYTES as u64, buffer)?
        || buffer[12..] != TAIL
        || crc32fast::hash(&buffer[..8]) != le_u32(&buffer[8..])
    {
        return Ok(None);
    }
    let index_at = le_u64(buffer);
    if !(first..tail_at).contains(&index_at) {
        return Ok(None);
    }
    input.seek(SeekFrom::Start(index_at))?;
    let header = match read_header(input)? {
        Some(header) if header.tag == Tag::Index => header,
        _ => return Ok(None),
    };
    if index_at + BlockHeader::BYTES as u64 + u64::from(header.len) != tail_at
        || !read_up_to(input, u64::from(header.len), buffer)?
        || crc32fast::hash(buffer) != header.checksum
        || !buffer.len().is_multiple_of(INDEX_ENTRY_BYTES)
    {
        return Ok(None);
    }
    let entries = buffer.chunks_exact(INDEX_ENTRY_BYTES);
    let mut index: Vec<_> = entries
        .map(|bytes| IndexEntry {
            offset: le_u64(bytes),
            accesses: le_u32(&bytes[8..]),
            controls: le_u32(&bytes[12..]),
        })
        .collect();
    let Some(chunks) = index.len().checked_sub(header.accesses as usize) else {
        return Ok(None);
    };
    let code_index = index.split_off(chunks);
    let good = [&index, &code_index].into_iter().all(|index| {
        let sorted = index.is_sorted_by(|a, b| a.offset < b.offset);
        let inside = |entry: &IndexEntry| (first..index_at).contains(&entry.offset);
        sorted && index.iter().all(inside)
    });
    Ok(good.then_some(Contents {
        index,
        code_index,
        has_index: true,
        ..Contents::default()
    }))
}

/// The chunks of a file without an index, from its block headers, and what ends it early.
pub(super) fn scan(input: &mut (impl Read + Seek), first: u64, size: u64) -> io::Result<Contents> {
    let mut contents = Contents::default();
    let mut offset = first;
    while offset < size {
        input.seek(SeekFrom::Start(offset))?;
        let body = offset + BlockHeader::BYTES as u64;
        if body > size {
            contents.damage = Some((offset, "the file ends inside it"));
            break;
        }
        let Some(header) = read_header(input)? else {
            contents.damage = Some((offset, "this is no chunk; the file was damaged"));
            break;
        };
        if header.tag == Tag::Index {
            contents.has_index = true;
            break;
        }
        if body + u64::from(header.len) > size {
            contents.damage = Some((offset, "the file ends inside it"));
            break;
        }
        let of_its_kind = if header.tag == Tag::Code {
            &mut contents.code_index
        } else {
            &mut contents.index
        };
        of_its_kind.push(IndexEntry {
            offset,
            accesses: header.accesses,
            controls: header.controls,
        });
        offset = body + u64::from(header.len);
    }
    contents.end = offset;
    Ok(contents)
}
