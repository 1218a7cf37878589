//! The words that linux/guest/system.c writes.

use crate::{EntryRead, GuestError, GuestWalk, Hashed, Purpose, Range, failed};
use pagelab_addr::PageSize;
use std::io::{ErrorKind, Read};

const MAGIC: [u8; 8] = *b"pglsys2\n";
const ACCESS: u64 = 0;
const WALK: u64 = 1;
const END: u64 = 2;
const CODE: u64 = 3;
const ENTERED: u64 = 4;
const MARK: u64 = 5;
const GOES_ON: u64 = 6;
/// As many as the kernel is built for (linux/config/base.config).
const MOST_PROCESSORS: u64 = 64;
/// Most levels of a distributed page table.
const MOST_LEVELS: u64 = 3;
/// As many as linux/qemu/walks.c keeps.
const MOST_READS: u64 = 64;

/// Next record of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Code was translated.
    Code(Translated),
    /// A block of this number is entered.
    Entered(u32),
    /// By an instruction of it.
    Access(Access),
    /// Number of the processor that goes on.
    GoesOn(u32),
    Walk(GuestWalk),
    /// A measurement of the program begins or ends here.
    Mark,
    /// The program has ended: instructions of programs, and of the kernel.
    End([u64; 2]),
}

/// A block of code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Translated {
    pub(crate) number: u32,
    /// Address of its first instruction.
    pub(crate) pc: u64,
    /// The length of each instruction, and their bytes.
    pub(crate) lengths: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
}

/// An access of the block entered last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Number of its instruction.
    pub(crate) instruction: u16,
    pub(crate) store: bool,
    pub(crate) addr: u64,
    /// Logarithm of its bytes.
    pub(crate) log2: u8,
}

pub(crate) struct Stream<R>(R);

impl<R: Read> Stream<R> {
    pub(crate) fn new(mut input: R) -> Result<Self, GuestError> {
        let mut magic = [0; 8];
        input.read_exact(&mut magic).map_err(failed("the guest"))?;
        if magic != MAGIC {
            return Err(GuestError::Stream("it does not begin as it should"));
        }
        Ok(Stream(input))
    }

    /// `None` where the stream ends, also in the middle of a record: the guest was stopped.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, GuestError> {
        let Some([first, addr]) = self.words()? else {
            return Ok(None);
        };
        match first & 7 {
            ACCESS => Ok(Some(Record::Access(access(first, addr)?))),
            WALK => self.walk(first, addr),
            CODE => self.code(first, addr),
            ENTERED => Ok(Some(Record::Entered((first >> 32) as u32))),
            MARK => Ok(Some(Record::Mark)),
            GOES_ON if first >> 32 < MOST_PROCESSORS => {
                Ok(Some(Record::GoesOn((first >> 32) as u32)))
            }
            END => {
                let kernel: Option<[u64; 1]> = self.words()?;
                Ok(kernel.map(|[kernel]| Record::End([addr, kernel])))
            }
            _ => Err(GuestError::Stream("a record of an unknown kind")),
        }
    }

    fn walk(&mut self, first: u64, addr: u64) -> Result<Option<Record>, GuestError> {
        let Some([root, paddr]) = self.words()? else {
            return Ok(None);
        };
        let &(purpose, _) = Purpose::ALL
            .get((first >> 3 & 3) as usize)
            .ok_or(GuestError::Stream("a walk of an unknown purpose"))?;
        let found = match first >> 13 & 0xff {
            0 => None,
            shift => {
                let size = 1u64.checked_shl(shift as u32).and_then(size);
                Some((paddr, size.ok_or(GuestError::Stream(NO_PAGE))?))
            }
        };
        let count = first >> 5 & 0xff;
        if count > MOST_READS {
            return Err(GuestError::Stream("a walk of too many reads"));
        }
        let mut reads = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let Some([entry, value]) = self.words()? else {
                return Ok(None);
            };
            reads.push(EntryRead { entry, value });
        }
        let hashed = (first >> 21 & 1 != 0).then(|| hashed(&mut reads));
        let hashed = hashed.transpose().map_err(GuestError::Stream)?;
        Ok(Some(Record::Walk(GuestWalk {
            purpose,
            addr,
            root: root & ROOT,
            found,
            hashed,
            reads,
        })))
    }

    fn code(&mut self, first: u64, pc: u64) -> Result<Option<Record>, GuestError> {
        let mut left = (first >> 16 & 0xffff) as usize;
        let (mut lengths, mut bytes) = (Vec::with_capacity(left), Vec::new());
        let mut sum = 0;
        while left > 0 || bytes.len() < sum {
            let Some([word]) = self.words()? else {
                return Ok(None);
            };
            for byte in word.to_le_bytes() {
                if left > 0 {
                    left -= 1;
                    sum += usize::from(byte);
                    lengths.push(byte);
                } else if bytes.len() < sum {
                    bytes.push(byte);
                }
            }
        }
        if lengths.iter().any(|&length| length == 0 || length > 15) {
            return Err(GuestError::Stream("an instruction of no length"));
        }
        Ok(Some(Record::Code(Translated {
            number: (first >> 32) as u32,
            pc,
            lengths,
            bytes,
        })))
    }

    fn words<const N: usize>(&mut self) -> Result<Option<[u64; N]>, GuestError> {
        let mut words = [0; N];
        for word in &mut words {
            let mut bytes = [0; 8];
            match self.0.read_exact(&mut bytes) {
                Ok(()) => *word = u64::from_le_bytes(bytes),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(failed("the guest")(error)),
            }
        }
        Ok(Some(words))
    }
}

/// Takes what is no read of memory from the reads of a walk by hash.
fn hashed(reads: &mut Vec<EntryRead>) -> Result<Hashed, &'static str> {
    const MISSING: &str = "a walk by hash without its registers";
    let &[key, memory, ..] = &reads[..] else {
        return Err(MISSING);
    };
    let registers = (memory.entry as usize).saturating_add(2);
    let ranges = reads.get(2..registers).ok_or(MISSING)?;
    let range = |read: &EntryRead| Range {
        start: read.entry,
        frames: read.value,
    };
    let ranges = ranges.iter().map(range).collect();
    reads.drain(..registers);
    // Instead of an address there is the level.
    let at = reads.len().checked_sub(2);
    let at = at.filter(|&at| (1..=MOST_LEVELS).contains(&reads[at].entry));
    let metadata = at.map(|at| reads.remove(at).value as u8);
    Ok(Hashed {
        key: key.value,
        ranges,
        metadata,
    })
}

/// The bits of CR3, and of an entry, that are an address.
pub(crate) const ROOT: u64 = 0x000f_ffff_ffff_f000;
const NO_PAGE: &str = "a page of a size that there is not";

/// The page size of so many bytes.
pub(crate) fn size(bytes: u64) -> Option<PageSize> {
    PageSize::ALL.into_iter().find(|size| size.bytes() == bytes)
}

fn access(first: u64, addr: u64) -> Result<Access, GuestError> {
    let log2 = (first >> 5 & 0xff) as u8;
    if log2 > 6 {
        return Err(GuestError::Stream("an access of more than 64 bytes"));
    }
    Ok(Access {
        instruction: (first >> 16) as u16,
        store: first & 8 != 0,
        addr,
        log2,
    })
}
