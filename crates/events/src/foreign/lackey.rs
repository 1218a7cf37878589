use super::lines::{Lines, is_canonical};
use super::records::{Progress, Records};
use crate::{Access, Batch, Op, SourceError};
use std::io::BufRead;

/// Reads what `valgrind --tool=lackey --trace-mem=yes` prints.
///
/// Lines are `I  addr,size` (an instruction), ` L addr,size`, ` S addr,size` and ` M addr,size`
/// (a load and a store of the same bytes); data lines follow the instruction that makes them.
/// Valgrind's own lines, which start with `==`, are passed over. Lackey says neither which
/// thread nor which load made an address: everything is process 0, thread 0, dependence 0.
pub struct Lackey<R> {
    lines: Lines<R>,
    /// Instructions since the last access, with the one that makes the next.
    instructions: u32,
}

/// A line that says something.
enum Line {
    Instruction,
    Load(u64, u16),
    Store(u64, u16),
    Modify(u64, u16),
}

impl<R: BufRead> Lackey<R> {
    /// Reads from `input`; `name` stands in error messages.
    pub fn new(input: R, name: impl Into<String>) -> Self {
        Lackey {
            lines: Lines::new(input, name),
            instructions: 0,
        }
    }

    fn push(&mut self, batch: &mut Batch, addr: u64, op: Op) {
        let gap = self.instructions.saturating_sub(1);
        self.instructions = 0;
        batch.push(Access {
            addr,
            op,
            gap,
            dep: 0,
        });
    }
}

impl<R: BufRead> Records for Lackey<R> {
    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        let Some(line) = self.lines.next()? else {
            return Ok(Progress::End);
        };
        if line.is_empty() || line.starts_with(b"==") {
            return Ok(Progress::More);
        }
        match parse(line) {
            Some(Line::Instruction) => self.instructions = self.instructions.saturating_add(1),
            Some(Line::Load(addr, size)) => self.push(batch, addr, Op::load(size)),
            Some(Line::Store(addr, size)) => self.push(batch, addr, Op::store(size)),
            Some(Line::Modify(addr, size)) => {
                self.push(batch, addr, Op::load(size));
                self.push(batch, addr, Op::store(size));
            }
            None => {
                return Err(self.lines.unexpected(&format!(
                    "'I  addr,size', ' L addr,size', ' S addr,size' or ' M addr,size' with a \
                     hexadecimal address of up to 57 bits and a size up to {}",
                    Op::MAX_SIZE
                )));
            }
        }
        Ok(Progress::More)
    }
}

/// Whether a line can be Lackey's, from its first bytes.
pub fn looks_like(line: &[u8]) -> bool {
    line.starts_with(b"==") || parse(line).is_some()
}

/// Reads a line that is neither empty nor Valgrind's own.
fn parse(line: &[u8]) -> Option<Line> {
    let (kind, rest) = line.split_at_checked(3)?;
    let comma = rest.iter().position(|&byte| byte == b',')?;
    let addr = hexadecimal(&rest[..comma]).filter(|&addr| is_canonical(addr))?;
    let size = std::str::from_utf8(&rest[comma + 1..]).ok()?.trim_end();
    let size = size.parse().ok().filter(|&size| size <= Op::MAX_SIZE)?;
    match kind {
        b"I  " => Some(Line::Instruction),
        b" L " => Some(Line::Load(addr, size)),
        b" S " => Some(Line::Store(addr, size)),
        b" M " => Some(Line::Modify(addr, size)),
        _ => None,
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |value, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}
