//! Segments of a program's file, by its program headers (elf(5)).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use pagelab_events::Protection;

use crate::PAGE;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const LOAD: u32 = 1;
/// The most program headers that are read; Linux reads no more than a page of them.
const MOST: u16 = (PAGE as usize / PROGRAM_HEADER) as u16;

/// A part of a file that is mapped for itself, at addresses as the file has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Whole pages.
    pub(crate) pages: Range<u64>,
    pub(crate) prot: Protection,
    /// Address behind the file's bytes, if the rest of the page is zeroed when the file is loaded (`padzero` in
    /// fs/binfmt_elf.c).
    pub(crate) zeroed_from: Option<u64>,
}

/// The segments of a file of 64 bits; none where it cannot be read.
pub(crate) fn segments(path: &str) -> Vec<Segment> {
    let Ok(file) = File::open(path) else {
        return Vec::new();
    };
    let read = |offset: u64, bytes: usize| {
        let mut read = vec![0; bytes];
        file.read_exact_at(&mut read, offset).ok().map(|()| read)
    };
    parse(read).unwrap_or_default()
}

fn parse(read: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Vec<Segment>> {
    let header = read(0, HEADER)?;
    if header[..5] != *b"\x7fELF\x02" {
        return None;
    }
    let offset = word(&header, 32);
    let size = u16::from_le_bytes([header[54], header[55]]);
    let count = u16::from_le_bytes([header[56], header[57]]).min(MOST);
    if usize::from(size) != PROGRAM_HEADER {
        return None;
    }
    let headers = read(offset, usize::from(count) * PROGRAM_HEADER)?;
    Some(headers.chunks(PROGRAM_HEADER).filter_map(segment).collect())
}

fn segment(header: &[u8]) -> Option<Segment> {
    let kind = word(header, 0);
    if kind as u32 != LOAD {
        return None;
    }
    let flags = kind >> 32;
    let (start, in_file, in_memory) = (word(header, 16), word(header, 32), word(header, 40));
    let end = start.checked_add(in_file)?;
    let bit = |mask: u64, prot: u8| if flags & mask != 0 { prot } else { 0 };
    let zeroed = in_memory > in_file && flags & 2 != 0 && end % PAGE != 0;
    Some(Segment {
        pages: start & !(PAGE - 1)..end.checked_next_multiple_of(PAGE)?,
        prot: Protection(
            bit(4, Protection::READ) | bit(2, Protection::WRITE) | bit(1, Protection::EXEC),
        ),
        zeroed_from: zeroed.then_some(end),
    })
}

/// Eight bytes.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u64, vaddr: u64, in_file: u64, in_memory: u64) -> Vec<u8> {
        [1 | flags << 32, 0, vaddr, vaddr, in_file, in_memory, PAGE]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// A file of these program headers.
    fn file(headers: &[Vec<u8>]) -> Vec<u8> {
        let mut file = vec![0; HEADER];
        file[..5].copy_from_slice(b"\x7fELF\x02");
        file[32..40].copy_from_slice(&(HEADER as u64).to_le_bytes());
        file[54] = PROGRAM_HEADER as u8;
        file[56] = headers.len() as u8;
        file.extend(headers.concat());
        file
    }

    fn parsed(file: &[u8]) -> Option<Vec<Segment>> {
        parse(|offset, bytes| {
            let from = usize::try_from(offset).ok()?;
            Some(file.get(from..)?.get(..bytes)?.to_vec())
        })
    }

    #[test]
    fn segments_are_whole_pages_and_what_is_zeroed_begins_behind_the_file() {
        let dynamic = [&2u64.to_le_bytes()[..], &[0; 48]].concat();
        let file = file(&[
            header(5, 0x1000, 0x2345, 0x2345),
            dynamic,
            header(6, 0x4d70, 0x2a8, 0x1000),
            header(6, 0x7000, 0x1000, 0x3000),
        ]);
        let found = parsed(&file).unwrap();
        let of = |segment: &Segment| (segment.pages.clone(), segment.prot.0, segment.zeroed_from);
        let (rx, rw) = (
            Protection::READ | Protection::EXEC,
            Protection::READ | Protection::WRITE,
        );
        assert_eq!(
            found.iter().map(of).collect::<Vec<_>>(),
            [
                (0x1000..0x4000, rx, None),
                (0x4000..0x6000, rw, Some(0x5018)),
                // The file ends with a page.
                (0x7000..0x8000, rw, None),
            ]
        );
    }

    #[test]
    fn a_file_that_is_none_or_is_cut_off_has_no_segments() {
        let whole = file(&[header(5, 0, 0x2345, 0x2345)]);
        for end in [0, 5, 63, 64, whole.len() - 1] {
            assert_eq!(parsed(&whole[..end]), None, "{end}");
        }
        let mut other = whole.clone();
        other[4] = 1;
        assert_eq!(parsed(&other), None);
        assert_eq!(
            parsed(&file(&[header(5, u64::MAX, u64::MAX, 0)])),
            Some(vec![])
        );
    }
}
