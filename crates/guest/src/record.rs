//! From the guest's report to a trace and a list of walks.

use crate::spaces::{Change, Spaces};
use crate::stream::{Record, Stream};
use crate::{GuestError, GuestWalk, WalkList, failed};
use pagelab_addr::PageSize;
use pagelab_events::{Backing, Batch, Control, Metadata, Protection, TraceWriter};
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
/// guest's processor first walks to them and unmapped when it finds them gone.
///
/// # Errors
/// When the report is not understood, or a file cannot be written.
pub fn record(
    input: impl Read,
    trace: &Path,
    walks: &Path,
    metadata: &Metadata,
) -> Result<Recorded, GuestError> {
    let mut stream = Stream::new(BufReader::with_capacity(1 << 20, input))?;
    let writer = TraceWriter::create(trace, metadata).map_err(failed(trace.display()))?;
    let mut recording = Recording {
        trace: Some(writer),
        list: WalkList::create(walks)?,
        batch: Batch::default(),
        spaces: Spaces::default(),
        current: None,
        changes: Vec::new(),
        recorded: Recorded::default(),
    };
    while let Some(record) = stream.next()? {
        match record {
            Record::Access(access) => {
                let recorded = &mut recording.recorded;
                recorded.accesses += 1;
                recorded.by_kernel += u64::from(access.op.is_kernel());
                recording.batch.push(access);
                if recording.batch.len() >= BATCH {
                    recording.flush().map_err(failed(trace.display()))?;
                }
            }
            Record::Walk(walk) => {
                recording.walk(&walk).map_err(failed(trace.display()))?;
            }
            Record::End([programs, kernel]) => {
                recording.recorded.whole = true;
                recording.recorded.instructions = programs;
                recording.recorded.kernel_instructions = kernel;
            }
        }
    }
    recording.finish(trace, walks)
}

struct Recording {
    /// `None` once it is ended.
    trace: Option<TraceWriter<File>>,
    list: WalkList,
    batch: Batch,
    spaces: Spaces,
    /// The address space that the processor is in: it makes a walk before any access in another,
    /// since changing CR3 empties the emulator's TLB.
    current: Option<u32>,
    changes: Vec<Change>,
    recorded: Recorded,
}

impl Recording {
    fn walk(&mut self, walk: &GuestWalk) -> std::io::Result<()> {
        let space = self.spaces.number(walk.root);
        if self.current != Some(space) {
            self.flush()?;
            self.current = Some(space);
            self.start();
        }
        self.recorded.walks += 1;
        self.recorded.faults += u64::from(walk.found.is_none());
        self.list.write(self.recorded.accesses, space, walk)?;
        self.spaces.learn(space, walk, &mut self.changes);
        for change in &self.changes {
            self.batch.push_control(control(*change));
        }
        Ok(())
    }

    /// Begins a batch of the current space.
    fn start(&mut self) {
        self.batch.clear();
        self.batch.process = self.current.unwrap_or(0);
        self.batch.push_control(Control::Thread { thread: 0 });
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if let Some(trace) = &mut self.trace
            && self.current.is_some()
        {
            trace.write(&self.batch)?;
        }
        self.start();
        Ok(())
    }

    fn finish(mut self, trace: &Path, walks: &Path) -> Result<Recorded, GuestError> {
        self.flush().map_err(failed(trace.display()))?;
        if let Some(writer) = self.trace.take() {
            writer.finish().map_err(failed(trace.display()))?;
        }
        self.list.finish().map_err(failed(walks.display()))?;
        self.recorded.spaces = self.spaces.count() as u64;
        Ok(self.recorded)
    }
}

/// Control event of a change. Pages may be written and executed whatever the guest allows: it deals
/// with its own faults, by accesses that are in the trace.
fn control(change: Change) -> Control {
    match change {
        Change::Unmapped(addr, len) => Control::Unmap { addr, len },
        Change::Mapped(addr, size) => Control::Map {
            addr,
            len: PageSize::bytes(size),
            prot: Protection(Protection::READ | Protection::WRITE | Protection::EXEC),
            backing: Backing::Anonymous,
            populate: true,
        },
    }
}
