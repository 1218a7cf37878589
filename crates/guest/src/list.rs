//! The list of walks that stands beside a guest's trace.
//!
//! A line a walk, as text: how many accesses of the trace come before it, the process, what it was
//! for, the address, the page's size in bytes and its physical address (0 and 0 for a fault); the key
//! of the address space, the ranges of memory (the first page and how many, a point between two) and
//! the metadata where a distributed page table was walked, nothing for the tree; then each entry read,
//! its address and its value. Numbers are decimal, addresses, keys, first pages and values hexadecimal.
//! Lines that begin with # mean nothing.
//!
//! ```text
//! 12,0,store,7f0000001000,4096,1c2b000,,2f4cff8=1c2c067,...
//! 12,0,load,7f0000001000,4096,1c2b000,9a3c/1+158.100+327424/0,1e40080=2c0,39c08=800000001c2b067
//! ```

use crate::stream::size;
use crate::{EntryRead, GuestError, GuestWalk, Hashed, Purpose, Range, failed};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// Bytes of a line: 64 reads, the most there are, of two numbers of 16 digits take a quarter.
const LONGEST: u64 = 1 << 13;

const HEADER: &str =
    "# accesses before,process,purpose,address,page bytes,page,key/ranges/metadata,entry=value,...";

/// Writes a list.
pub struct WalkList(BufWriter<File>);

impl WalkList {
    /// Creates the file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn create(path: &Path) -> Result<Self, GuestError> {
        let file = File::create(path).map_err(failed(path.display()))?;
        let mut list = WalkList(BufWriter::new(file));
        writeln!(list.0, "{HEADER}").map_err(failed(path.display()))?;
        Ok(list)
    }

    /// Adds a walk.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&mut self, accesses: u64, process: u32, walk: &GuestWalk) -> io::Result<()> {
        let GuestWalk { addr, reads, .. } = walk;
        let purpose = Purpose::ALL.iter().find(|(kind, _)| *kind == walk.purpose);
        let purpose = purpose.map_or("", |(_, name)| name);
        let (page, bytes) = match walk.found {
            Some((paddr, size)) => (paddr & !(size.bytes() - 1), size.bytes()),
            None => (0, 0),
        };
        let out = &mut self.0;
        write!(
            out,
            "{accesses},{process},{purpose},{addr:x},{bytes},{page:x},"
        )?;
        if let Some(hashed) = &walk.hashed {
            write!(out, "{:x}/", hashed.key)?;
            for (number, Range { start, frames }) in hashed.ranges.iter().enumerate() {
                let point = if number == 0 { "" } else { "." };
                write!(out, "{point}{start:x}+{frames}")?;
            }
            write!(out, "/")?;
            if let Some(metadata) = hashed.metadata {
                write!(out, "{metadata}")?;
            }
        }
        for EntryRead { entry, value } in reads {
            write!(out, ",{entry:x}={value:x}")?;
        }
        writeln!(out)
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The walks of a list, each with the number of its process.
pub struct WalkLines<R> {
    input: R,
    line: String,
    number: u64,
}

impl WalkLines<BufReader<File>> {
    /// Opens a list.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(path: &Path) -> Result<Self, GuestError> {
        let file = File::open(path).map_err(failed(path.display()))?;
        Ok(WalkLines::new(BufReader::new(file)))
    }
}

impl<R: BufRead> WalkLines<R> {
    /// The walks of a text.
    pub fn new(input: R) -> Self {
        WalkLines {
            input,
            line: String::new(),
            number: 0,
        }
    }

    fn read(&mut self) -> Result<bool, GuestError> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = (&mut self.input).take(LONGEST).read_line(&mut self.line);
            match read.map_err(failed("the list of walks"))? as u64 {
                0 => return Ok(false),
                LONGEST => {
                    let (line, what) = (self.number, "it is longer than any walk");
                    return Err(GuestError::Line { line, what });
                }
                _ => {}
            }
            let text = self.line.trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Ok(true);
            }
        }
    }
}

impl<R: BufRead> Iterator for WalkLines<R> {
    type Item = Result<(u32, GuestWalk), GuestError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        let line = self.number;
        let parsed = parse(self.line.trim());
        Some(parsed.map_err(|what| GuestError::Line { line, what }))
    }
}

fn parse(line: &str) -> Result<(u32, GuestWalk), &'static str> {
    let mut fields = line.split(',');
    let mut next = |what| fields.next().ok_or(what);
    next("it is empty")?;
    let process = next("no process")?.parse().map_err(|_| "no process")?;
    let name = next("no purpose")?;
    let purpose = Purpose::ALL.iter().find(|(_, known)| *known == name);
    let &(purpose, _) = purpose.ok_or("a purpose that is not load, store or fetch")?;
    let addr = hexadecimal(next("no address")?)?;
    let bytes = next("no page size")?.parse().map_err(|_| "no page size")?;
    let page = hexadecimal(next("no page")?)?;
    let hashed = match next("no registers, or nothing in their place")? {
        "" => None,
        registers => Some(hashed(registers)?),
    };
    let reads: Vec<EntryRead> = fields.map(read).collect::<Result<_, _>>()?;
    let found = match (bytes, size(bytes)) {
        (0, _) => None,
        (_, Some(size)) => Some((page, size)),
        (_, None) => return Err("a page of a size that there is not"),
    };
    let root = reads.first().map_or(0, |first| first.entry & !0xfff);
    Ok((
        process,
        GuestWalk {
            purpose,
            addr,
            root,
            found,
            hashed,
            reads,
        },
    ))
}

fn hashed(field: &str) -> Result<Hashed, &'static str> {
    const WHAT: &str = "registers that are not KEY/RANGES/METADATA";
    let parts: Vec<&str> = field.split('/').collect();
    let &[key, ranges, metadata] = &parts[..] else {
        return Err(WHAT);
    };
    let range = |text: &str| {
        let (start, frames) = text.split_once('+')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let frames = frames.parse().ok()?;
        Some(Range { start, frames })
    };
    let ranges = ranges.split_terminator('.').map(range);
    Ok(Hashed {
        key: u64::from_str_radix(key, 16).map_err(|_| WHAT)?,
        ranges: ranges.collect::<Option<_>>().ok_or(WHAT)?,
        metadata: match metadata {
            "" => None,
            code => Some(code.parse().map_err(|_| WHAT)?),
        },
    })
}

fn read(field: &str) -> Result<EntryRead, &'static str> {
    let (entry, value) = field.split_once('=').ok_or("an entry without its value")?;
    Ok(EntryRead {
        entry: hexadecimal(entry)?,
        value: hexadecimal(value)?,
    })
}

fn hexadecimal(text: &str) -> Result<u64, &'static str> {
    u64::from_str_radix(text, 16).map_err(|_| "a number that is not hexadecimal")
}
