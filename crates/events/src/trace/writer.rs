use super::block::{BlockHeader, Tag};
use super::chunk::ChunkEncoder;
use super::controls::Entry;
use super::{INDEX_ENTRY_BYTES, IndexEntry, MAGIC, MAX_METADATA, Metadata, TAIL};
use crate::{Batch, Control};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes a trace.
///
/// Takes batches of any size, of several processes, in the order of their events, and packs them
/// into chunks. Each chunk reaches the output whole, in one write: an output that is cut off
/// anywhere can be read up to its last whole chunk.
pub struct TraceWriter<W: Write> {
    output: W,
    chunk: ChunkEncoder,
    index: Vec<IndexEntry>,
    /// Bytes up to the end of the last whole chunk.
    written: u64,
    accesses: u64,
    /// The process and thread that the chunk has named last.
    process: Option<u32>,
    thread: Option<u32>,
    /// The thread that each process has named last.
    threads: HashMap<u32, u32>,
}

impl TraceWriter<File> {
    /// Creates the file, or empties it when it exists.
    ///
    /// # Errors
    /// When the system refuses; so do all methods that return [`io::Result`].
    pub fn create(path: impl AsRef<Path>, metadata: &Metadata) -> io::Result<Self> {
        Self::new(File::create(path)?, metadata)
    }

    /// Gives up after an error: cuts the file back to the last whole chunk, so that what was
    /// written before can be read.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn cut_back(self) -> io::Result<()> {
        self.output.set_len(self.written)
    }
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace. The output needs no buffering.
    ///
    /// # Errors
    /// When the output cannot be written, or the metadata exceed 1 MiB.
    pub fn new(output: W, metadata: &Metadata) -> io::Result<Self> {
        let mut writer = TraceWriter {
            output,
            chunk: ChunkEncoder::new()?,
            index: Vec::new(),
            written: 0,
            accesses: 0,
            process: None,
            thread: None,
            threads: HashMap::new(),
        };
        let json = serde_json::to_vec(&metadata.0)?;
        if json.len() > MAX_METADATA as usize {
            return Err(invalid("the metadata of a trace are limited to 1 MiB"));
        }
        writer.output.write_all(&MAGIC)?;
        writer.written = MAGIC.len() as u64;
        writer.write_block(Tag::Metadata, &json)?;
        Ok(writer)
    }

    /// Appends the events of a batch.
    ///
    /// # Errors
    /// When the output cannot be written (some of the batch may then be lost), or when the
    /// batch is not well formed: its columns differ in length or its control events are out of
    /// order (nothing of it is then written).
    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let len = batch.len();
        if batch.op.len() != len || batch.gap.len() != len || batch.dep.len() != len {
            return Err(invalid("the columns of the batch differ in length"));
        }
        let positions = batch.controls.iter().map(|&(at, _)| at as usize);
        if !positions.clone().is_sorted() || positions.clone().any(|at| at > len) {
            return Err(invalid("the control events of the batch are out of order"));
        }
        let mut done = 0;
        for &(at, control) in &batch.controls {
            self.write_accesses(batch, done, at as usize)?;
            done = at as usize;
            self.write_control(batch.process, control)?;
        }
        self.write_accesses(batch, done, len)
    }

    /// Accesses written so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Bytes up to the end of the last whole chunk: after an error, an output cut back to this
    /// length is a readable trace.
    pub fn whole_bytes(&self) -> u64 {
        self.written
    }

    /// Writes out the chunk being collected, however small. A trace takes more space when this
    /// is done often.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn flush_chunk(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let (header, block) = self.chunk.finish()?;
        self.process = None;
        self.thread = None;
        self.output.write_all(block)?;
        self.index.push(IndexEntry {
            offset: self.written,
            accesses: header.accesses,
            controls: header.controls,
        });
        self.written += block.len() as u64;
        Ok(())
    }

    /// Ends the trace with its index and returns the output.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.end()?;
        Ok(self.output)
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush_chunk()?;
        let mut payload = Vec::with_capacity(self.index.len() * INDEX_ENTRY_BYTES);
        for entry in &self.index {
            payload.extend_from_slice(&entry.offset.to_le_bytes());
            payload.extend_from_slice(&entry.accesses.to_le_bytes());
            payload.extend_from_slice(&entry.controls.to_le_bytes());
        }
        let offset = self.written.to_le_bytes();
        self.write_block(Tag::Index, &payload)?;
        self.output.write_all(&offset)?;
        self.output
            .write_all(&crc32fast::hash(&offset).to_le_bytes())?;
        self.output.write_all(&TAIL)?;
        self.output.flush()
    }

    fn write_block(&mut self, tag: Tag, payload: &[u8]) -> io::Result<()> {
        let header = BlockHeader::of(tag, payload, 0, 0).to_bytes();
        self.output.write_all(&header)?;
        self.output.write_all(payload)?;
        self.written += (header.len() + payload.len()) as u64;
        Ok(())
    }

    fn write_accesses(&mut self, batch: &Batch, mut from: usize, to: usize) -> io::Result<()> {
        while from < to {
            // Room for the access, and for naming its process and thread.
            if self.chunk.room() == 0 || self.chunk.control_room() < 2 {
                self.flush_chunk()?;
            }
            self.name_process(batch.process);
            let thread = self.threads.get(&batch.process).copied();
            self.name_thread(thread.unwrap_or(0));
            let until = to.min(from + self.chunk.room());
            self.chunk.push(batch, from..until);
            self.accesses += (until - from) as u64;
            from = until;
        }
        Ok(())
    }

    fn write_control(&mut self, process: u32, control: Control) -> io::Result<()> {
        // The thread is named before the next event that it makes.
        if let Control::Thread { thread } = control {
            self.threads.insert(process, thread);
            return Ok(());
        }
        if self.chunk.control_room() < 3 {
            self.flush_chunk()?;
        }
        self.name_process(process);
        if let Some(&thread) = self.threads.get(&process) {
            self.name_thread(thread);
        }
        self.chunk.push_control(Entry::Event(control));
        Ok(())
    }

    fn name_process(&mut self, process: u32) {
        if self.process != Some(process) {
            self.chunk.push_control(Entry::Process(process));
            self.process = Some(process);
            self.thread = None;
        }
    }

    fn name_thread(&mut self, thread: u32) {
        if self.thread != Some(thread) {
            self.chunk
                .push_control(Entry::Event(Control::Thread { thread }));
            self.thread = Some(thread);
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
