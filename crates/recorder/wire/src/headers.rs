//! Decision of the kernel to load an ELF file, as far as its headers say: load_elf_binary() in fs/binfmt_elf.c of
//! Linux. QEMU is less particular about some of it, and says of the rest that it cannot when it has long taken the
//! program's place.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes of the file's header, and where it has what.
const HEADER: usize = 64;
const TYPE: usize = 16;
const TABLE: usize = 32;
const ENTRY_SIZE: usize = 54;
const ENTRIES: usize = 56;

/// Size of an entry of the table of program headers.
const ENTRY: usize = 56;
const OFFSET: usize = 8;
const BYTES: usize = 32;

const ET_EXEC: u64 = 2;
const ET_DYN: u64 = 3;
const PT_INTERP: u64 = 3;

/// Bytes of a path, and of a table, that the kernel reads.
const LONGEST_PATH: u64 = 4096;
const LARGEST_TABLE: usize = 65536;

/// The interpreter that a program of 64 bits names, if it does.
///
/// # Errors
/// What is wrong with its headers.
pub(crate) fn interpreter(file: &File) -> Result<Option<PathBuf>, &'static str> {
    let cut_off = |_| "is cut off: not all of its headers are there";
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).map_err(cut_off)?;
    if !matches!(number(&header, TYPE, 2), ET_EXEC | ET_DYN) {
        return Err("is an ELF file that is no program");
    }
    let bytes = ENTRY * number(&header, ENTRIES, 2) as usize;
    if number(&header, ENTRY_SIZE, 2) != ENTRY as u64 || bytes == 0 || bytes > LARGEST_TABLE {
        return Err("has no program headers that the kernel understands");
    }
    let mut table = vec![0; bytes];
    file.read_exact_at(&mut table, number(&header, TABLE, 8))
        .map_err(cut_off)?;
    let mut entries = table.chunks_exact(ENTRY);
    let Some(entry) = entries.find(|entry| number(entry, 0, 4) == PT_INTERP) else {
        return Ok(None);
    };
    let bytes = number(entry, BYTES, 8);
    if !(2..=LONGEST_PATH).contains(&bytes) {
        return Err("names no interpreter");
    }
    let mut path = vec![0; bytes as usize];
    file.read_exact_at(&mut path, number(entry, OFFSET, 8))
        .map_err(cut_off)?;
    let end = path.iter().position(|&byte| byte == 0);
    if path.pop() != Some(0) {
        return Err("names an interpreter without an end");
    }
    path.truncate(end.unwrap_or_default());
    Ok(Some(OsString::from_vec(path).into()))
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut number = [0; 8];
    number[..size].copy_from_slice(&bytes[at..at + size]);
    u64::from_le_bytes(number)
}
