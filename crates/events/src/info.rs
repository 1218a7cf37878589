use crate::foreign::open_with_format;
use crate::{Batch, Control, Format, Metadata, Mispredicted, Op, Source, SourceError, TraceReader};
use pagelab_addr::PAGE_SHIFT;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Contents of a trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceInfo {
    /// The file's format.
    pub format: String,
    /// Metadata of the trace; empty for foreign traces.
    pub metadata: BTreeMap<String, String>,
    /// The file ends where its writer ended it, as far as the format can tell.
    pub complete: bool,
    /// Reason for which it could not be read to its end. The figures are of what comes before.
    pub error: Option<String>,
    /// Size of the file.
    pub file_bytes: u64,
    /// Size of the file for each access; 0 without accesses.
    pub bytes_per_access: f64,
    /// Chunks of a pagelab trace.
    pub chunks: Option<usize>,
    /// All accesses.
    pub total: Counts,
    /// Accesses by size in bytes.
    pub sizes: BTreeMap<u16, u64>,
    /// Intervals that a window or a sample left out.
    pub gaps: u64,
    /// Instructions and accesses that were left out there.
    pub skipped_instructions: u64,
    /// See `skipped_instructions`.
    pub skipped_accesses: u64,
    /// Lines of a text that are not the trace's: what the traced program printed among them.
    pub passed_over: u64,
    /// Distinct 4 KiB pages accessed, summed over the processes.
    pub pages: u64,
    /// The processes, in the order of their numbers.
    pub processes: Vec<ProcessInfo>,
}

/// Contents of a trace for one process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProcessInfo {
    /// Its number.
    pub process: u32,
    /// Distinct 4 KiB pages that it accessed.
    pub pages: u64,
    /// Its control events by kind.
    pub controls: BTreeMap<&'static str, u64>,
    /// Its threads, in the order of their numbers.
    pub threads: Vec<ThreadInfo>,
}

/// Contents of a trace for one thread.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ThreadInfo {
    /// Its number.
    pub thread: u32,
    /// Its accesses.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Accesses by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All.
    pub accesses: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Prefetches: neither, though they are among the accesses.
    pub prefetches: u64,
    /// Accesses that the kernel made on behalf of the program.
    pub kernel: u64,
    /// Accesses whose address a known load produced.
    pub dependent: u64,
    /// Mispredicted branches, where the trace says.
    pub mispredicted: u64,
    /// Instructions: those that make accesses, and the gaps between.
    pub instructions: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.accesses += other.accesses;
        self.loads += other.loads;
        self.stores += other.stores;
        self.prefetches += other.prefetches;
        self.kernel += other.kernel;
        self.dependent += other.dependent;
        self.mispredicted += other.mispredicted;
        self.instructions += other.instructions;
    }
}

impl TraceInfo {
    /// Reads a trace of any format through and says what it holds. A trace that cannot be read
    /// to its end gives the figures of what comes before, and the error.
    ///
    /// # Errors
    /// When it cannot be opened at all.
    pub fn of(path: impl AsRef<Path>) -> Result<TraceInfo, SourceError> {
        let path = path.as_ref();
        let (format, mut source) = open_with_format(path)?;
        let mut info = TraceInfo::of_source(&mut source);
        info.format = format.to_string();
        info.complete = info.error.is_none();
        if format == Format::Pagelab {
            let reader = TraceReader::open(path)?;
            let Metadata(metadata) = reader.metadata().clone();
            info.metadata = metadata;
            info.complete &= reader.is_complete();
            info.chunks = Some(reader.chunks());
        }
        info.file_bytes = std::fs::metadata(path).map_or(0, |file| file.len());
        if info.total.accesses > 0 {
            info.bytes_per_access = info.file_bytes as f64 / info.total.accesses as f64;
        }
        Ok(info)
    }

    /// Reads a source through and says what it holds; what only a file has stays empty.
    pub fn of_source(source: &mut impl Source) -> TraceInfo {
        let mut census = Census::default();
        let mut batch = Batch::default();
        let error = loop {
            match source.next_batch(&mut batch) {
                Ok(true) => census.add(&batch),
                Ok(false) => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        let mut info = census.finish();
        info.complete = error.is_none();
        info.error = error;
        info.passed_over = source.passed_over();
        info
    }
}

/// Counts while reading.
#[derive(Default)]
struct Census {
    info: TraceInfo,
    sizes: HashMap<u16, u64>,
    processes: BTreeMap<u32, Process>,
}

#[derive(Default)]
struct Process {
    controls: BTreeMap<&'static str, u64>,
    threads: BTreeMap<u32, Counts>,
    pages: PageSet,
}

impl Census {
    fn add(&mut self, batch: &Batch) {
        let process = self.processes.entry(batch.process).or_default();
        // Memory that is only prefetched may not be there.
        let accessed = || (batch.addr.iter().zip(&batch.op)).filter(|(_, op)| !op.is_prefetch());
        for (&addr, _) in accessed() {
            process.pages.insert(addr >> PAGE_SHIFT);
        }
        for (_, op) in accessed() {
            *self.sizes.entry(op.size()).or_default() += 1;
        }
        let mut thread = 0;
        let mut done = 0;
        for &(at, control) in &batch.controls {
            let counts = process.threads.entry(thread).or_default();
            counts.add(count(batch, done..at as usize));
            done = at as usize;
            match control {
                Control::Thread { thread: next } => {
                    thread = next;
                    continue;
                }
                Control::Skipped {
                    instructions,
                    accesses,
                } => {
                    self.info.gaps += 1;
                    let skipped = &mut self.info.skipped_instructions;
                    *skipped = skipped.saturating_add(instructions);
                    let skipped = &mut self.info.skipped_accesses;
                    *skipped = skipped.saturating_add(accesses);
                }
                _ => {}
            }
            *process.controls.entry(name(control)).or_default() += 1;
        }
        let counts = process.threads.entry(thread).or_default();
        counts.add(count(batch, done..batch.len()));
    }

    fn finish(self) -> TraceInfo {
        let mut info = self.info;
        info.sizes = self.sizes.into_iter().collect();
        for (number, process) in self.processes {
            let pages = process.pages.len();
            info.pages += pages;
            let threads = process.threads.into_iter();
            let threads: Vec<_> = threads
                .filter(|(_, counts)| counts.accesses > 0)
                .map(|(thread, counts)| ThreadInfo { thread, counts })
                .collect();
            for thread in &threads {
                info.total.add(thread.counts);
            }
            info.processes.push(ProcessInfo {
                process: number,
                pages,
                controls: process.controls,
                threads,
            });
        }
        info
    }
}

fn count(batch: &Batch, range: std::ops::Range<usize>) -> Counts {
    let ops = &batch.op[range.clone()];
    let number = |is: fn(&Op) -> bool| ops.iter().filter(|op| is(op)).count() as u64;
    let accesses = ops.len() as u64;
    let stores = number(|op| op.is_store());
    let prefetches = number(|op| op.is_prefetch());
    let instructions = (ops.iter().zip(&batch.gap[range.clone()]))
        .map(|(op, &gap)| op.instructions(gap))
        .sum();
    Counts {
        accesses,
        loads: accesses - stores - prefetches,
        stores,
        prefetches,
        kernel: number(|op| op.is_kernel()),
        mispredicted: Mispredicted::count(batch.mispredicted_in(range.clone())),
        dependent: batch.dep[range].iter().filter(|&&dep| dep != 0).count() as u64,
        instructions,
    }
}

fn name(control: Control) -> &'static str {
    match control {
        Control::Thread { .. } => "thread",
        Control::Map { .. } => "map",
        Control::Unmap { .. } => "unmap",
        Control::Protect { .. } => "protect",
        Control::Remap { .. } => "remap",
        Control::Advise { .. } => "advise",
        Control::HugePages { .. } => "huge-pages",
        Control::Brk { .. } => "brk",
        Control::Fork { .. } => "fork",
        Control::Exec => "exec",
        Control::ThreadStart { .. } => "thread-start",
        Control::ThreadEnd { .. } => "thread-end",
        Control::Exit { .. } => "exit",
        Control::Touched { .. } => "touched",
        Control::Allocating { .. } => "allocating",
        Control::Allocated { .. } => "allocated",
        Control::Freed { .. } => "freed",
        Control::Skipped { .. } => "skipped",
    }
}

/// A set of page numbers: a bitmap for each 2 MiB region.
#[derive(Default)]
struct PageSet {
    regions: HashMap<u64, usize>,
    bitmaps: Vec<[u64; 8]>,
    /// The region of the last page, and its bitmap: most pages follow one of the same region.
    last: Option<(u64, usize)>,
}

impl PageSet {
    fn insert(&mut self, page: u64) {
        let region = page >> 9;
        let bitmap = match self.last {
            Some((last, bitmap)) if last == region => bitmap,
            _ => *self.regions.entry(region).or_insert_with(|| {
                self.bitmaps.push([0; 8]);
                self.bitmaps.len() - 1
            }),
        };
        self.last = Some((region, bitmap));
        self.bitmaps[bitmap][(page >> 6 & 7) as usize] |= 1 << (page & 63);
    }

    fn len(&self) -> u64 {
        let words = self.bitmaps.iter().flatten();
        words.map(|word| u64::from(word.count_ones())).sum()
    }
}
