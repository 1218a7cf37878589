//! Formats that are not read, recognised to say what they are and what to do.

use crate::csv;
use std::str;

/// Lines from which a text is told.
const LINES: usize = 32;

/// A format, and what to do with a file of it.
type Format = (&'static str, &'static str);

const UNPACK: &str = "unpack it and give the trace that is in it";
const DECOMPRESS: &str = "decompress it once; gzip, xz, bzip2 and zstd are read as they are";
const AS_CSV: &str = "write its accesses as lines of L,ADDR,SIZE or S,ADDR,SIZE (docs/trace-format.md, Events as text)";
const RECORD: &str = "make a trace with pagelab record -- PROGRAM";
const UTF_16: Format = (
    "text in UTF-16",
    "write it as UTF-8 (iconv -f UTF-16 -t UTF-8; in PowerShell -Encoding utf8)",
);
const ZEROS: Format = (
    "nothing but zero bytes",
    "it was never filled, or has lost its contents: get it anew",
);

/// Bytes of a file that tell its format, and their offset.
const MAGIC: [(usize, &[u8], Format); 15] = [
    (257, b"ustar", ("a tar archive", UNPACK)),
    (0, b"PK\x03\x04", ("a zip archive", UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", ("a 7z archive", UNPACK)),
    (0, b"\x04\x22\x4d\x18", ("compressed with lz4", DECOMPRESS)),
    (0, b"\x1f\x8b\x08", ("compressed twice", DECOMPRESS)),
    (0, b"\xfd7zXZ\0", ("compressed twice", DECOMPRESS)),
    (0, b"\x28\xb5\x2f\xfd", ("compressed twice", DECOMPRESS)),
    (0, b"\x7fELF", ("a program or a library", RECORD)),
    (0, b"PERFILE2", ("samples of perf record", RECORD)),
    (
        0,
        b"pgwords\n",
        (
            "an unfinished recording",
            "pagelab trace finish FILE makes a trace of it",
        ),
    ),
    (0, b"gem5", ("a packet trace of gem5", AS_CSV)),
    (0, b"\x93NUMPY", ("an array of NumPy", AS_CSV)),
    (0, b"\x89HDF\r\n\x1a\n", ("an HDF5 file", AS_CSV)),
    (0, b"PAR1", ("a Parquet file", AS_CSV)),
    (0, b"SQLite format 3\0", ("an SQLite database", AS_CSV)),
];

/// Recognises a format by the first lines of a text, none of them empty.
type Recogniser = fn(&[&str]) -> bool;

/// Formats of texts.
const TEXTS: [(Recogniser, Format); 7] = [
    (
        is_separated,
        (
            "CSV with semicolons or tabs between the columns",
            r"put commas there (tr ';\t' ,,)",
        ),
    ),
    (
        is_drmemtrace,
        ("what DynamoRIO's drmemtrace view tool prints", AS_CSV),
    ),
    (is_pinatrace, ("a trace of Pin's pinatrace", AS_CSV)),
    (is_dinero, ("a trace of Dinero", AS_CSV)),
    (is_ramulator, ("a trace of Ramulator", AS_CSV)),
    (
        |lines| lines[0].starts_with(['{', '[']),
        ("JSON", "pagelab report shows the results of a run"),
    ),
    (
        |lines| lines[0].starts_with('<'),
        (
            "a web page",
            "get the file that is meant to be downloaded there",
        ),
    ),
];

/// Recognises a binary file, or a text in UTF-16.
pub fn binary(head: &[u8]) -> Option<Format> {
    let has = |at: usize, magic| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    if let Some(&(_, _, format)) = MAGIC.iter().find(|&&(at, magic, _)| has(at, magic)) {
        return Some(format);
    }
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") || is_wide(head) {
        return Some(UTF_16);
    }
    head.iter().all(|&byte| byte == 0).then_some(ZEROS)
}

/// Recognises a text, which is neither Lackey's nor begins as CSV.
pub fn text(head: &[u8]) -> Option<Format> {
    let lines = head.split(|&byte| byte == b'\n').take(LINES);
    let lines: Vec<_> = lines
        .filter_map(|line| str::from_utf8(line).ok())
        .map(|line| line.trim_start_matches('\u{feff}').trim())
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    if csv::is_line(lines.first()?) {
        return None;
    }
    let format = TEXTS.iter().find(|(is, _)| is(&lines));
    format.map(|&(_, format)| format)
}

/// Recognises ASCII characters in units of two bytes, as in UTF-16 without a byte order mark.
fn is_wide(head: &[u8]) -> bool {
    let units = || head.chunks_exact(2).take(64);
    let ascii = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    head.len() >= 8
        && (units().all(|unit| ascii(unit[0]) && unit[1] == 0)
            || units().all(|unit| unit[0] == 0 && ascii(unit[1])))
}

fn is_separated(lines: &[&str]) -> bool {
    csv::is_line(&lines[0].replace([';', '\t'], ","))
}

/// Lines as `2  1:  3264 read  8 byte(s) @ 0x7ffd0000 by PC 0x401000`.
fn is_drmemtrace(lines: &[&str]) -> bool {
    let is = |line: &&str| line.contains(" byte(s) @ 0x") || line.contains(" <marker: ");
    lines.iter().any(is)
}

/// Lines as `0x401000: R 0x7ffd0000`.
fn is_pinatrace(lines: &[&str]) -> bool {
    let fields: Vec<_> = lines[0].split_whitespace().collect();
    matches!(fields[..], [ip, "R" | "W", addr, ..]
        if ip.ends_with(':') && ip.starts_with("0x") && addr.starts_with("0x"))
}

/// Lines as `2 408ed4`: a label (0 to 2), an address in hexadecimal.
fn is_dinero(lines: &[&str]) -> bool {
    let mut lettered = false;
    let fits = lines.iter().all(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [label, addr, ..] = fields[..] else {
            return false;
        };
        lettered |= !is_decimal(addr);
        matches!(label, "0" | "1" | "2") && u64::from_str_radix(addr, 16).is_ok()
    });
    fits && lettered
}

/// Lines as `3 20734016` or `3 20734016 20841280` (instructions, addresses read and written back), as
/// `0x12345680 R`, or as `LD 0x12345680`.
fn is_ramulator(lines: &[&str]) -> bool {
    let addr = |field: &str| is_decimal(field) || field.starts_with("0x");
    let fields: Vec<_> = lines[0].split_whitespace().collect();
    match fields[..] {
        [instructions, read] => match (instructions, read) {
            ("LD" | "ST", at) | (at, "R" | "W") => addr(at),
            _ => is_decimal(instructions) && addr(read),
        },
        [instructions, read, written] => is_decimal(instructions) && addr(read) && addr(written),
        _ => false,
    }
}

fn is_decimal(field: &str) -> bool {
    field.bytes().all(|byte| byte.is_ascii_digit())
}
