//! Lines of a text trace, with their numbers for error messages.

use crate::SourceError;
use std::io::{BufRead, Read};

/// The longest line that is read: what is longer is no trace.
const MAX_LINE: u64 = 1 << 16;

/// UTF-8's byte order mark, with which some programs begin a text.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The addresses that [`is_canonical`] takes, for error messages.
pub const CANONICAL: &str = "an address whose bits 56 to 63 are equal (57 bits, extended by their sign): up to \
    0xffffffffffffff, or from 0xff00000000000000 on";

/// True if a processor has such an address: with 57 bits and their sign in those above, as the longest are (x86-64
/// with five levels; those of 48 bits, of AArch64's user space, too, are among them).
pub fn is_canonical(addr: u64) -> bool {
    matches!(addr.cast_signed() >> 56, 0 | -1)
}

/// Reads a text line by line.
pub struct Lines<R> {
    input: R,
    name: String,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub fn new(input: R, name: impl Into<String>) -> Self {
        Lines {
            input,
            name: name.into(),
            line: Vec::new(),
            number: 0,
        }
    }

    /// The next line, without its end; `None` at the end of the text.
    pub fn next(&mut self) -> Result<Option<&[u8]>, SourceError> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.input)
            .take(MAX_LINE)
            .read_until(b'\n', &mut self.line);
        if let Err(error) = read {
            let name = format!("{}: line {}", self.name, self.number);
            return Err(SourceError::Io { name, error });
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        } else if self.line.len() as u64 == MAX_LINE {
            return Err(self.corrupt("a line of more than 64 KiB; this is not a text trace"));
        }
        if self.number == 1 && self.line.starts_with(MARK) {
            self.line.drain(..MARK.len());
        }
        Ok(Some(&self.line))
    }

    /// An error that quotes the current line and says what should stand there.
    pub fn unexpected(&self, expected: &str) -> SourceError {
        let start = &self.line[..self.line.len().min(60)];
        let found = String::from_utf8_lossy(start);
        self.corrupt(format!("found {found:?}, expected {expected}"))
    }

    /// An error about the text as a whole.
    pub fn unusable(&self, what: impl Into<String>) -> SourceError {
        SourceError::Corrupt {
            name: self.name.clone(),
            what: what.into(),
        }
    }

    /// An error about the current line.
    pub fn corrupt(&self, what: impl Into<String>) -> SourceError {
        SourceError::Corrupt {
            name: format!("{}: line {}", self.name, self.number),
            what: what.into(),
        }
    }
}
