use super::TITLE;
use super::words::{ADVICE, BACKINGS, HUGE_PAGES, TOUCHES, to_protection};
use crate::foreign::{CANONICAL, Lines, Progress, Records, is_canonical};
use crate::{
    Access, Advice, Backing, Batch, Control, Mispredicted, Op, Protection, SourceError, dependence,
};
use pagelab_addr::PAGE_BYTES;
use std::collections::HashMap;
use std::io::BufRead;

/// The most instructions and accesses that the lines of a text leave out, together: sums of them
/// stay far from 2^64.
const MAX_SKIPPED: u64 = 1 << 62;

/// Reads events from lines of text.
pub struct CsvReader<R> {
    lines: Lines<R>,
    process: u32,
    /// The thread that each process has named last.
    threads: HashMap<u32, u32>,
    /// Mispredicted branches before the next access.
    mispredicted: Vec<Mispredicted>,
    /// Instructions and accesses left out so far.
    skipped: u64,
}

/// Meaning of a line.
enum Line {
    Nothing,
    Access(Access),
    Mispredicted(Mispredicted),
    Control(Control),
    Process(u32),
}

impl<R: BufRead> CsvReader<R> {
    /// Reads from `input`; `name` stands in error messages.
    pub fn new(input: R, name: impl Into<String>) -> Self {
        CsvReader {
            lines: Lines::new(input, name),
            process: 0,
            threads: HashMap::new(),
            mispredicted: Vec::new(),
            skipped: 0,
        }
    }

    /// Adds up what was left out; `None` when that is more than any program executes.
    fn skip(&mut self, control: Control) -> Option<()> {
        if let Control::Skipped {
            instructions,
            accesses,
        } = control
        {
            let sum = self.skipped.checked_add(instructions)?;
            self.skipped = sum
                .checked_add(accesses)
                .filter(|&sum| sum <= MAX_SKIPPED)?;
        }
        Some(())
    }
}

impl<R: BufRead> Records for CsvReader<R> {
    fn begin(&mut self, batch: &mut Batch) {
        batch.process = self.process;
        let thread = self.threads.get(&self.process).copied().unwrap_or(0);
        batch.push_control(Control::Thread { thread });
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        let Some(line) = self.lines.next()? else {
            return Ok(Progress::End);
        };
        match parse(line) {
            Ok(Line::Nothing) => {}
            Ok(Line::Access(access)) => {
                for branch in self.mispredicted.drain(..) {
                    batch.push_mispredicted(branch);
                }
                batch.push(access);
            }
            Ok(Line::Mispredicted(branch)) => self.mispredicted.push(branch),
            Ok(Line::Control(control)) => {
                if self.skip(control).is_none() {
                    return Err(self.lines.unexpected(
                        "at most 2^62 instructions and accesses to be left out, over all lines",
                    ));
                }
                if let Control::Thread { thread } = control {
                    self.threads.insert(self.process, thread);
                }
                batch.push_control(control);
            }
            Ok(Line::Process(process)) if process == self.process => {}
            Ok(Line::Process(process)) => {
                self.process = process;
                return Ok(Progress::Break);
            }
            Err(expected) => return Err(self.lines.unexpected(expected)),
        }
        Ok(Progress::More)
    }
}

/// The columns of a line, taken one by one.
struct Columns<'a> {
    /// The columns that are left.
    rest: Option<&'a str>,
    /// Expectation for a column of the right form with a value that does not exist.
    refused: Option<&'static str>,
}

impl<'a> Columns<'a> {
    fn new(line: &'a str) -> Self {
        Columns {
            rest: Some(line),
            refused: None,
        }
    }

    /// The next column, trimmed; `None` when there is none or it is empty.
    fn next(&mut self) -> Option<&'a str> {
        let (column, rest) = match self.rest?.split_once(',') {
            Some((column, rest)) => (column, Some(rest)),
            None => (self.rest?, None),
        };
        self.rest = rest;
        Some(column.trim()).filter(|column| !column.is_empty())
    }

    /// An address: hexadecimal, with or without 0x, and one that there is.
    fn addr(&mut self) -> Option<u64> {
        let digits = self.next()?;
        let digits = without_0x(digits).unwrap_or(digits);
        let addr = u64::from_str_radix(digits, 16).ok()?;
        if !is_canonical(addr) {
            self.refused = Some(CANONICAL);
            return None;
        }
        Some(addr)
    }

    /// The address of a page: system calls take no other.
    fn page(&mut self) -> Option<u64> {
        self.addr().filter(|addr| addr.is_multiple_of(PAGE_BYTES))
    }

    /// A number: decimal, or hexadecimal with 0x.
    fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let digits = self.next()?;
        let number = match without_0x(digits) {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        T::try_from(number.ok()?).ok()
    }

    /// A number that may be left out.
    fn number_or<T: TryFrom<u64>>(&mut self, otherwise: T) -> Option<T> {
        match self.peek() {
            None => {
                self.next();
                Some(otherwise)
            }
            Some(_) => self.number(),
        }
    }

    /// The loads that are waited for: how many accesses back they are, one or two with a colon between
    /// them; none where nothing is said.
    fn dependence(&mut self) -> Option<u32> {
        let Some(column) = self.next() else {
            return Some(0);
        };
        let (one, other) = column.split_once(':').unwrap_or((column, "0"));
        let [one, other] = [one, other].map(|distance| Columns::new(distance).number::<u32>());
        let (one, other) = (one?, other?);
        let dep = dependence::of_two(one, other);
        let given = match (one.min(other), one.max(other)) {
            (0, only) => (only, 0),
            (near, far) if near == far => (near, 0),
            both => both,
        };
        if (dependence::near(dep), dependence::far(dep)) != given {
            self.refused = Some(
                "a load at most 65535 accesses back, and a second one at most 65535 before it",
            );
            return None;
        }
        Some(dep)
    }

    /// The next column, which stays.
    fn peek(&self) -> Option<&'a str> {
        Columns::new(self.rest?).next()
    }

    fn protection(&mut self) -> Option<Protection> {
        to_protection(self.next()?)
    }
}

fn without_0x(digits: &str) -> Option<&str> {
    digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
}

const KINDS: &str = "a line that starts with L, S, KL, KS, P, map, unmap, protect, remap, advise, \
    huge-pages, brk, fork, exec, exit, thread, thread-start, thread-end, touched, allocating, allocated, freed, skipped, mispredicted or process";

/// Checks that a line has the text form.
pub fn is_line(line: &str) -> bool {
    parse(line.as_bytes()).is_ok()
}

/// Reads a line, or says what was expected.
fn parse(line: &[u8]) -> Result<Line, &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "text in UTF-8")?;
    let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
    if line.is_empty() || line == TITLE {
        return Ok(Line::Nothing);
    }
    let mut columns = Columns::new(line);
    let kind = columns.next().ok_or(KINDS)?;
    let (known, continues) = match kind.strip_suffix('+') {
        Some(kind @ ("L" | "S" | "KL" | "KS" | "P")) => (kind, true),
        _ => (kind, false),
    };
    let continuing = |access: Access| {
        let op = access.op.continuing(continues);
        Line::Access(Access { op, ..access })
    };
    let (parsed, expected) = match known {
        "L" | "S" | "KL" | "KS" => (
            access(known, &mut columns).map(continuing),
            "KIND,ADDR[,SIZE[,GAP[,DEP]]] with a hexadecimal address and a size up to 8191",
        ),
        "P" => (
            prefetch(&mut columns).map(continuing),
            "P,ADDR[,0[,GAP[,DEP]]] with a hexadecimal address",
        ),
        "process" => (columns.number().map(Line::Process), "process,NUMBER"),
        "mispredicted" => (
            mispredicted(&mut columns).map(Line::Mispredicted),
            "mispredicted[,DEP[,reconverges[,MORE]]]",
        ),
        _ => {
            let (parsed, expected) = control(kind, &mut columns).ok_or(KINDS)?;
            (parsed.map(Line::Control), expected)
        }
    };
    match (columns.refused, columns.rest, parsed) {
        (Some(expected), _, _) => Err(expected),
        (None, None, Some(line)) => Ok(line),
        _ => Err(expected),
    }
}

fn mispredicted(columns: &mut Columns) -> Option<Mispredicted> {
    Some(Mispredicted {
        dep: columns.dependence()?,
        reconverges: match columns.next() {
            None => false,
            Some("reconverges") => true,
            Some(_) => return None,
        },
        more: columns.number_or(0)?,
    })
}

fn access(kind: &str, columns: &mut Columns) -> Option<Access> {
    let addr = columns.addr()?;
    let size = columns
        .number_or(8)
        .filter(|&size: &u16| size <= Op::MAX_SIZE)?;
    let op = match kind {
        "L" | "KL" => Op::load(size),
        _ => Op::store(size),
    };
    Some(Access {
        addr,
        op: if kind.starts_with('K') {
            op.by_kernel()
        } else {
            op
        },
        gap: columns.number_or(0)?,
        dep: columns.dependence()?,
    })
}

fn prefetch(columns: &mut Columns) -> Option<Access> {
    let addr = columns.addr()?;
    columns.number_or(0).filter(|&size: &u16| size == 0)?;
    Some(Access {
        addr,
        op: Op::PREFETCH,
        gap: columns.number_or(0)?,
        dep: columns.dependence()?,
    })
}

/// The event of a line of this kind, if it is well formed, and its form; `None` for no such kind.
fn control(kind: &str, columns: &mut Columns) -> Option<(Option<Control>, &'static str)> {
    Some(match kind {
        "map" => (
            map(columns),
            "map,ADDR,LEN[,PROTECTION[,BACKING[,populate]]] with letters of rwx and anonymous, \
             shared-anonymous, private-file, shared-file or stack, and ADDR a page's",
        ),
        "unmap" => (unmap(columns), "unmap,ADDR,LEN with ADDR a page's"),
        "protect" => (
            protect(columns),
            "protect,ADDR,LEN,PROTECTION with letters of rwx, and ADDR a page's",
        ),
        "remap" => (
            remap(columns),
            "remap,OLD_ADDR,OLD_LEN,NEW_ADDR,NEW_LEN with pages' addresses",
        ),
        "advise" => (
            advise(columns),
            "advise,ADDR,LEN,ADVICE with dontneed, free, hugepage, nohugepage, populate or a \
             number, and ADDR a page's",
        ),
        "huge-pages" => (
            huge_pages(columns),
            "huge-pages,anywhere, huge-pages,nowhere or huge-pages,where-advised",
        ),
        "brk" => (columns.addr().map(|end| Control::Brk { end }), "brk,END"),
        "fork" => (
            columns.number().map(|child| Control::Fork { child }),
            "fork,CHILD",
        ),
        "exec" => (Some(Control::Exec), "exec alone"),
        "thread" => (
            columns.number().map(|thread| Control::Thread { thread }),
            "thread,NUMBER",
        ),
        "thread-start" => (
            columns
                .number()
                .map(|thread| Control::ThreadStart { thread }),
            "thread-start,NUMBER",
        ),
        "thread-end" => (
            columns.number().map(|thread| Control::ThreadEnd { thread }),
            "thread-end,NUMBER",
        ),
        "exit" => (exit(columns), "exit,STATUS"),
        "touched" => (
            touched(columns),
            "touched,ADDR,LEN,TOUCH with loaded, stored, present or executed, and ADDR a page's",
        ),
        "allocating" => (
            columns.number().map(|site| Control::Allocating { site }),
            "allocating,SITE",
        ),
        "allocated" => (allocated(columns), "allocated,ADDR,LEN"),
        "freed" => (
            columns.addr().map(|addr| Control::Freed { addr }),
            "freed,ADDR",
        ),
        "skipped" => (skipped(columns), "skipped,INSTRUCTIONS,ACCESSES"),
        _ => return None,
    })
}

fn map(columns: &mut Columns) -> Option<Control> {
    Some(Control::Map {
        addr: columns.page()?,
        len: columns.number()?,
        prot: match columns.peek() {
            None => {
                columns.next();
                Protection(Protection::READ | Protection::WRITE)
            }
            Some(_) => columns.protection()?,
        },
        backing: match columns.next() {
            None => Backing::Anonymous,
            Some(word) => BACKINGS.iter().find(|known| known.1 == word)?.0,
        },
        populate: match columns.next() {
            None => false,
            Some("populate") => true,
            Some(_) => return None,
        },
    })
}

fn unmap(columns: &mut Columns) -> Option<Control> {
    Some(Control::Unmap {
        addr: columns.page()?,
        len: columns.number()?,
    })
}

fn protect(columns: &mut Columns) -> Option<Control> {
    Some(Control::Protect {
        addr: columns.page()?,
        len: columns.number()?,
        prot: columns.protection()?,
    })
}

fn remap(columns: &mut Columns) -> Option<Control> {
    Some(Control::Remap {
        old_addr: columns.page()?,
        old_len: columns.number()?,
        new_addr: columns.page()?,
        new_len: columns.number()?,
    })
}

fn advise(columns: &mut Columns) -> Option<Control> {
    let addr = columns.page()?;
    let len = columns.number()?;
    let word = columns.next()?;
    let advice = match ADVICE.iter().find(|known| known.1 == word) {
        Some(known) => known.0,
        None => Advice::Other(word.parse().ok()?),
    };
    Some(Control::Advise { addr, len, advice })
}

fn huge_pages(columns: &mut Columns) -> Option<Control> {
    let word = columns.next()?;
    let allowed = HUGE_PAGES.iter().find(|known| known.1 == word)?.0;
    Some(Control::HugePages { allowed })
}

fn exit(columns: &mut Columns) -> Option<Control> {
    let status = columns.next()?.parse().ok()?;
    Some(Control::Exit { status })
}

fn touched(columns: &mut Columns) -> Option<Control> {
    Some(Control::Touched {
        addr: columns.page()?,
        len: columns.number()?,
        touch: {
            let word = columns.next()?;
            TOUCHES.iter().find(|known| known.1 == word)?.0
        },
    })
}

fn allocated(columns: &mut Columns) -> Option<Control> {
    Some(Control::Allocated {
        addr: columns.addr()?,
        len: columns.number()?,
    })
}

fn skipped(columns: &mut Columns) -> Option<Control> {
    Some(Control::Skipped {
        instructions: columns.number()?,
        accesses: columns.number()?,
    })
}
