//! The file of words: a header, then frames, each compressed, with checksums. docs/record.md, "Afterwards".
//!
//! A frame has a tag, the bytes that follow, their checksum, and a checksum of these three. What follows is
//! four streams (events, codes, values, messages), each with the bytes it has and the bytes it is stored in. A
//! file that ends within a frame ends before it.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use super::codec::{Damaged, Streams};

/// Begin of a file, before the version of the format, a 32-bit number.
const MAGIC: [u8; 8] = *b"pgwords\n";
const VERSION: u32 = 2;

const HEAD: [u8; 4] = *b"HEAD";
const WORDS: [u8; 4] = *b"WRDS";

/// Tag, length, checksum of what follows, checksum of these.
const FRAME_HEADER: usize = 16;
/// No frame is longer, as it is stored, nor any of its streams when it is read.
const MOST: u32 = 64 << 20;
/// A stream that is stored as it is, or compressed at this level.
const LEVEL: i32 = 1;
/// Streams of a frame.
const STREAMS: usize = 4;

/// Frames on their way to the file at most.
const QUEUE: usize = 8;

/// Contents of a frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) events: Vec<u8>,
    pub(crate) streams: Streams,
}

impl Frame {
    pub(crate) fn len(&self) -> usize {
        self.events.len() + self.streams.len()
    }

    fn clear(&mut self) {
        self.events.clear();
        self.streams.clear();
    }
}

/// Writes frames, on a thread of its own.
pub(crate) struct FrameWriter {
    full: Option<SyncSender<Frame>>,
    empty: Receiver<Frame>,
    writer: Option<JoinHandle<io::Result<u64>>>,
}

impl FrameWriter {
    /// Writes a header to a file that is empty, and takes it back.
    pub(crate) fn try_out(mut file: &File, header: &[u8]) -> io::Result<()> {
        file.write_all(&framed(HEAD, header))?;
        file.set_len(0)?;
        file.rewind()
    }

    /// Starts a file with this header.
    pub(crate) fn new(mut file: File, header: &[u8]) -> io::Result<FrameWriter> {
        file.write_all(&MAGIC)?;
        file.write_all(&VERSION.to_le_bytes())?;
        file.write_all(&framed(HEAD, header))?;
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        let (full, frames) = sync_channel::<Frame>(QUEUE);
        let (spare, empty): (Sender<Frame>, _) = channel();
        let writer = std::thread::spawn(move || {
            for mut frame in frames {
                let whole = file.stream_position()?;
                let written = compressed(&frame, &mut compressor)
                    .and_then(|payload| file.write_all(&framed(WORDS, &payload)));
                if let Err(error) = written {
                    // The frames before can be read. A device cannot be cut back; the first error counts.
                    let _ = file.set_len(whole);
                    return Err(error);
                }
                frame.clear();
                // Nobody wants it any more at the end.
                let _ = spare.send(frame);
            }
            file.stream_position()
        });
        Ok(FrameWriter {
            full: Some(full),
            empty,
            writer: Some(writer),
        })
    }

    /// Writes a frame; returns an empty one.
    pub(crate) fn write(&mut self, frame: Frame) -> io::Result<Frame> {
        match &self.full {
            Some(full) if full.send(frame).is_ok() => Ok(self.empty.try_recv().unwrap_or_default()),
            _ => Err(self.close().err().unwrap_or_else(stopped)),
        }
    }

    /// Waits until everything is written; returns the bytes of the file.
    pub(crate) fn close(&mut self) -> io::Result<u64> {
        self.full = None;
        let writer = self.writer.take().ok_or_else(stopped)?;
        writer.join().map_err(|_| stopped())?
    }
}

fn stopped() -> io::Error {
    io::Error::other("the writer has stopped")
}

fn framed(tag: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FRAME_HEADER + payload.len());
    bytes.extend(tag);
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes.extend(payload);
    bytes
}

fn compressed(frame: &Frame, compressor: &mut zstd::bulk::Compressor<'_>) -> io::Result<Vec<u8>> {
    let Streams {
        codes,
        values,
        messages,
    } = &frame.streams;
    let streams: [&[u8]; STREAMS] = [&frame.events, codes.written(), values.written(), messages];
    let mut payload = Vec::new();
    for stream in streams {
        let stored = compressor.compress(stream)?;
        let stored = if stored.len() < stream.len() {
            &stored
        } else {
            stream
        };
        payload.extend((stream.len() as u32).to_le_bytes());
        payload.extend((stored.len() as u32).to_le_bytes());
        payload.extend(stored);
    }
    Ok(payload)
}

/// A frame that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) events: Vec<u8>,
    pub(crate) codes: Vec<u8>,
    pub(crate) values: Vec<u8>,
    pub(crate) messages: Vec<u8>,
}

/// Reason for which a file of words is not read, or not further.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It ends there, within a frame.
    Short,
    /// The contents contradict themselves.
    Damaged,
    /// It is none, or another version's.
    Other(&'static str),
    System(io::Error),
}

impl From<Damaged> for Unread {
    fn from(Damaged: Damaged) -> Unread {
        Unread::Damaged
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Unread::Short
        } else {
            Unread::System(error)
        }
    }
}

/// Reads frames.
pub(crate) struct FrameReader<R> {
    input: R,
    read: u64,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl<R: Read> FrameReader<R> {
    /// A reader, and the header.
    pub(crate) fn new(mut input: R) -> Result<(FrameReader<R>, Vec<u8>), Unread> {
        const NONE: Unread = Unread::Other("it holds no recorded words");
        let mut start = [0; MAGIC.len() + size_of::<u32>()];
        input
            .read_exact(&mut start)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => NONE,
                _ => Unread::System(error),
            })?;
        let (magic, version) = start.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(NONE);
        }
        if le_u32(version) != VERSION {
            return Err(Unread::Other("another version of pagelab has written it"));
        }
        let mut reader = FrameReader {
            input,
            read: start.len() as u64,
            decompressor: zstd::bulk::Decompressor::new()?,
        };
        let header = reader.frame(HEAD)?.ok_or(Unread::Short)?;
        Ok((reader, header))
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.read
    }

    /// The next frame; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Parts>, Unread> {
        let Some(payload) = self.frame(WORDS)? else {
            return Ok(None);
        };
        let mut rest = payload.as_slice();
        let [events, codes, values, messages] = [(); STREAMS].map(|()| self.stream(&mut rest));
        let parts = Parts {
            events: events?,
            codes: codes?,
            values: values?,
            messages: messages?,
        };
        if rest.is_empty() {
            Ok(Some(parts))
        } else {
            Err(Unread::Damaged)
        }
    }

    fn stream(&mut self, rest: &mut &[u8]) -> Result<Vec<u8>, Unread> {
        let (sizes, behind) = rest.split_at_checked(8).ok_or(Damaged)?;
        let [raw, stored] = [le_u32(sizes), le_u32(&sizes[4..])];
        let (stored, behind) = behind.split_at_checked(stored as usize).ok_or(Damaged)?;
        *rest = behind;
        if stored.len() == raw as usize {
            return Ok(stored.to_vec());
        }
        if raw > MOST {
            return Err(Unread::Damaged);
        }
        let stream = self.decompressor.decompress(stored, raw as usize);
        let stream = stream.map_err(|_| Damaged)?;
        if stream.len() == raw as usize {
            Ok(stream)
        } else {
            Err(Unread::Damaged)
        }
    }

    fn frame(&mut self, tag: [u8; 4]) -> Result<Option<Vec<u8>>, Unread> {
        let mut header = Vec::new();
        (&mut self.input)
            .take(FRAME_HEADER as u64)
            .read_to_end(&mut header)?;
        if header.is_empty() {
            return Ok(None);
        }
        let header: [u8; FRAME_HEADER] = header.try_into().map_err(|_| Unread::Short)?;
        let [length, checksum, own] = [4, 8, 12].map(|at| le_u32(&header[at..]));
        if crc32fast::hash(&header[..12]) != own || header[..4] != tag || length > MOST {
            return Err(Unread::Damaged);
        }
        let mut payload = Vec::new();
        (&mut self.input)
            .take(length.into())
            .read_to_end(&mut payload)?;
        if payload.len() < length as usize {
            return Err(Unread::Short);
        }
        if crc32fast::hash(&payload) != checksum {
            return Err(Unread::Damaged);
        }
        self.read += (FRAME_HEADER + payload.len()) as u64;
        Ok(Some(payload))
    }
}

fn le_u32(bytes: &[u8]) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[..4]);
    u32::from_le_bytes(number)
}
