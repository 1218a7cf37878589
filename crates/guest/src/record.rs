//! From the guest's report to a trace and a list of walks.

use crate::physical::{Physical, map};
use crate::spaces::{Change, Spaces};
use crate::stream::{Record, Stream};
use crate::{GuestError, GuestWalk, Purpose, WalkList, failed};
use pagelab_events::{Batch, Control, Flow, Metadata, TraceWriter};
use pagelab_recorder::Processor;
use std::collections::HashSet;
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
/// Each address space is a process of the trace, and each of the guest's processors a thread. Pages of a space are
/// mapped when a processor first walks to them and unmapped when it finds them gone. Or all is in one process, by
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
        on: 0,
        current: vec![None],
        code: HashSet::new(),
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
    /// Number of the processor that runs.
    on: usize,
    /// The address space that each processor is in: it makes a walk before any access in another,
    /// since changing CR3 empties the emulator's TLB.
    current: Vec<Option<u32>>,
    /// Pages of the kernel's code that are mapped, where accesses are by physical addresses.
    code: HashSet<(u64, u64)>,
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
            Record::GoesOn(number) => self.go_on(number as usize),
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

    /// Each processor is a thread of the trace, in whatever space it is.
    fn go_on(&mut self, number: usize) -> std::io::Result<()> {
        self.read(false)?;
        self.processor.go_on(number);
        let before = self.process();
        self.on = number;
        if self.current.len() <= number {
            self.current.resize(number + 1, None);
        }
        if self.process() != before {
            return self.flush();
        }
        self.name_thread();
        Ok(())
    }

    fn name_thread(&mut self) {
        let thread = self.on as u32;
        self.batch.push_control(Control::Thread { thread });
        let at = self.batch.len() as u32;
        self.batch.flow.push((at, Flow::Thread(thread)));
        self.batch.regular.push(false);
    }

    /// True once any processor is in a known space.
    fn begun(&self) -> bool {
        self.current.iter().any(Option::is_some)
    }

    fn walk(&mut self, walk: &GuestWalk) -> std::io::Result<()> {
        let space = self.spaces.number(walk.root);
        if self.current[self.on] == Some(space) {
            self.read(false)?;
        } else {
            self.read(true)?;
            if self.physical.is_none() || !self.begun() {
                self.flush()?;
                self.current[self.on] = Some(space);
                self.start();
            }
            self.current[self.on] = Some(space);
        }
        self.recorded.walks += 1;
        self.recorded.faults += u64::from(walk.found.is_none());
        self.list.write(self.accesses(), space, walk)?;
        self.spaces.learn(space, walk, &mut self.changes);
        for &change in &self.changes {
            let tell = match (self.physical, kernel_code(walk, change)) {
                (None, _) => true,
                (Some(_), Some(page)) => self.code.insert(page),
                (Some(_), None) => false,
            };
            if tell {
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
        let (space, start) = (self.current[self.on].unwrap_or(0), self.batch.len());
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
            None => self.current[self.on].unwrap_or(0),
        }
    }

    /// Begins a batch of the current space.
    fn start(&mut self) {
        let definitions = std::mem::take(&mut self.batch.definitions);
        self.batch.clear();
        self.batch.process = self.process();
        self.name_thread();
        if self.begun()
            && let Some(first) = self.first.take()
        {
            self.batch.push_control(first);
        }
        self.batch.definitions = definitions;
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let begun = self.begun();
        if let Some(trace) = &mut self.trace
            && begun
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

/// The page of the kernel's code that is mapped, and its bytes.
fn kernel_code(walk: &GuestWalk, change: Change) -> Option<(u64, u64)> {
    match change {
        Change::Mapped(addr, size) if addr >> 63 != 0 && walk.purpose == Purpose::Fetch => {
            Some((addr, size.bytes()))
        }
        _ => None,
    }
}

/// Control event of a change. Pages may be written and executed whatever the guest allows: it deals
/// with its own faults, by accesses that are in the trace.
fn control(change: Change) -> Control {
    match change {
        Change::Unmapped(addr, len) => Control::Unmap { addr, len },
        Change::Mapped(addr, size) => map(addr, size.bytes()),
    }
}
