use super::block::{BlockHeader, Tag};
use super::chunk::ChunkEncoder;
use super::code::Symbol;
use super::controls::Entry;
use super::definitions::Definitions;
use super::{
    INDEX_ENTRY_BYTES, IndexEntry, MAGIC, MAX_METADATA, Metadata, NO_DEFINITION, TAIL, VERSION,
};
use crate::{Batch, CodeTable, Control, Definition, Flow};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
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
    /// Definitions so far, those not written yet, and the places of their blocks.
    table: CodeTable,
    definitions: Definitions,
    /// Names of code that the program has made, which stand after the last chunk.
    names: Vec<Definition>,
    code_index: Vec<IndexEntry>,
    /// The process and thread whose flow it is. `None` as long as there was no code.
    flow_of: Option<(u32, u32)>,
    /// Bytes up to the end of the last whole chunk.
    written: u64,
    accesses: u64,
    /// The process and thread that the chunk has named last.
    process: Option<u32>,
    thread: Option<u32>,
    /// The thread that each process has named last, and that of the process whose batch is written.
    threads: HashMap<u32, u32>,
    running: u32,
}

impl TraceWriter<File> {
    /// Creates the file, or empties it when it exists. It stays locked until the trace has ended, for who follows it.
    ///
    /// # Errors
    /// When the system refuses; so do all methods that return [`io::Result`].
    pub fn create(path: impl AsRef<Path>, metadata: &Metadata) -> io::Result<Self> {
        let file = File::create(path)?;
        // Not to be had on some file systems, and not needed to write.
        let _ = file.try_lock();
        Self::new(file, metadata)
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
            table: CodeTable::default(),
            definitions: Definitions::new()?,
            names: Vec::new(),
            code_index: Vec::new(),
            flow_of: None,
            written: 0,
            accesses: 0,
            process: None,
            thread: None,
            threads: HashMap::new(),
            running: 0,
        };
        let json = serde_json::to_vec(&metadata.0)?;
        if json.len() > MAX_METADATA as usize {
            return Err(invalid("the metadata of a trace are limited to 1 MiB"));
        }
        writer.output.write_all(&MAGIC)?;
        writer.output.write_all(&VERSION.to_le_bytes())?;
        writer.written = (MAGIC.len() + size_of_val(&VERSION)) as u64;
        writer.write_block(Tag::Metadata, &json, 0)?;
        Ok(writer)
    }

    /// Appends the events of a batch.
    ///
    /// # Errors
    /// When the output cannot be written (some of the batch may then be lost), or when the
    /// batch is not well formed: its columns differ in length or its control events are out of
    /// order (nothing of it is then written).
    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let highest = check(batch)?;
        self.chunk.start_batch();
        for definition in &batch.definitions {
            self.define(definition)?;
        }
        if !batch.definitions.is_empty() {
            self.chunk.define(&self.table);
        }
        if let Some(block) = highest.filter(|&block| block as usize >= self.table.blocks().len()) {
            return Err(invalid(&format!(
                "block {block} of the batch was not defined"
            )));
        }
        let running = self.threads.get(&batch.process).copied();
        self.running = running.unwrap_or(0);
        if self.flow_of.is_none() && !batch.flow.is_empty() {
            // A chunk has the sites of all its accesses, or none.
            self.flush_chunk()?;
            self.flow_of = Some((batch.process, 0));
        }
        let mut flow = batch.flow.as_slice();
        let mut done = 0;
        for &(at, control) in &batch.controls {
            self.write_thread(batch, done..at as usize, &mut flow)?;
            done = at as usize;
            self.write_control(batch.process, control)?;
        }
        self.write_thread(batch, done..batch.len(), &mut flow)?;
        for &(_, entry) in flow {
            self.write_flow(batch.process, entry)?;
        }
        Ok(())
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
        self.flush_definitions()?;
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
        for name in std::mem::take(&mut self.names) {
            if self.definitions.push(&name)? {
                self.flush_definitions()?;
            }
        }
        self.flush_definitions()?;
        let entries = self.index.len() + self.code_index.len();
        let mut payload = Vec::with_capacity(entries * INDEX_ENTRY_BYTES);
        for entry in self.index.iter().chain(&self.code_index) {
            payload.extend_from_slice(&entry.offset.to_le_bytes());
            payload.extend_from_slice(&entry.accesses.to_le_bytes());
            payload.extend_from_slice(&entry.controls.to_le_bytes());
        }
        let offset = self.written.to_le_bytes();
        self.write_block(Tag::Index, &payload, self.code_index.len() as u32)?;
        self.output.write_all(&offset)?;
        self.output
            .write_all(&crc32fast::hash(&offset).to_le_bytes())?;
        self.output.write_all(&TAIL)?;
        self.output.flush()
    }

    fn define(&mut self, definition: &Definition) -> io::Result<()> {
        if !self.table.define(definition.clone()) {
            return Err(invalid(NO_DEFINITION));
        }
        if definition.is_name() && !matches!(definition, Definition::Mapping { .. }) {
            self.names.push(definition.clone());
        } else if self.definitions.push(definition)? {
            self.flush_definitions()?;
        }
        Ok(())
    }

    /// Writes the definitions that have not been written: they stand before what refers to them.
    fn flush_definitions(&mut self) -> io::Result<()> {
        let Some((count, payload)) = self.definitions.finish()? else {
            return Ok(());
        };
        self.code_index.push(IndexEntry {
            offset: self.written,
            accesses: count,
            controls: 0,
        });
        self.write_block(Tag::Code, &payload, count)
    }

    fn write_block(&mut self, tag: Tag, payload: &[u8], entries: u32) -> io::Result<()> {
        let header = BlockHeader::of(tag, payload, entries, 0).to_bytes();
        self.output.write_all(&header)?;
        self.output.write_all(payload)?;
        self.written += (header.len() + payload.len()) as u64;
        Ok(())
    }

    /// Writes accesses between two control events, with the mispredicted branches among them.
    fn write_thread(
        &mut self,
        batch: &Batch,
        accesses: Range<usize>,
        flow: &mut &[(u32, Flow)],
    ) -> io::Result<()> {
        let mut done = accesses.start;
        let branches = batch.mispredicted_in(accesses.clone());
        for branches in branches.chunk_by(|one, next| one.0 == next.0) {
            let at = branches[0].0;
            self.write_accesses(batch, done, at as usize, flow)?;
            done = at as usize;
            // Their access has to follow in the same chunk: what is executed before it may fill one. The
            // last of it is what makes the access, and is written with it.
            while let &[(_, entry), (next, _), ..] = *flow
                && next <= at
            {
                self.write_flow(batch.process, entry)?;
                *flow = &flow[1..];
            }
            // Names of a process and a thread may come before them and before the access.
            let controls = branches.len() + 4;
            // In the flow, too, and for another entry.
            let full = self.chunk.room() == 0 || self.chunk.flow_room() < 4;
            if full || self.chunk.control_room() < controls {
                self.flush_chunk()?;
            }
            self.name_process(batch.process);
            self.name_thread(self.running);
            for &(_, branch) in branches {
                self.chunk.push_control(Entry::Mispredicted(branch));
            }
        }
        self.write_accesses(batch, done, accesses.end, flow)
    }

    /// Writes accesses, and what of the flow comes before the last of them.
    fn write_accesses(
        &mut self,
        batch: &Batch,
        mut from: usize,
        to: usize,
        flow: &mut &[(u32, Flow)],
    ) -> io::Result<()> {
        while from < to {
            // Room for the access, for naming its process and thread, and theirs in the flow.
            if self.chunk.room() == 0 || self.chunk.control_room() < 2 || self.chunk.flow_room() < 2
            {
                self.flush_chunk()?;
            }
            self.name_process(batch.process);
            let thread = self.running;
            self.name_thread(thread);
            let mut until = to.min(from + self.chunk.room());
            if self.flow_of.is_some() {
                // As far as the flow has room.
                if let Some(&(at, _)) = flow.get(self.chunk.flow_room() - 2) {
                    until = until.min(at as usize);
                }
                self.write_code(batch, from, until, thread, flow);
            } else {
                self.chunk.push(batch, from..until);
            }
            if until == from {
                self.flush_chunk()?;
            }
            self.accesses += (until - from) as u64;
            from = until;
        }
        Ok(())
    }

    /// Writes the flow from access `from` on to before access `until`, and those accesses.
    fn write_code(
        &mut self,
        batch: &Batch,
        from: usize,
        until: usize,
        thread: u32,
        flow: &mut &[(u32, Flow)],
    ) {
        if batch.site.is_empty() {
            self.name_flow(batch.process, thread);
            self.chunk.push_with_code(batch, from..until);
            return;
        }
        let mut done = from;
        while let Some((&(at, entry), later)) = flow.split_first() {
            let at = at as usize;
            // A block ends what was before, the name of a thread that goes on anyway does not.
            if at == done && matches!(entry, Flow::Block(_)) && self.chunk.has_code() {
                let usual = self.chunk.push_usual(batch, flow, until);
                if usual > 0 {
                    *flow = &flow[usual..];
                    done = flow[0].0 as usize;
                    continue;
                }
            }
            // With no room for accesses, as much as there is room for.
            if at > until || at == until && (until > from || self.chunk.flow_room() < 2) {
                break;
            }
            self.push_with_code(batch, done..at);
            done = at;
            self.push_flow(batch.process, entry);
            *flow = later;
        }
        if until > done {
            let (process, thread) = self.flow_of.unwrap_or((batch.process, thread));
            self.name_flow(process, thread);
        }
        self.push_with_code(batch, done..until);
    }

    fn push_with_code(&mut self, batch: &Batch, range: Range<usize>) {
        if !range.is_empty() {
            self.chunk.push_with_code(batch, range);
        }
    }

    /// Writes an entry after the last access of a batch.
    fn write_flow(&mut self, process: u32, entry: Flow) -> io::Result<()> {
        if self.chunk.flow_room() < 2 || self.chunk.control_room() < 1 {
            self.flush_chunk()?;
        }
        self.push_flow(process, entry);
        Ok(())
    }

    #[inline]
    fn push_flow(&mut self, process: u32, entry: Flow) {
        match entry {
            Flow::Thread(thread) => self.name_flow(process, thread),
            Flow::Block(_) => {
                let (process, thread) = self.flow_of.unwrap_or((process, 0));
                self.name_flow(process, thread);
                self.chunk.push_flow(Symbol::of(entry, process));
            }
        }
    }

    /// Says whose flow follows, unless the chunk has just said so.
    #[inline]
    fn name_flow(&mut self, process: u32, thread: u32) {
        if self.flow_of != Some((process, thread)) || !self.chunk.has_code() {
            self.flow_of = Some((process, thread));
            // A reader splits its batches there.
            self.name_process(process);
            let symbol = Symbol::Thread { process, thread };
            self.chunk.push_flow(symbol);
        }
    }

    fn write_control(&mut self, process: u32, control: Control) -> io::Result<()> {
        // The thread is named before the next event that it makes.
        if let Control::Thread { thread } = control {
            self.threads.insert(process, thread);
            self.running = thread;
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

/// Refuses a batch that is not well formed; returns the highest block that it executes, if it
/// executes any.
fn check(batch: &Batch) -> io::Result<Option<u32>> {
    let len = batch.len();
    let known = batch.site.is_empty() || batch.site.len() == len;
    if batch.op.len() != len || batch.gap.len() != len || batch.dep.len() != len || !known {
        return Err(invalid("the columns of the batch differ in length"));
    }
    fn in_order<T>(entries: &[(u32, T)], len: usize) -> bool {
        entries.is_sorted_by_key(|&(at, _)| at)
            && entries.last().is_none_or(|&(at, _)| at as usize <= len)
    }
    let last = batch.mispredicted.last();
    if !in_order(&batch.mispredicted, len) || last.is_some_and(|last| last.0 as usize == len) {
        let what = "the mispredicted branches of the batch are out of order";
        return Err(invalid(what));
    }
    let mut before_one = batch.mispredicted.chunk_by(|one, next| one.0 == next.0);
    if before_one.any(|branches| branches.len() > Batch::MAX_MISPREDICTED) {
        return Err(invalid("too many mispredicted branches before one access"));
    }
    if !in_order(&batch.controls, len) {
        return Err(invalid("the control events of the batch are out of order"));
    }
    let starts_with_thread = matches!(batch.flow.first(), None | Some((0, Flow::Thread(_))));
    // One more than the number of each block, in one pass.
    let (mut last, mut ordered, mut highest) = (0, true, 0);
    for &(at, entry) in &batch.flow {
        ordered &= last <= at;
        last = at;
        highest = highest.max(match entry {
            Flow::Block(block) => u64::from(block) + 1,
            Flow::Thread(_) => 0,
        });
    }
    if !ordered || last as usize > len || !starts_with_thread {
        return Err(invalid("the flow of the batch is out of order"));
    }
    if len > 0 && batch.site.is_empty() != batch.flow.is_empty() {
        let what = "the batch has a flow and its accesses no sites, or the other way round";
        return Err(invalid(what));
    }
    Ok(highest.checked_sub(1).map(|block| block as u32))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
