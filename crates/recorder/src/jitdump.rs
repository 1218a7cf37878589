//! Functions of code that a program has made itself, with lines, from the file in which it tells perf of them.
//!
//! `jit-PID.dump` is a sequence of records: code was loaded, code was moved, and, before the code that it is of, which
//! addresses are of which lines (tools/perf/Documentation/jitdump-specification.txt of Linux). Whatever else there
//! is, code itself among it, is passed over. A record that contradicts itself says nothing; one whose end is not
//! in the file ends it, since programs that are killed leave such files.

use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const HEADER: usize = 40;
const RECORD: usize = 16;

const LOAD: u32 = 0;
const MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;

/// Limit of what is read of a file in all, and of the lines or the name of one function, in bytes.
const MAX_BYTES: u64 = 256 << 20;
const MAX_LINES: u64 = 16 << 20;
const MAX_NAME: u64 = 4096;
/// Limit of what is kept of a name, in characters.
pub(crate) const MAX_KEPT: usize = 1000;
/// Functions that may be moved: of more the first ones.
const MAX_MOVED: usize = 1 << 20;

/// V8 has this in the header where others have 0, and adds the bytes of an ELF header to every address of a
/// line (src/diagnostics/perf-jit.cc).
const V8: u32 = 0xdead_beef;
const V8_ADDS: u64 = 0x40;

/// A line of source, from an address on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Bytes from the function's start.
    offset: u64,
    /// The file as the program names it.
    pub(crate) file: Rc<str>,
    /// Its line, from 1; 0 for none.
    pub(crate) line: u32,
}

/// A function in the place where it is until another takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: Rc<str>,
    /// In the order of their addresses.
    lines: Rc<[Line]>,
}

impl Function {
    /// The line of the instruction at an address.
    pub(crate) fn line(&self, address: u64) -> Option<&Line> {
        let offset = address.checked_sub(self.start)?;
        let after = self.lines.partition_point(|line| line.offset <= offset);
        let found = &self.lines[after.checked_sub(1)?];
        (found.line > 0).then_some(found)
    }
}

/// Reads a file, and tells of each function when it comes to a place, until `each` says no. Whether there is more
/// than was read.
pub(crate) fn read(input: impl Read, each: &mut dyn FnMut(&Function) -> bool) -> io::Result<bool> {
    let mut input = BufReader::new(input).take(MAX_BYTES);
    let mut header = [0; HEADER];
    if !fill(&mut input, &mut header)? {
        return Ok(false);
    }
    let [magic, version, size] = [0, 4, 8].map(|at| u32_at(&header, at));
    if magic != MAGIC || version != VERSION {
        return Err(io::Error::other("it is no jitdump of version 1"));
    }
    let added = if u32_at(&header, 16) == V8 {
        V8_ADDS
    } else {
        0
    };
    skip(&mut input, u64::from(size).saturating_sub(HEADER as u64))?;
    let mut reader = Reader {
        added,
        ..Reader::default()
    };
    let mut record = [0; RECORD];
    while fill(&mut input, &mut record)? {
        let Some(length) = u64::from(u32_at(&record, 4)).checked_sub(RECORD as u64) else {
            break;
        };
        let mut payload = (&mut input).take(length);
        let found = match u32_at(&record, 0) {
            LOAD => reader.load(&mut payload)?,
            MOVE => reader.moved(&mut payload)?,
            DEBUG_INFO => {
                reader.lines(&mut payload)?;
                None
            }
            _ => None,
        };
        if found.is_some_and(|function| !each(&function)) {
            return Ok(true);
        }
        let rest = payload.limit();
        if !skip(&mut input, rest)? {
            break;
        }
    }
    Ok(input.limit() == 0)
}

/// State between two records.
#[derive(Default)]
struct Reader {
    added: u64,
    /// Lines of the function that is loaded next, and its address.
    next: Option<(u64, Rc<[Line]>)>,
    files: HashMap<Vec<u8>, Rc<str>>,
    /// By code_index.
    loaded: HashMap<u64, Function>,
}

impl Reader {
    fn load(&mut self, payload: &mut impl Read) -> io::Result<Option<Function>> {
        let mut fields = [0; 40];
        if !fill(payload, &mut fields)? {
            return Ok(None);
        }
        let [start, size, index] = [16, 24, 32].map(|at| u64_at(&fields, at));
        let lines = (self.next.take())
            .filter(|&(address, _)| address == start)
            .map_or_else(|| [].into(), |(_, lines)| lines);
        let mut name = Vec::new();
        payload.take(MAX_NAME).read_to_end(&mut name)?;
        let length = name.iter().position(|&byte| byte == 0);
        name.truncate(length.unwrap_or(name.len()));
        let name = text(&name);
        let Some(end) = start.checked_add(size) else {
            return Ok(None);
        };
        if size == 0 || name.trim().is_empty() {
            return Ok(None);
        }
        let function = Function {
            start,
            end,
            name,
            lines,
        };
        if self.loaded.len() < MAX_MOVED || self.loaded.contains_key(&index) {
            self.loaded.insert(index, function.clone());
        }
        Ok(Some(function))
    }

    fn moved(&mut self, payload: &mut impl Read) -> io::Result<Option<Function>> {
        let mut fields = [0; 48];
        if !fill(payload, &mut fields)? {
            return Ok(None);
        }
        let [from, to, index] = [16, 24, 40].map(|at| u64_at(&fields, at));
        let known = self.loaded.get_mut(&index);
        Ok(known.filter(|known| known.start == from).and_then(|known| {
            known.end = to.checked_add(known.end - known.start)?;
            known.start = to;
            Some(known.clone())
        }))
    }

    fn lines(&mut self, payload: &mut impl Read) -> io::Result<()> {
        self.next = None;
        let mut bytes = Vec::new();
        payload.take(MAX_LINES).read_to_end(&mut bytes)?;
        let Some((fields, entries)) = bytes.split_at_checked(16) else {
            return Ok(());
        };
        let [start, count] = [0, 8].map(|at| u64_at(fields, at));
        self.next = self.entries(start, count, entries).map(|all| (start, all));
        Ok(())
    }

    /// `None` where they are not as many as they should be, or begin before the function.
    fn entries(&mut self, start: u64, count: u64, mut bytes: &[u8]) -> Option<Rc<[Line]>> {
        let mut lines: Vec<Line> = Vec::new();
        for _ in 0..count {
            let (fields, rest) = bytes.split_at_checked(16)?;
            let length = rest.iter().position(|&byte| byte == 0)?;
            bytes = &rest[length + 1..];
            let file = match &rest[..length] {
                // As before: tools/perf/util/jitdump.h.
                b"\xff" => Rc::clone(&lines.last()?.file),
                name => self.file(name),
            };
            lines.push(Line {
                offset: u64_at(fields, 0).checked_sub(start.checked_add(self.added)?)?,
                file,
                line: u32_at(fields, 8),
            });
        }
        // V8 fills up to eight bytes. What is more is not what the record says it is: it has written names whose text
        // was gone, with zeroes among them.
        if bytes.len() >= 8 {
            return None;
        }
        lines.sort_by_key(|line| line.offset);
        Some(lines.into())
    }

    fn file(&mut self, name: &[u8]) -> Rc<str> {
        if let Some(known) = self.files.get(name) {
            return Rc::clone(known);
        }
        let file = text(name);
        self.files.insert(name.to_vec(), Rc::clone(&file));
        file
    }
}

/// Shown form of a name.
fn text(name: &[u8]) -> Rc<str> {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let all = String::from_utf8_lossy(name);
    all.chars()
        .take(MAX_KEPT)
        .map(plain)
        .collect::<String>()
        .into()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

/// `false` where the input ends before.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// `false` where the input ends before.
fn skip(input: &mut impl Read, bytes: u64) -> io::Result<bool> {
    Ok(io::copy(&mut input.take(bytes), &mut io::sink())? == bytes)
}

#[cfg(test)]
pub(crate) mod tests;
