use super::lines::{CANONICAL, Lines, is_canonical};
use super::records::{Progress, Records};
use crate::{Access, Batch, Op, SourceError};
use std::io::BufRead;

/// Reads what `valgrind --tool=lackey --trace-mem=yes` prints.
///
/// Lines are `I  addr,size` (an instruction), ` L addr,size`, ` S addr,size` and ` M addr,size`
/// (a load and a store of the same bytes); data lines follow the instruction that makes them.
/// Valgrind's own lines are passed over, and so is what the traced program has printed among them,
/// which is counted. Lackey says neither which thread nor which load made an address: everything is
/// process 0, thread 0, dependence 0.
pub struct Lackey<R> {
    lines: Lines<R>,
    /// Instructions since the last access, with the one that makes the next.
    instructions: u32,
    /// Lackey's lines so far.
    own: u64,
    /// Accesses so far.
    accesses: u64,
    /// Lines so far that are neither Lackey's nor Valgrind's.
    foreign: u64,
    /// Set by the first instruction line.
    has_instructions: bool,
}

/// A line that Lackey prints.
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
            own: 0,
            accesses: 0,
            foreign: 0,
            has_instructions: false,
        }
    }

    fn push(&mut self, batch: &mut Batch, addr: u64, op: Op) {
        let gap = self.instructions.saturating_sub(1);
        let op = op.continuing(op.continues() || self.has_instructions && self.instructions == 0);
        self.instructions = 0;
        self.accesses += 1;
        batch.push(Access {
            addr,
            op,
            gap,
            dep: 0,
        });
    }

    /// Judges the text at its end.
    fn end(&self) -> Result<Progress, SourceError> {
        let Lackey { own, foreign, .. } = *self;
        let what = if own == 0 {
            "Valgrind's text, in which Lackey has traced nothing: it takes \
             valgrind --tool=lackey --trace-mem=yes"
                .to_owned()
        } else if foreign > own {
            format!("{foreign} lines that are not Lackey's, and {own} that are")
        } else if self.accesses == 0 {
            format!("{own} instructions, and no access to memory")
        } else {
            return Ok(Progress::End);
        };
        Err(self.lines.unusable(what))
    }
}

impl<R: BufRead> Records for Lackey<R> {
    fn passed_over(&self) -> u64 {
        self.foreign
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        let Some(line) = self.lines.next()? else {
            return self.end();
        };
        if line.is_empty() || is_valgrinds(line) || line.starts_with(SUPERBLOCK) {
            return Ok(Progress::More);
        }
        let Some(line) = parse(line) else {
            self.foreign += 1;
            return Ok(Progress::More);
        };
        self.own += 1;
        match line.map_err(|expected| self.lines.unexpected(expected))? {
            Line::Instruction => {
                self.has_instructions = true;
                self.instructions = self.instructions.saturating_add(1);
            }
            Line::Load(addr, size) => self.push(batch, addr, Op::load(size)),
            Line::Store(addr, size) => self.push(batch, addr, Op::store(size)),
            Line::Modify(addr, size) => {
                self.push(batch, addr, Op::load(size));
                self.push(batch, addr, Op::store(size).continuing(true));
            }
        }
        Ok(Progress::More)
    }
}

/// Begins the lines of `--trace-superblocks=yes`.
const SUPERBLOCK: &[u8] = b"SB ";

/// Recognises lines that no other text has: Valgrind's own, or Lackey's.
pub fn looks_like(line: &[u8]) -> bool {
    is_valgrinds(line) || matches!(parse(line), Some(Ok(_)))
}

/// Recognises the start of lines that Valgrind prints itself: `==PID==`, `--PID--` or `**PID**`
/// (VG_(message) in its coregrind/m_libcprint.c).
fn is_valgrinds(line: &[u8]) -> bool {
    let mark = match line.first_chunk() {
        Some(mark @ (b"==" | b"--" | b"**")) => mark,
        _ => return false,
    };
    let rest = &line[mark.len()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && rest[digits..].starts_with(mark)
}

/// Reads a line of Lackey's, or says what is wrong with it; `None` for one that is not Lackey's.
fn parse(line: &[u8]) -> Option<Result<Line, &'static str>> {
    let (kind, rest) = line.split_at_checked(3)?;
    let with: fn(u64, u16) -> Line = match kind {
        b"I  " => |_, _| Line::Instruction,
        b" L " => Line::Load,
        b" S " => Line::Store,
        b" M " => Line::Modify,
        _ => return None,
    };
    let comma = rest.iter().position(|&byte| byte == b',')?;
    let addr = hexadecimal(&rest[..comma])?;
    let size = rest[comma + 1..].trim_ascii_end();
    if size.is_empty() || !size.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = std::str::from_utf8(size).ok()?.parse();
    Some(match size {
        _ if !is_canonical(addr) => Err(CANONICAL),
        Ok(size) if size <= Op::MAX_SIZE => Ok(with(addr, size)),
        _ => Err("a size of at most 8191 bytes"),
    })
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
