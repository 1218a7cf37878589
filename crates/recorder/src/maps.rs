//! The mappings of a program that QEMU has just loaded, from /proc/self/maps before and after.

use pagelab_events::{Backing, Control, Protection};

use crate::PAGE;

/// A line of /proc/PID/maps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    prot: Protection,
    shared: bool,
    path: String,
}

/// A map event for each mapping that came with the program.
pub(crate) fn loaded(before: &str, after: &str) -> Vec<Control> {
    let before = parse(before);
    let mappings = parse(after);
    let new = mappings
        .iter()
        .enumerate()
        .filter(|(_, mapping)| is_the_programs(mapping, &before));
    new.map(|(index, mapping)| Control::Map {
        addr: mapping.start,
        len: mapping.end - mapping.start,
        prot: mapping.prot,
        backing: if is_stack(&mappings, index) {
            Backing::Stack
        } else if mapping.path.is_empty() {
            Backing::Anonymous
        } else if mapping.shared {
            Backing::SharedFile
        } else {
            Backing::PrivateFile
        },
        populate: false,
    })
    .collect()
}

/// Whether a mapping is the program's and not QEMU's own: QEMU's were there before, or have
/// grown or been split from those.
fn is_the_programs(mapping: &Mapping, before: &[Mapping]) -> bool {
    let touches = |old: &Mapping| mapping.start <= old.end && old.start <= mapping.end;
    !mapping.path.starts_with('[') && !before.iter().any(touches)
}

/// Whether a mapping is the stack: writable, anonymous, above a guard page that QEMU puts there.
fn is_stack(mappings: &[Mapping], index: usize) -> bool {
    let mapping = &mappings[index];
    let Some(below) = index.checked_sub(1).map(|below| &mappings[below]) else {
        return false;
    };
    mapping.path.is_empty()
        && mapping.prot.0 & Protection::WRITE != 0
        && below.end == mapping.start
        && below.end - below.start == PAGE
        && below.prot == Protection(0)
        && below.path.is_empty()
}

fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).collect()
}

/// `start-end perms offset device inode path`: proc_pid_maps(5).
fn parse_line(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?.as_bytes();
    let bit = |index: usize, letter: u8, bit: u8| {
        if permissions.get(index) == Some(&letter) {
            bit
        } else {
            0
        }
    };
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        prot: Protection(
            bit(0, b'r', Protection::READ)
                | bit(1, b'w', Protection::WRITE)
                | bit(2, b'x', Protection::EXEC),
        ),
        shared: permissions.get(3) == Some(&b's'),
        path: fields.nth(3).unwrap_or_default().trim_start().to_owned(),
    })
}
