//! Blocks: the framing of a trace file. Each has a header of fixed size with its own checksum,
//! so that a file without an index can be scanned without reading payloads.

use std::io::{self, Read};

/// Kind of a block's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The metadata, as a JSON object of strings.
    Metadata,
    /// Accesses and control events.
    Chunk,
    /// Definitions of code.
    Code,
    /// Places of the chunks.
    Index,
}

impl Tag {
    fn bytes(self) -> [u8; 4] {
        match self {
            Tag::Metadata => *b"META",
            Tag::Chunk => *b"CHNK",
            Tag::Code => *b"CODE",
            Tag::Index => *b"INDX",
        }
    }

    fn from_bytes(bytes: [u8; 4]) -> Option<Tag> {
        [Tag::Metadata, Tag::Chunk, Tag::Code, Tag::Index]
            .into_iter()
            .find(|tag| tag.bytes() == bytes)
    }
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    pub tag: Tag,
    /// Bytes of payload after the header.
    pub len: u32,
    /// CRC-32 of the payload.
    pub checksum: u32,
    /// Accesses of a chunk, definitions of a block of code; in the index, how many of its entries
    /// are of such blocks.
    pub accesses: u32,
    /// Control events in the block; 0 unless it is a chunk.
    pub controls: u32,
}

impl BlockHeader {
    /// Bytes of a header.
    pub const BYTES: usize = 24;

    /// The header of a block with this payload. The payload is shorter than 4 GiB.
    pub fn of(tag: Tag, payload: &[u8], accesses: u32, controls: u32) -> BlockHeader {
        BlockHeader {
            tag,
            len: u32::try_from(payload.len()).expect("blocks are bounded by construction"),
            checksum: crc32fast::hash(payload),
            accesses,
            controls,
        }
    }

    /// The header as it stands in the file.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.tag.bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.accesses.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.controls.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header; `None` when the bytes are not one.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<BlockHeader> {
        if crc32fast::hash(&bytes[..20]) != le_u32(&bytes[20..]) {
            return None;
        }
        Some(BlockHeader {
            tag: Tag::from_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])?,
            len: le_u32(&bytes[4..]),
            checksum: le_u32(&bytes[8..]),
            accesses: le_u32(&bytes[12..]),
            controls: le_u32(&bytes[16..]),
        })
    }
}

/// Reads `len` bytes into `buffer`, which grows only as bytes arrive: a length from a damaged
/// header allocates nothing that the file does not hold. `false` when the input ends before.
pub fn read_up_to(input: &mut impl Read, len: u64, buffer: &mut Vec<u8>) -> io::Result<bool> {
    buffer.clear();
    Ok(input.take(len).read_to_end(buffer)? as u64 == len)
}

/// The little-endian number at the front of `bytes`, which holds at least four.
pub fn le_u32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The little-endian number at the front of `bytes`, which holds at least eight.
pub fn le_u64(bytes: &[u8]) -> u64 {
    u64::from(le_u32(bytes)) | u64::from(le_u32(&bytes[4..])) << 32
}
