//! Segments of a program's file, by its program headers (elf(5)).

use std::fs::File;
use std::ops::Range;

use object::elf::{FileHeader64, PF_R, PF_W, PF_X, PT_LOAD, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};
use pagelab_events::Protection;

use crate::PAGE;

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
    let file = File::open(path).ok();
    let parsed = file.and_then(|file| parse(&ReadCache::new(file)).ok());
    parsed.unwrap_or_default()
}

fn parse<'a>(data: impl ReadRef<'a>) -> object::Result<Vec<Segment>> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let headers = header.program_headers(endian, data)?.iter();
    Ok(headers
        .filter_map(|header| segment(header, endian))
        .collect())
}

fn segment(header: &ProgramHeader64<Endianness>, endian: Endianness) -> Option<Segment> {
    if header.p_type(endian) != PT_LOAD {
        return None;
    }
    let flags = header.p_flags(endian);
    let (start, in_file) = (header.p_vaddr(endian), header.p_filesz(endian));
    let end = start.checked_add(in_file)?;
    let bit = |mask, prot: u8| if flags.contains(mask) { prot } else { 0 };
    let zeroed = header.p_memsz(endian) > in_file && flags.contains(PF_W) && end % PAGE != 0;
    Some(Segment {
        pages: start & !(PAGE - 1)..end.checked_next_multiple_of(PAGE)?,
        prot: Protection(
            bit(PF_R, Protection::READ)
                | bit(PF_W, Protection::WRITE)
                | bit(PF_X, Protection::EXEC),
        ),
        zeroed_from: zeroed.then_some(end),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: usize = 64;
    const PROGRAM_HEADER: usize = 56;

    fn header(flags: u64, vaddr: u64, in_file: u64, in_memory: u64) -> Vec<u8> {
        [1 | flags << 32, 0, vaddr, vaddr, in_file, in_memory, PAGE]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// A file of these program headers.
    fn file(headers: &[Vec<u8>]) -> Vec<u8> {
        let mut file = vec![0; HEADER];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[32..40].copy_from_slice(&(HEADER as u64).to_le_bytes());
        file[54] = PROGRAM_HEADER as u8;
        file[56] = headers.len() as u8;
        file.extend(headers.concat());
        file
    }

    fn parsed(file: &[u8]) -> Option<Vec<Segment>> {
        parse(file).ok()
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
