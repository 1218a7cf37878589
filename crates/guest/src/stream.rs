//! The words that linux/guest/system.c writes.

use crate::{EntryRead, GuestError, GuestWalk, Hashed, Purpose, Range, failed};
use pagelab_addr::PageSize;
use pagelab_events::{Access, Op};
use std::io::{ErrorKind, Read};

const MAGIC: [u8; 8] = *b"pglsys1\n";
const ACCESS: u64 = 0;
const WALK: u64 = 1;
const END: u64 = 2;
/// Most levels of a distributed page table.
const MOST_LEVELS: u64 = 3;
/// As many as linux/qemu/walks.c keeps.
const MOST_READS: u64 = 64;

/// Next record of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Access(Access),
    Walk(GuestWalk),
    /// The program has ended: instructions of programs, and of the kernel.
    End([u64; 2]),
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
        match first & 3 {
            ACCESS => Ok(Some(Record::Access(access(first, addr)?))),
            WALK => self.walk(first, addr),
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
            .get((first >> 2 & 3) as usize)
            .ok_or(GuestError::Stream("a walk of an unknown purpose"))?;
        let found = match first >> 12 & 0xff {
            0 => None,
            shift => {
                let size = 1u64.checked_shl(shift as u32).and_then(size);
                Some((paddr, size.ok_or(GuestError::Stream(NO_PAGE))?))
            }
        };
        let count = first >> 4 & 0xff;
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
        let hashed = (first >> 20 & 1 != 0).then(|| hashed(&mut reads));
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
    let shift = first >> 4 & 0xff;
    if shift > 6 {
        return Err(GuestError::Stream("an access of more than 64 bytes"));
    }
    let size = 1 << shift;
    let op = if first & 4 != 0 {
        Op::store(size)
    } else {
        Op::load(size)
    };
    Ok(Access {
        addr,
        op: if first & 8 != 0 { op.by_kernel() } else { op },
        gap: (first >> 32) as u32,
        dep: 0,
    })
}
