//! From the guest's report to a trace and a list of walks.

use crate::physical::{Physical, map};
use crate::spaces::{Change, Spaces};
use crate::stream::{Record, Stream};
use crate::{GuestError, GuestWalk, Purpose, WalkList, failed};
use pagelab_events::{Batch, Control, Flow, Metadata, TraceWriter};
use pagelab_recorder::Processor;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// A batch is written when it holds so many accesses.
const BATCH: usize = 16 * 1024;

/// Counts of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Accesses.
    pub accesses: u64,
    /// Accesses among these by the kernel's instructions.
    pub by_kernel: u64,
    /// Instructions of programs; 0 unless it is whole.
    pub instructions: u64,
    /// And of the kernel.
    pub kernel_instructions: u64,
    /// Page walks.
    pub walks: u64,
    /// Walks among these that ended in a fault.
    pub faults: u64,
    /// Address spaces.
    pub spaces: u64,
    /// The program ended before the guest did.
    pub whole: bool,
}

/// Reads what a guest reports until it ends, and writes a trace and a list of its walks.
///
/// Each address space is a process of the trace, with one thread. Its pages are mapped when the
/// guest's processor first walks to them and unmapped when it finds them gone. Or all is in one process, by
/// addresses in the guest's `memory` of so many bytes, as caches see it; only the kernel's code has its own. Functions
/// of the kernel have the names of `symbols`, the address where each begins, in order ([`symbols`]).
///
/// # Errors
/// When the report is not understood, or a file cannot be written.
pub fn record(
    input: impl Read,
    trace: &Path,
    walks: &Path,
    metadata: &Metadata,
    memory: Option<u64>,
    symbols: &[(u64, String)],
) -> Result<Recorded, GuestError> {
    let mut stream = Stream::new(BufReader::with_capacity(1 << 20, input))?;
    let writer = TraceWriter::create(trace, metadata).map_err(failed(trace.display()))?;
    let mut recording = Recording {
        trace: Some(writer),
        list: WalkList::create(walks)?,
        processor: Processor::default(),
        batch: Batch::default(),
        spaces: Spaces::default(),
        physical: None,
        first: None,
        current: None,
        changes: Vec::new(),
        recorded: Recorded::default(),
    };
    if let Some(bytes) = memory {
        let (physical, map) = Physical::new(bytes);
        recording.physical = Some(physical);
        recording.first = Some(map);
    }
    while let Some(record) = stream.next()? {
        recording.take(record, trace)?;
    }
    recording.finish(trace, walks, symbols)
}

struct Recording {
    /// `None` once it is ended.
    trace: Option<TraceWriter<File>>,
    list: WalkList,
    processor: Processor,
    batch: Batch,
    spaces: Spaces,
    /// The guest's memory, where accesses are by physical addresses.
    physical: Option<Physical>,
    /// The event that comes before all others.
    first: Option<Control>,
    /// The address space that the processor is in: it makes a walk before any access in another,
    /// since changing CR3 empties the emulator's TLB.
    current: Option<u32>,
    changes: Vec<Change>,
    recorded: Recorded,
}

impl Recording {
    fn take(&mut self, record: Record, trace: &Path) -> Result<(), GuestError> {
        let written = match record {
            Record::Code(code) => {
                let (lengths, bytes) = (&code.lengths, &code.bytes);
                let number = self.processor.translated(code.pc, lengths, bytes);
                if number != code.number {
                    return Err(GuestError::Stream("a block out of order"));
                }
                Ok(())
            }
            Record::Entered(block) => {
                let read = if self.processor.is_full() {
                    self.read(false)
                } else {
                    Ok(())
                };
                self.processor.enter(block);
                read
            }
            Record::Access(access) => {
                let of = access.instruction;
                (self.processor).access(of, access.store, access.addr, access.log2);
                Ok(())
            }
            Record::Walk(walk) => self.walk(&walk),
            Record::Mark => {
                let read = self.read(false);
                self.batch.push_control(WINDOW);
                read
            }
            Record::End([programs, kernel]) => {
                self.recorded.whole = true;
                self.recorded.instructions = programs;
                self.recorded.kernel_instructions = kernel;
                Ok(())
            }
        };
        written.map_err(failed(trace.display()))
    }

    fn walk(&mut self, walk: &GuestWalk) -> std::io::Result<()> {
        let space = self.spaces.number(walk.root);
        if self.current == Some(space) {
            self.read(false)?;
        } else {
            self.read(true)?;
            if self.physical.is_none() || self.current.is_none() {
                self.flush()?;
                self.current = Some(space);
                self.start();
            }
            self.current = Some(space);
        }
        self.recorded.walks += 1;
        self.recorded.faults += u64::from(walk.found.is_none());
        self.list.write(self.accesses(), space, walk)?;
        self.spaces.learn(space, walk, &mut self.changes);
        for &change in &self.changes {
            if self.physical.is_none() || is_kernel_code(walk, change) {
                self.batch.push_control(control(change));
            }
        }
        Ok(())
    }

    fn accesses(&self) -> u64 {
        self.recorded.accesses + self.batch.len() as u64
    }

    /// Reads what the processor has executed; what it did before its first walk is in no known space.
    fn read(&mut self, switch: bool) -> std::io::Result<()> {
        let (space, start) = (self.current.unwrap_or(0), self.batch.len());
        let process = self.process();
        self.processor.read(process, switch, &mut self.batch);
        if let Some(physical) = self.physical {
            physical.place(&self.spaces, space, start, &mut self.batch);
        }
        if self.batch.len() >= BATCH {
            self.flush()?;
        }
        Ok(())
    }

    /// Process of the trace that the current space is.
    fn process(&self) -> u32 {
        match self.physical {
            Some(_) => 0,
            None => self.current.unwrap_or(0),
        }
    }

    /// Begins a batch of the current space.
    fn start(&mut self) {
        let definitions = std::mem::take(&mut self.batch.definitions);
        self.batch.clear();
        self.batch.process = self.process();
        self.batch.push_control(Control::Thread { thread: 0 });
        if self.current.is_some()
            && let Some(first) = self.first.take()
        {
            self.batch.push_control(first);
        }
        self.batch.flow.push((0, Flow::Thread(0)));
        self.batch.regular.push(false);
        self.batch.definitions = definitions;
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if let Some(trace) = &mut self.trace
            && self.current.is_some()
        {
            trace.write(&self.batch)?;
            self.batch.definitions.clear();
            self.recorded.accesses += self.batch.len() as u64;
            let kernel = self.batch.op.iter().filter(|op| op.is_kernel());
            self.recorded.by_kernel += kernel.count() as u64;
        }
        self.start();
        Ok(())
    }

    fn finish(
        mut self,
        trace: &Path,
        walks: &Path,
        symbols: &[(u64, String)],
    ) -> Result<Recorded, GuestError> {
        let read = self.read(true);
        let functions = self.processor.functions(symbols);
        self.batch.definitions.extend(functions);
        let last = read.and_then(|()| self.flush());
        last.map_err(failed(trace.display()))?;
        if let Some(writer) = self.trace.take() {
            writer.finish().map_err(failed(trace.display()))?;
        }
        self.list.finish().map_err(failed(walks.display()))?;
        self.recorded.spaces = self.spaces.count() as u64;
        Ok(self.recorded)
    }
}

/// One window of the program's own measurement ends and the next one begins: nothing is left out between them.
const WINDOW: Control = Control::Skipped {
    instructions: 0,
    accesses: 0,
};

fn is_kernel_code(walk: &GuestWalk, change: Change) -> bool {
    let mapped = matches!(change, Change::Mapped(addr, _) if addr >> 63 != 0);
    mapped && walk.purpose == Purpose::Fetch
}

/// Control event of a change. Pages may be written and executed whatever the guest allows: it deals
/// with its own faults, by accesses that are in the trace.
fn control(change: Change) -> Control {
    match change {
        Change::Unmapped(addr, len) => Control::Unmap { addr, len },
        Change::Mapped(addr, size) => map(addr, size.bytes()),
    }
}
