use super::champsim::{ChampSim, Layout};
use super::compression::{decompress, peek};
use super::lackey::{self, Lackey};
use super::records::Batched;
use super::unsupported;
use crate::csv::CsvReader;
use crate::{Source, SourceError, TraceReader};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The kinds of trace that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pagelab's own.
    Pagelab,
    /// Lines of `kind,addr,size,gap,dep`.
    Csv,
    /// Valgrind Lackey's text.
    Lackey,
    /// ChampSim's `input_instr`.
    ChampSim,
    /// ChampSim's `cloudsuite_instr`.
    CloudSuite,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Format::Pagelab => "pagelab trace",
            Format::Csv => "CSV",
            Format::Lackey => "Valgrind Lackey",
            Format::ChampSim => "ChampSim",
            Format::CloudSuite => "ChampSim CloudSuite",
        })
    }
}

impl Format {
    /// The format that the name of a file to be written asks for: CSV for `.csv`, Lackey for
    /// `.lackey`, pagelab's own for everything else.
    pub fn of_name(path: impl AsRef<Path>) -> Format {
        let extension = path.as_ref().extension().and_then(|name| name.to_str());
        match extension {
            Some("csv") => Format::Csv,
            Some("lackey") => Format::Lackey,
            _ => Format::Pagelab,
        }
    }
}

/// Bytes of a file from which its format is told.
const HEAD: u64 = 1 << 16;

/// Opens a trace of any format that can be read, which is told by its content (and by
/// "cloudsuite" in its name). All but pagelab's own may be compressed with gzip, xz, bzip2 or
/// zstd.
///
/// # Errors
/// When the file cannot be opened, or is none of these.
pub fn open_any(path: impl AsRef<Path>) -> Result<Box<dyn Source + Send>, SourceError> {
    Ok(open_with_format(path.as_ref())?.1)
}

/// As [`open_any`], with the format found.
pub fn open_with_format(path: &Path) -> Result<(Format, Box<dyn Source + Send>), SourceError> {
    let name = path.display().to_string();
    let io = |error| SourceError::Io {
        name: name.clone(),
        error,
    };
    let file = File::open(path).map_err(io)?;
    let is_pipe = !file.metadata().map_err(io)?.is_file();
    let mut file = BufReader::with_capacity(HEAD as usize, file);
    // From a pipe it is refused with the others: it is read by its index, which is at its end.
    if !is_pipe && TraceReader::recognises(file.fill_buf().map_err(io)?) {
        return Ok((Format::Pagelab, Box::new(TraceReader::open(path)?)));
    }
    open_foreign(file, &name)
}

/// Reads a trace of any format but pagelab's own, as [`open_any`] does, from anything: standard
/// input, or memory. `name` stands in error messages.
///
/// # Errors
/// When it cannot be read, or is none of these.
pub fn open_foreign(
    input: impl BufRead + Send + 'static,
    name: &str,
) -> Result<(Format, Box<dyn Source + Send>), SourceError> {
    let io = |error| SourceError::Io {
        name: name.to_owned(),
        error,
    };
    let contents = decompress(input).map_err(io)?;
    let (head, contents) = peek(contents, HEAD).map_err(io)?;
    let format = detect(&head, name).map_err(|what| SourceError::Corrupt {
        name: name.to_owned(),
        what,
    })?;
    let source: Box<dyn Source + Send> = match format {
        Format::Pagelab => {
            return Err(SourceError::Corrupt {
                name: name.to_owned(),
                what: "a pagelab trace inside a compressed file or a pipe; its chunks are \
                       compressed already: give the file itself"
                    .to_owned(),
            });
        }
        Format::Csv => Box::new(Batched::new(CsvReader::new(contents, name))),
        Format::Lackey => Box::new(Batched::new(Lackey::new(contents, name))),
        Format::ChampSim => {
            let reader = ChampSim::new(contents, name, Layout::Input);
            Box::new(Batched::new(reader))
        }
        Format::CloudSuite => {
            let reader = ChampSim::new(contents, name, Layout::CloudSuite);
            Box::new(Batched::new(reader))
        }
    };
    Ok((format, source))
}

/// Tells the format from the first bytes of the decompressed contents, or says what they are instead.
fn detect(head: &[u8], name: &str) -> Result<Format, String> {
    if TraceReader::recognises(head) {
        return Ok(Format::Pagelab);
    }
    if head.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let refused = |(what, remedy)| Err(format!("{what}, not a trace that can be read: {remedy}"));
    if let Some(format) = unsupported::binary(head) {
        return refused(format);
    }
    // UTF-8 may stand in comments.
    let text = |&byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..);
    if head.iter().all(text) {
        let mut lines = head.split(|&byte| byte == b'\n');
        // The traced program may have printed something before.
        if lines.any(lackey::looks_like) {
            return Ok(Format::Lackey);
        }
        return unsupported::text(head).map_or(Ok(Format::Csv), refused);
    }
    let preferred = if name.to_lowercase().contains("cloudsuite") {
        Layout::CloudSuite
    } else {
        Layout::Input
    };
    match Layout::of(head, preferred) {
        Some(Layout::Input) => Ok(Format::ChampSim),
        Some(Layout::CloudSuite) => Ok(Format::CloudSuite),
        None => Err(
            "not a trace that can be read: neither pagelab's nor ChampSim's (input_instr, \
             cloudsuite_instr) nor text (CSV, Valgrind Lackey), plain or compressed with gzip, xz, \
             bzip2 or zstd"
                .to_owned(),
        ),
    }
}
