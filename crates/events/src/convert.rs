use crate::csv::CsvWriter;
use crate::foreign::{LackeyWriter, open_with_format};
use crate::{Batch, Format, Metadata, Source, SourceError, TraceReader, TraceWriter};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Reason for which a trace could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// It cannot be read on. What comes before has been converted.
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
    /// Input and output are the same file.
    #[error("{0} cannot be converted into itself; name another file")]
    SameFile(String),
    /// Traces of this format can be read only.
    #[error(
        "cannot write the {0} format: it needs the address of every instruction, which a trace \
         of accesses does not have; pagelab, CSV and Lackey can be written"
    )]
    ReadOnly(Format),
}

/// Receiver of events.
trait Sink {
    fn write(&mut self, batch: &Batch) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl Sink for TraceWriter<File> {
    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        self.write(batch)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish().map(drop)
    }
}

impl<W: Write> Sink for CsvWriter<W> {
    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        self.write(batch)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish().map(drop)
    }
}

impl<W: Write> Sink for LackeyWriter<W> {
    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        self.write(batch)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish().map(drop)
    }
}

/// Converts a trace of any format that can be read into a file of `format`. Returns the
/// accesses written.
///
/// # Errors
/// [`ConvertError`]. After [`ConvertError::Read`] the result is complete up to where the trace
/// could be read; after [`ConvertError::Write`] there is none.
pub fn convert(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    format: Format,
) -> Result<u64, ConvertError> {
    let (input, output) = (input.as_ref(), output.as_ref());
    let (found, mut source) = open_with_format(input)?;
    // By what they are: another name may lead to the same file.
    if let (Ok(from), Ok(to)) = (input.metadata(), output.metadata())
        && from.is_file()
        && (from.dev(), from.ino()) == (to.dev(), to.ino())
    {
        return Err(ConvertError::SameFile(input.display().to_string()));
    }
    let metadata = match found {
        Format::Pagelab => TraceReader::open(input)?.metadata().clone(),
        _ => Metadata::new().with(Metadata::CONVERTED_FROM, found.to_string()),
    };
    write(&mut source, &metadata, output, format)
}

/// Writes the events of a source into a file of `format`. Returns the accesses written.
///
/// # Errors
/// [`ConvertError`]. After [`ConvertError::Read`] the file is complete up to where the source could
/// be read; after [`ConvertError::Write`] there is none.
pub fn write(
    source: &mut impl Source,
    metadata: &Metadata,
    output: impl AsRef<Path>,
    format: Format,
) -> Result<u64, ConvertError> {
    let output = output.as_ref();
    let sink = create(output, format, metadata)?;
    let written = copy(source, sink, &output.display().to_string());
    if let Err(ConvertError::Write { .. }) = written {
        discard(output);
    }
    written
}

/// Removes a file that could not be written to its end, since nothing in it says that it is cut. A
/// device, a pipe or a link stays.
pub fn discard(output: &Path) {
    if output.symlink_metadata().is_ok_and(|found| found.is_file()) {
        // The failure that led here is the one to report.
        let _ = fs::remove_file(output);
    }
}

/// Writes the events of a source as CSV lines. Returns the accesses written.
///
/// # Errors
/// [`ConvertError`], never [`ConvertError::ReadOnly`]; `name` stands for the output in it.
pub fn cat(source: &mut impl Source, output: impl Write, name: &str) -> Result<u64, ConvertError> {
    let failed = |error| write_error(name, error);
    let writer = CsvWriter::new(BufWriter::new(output)).map_err(failed)?;
    copy(source, Box::new(writer), name)
}

fn create<'a>(
    path: &Path,
    format: Format,
    metadata: &Metadata,
) -> Result<Box<dyn Sink + 'a>, ConvertError> {
    let text = || File::create(path).map(|file| BufWriter::with_capacity(1 << 17, file));
    let sink: io::Result<Box<dyn Sink>> = match format {
        Format::Pagelab => TraceWriter::create(path, metadata).map(|sink| Box::new(sink) as _),
        Format::Csv => text()
            .and_then(CsvWriter::new)
            .map(|sink| Box::new(sink) as _),
        Format::Lackey => text().map(|file| Box::new(LackeyWriter::new(file)) as _),
        Format::ChampSim | Format::CloudSuite => return Err(ConvertError::ReadOnly(format)),
    };
    sink.map_err(|error| write_error(&path.display().to_string(), error))
}

fn copy(
    source: &mut impl Source,
    mut sink: Box<dyn Sink + '_>,
    name: &str,
) -> Result<u64, ConvertError> {
    let mut batch = Batch::default();
    let mut accesses = 0;
    let end = loop {
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
        sink.write(&batch)
            .map_err(|error| write_error(name, error))?;
        accesses += batch.len() as u64;
    };
    sink.finish().map_err(|error| write_error(name, error))?;
    end?;
    Ok(accesses)
}

fn write_error(name: &str, error: io::Error) -> ConvertError {
    ConvertError::Write {
        name: name.to_owned(),
        error,
    }
}
