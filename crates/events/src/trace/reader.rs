use super::accesses::BATCH;
use super::block::{BlockHeader, Tag, read_up_to};
use super::chunk::{ChunkDecoder, MAX_PAYLOAD};
use super::contents::{Contents, read_header, read_index, read_metadata, scan};
use super::controls::Entry;
use super::{IndexEntry, MAGIC, Metadata, NO_DEFINITION, definitions};
use crate::{Batch, CodeTable, Control, Definition, Flow, Source, SourceError};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Reads a trace.
///
/// A file without an index (its writer was killed, or the disk was full) is scanned when it is
/// opened, and read up to its last whole chunk; if it ends inside a chunk, an error that says so
/// comes after the last batch.
pub struct TraceReader<R = File> {
    input: R,
    name: String,
    metadata: Metadata,
    version: u32,
    index: Vec<IndexEntry>,
    /// Places of definitions of code, and how many of these blocks have been read.
    code_index: Vec<IndexEntry>,
    code_read: usize,
    /// The names after the last chunk have been read.
    names_read: bool,
    table: CodeTable,
    /// Definitions that go with the next batch.
    defined: Vec<Definition>,
    complete: bool,
    /// Damage that ends a scanned file before its time, and where.
    damage: Option<(u64, &'static str)>,
    chunk: ChunkDecoder,
    payload: Vec<u8>,
    /// The chunk to load next.
    next_chunk: usize,
    /// Accesses of the loaded chunk, how many were yielded, and control entries yielded.
    accesses: usize,
    at: usize,
    control_at: usize,
    process: Option<u32>,
    thread: Option<u32>,
    /// Entries of its flow yielded, and the thread whose the next one is.
    flow_at: usize,
    flow_of: u32,
    /// Accesses in the chunks not loaded yet.
    later: u64,
    /// Place behind the last whole block that is known, in a file without an index.
    end: u64,
}

impl TraceReader<File> {
    /// True while the file's writer has it.
    pub(super) fn is_being_written(&self) -> bool {
        // A file system without locks has no answer.
        match self.input.try_lock_shared() {
            Ok(()) => {
                let _ = self.input.unlock();
                false
            }
            Err(error) => matches!(error, TryLockError::WouldBlock),
        }
    }

    /// Opens a trace file.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a trace.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SourceError> {
        let name = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => TraceReader::new(file, name),
            Err(error) => Err(SourceError::Io { name, error }),
        }
    }

    /// True if a file that starts with these bytes is a trace, of this or another version.
    pub fn recognises(head: &[u8]) -> bool {
        head.starts_with(&MAGIC)
    }

    /// True for a file of pagelab's own format. False for a pipe: opening it would take what another reads from it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn is_file(path: impl AsRef<Path>) -> Result<bool, SourceError> {
        let path = path.as_ref();
        let head = || {
            let mut head = Vec::new();
            if std::fs::metadata(path)?.is_file() {
                let file = File::open(path)?;
                file.take(MAGIC.len() as u64).read_to_end(&mut head)?;
            }
            Ok(head)
        };
        let head = head().map_err(|error| SourceError::Io {
            name: path.display().to_string(),
            error,
        })?;
        Ok(TraceReader::recognises(&head))
    }
}

impl<R: Read + Seek> TraceReader<R> {
    /// Reads a trace from anything that can seek. `name` stands in error messages.
    ///
    /// # Errors
    /// When it cannot be read, or is not a trace.
    pub fn new(mut input: R, name: impl Into<String>) -> Result<Self, SourceError> {
        let name = name.into();
        let io = |error| SourceError::Io {
            name: name.clone(),
            error,
        };
        let size = input.seek(SeekFrom::End(0)).map_err(io)?;
        input.rewind().map_err(io)?;
        let mut buffer = Vec::new();
        let (version, metadata) = read_metadata(&mut input, &mut buffer)
            .map_err(io)?
            .map_err(|what| SourceError::Corrupt {
                name: name.clone(),
                what,
            })?;
        let first = input.stream_position().map_err(io)?;
        let index = read_index(&mut input, first, size, &mut buffer).map_err(io)?;
        let complete = index.is_some();
        let Contents {
            index,
            code_index,
            damage,
            end,
            ..
        } = match index {
            Some(index) => index,
            None => scan(&mut input, first, size).map_err(io)?,
        };
        let chunk = ChunkDecoder::new().map_err(io)?;
        let mut reader = TraceReader {
            input,
            name,
            metadata,
            version,
            index,
            code_index,
            code_read: 0,
            names_read: false,
            table: CodeTable::default(),
            defined: Vec::new(),
            complete,
            damage,
            chunk,
            payload: buffer,
            next_chunk: 0,
            accesses: 0,
            at: 0,
            control_at: 0,
            process: None,
            thread: None,
            flow_at: 0,
            flow_of: 0,
            later: 0,
            end,
        };
        reader.seek_chunk(0);
        Ok(reader)
    }

    /// Statements of the trace about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// True if the file has its index, as it does when the writer finished. Otherwise the end of
    /// the recording is missing.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Accesses in all whole chunks.
    pub fn accesses(&self) -> u64 {
        accesses_of(&self.index)
    }

    /// Number of whole chunks.
    pub fn chunks(&self) -> usize {
        self.index.len()
    }

    /// The headers of all chunks and definitions, each with the checksum of what follows it: two
    /// traces that have the same ones have the same events.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn headers(&mut self) -> io::Result<Vec<u8>> {
        let mut headers = Vec::new();
        for entry in self.code_index.iter().chain(&self.index) {
            let mut header = [0; BlockHeader::BYTES];
            self.input.seek(SeekFrom::Start(entry.offset))?;
            self.input.read_exact(&mut header)?;
            headers.extend(header);
        }
        Ok(headers)
    }

    /// Goes on with the first batch of a chunk; with the end for a chunk past the last.
    pub fn seek_chunk(&mut self, chunk: usize) {
        self.next_chunk = chunk.min(self.index.len());
        self.later = accesses_of(&self.index[self.next_chunk..]);
        self.accesses = 0;
        self.at = 0;
        self.control_at = 0;
        self.chunk.controls.clear();
        self.flow_at = 0;
        self.chunk.code.start_without();
    }

    /// Loads the next chunk; `false` when there is none.
    fn load(&mut self) -> Result<bool, SourceError> {
        let Some(&entry) = self.index.get(self.next_chunk) else {
            return match self.damage {
                None => Ok(false),
                Some((offset, what)) => Err(self.corrupt(offset, what)),
            };
        };
        self.read_names()?;
        while let Some(&code) = self.code_index.get(self.code_read)
            && code.offset < entry.offset
        {
            let read = self.read_definitions(code, |_| true);
            self.found(read, code.offset)?;
            self.code_read += 1;
        }
        let read = self.read_chunk(entry);
        self.found(read, entry.offset)?;
        self.next_chunk += 1;
        self.later -= u64::from(entry.accesses);
        self.accesses = entry.accesses as usize;
        self.at = 0;
        self.control_at = 0;
        self.process = None;
        self.thread = None;
        self.flow_at = 0;
        Ok(true)
    }

    /// Reads the names, which stand after the last chunk: whoever reads a part of a trace wants them too.
    /// A file without its index was not finished: what is after its last chunk may be damaged.
    fn read_names(&mut self) -> Result<(), SourceError> {
        if self.names_read || !self.complete {
            return Ok(());
        }
        self.names_read = true;
        let end = self.index.last().map_or(0, |chunk| chunk.offset);
        let first = (self.code_index).partition_point(|code| code.offset < end);
        for at in first..self.code_index.len() {
            let code = self.code_index[at];
            let read = self.read_definitions(code, Definition::is_name);
            self.found(read, code.offset)?;
        }
        Ok(())
    }

    /// Takes in what has been written since the file was opened without an index, or looked at last. What it ends with
    /// is damage only if its writing has `ended`.
    pub(super) fn look_further(&mut self, ended: bool) -> Result<(), SourceError> {
        let size = self.input.seek(SeekFrom::End(0));
        let found = size.and_then(|size| scan(&mut self.input, self.end, size));
        let found = found.map_err(|error| SourceError::Io {
            name: self.name.clone(),
            error,
        })?;
        self.later += accesses_of(&found.index);
        self.index.extend(found.index);
        self.code_index.extend(found.code_index);
        self.damage = found.damage.filter(|_| ended);
        self.complete = found.has_index;
        self.end = found.end;
        Ok(())
    }

    /// True if there is a chunk that has not been loaded.
    pub(super) fn has_chunk(&self) -> bool {
        self.next_chunk < self.index.len()
    }

    /// The names behind the last chunk, unless they have come before.
    pub(super) fn rest_of_names(&mut self) -> Result<Vec<Definition>, SourceError> {
        self.read_names()?;
        Ok(std::mem::take(&mut self.defined))
    }

    /// Turns what came of reading the block at `offset` into the caller's error.
    fn found(
        &self,
        read: io::Result<Result<(), &'static str>>,
        offset: u64,
    ) -> Result<(), SourceError> {
        match read {
            Ok(Ok(())) => Ok(()),
            Ok(Err(what)) => Err(self.corrupt(offset, what)),
            Err(error) => {
                let name = self.name.clone();
                Err(SourceError::Io { name, error })
            }
        }
    }

    fn read_definitions(
        &mut self,
        entry: IndexEntry,
        wanted: fn(&Definition) -> bool,
    ) -> io::Result<Result<(), &'static str>> {
        let header = match self.read_block(entry, Tag::Code)? {
            Ok(header) if header.controls == 0 => header,
            Ok(_) => return Ok(Err("definitions have no control events")),
            Err(what) => return Ok(Err(what)),
        };
        let definitions = match definitions::read(&self.payload, header.accesses) {
            Ok(definitions) => definitions,
            Err(what) => return Ok(Err(what)),
        };
        for definition in definitions.into_iter().filter(wanted) {
            if !self.table.define(definition.clone()) {
                return Ok(Err(NO_DEFINITION));
            }
            self.defined.push(definition);
        }
        Ok(Ok(()))
    }

    fn read_chunk(&mut self, entry: IndexEntry) -> io::Result<Result<(), &'static str>> {
        let header = match self.read_block(entry, Tag::Chunk)? {
            Ok(header) => header,
            Err(what) => return Ok(Err(what)),
        };
        Ok((self.chunk).start(&header, &self.payload, self.version, &self.table))
    }

    /// Reads the payload of the block that the index speaks of.
    fn read_block(
        &mut self,
        entry: IndexEntry,
        tag: Tag,
    ) -> io::Result<Result<BlockHeader, &'static str>> {
        self.input.seek(SeekFrom::Start(entry.offset))?;
        let header = match read_header(&mut self.input)? {
            Some(header) if header.tag == tag && header.len <= MAX_PAYLOAD => header,
            _ => return Ok(Err("this is no chunk; the file was damaged")),
        };
        if (header.accesses, header.controls) != (entry.accesses, entry.controls) {
            return Ok(Err("its header disagrees with the index"));
        }
        if !read_up_to(&mut self.input, u64::from(header.len), &mut self.payload)? {
            return Ok(Err("the file ends inside it"));
        }
        if crc32fast::hash(&self.payload) != header.checksum {
            return Ok(Err("its checksum is wrong; the file was damaged"));
        }
        Ok(Ok(header))
    }

    fn corrupt(&self, offset: u64, what: &str) -> SourceError {
        SourceError::Corrupt {
            name: format!(
                "{}: chunk {} at byte {offset}",
                self.name,
                self.next_chunk.min(self.index.len())
            ),
            what: what.to_owned(),
        }
    }

    /// Fills the batch from the loaded chunk: events of one process, up to a whole batch.
    fn fill(&mut self, batch: &mut Batch) -> Result<(), &'static str> {
        let first = self.at;
        self.fill_events(batch)?;
        self.take_flow(batch, first);
        self.chunk.decode(self.at - first, batch);
        Ok(())
    }

    /// Moves what the batch's process has executed up to here into the batch, whose first access is this one.
    fn take_flow(&mut self, batch: &mut Batch, first: usize) {
        let entries = &self.chunk.code.entries;
        let placed = entries.all();
        let end = placed.partition_point(|entry| entry.at as usize <= self.at);
        while self.flow_at < end {
            let goes = entries.next_thread(self.flow_at);
            let goes = goes.filter(|goes| (goes.entry as usize) < end);
            let until = goes.map_or(end, |goes| goes.entry as usize);
            let here = |at: u32| (at as usize).saturating_sub(first) as u32;
            if self.flow_at < until {
                if batch.flow.is_empty() {
                    batch.flow.push((0, Flow::Thread(self.flow_of)));
                }
                let blocks = placed[self.flow_at..until].iter();
                (batch.flow).extend(blocks.map(|entry| (here(entry.at), entry.executes())));
                self.flow_at = until;
            }
            let Some(goes) = goes else {
                break;
            };
            if goes.process != batch.process {
                break;
            }
            let at = here(placed[until].at);
            if batch.flow.is_empty() && at > 0 {
                batch.flow.push((0, Flow::Thread(self.flow_of)));
            }
            self.flow_of = goes.thread;
            batch.flow.push((at, Flow::Thread(goes.thread)));
            self.flow_at += 1;
        }
        // The accesses' sites are part of a flow, perhaps of one that began before them.
        if batch.flow.is_empty() && self.at > first && self.chunk.code.has_flow() {
            batch.flow.push((0, Flow::Thread(self.flow_of)));
        }
    }

    /// All but what the columns of accesses hold and the flow.
    fn fill_events(&mut self, batch: &mut Batch) -> Result<(), &'static str> {
        let first = self.at;
        if let (Some(process), Some(thread)) = (self.process, self.thread) {
            batch.process = process;
            batch.controls.push((0, Control::Thread { thread }));
        }
        loop {
            let next = self.chunk.controls.get(self.control_at).copied();
            let until = next.map_or(self.accesses, |(at, _)| at as usize);
            let count = (until - self.at).min(first + BATCH - self.at);
            if count > 0 {
                if self.thread.is_none() {
                    return Err("an access comes before the name of its process and thread");
                }
                self.at += count;
            }
            if self.at < until {
                return Ok(());
            }
            let Some((_, entry)) = next else {
                return Ok(());
            };
            let accesses = self.at - first;
            match entry {
                Entry::Process(process) => {
                    if self.process.is_some() {
                        self.take_flow(batch, first);
                    }
                    if accesses > 0 || holds_more_than_a_name(batch) {
                        return Ok(());
                    }
                    batch.clear_events();
                    batch.process = process;
                    self.process = Some(process);
                    self.thread = None;
                }
                Entry::Event(_) if self.process.is_none() => {
                    return Err("an event comes before the name of its process");
                }
                Entry::Event(Control::Thread { thread }) => {
                    if accesses == 0 && !holds_more_than_a_name(batch) {
                        batch.controls.clear();
                    } else if self.thread.is_none() {
                        // Every batch that holds an access starts with a thread.
                        return Ok(());
                    }
                    self.thread = Some(thread);
                    (batch.controls).push((accesses as u32, Control::Thread { thread }));
                }
                Entry::Event(control) => batch.controls.push((accesses as u32, control)),
                // It belongs to the access that follows, in the same batch.
                Entry::Mispredicted(_) if accesses == BATCH => return Ok(()),
                Entry::Mispredicted(_) if self.at == self.accesses || self.thread.is_none() => {
                    return Err("a mispredicted branch comes before no access");
                }
                Entry::Mispredicted(branch) => batch.mispredicted.push((accesses as u32, branch)),
            }
            self.control_at += 1;
        }
    }

    fn read_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        loop {
            batch.clear_events();
            while self.at == self.accesses && self.control_at == self.chunk.controls.len() {
                if !self.load()? {
                    return Ok(false);
                }
            }
            if let Err(what) = self.fill(batch) {
                self.next_chunk -= 1;
                let error = self.corrupt(self.index[self.next_chunk].offset, what);
                self.seek_chunk(self.index.len());
                return Err(error);
            }
            if !batch.addr.is_empty() || holds_more_than_a_name(batch) {
                batch.definitions.append(&mut self.defined);
                return Ok(true);
            }
        }
    }
}

impl<R: Read + Seek> Source for TraceReader<R> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let read = self.read_batch(batch);
        if !matches!(read, Ok(true)) {
            batch.clear();
        }
        read
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.later + (self.accesses - self.at) as u64)
    }

    fn has_code(&self) -> bool {
        !self.code_index.is_empty()
    }
}

/// True if the batch holds, beside accesses, anything but the name of the thread.
fn holds_more_than_a_name(batch: &Batch) -> bool {
    !matches!(batch.controls[..], [] | [(_, Control::Thread { .. })])
        || !matches!(batch.flow[..], [] | [(_, Flow::Thread(_))])
}

fn accesses_of(index: &[IndexEntry]) -> u64 {
    index.iter().map(|entry| u64::from(entry.accesses)).sum()
}
