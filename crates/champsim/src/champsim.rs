//! ChampSim's `input_instr`, 64 bytes an instruction (its inc/trace_instruction.h and tracer/pin).

use crate::execution::{Executed, Executions};
use pagelab_events::{Batch, Definition, Source, SourceError, discard};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const DESTINATIONS: usize = 2;
const SOURCES: usize = 4;
const BYTES: usize = 64;

/// Reason for which a trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The source says nothing of instructions.
    #[error(
        "it does not have the code of the program, which ChampSim's format is made of: record it \
         without --no-code"
    )]
    NoCode,
    /// It cannot be read on. What comes before has been written.
    #[error(transparent)]
    Read(#[from] SourceError),
    /// The result cannot be written.
    #[error("cannot write {name}: {error}")]
    Write {
        /// The file.
        name: String,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
}

/// True if the name of a file asks for this format: it ends in .champsim or .champsimtrace, perhaps
/// with .xz or .gz behind that.
pub fn is_champsim(path: impl AsRef<Path>) -> bool {
    let Some(name) = path.as_ref().file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let plain = name.strip_suffix(".xz").or(name.strip_suffix(".gz"));
    let name = plain.unwrap_or(name);
    name.ends_with(".champsim") || name.ends_with(".champsimtrace")
}

/// Writes the instructions of a source's first thread; compressed if the name ends in .xz or .gz.
/// Returns how many there are.
///
/// # Errors
/// [`ExportError`]. After [`ExportError::Read`] the file is whole up to where the source could be read;
/// after any other there is none.
pub fn write_champsim(
    source: &mut dyn Source,
    output: impl AsRef<Path>,
) -> Result<u64, ExportError> {
    if !source.has_code() {
        return Err(ExportError::NoCode);
    }
    let path = output.as_ref();
    let failed = |error| ExportError::Write {
        name: path.display().to_string(),
        error,
    };
    let file = BufWriter::with_capacity(1 << 17, File::create(path).map_err(failed)?);
    let written = encode(source, path, file, &failed);
    if let Err(ExportError::NoCode | ExportError::Write { .. }) = written {
        discard(path);
    }
    written
}

/// Writes as the ending of the file's name says.
fn encode(
    source: &mut dyn Source,
    path: &Path,
    mut file: BufWriter<File>,
    failed: &dyn Fn(io::Error) -> ExportError,
) -> Result<u64, ExportError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => {
            // Traces are large, and higher levels slow.
            let mut encoder = liblzma::write::XzEncoder::new(file, 1);
            let written = copy(source, &mut encoder, failed);
            finish(encoder.finish()).map_err(failed)?;
            written
        }
        Some("gz") => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(file, level);
            let written = copy(source, &mut encoder, failed);
            finish(encoder.finish()).map_err(failed)?;
            written
        }
        _ => {
            let written = copy(source, &mut file, failed);
            file.flush().map_err(failed)?;
            written
        }
    }
}

fn finish(file: io::Result<BufWriter<File>>) -> io::Result<()> {
    file?.flush()
}

fn copy(
    source: &mut dyn Source,
    output: &mut dyn Write,
    failed: &dyn Fn(io::Error) -> ExportError,
) -> Result<u64, ExportError> {
    let mut batch = Batch::default();
    let mut executions = Executions::default();
    let mut count = 0;
    let mut each = |executed: Executed| {
        count += put(&executed, output)?;
        Ok::<(), io::Error>(())
    };
    let end = loop {
        match source.next_batch(&mut batch) {
            Ok(true) if has_unknown(&batch) => return Err(ExportError::NoCode),
            Ok(true) => executions.take(&batch, &mut each).map_err(failed)?,
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    executions.finish(&mut each).map_err(failed)?;
    end?;
    Ok(count)
}

/// True if a batch defines instructions whose bytes are not known: those of another tool's trace.
fn has_unknown(batch: &Batch) -> bool {
    batch.definitions.iter().any(|definition| match definition {
        Definition::Block(block) => block.bytes.is_empty() && !block.lengths.is_empty(),
        _ => false,
    })
}

/// Writes an instruction. One with more accesses than a record has room for is several: how many.
fn put(executed: &Executed, output: &mut dyn Write) -> io::Result<u64> {
    let mut accesses = executed.accesses;
    let mut records = 0;
    loop {
        let mut stores = [0u64; DESTINATIONS];
        let mut loads = [0u64; SOURCES];
        let mut done = 0;
        for &(addr, op) in accesses {
            if op.is_prefetch() {
                // ChampSim has no such instruction; as a load it would be waited for.
                done += 1;
                continue;
            }
            let places: &mut [u64] = if op.is_store() {
                &mut stores
            } else {
                &mut loads
            };
            let known = |&place: &u64| place == addr || place == 0;
            let Some(place) = places.iter().position(known) else {
                break;
            };
            places[place] = addr;
            done += 1;
        }
        let mut record = [0; BYTES];
        record[..8].copy_from_slice(&executed.ip.to_le_bytes());
        record[8] = u8::from(executed.taken.is_some());
        record[9] = u8::from(executed.taken == Some(true));
        fill(&mut record[10..12], &executed.decoded.writes);
        fill(&mut record[12..16], &executed.decoded.reads);
        let words = stores.iter().chain(&loads);
        for (bytes, word) in record[16..].chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        output.write_all(&record)?;
        records += 1;
        accesses = &accesses[done..];
        if accesses.is_empty() {
            return Ok(records);
        }
    }
}

fn fill(places: &mut [u8], registers: &[u8]) {
    for (place, &register) in places.iter_mut().zip(registers) {
        *place = register;
    }
}
