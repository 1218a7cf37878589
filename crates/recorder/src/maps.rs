//! The mappings of a program that QEMU has just loaded, from /proc/self/maps before and after.

use std::collections::HashMap;
use std::ops::Range;

use pagelab_events::{Backing, Control, Protection, Touch};

use crate::PAGE;
use crate::elf::Segment;

/// A line of /proc/PID/maps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    prot: Protection,
    shared: bool,
    /// Begin in the file.
    offset: u64,
    path: String,
}

/// The mappings of files, QEMU's own among them: start, length, place in the file and path of each.
pub(crate) fn files(text: &str) -> impl Iterator<Item = (u64, u64, u64, String)> {
    let files = parse(text).into_iter();
    let files = files.filter(|mapping| mapping.path.starts_with('/'));
    files.map(|mapping| {
        let length = mapping.end - mapping.start;
        (mapping.start, length, mapping.offset, mapping.path)
    })
}

/// A map event for each mapping that came with the program, and a touch of each page that loading it has zeroed in
/// part. `segments` has those of a file by its path: QEMU maps code as it maps constants, and the kernel then shows
/// both as one mapping.
pub(crate) fn loaded(
    before: &str,
    after: &str,
    segments: impl Fn(&str) -> Vec<Segment>,
) -> Vec<Control> {
    let before = parse(before);
    let mappings = parse(after);
    let apart = (0..mappings.len())
        .any(|index| mappings[index].start < QEMUS_AREA && is_stack(&mappings, index));
    let (mut controls, mut zeroed) = (Vec::new(), Vec::new());
    let mut images: HashMap<&str, Image> = HashMap::new();
    for (index, mapping) in mappings.iter().enumerate() {
        if is_qemus(mapping, apart) {
            continue;
        }
        let backing = backing(&mappings, index);
        for (start, end) in new_parts(mapping, &before) {
            let map = |range: Range<u64>, prot| Control::Map {
                addr: range.start,
                len: range.end - range.start,
                prot,
                backing,
                populate: false,
            };
            if backing != Backing::PrivateFile {
                controls.push(map(start..end, mapping.prot));
                continue;
            }
            let image = images
                .entry(&mapping.path)
                .or_insert_with(|| Image::new(start, segments(&mapping.path)));
            let parts = image.parts(start..end);
            controls
                .extend(parts.map(|(range, exec)| map(range, Protection(mapping.prot.0 | exec))));
            zeroed.extend(image.zeroed(start..end));
        }
    }
    controls.extend(zeroed);
    controls
}

/// A file that was loaded at an address.
struct Image {
    /// Distance from the file's addresses.
    bias: u64,
    segments: Vec<Segment>,
}

impl Image {
    /// One whose first segment is at `start`.
    fn new(start: u64, segments: Vec<Segment>) -> Image {
        let first = segments.first().map_or(0, |segment| segment.pages.start);
        Image {
            bias: start.wrapping_sub(first),
            segments,
        }
    }

    /// A mapping cut where segments end, each part with [`Protection::EXEC`] if it is code.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, u8)> {
        let mut cuts = vec![range.start, range.end];
        let ends = self.segments.iter().flat_map(|segment| {
            let Range { start, end } = segment.pages;
            [start, end].map(|end| end.wrapping_add(self.bias))
        });
        cuts.extend(ends.filter(|end| range.contains(end)));
        cuts.sort_unstable();
        cuts.dedup();
        let parts: Vec<_> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
        parts.into_iter().map(|part| {
            let at = part.start.wrapping_sub(self.bias);
            let mut segments = self.segments.iter();
            let of = segments.find(|segment| segment.pages.contains(&at));
            let exec = of.map_or(0, |segment| segment.prot.0 & Protection::EXEC);
            (part, exec)
        })
    }

    /// A store to each page of a mapping that is zeroed in part.
    fn zeroed(&self, range: Range<u64>) -> impl Iterator<Item = Control> {
        let from = self
            .segments
            .iter()
            .filter_map(|segment| segment.zeroed_from);
        let pages = from.map(|from| from.wrapping_add(self.bias) & !(PAGE - 1));
        pages
            .filter(move |page| range.contains(page))
            .map(|addr| Control::Touched {
                addr,
                len: PAGE,
                touch: Touch::Stored,
            })
    }
}

fn backing(mappings: &[Mapping], index: usize) -> Backing {
    let mapping = &mappings[index];
    if is_stack(mappings, index) {
        Backing::Stack
    } else if mapping.path.is_empty() {
        Backing::Anonymous
    } else if mapping.shared {
        Backing::SharedFile
    } else {
        Backing::PrivateFile
    }
}

/// Begin of the area in which the kernel puts QEMU's own mappings, from the top of the address space down. A program
/// is far below in pagelab-qemu, from 0x6ffffffff000 down, and up to release 8.2, from TASK_UNMAPPED_BASE up
/// (linux-user/mmap.c). In other releases from 9.0 on it is the kernel that places it, in the same area.
const QEMUS_AREA: u64 = 0x7000_0000_0000;

/// QEMU's buffer for translated code is 32 MB at least, and nothing else is written and executed.
const CODE_BUFFER: u64 = 32 << 20;

/// True if a mapping is QEMU's own, though it may be new: its large allocations and libraries, by place if programs
/// are `apart`, its heap and the like, by name, and its buffer for translated code. A new allocation of QEMU's that
/// counts as the program's is one that the program never touches.
fn is_qemus(mapping: &Mapping, apart: bool) -> bool {
    let all = Protection::READ | Protection::WRITE | Protection::EXEC;
    apart && mapping.start >= QEMUS_AREA
        || mapping.path.starts_with('[')
        || mapping.path.starts_with("/memfd:")
        || mapping.path.is_empty()
            && mapping.prot.0 == all
            && mapping.end - mapping.start >= CODE_BUFFER
}

/// The parts of a mapping that were not mapped before: start and end. (The kernel joins
/// anonymous mappings that touch.)
fn new_parts(mapping: &Mapping, before: &[Mapping]) -> Vec<(u64, u64)> {
    let mut parts = vec![(mapping.start, mapping.end)];
    for old in before {
        parts = parts
            .into_iter()
            .flat_map(|(start, end)| [(start, end.min(old.start)), (start.max(old.end), end)])
            .filter(|(start, end)| start < end)
            .collect();
    }
    parts
}

/// True if a mapping is the stack: writable, anonymous, above a guard page that QEMU puts there.
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
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
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
        offset,
        path: fields.nth(2).unwrap_or_default().trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
5000-9000 r-xp 00000000 fe:00 1 /usr/bin/qemu-x86_64
7000000-7003000 rw-p 00000000 00:00 0
8000000-8001000 rw-p 00000000 00:00 0 [heap]
";

    fn spans(after: &str) -> Vec<(u64, u64, Backing)> {
        loaded(BEFORE, after, |_| Vec::new())
            .into_iter()
            .map(|control| match control {
                Control::Map {
                    addr, len, backing, ..
                } => (addr, addr + len, backing),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn only_what_is_new_is_the_programs() {
        let after = format!("{BEFORE}400000-401000 r-xp 00000000 fe:00 2 /bin/a b\n");
        assert_eq!(
            spans(&after),
            [(0x40_0000, 0x40_1000, Backing::PrivateFile)]
        );
    }

    #[test]
    fn what_qemu_allocates_meanwhile_is_not_the_programs() {
        let stack =
            "9000000-9001000 ---p 00000000 00:00 0\n9001000-9801000 rw-p 00000000 00:00 0\n";
        let after = format!("{BEFORE}{stack}7fff7d1de000-7fff7d1ff000 rw-p 00000000 00:00 0\n");
        assert!(spans(&after).iter().all(|&(start, ..)| start < QEMUS_AREA));
    }

    #[test]
    fn a_program_that_the_kernel_has_placed_among_qemus_mappings_is_found_there() {
        let after = format!(
            "{BEFORE}7ffff6c62000-7ffff6c63000 ---p 00000000 00:00 0\n\
             7ffff6c63000-7ffff7463000 rw-p 00000000 00:00 0\n\
             7ffff7463000-7ffff7465000 r--p 00000000 fe:00 2 /usr/bin/cat\n"
        );
        assert_eq!(
            spans(&after)[1..],
            [
                (0x7fff_f6c6_3000, 0x7fff_f746_3000, Backing::Stack),
                (0x7fff_f746_3000, 0x7fff_f746_5000, Backing::PrivateFile)
            ]
        );
    }

    #[test]
    fn a_mapping_of_several_segments_is_cut_and_the_end_of_data_is_written() {
        let segment = |pages, prot, zeroed_from| Segment {
            pages,
            prot: Protection(prot),
            zeroed_from,
        };
        let segments = [
            segment(0..0x2000, Protection::READ, None),
            segment(0x2000..0x3000, Protection::READ | Protection::EXEC, None),
            segment(0x3000..0x4000, Protection::READ, None),
            segment(
                0x5000..0x6000,
                Protection::READ | Protection::WRITE,
                Some(0x5123),
            ),
        ];
        let after = format!(
            "{BEFORE}400000-404000 r--p 00000000 fe:00 2 /bin/a\n405000-406000 rw-p 00004000 fe:00 2 /bin/a\n"
        );
        let found = loaded(BEFORE, &after, |path| {
            assert_eq!(path, "/bin/a");
            segments.to_vec()
        });
        let maps = found.iter().filter_map(|control| match *control {
            Control::Map {
                addr, len, prot, ..
            } => Some((addr, addr + len, prot.0)),
            _ => None,
        });
        let rx = Protection::READ | Protection::EXEC;
        assert_eq!(
            maps.collect::<Vec<_>>(),
            [
                (0x40_0000, 0x40_2000, Protection::READ),
                (0x40_2000, 0x40_3000, rx),
                (0x40_3000, 0x40_4000, Protection::READ),
                (0x40_5000, 0x40_6000, Protection::READ | Protection::WRITE),
            ]
        );
        let zeroed = Control::Touched {
            addr: 0x40_5000,
            len: PAGE,
            touch: Touch::Stored,
        };
        assert_eq!(found.last(), Some(&zeroed));
    }

    #[test]
    fn a_mapping_joined_to_one_of_qemus_is_cut_off_again() {
        let after = BEFORE.replace("7000000-7003000", "6fff000-7005000");
        assert_eq!(
            spans(&after),
            [
                (0x6ff_f000, 0x700_0000, Backing::Anonymous),
                (0x700_3000, 0x700_5000, Backing::Anonymous)
            ]
        );
    }

    #[test]
    fn the_heap_of_qemu_may_grow_and_a_stack_has_a_guard_page() {
        let after = BEFORE.replace("8000000-8001000", "8000000-8009000")
            + "9000000-9001000 ---p 00000000 00:00 0\n9001000-9801000 rw-p 00000000 00:00 0\n";
        assert_eq!(
            spans(&after),
            [
                (0x900_0000, 0x900_1000, Backing::Anonymous),
                (0x900_1000, 0x980_1000, Backing::Stack)
            ]
        );
    }
}
