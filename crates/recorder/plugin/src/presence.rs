//! Telling which pages are there, where nothing is reported.
//!
//! A page that was touched first where accesses are left out is found by asking the kernel for QEMU's own pages, which
//! are the program's: before each call that may change what a page fault finds, around the memory that it is about; and
//! of all memory before a window begins, before a fork, at the end, and when much is given back. The kernel's walk over
//! page tables is about as long as the call's own over the same range, so that asking costs in proportion to memory and
//! not to the calls made.

use std::collections::HashMap;
use std::ffi::c_uint;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use pagelab_recorder_wire::region::Ring;
use pagelab_recorder_wire::word::{Behind, Kind, Run};

use crate::{faults, guest, ring};

const PAGE: u64 = 4096;
/// A fault may map as much around it: a page table's worth.
const AROUND: u64 = 2 << 20;
/// Behind the last page of a program (TASK_SIZE_MAX with four levels).
const END: u64 = (1 << 47) - PAGE;
/// Runs of one message.
const MOST_RUNS: usize = 4096;

const MMAP: i64 = 9;
const MPROTECT: i64 = 10;
const MUNMAP: i64 = 11;
const BRK: i64 = 12;
const MREMAP: i64 = 25;
const MADVISE: i64 = 28;
const SHMAT: i64 = 30;
const MLOCK: i64 = 149;
const MLOCK2: i64 = 325;

/// The heap's end, once the program has asked.
static HEAP_END: AtomicU64 = AtomicU64::new(0);

/// Pages that were there when all were asked for last, and those that were given back since.
static RESIDENT: AtomicU64 = AtomicU64::new(0);
static GIVEN_BACK: AtomicU64 = AtomicU64::new(0);
/// When this part of them was given back, all are asked for before more is: else what was touched meanwhile would seem
/// to be touched later, and the most memory at a time less than it was. It is the error of that, and its inverse what a
/// page given back costs in look-ups at most.
const PART: u64 = 256;

/// Has the kernel tell of a thread's page faults.
pub fn watch(ring: &Ring, vcpu: c_uint) {
    static SAID: Once = Once::new();
    if wanted()
        && let Err(error) = faults::watch(vcpu)
    {
        SAID.call_once(|| {
            let text = format!(
                "which pages were loaded from before they were stored to is not known where accesses were left out: \
                 perf_event_open: {error} (the kernel tells if /proc/sys/kernel/perf_event_paranoid is at most 2)"
            );
            ring::put_bytes(ring, Kind::Note, text.as_bytes());
        });
    }
}

/// Has the kernel give QEMU's memory page by page: of a huge page all pages are there that one touch has brought.
pub fn set_up() {
    if wanted() {
        // SAFETY: it changes a flag of this process. Where it is refused, more pages seem to have been touched.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    }
}

fn wanted() -> bool {
    ring::header().tells_presence != 0
}

/// Before a call that changes the address space: tells of the memory around what it changes.
pub fn before_call(ring: &Ring, number: i64, arguments: &[u64; 6]) {
    let [first, second, third, fourth, fifth, _] = *arguments;
    let fixed = (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u64;
    match number {
        MMAP if fourth & fixed != 0 => changes(ring, first, second, true),
        MMAP => {}
        MPROTECT => changes(ring, first, second, false),
        MUNMAP => changes(ring, first, second, true),
        MADVISE => changes(ring, first, second, third == libc::MADV_DONTNEED as u64),
        BRK => {
            let end = HEAP_END.load(Ordering::Relaxed);
            if first != 0 && end != 0 && first != end {
                changes(ring, first.min(end), first.abs_diff(end), first < end);
            }
        }
        MREMAP => {
            changes(ring, first, second, false);
            if fourth & libc::MREMAP_FIXED as u64 != 0 {
                changes(ring, fifth, third, true);
            }
        }
        MLOCK | MLOCK2 => changes(ring, first, second, false),
        // It places memory where there is none.
        SHMAT => {}
        // shmdt of a segment, and prctl of what is to be huge.
        _ => tell_all(ring),
    }
}

/// Something is about to be done to so many bytes of memory, which may give back what is there.
fn changes(ring: &Ring, start: u64, bytes: u64, gives_back: bool) {
    tell_faults(ring);
    let there = tell(ring, around(start, bytes));
    if !gives_back || there == 0 || faults::are_known() {
        return;
    }
    let more = there.min(bytes / PAGE + 1);
    let given_back = GIVEN_BACK.fetch_add(more, Ordering::Relaxed) + more;
    if PART * given_back >= RESIDENT.load(Ordering::Relaxed) {
        tell_all(ring);
    }
}

/// After it: of what lies beside memory that the kernel has placed, unless accesses are `reported`.
pub fn after_call(ring: &Ring, number: i64, arguments: &[u64; 6], result: i64, reported: bool) {
    let start = result as u64;
    let failed = (-4095..0).contains(&result);
    if number == MMAP && !failed && is_code_of_a_file(arguments) {
        keep_apart(start, arguments[1]);
    }
    let bytes = match number {
        _ if failed => return,
        BRK => return HEAP_END.store(start, Ordering::Relaxed),
        _ if reported => return,
        MMAP => arguments[1],
        MREMAP => arguments[2],
        _ => return,
    };
    let Range {
        start: low,
        end: high,
    } = around(start, bytes);
    tell(ring, low..start);
    tell(
        ring,
        start.saturating_add(bytes).next_multiple_of(PAGE)..high,
    );
}

/// True if a call of mmap maps code of a file.
fn is_code_of_a_file(arguments: &[u64; 6]) -> bool {
    let [_, _, prot, flags, ..] = *arguments;
    prot & libc::PROT_EXEC as u64 != 0 && flags & libc::MAP_ANONYMOUS as u64 == 0
}

/// Keeps the kernel from making one mapping of a file's code and its read-only data: QEMU maps both as readable alone,
/// and a fault in one would map pages of the other, whose first touch would be told by no fault.
fn keep_apart(start: u64, bytes: u64) {
    if wanted() {
        let start = guest::host_address(start) as *mut libc::c_void;
        // Mappings are one only if their flags are.
        // SAFETY: it changes what a core file of QEMU has in it, and no memory.
        unsafe { libc::madvise(start, bytes as usize, libc::MADV_DONTDUMP) };
    }
}

/// The memory whose page tables are those of so many bytes.
fn around(start: u64, bytes: u64) -> Range<u64> {
    let end = start.saturating_add(bytes).min(END);
    start / AROUND * AROUND..end.next_multiple_of(AROUND).min(END)
}

/// Tells of all memory.
pub fn tell_all(ring: &Ring) {
    tell_faults(ring);
    RESIDENT.store(tell(ring, 0..END), Ordering::Relaxed);
    GIVEN_BACK.store(0, Ordering::Relaxed);
}

/// Tells of page faults since they were last told, in order, and what each has left behind.
pub fn tell_faults(ring: &Ring) {
    let base = guest::host_address(0) / PAGE;
    let faults = faults::take().into_iter().map(|address| address / PAGE);
    let faults: Vec<u64> = faults
        .filter(|page| (base..base + END / PAGE).contains(page))
        .collect();
    let there = behind(&faults);
    // The last of several faults at one page has left what is there. Those before it were loads: it would not have
    // been taken.
    let last: HashMap<u64, usize> = faults
        .iter()
        .enumerate()
        .map(|(at, &page)| (page, at))
        .collect();
    let word = |(at, page): (usize, &u64)| {
        let now = *there.get(page)?;
        let behind = if last[page] == at { now } else { Behind::Zeros };
        let first = page - base;
        Some(
            Run {
                first,
                pages: 1,
                behind,
            }
            .word(),
        )
    };
    let words: Vec<u64> = faults.iter().enumerate().filter_map(word).collect();
    put_runs(ring, Kind::Faults, &words);
}

/// Backing of pages of QEMU's, of which there may be none.
fn behind(pages: &[u64]) -> HashMap<u64, Behind> {
    /// Fewer pages between two are looked at, too, rather than to ask twice.
    const NEAR: u64 = 32;
    let mut sorted = pages.to_vec();
    sorted.sort_unstable();
    let mut there = HashMap::new();
    for near in sorted.chunk_by(|page, next| next - page < NEAR) {
        let range = near[0] * PAGE..(near[near.len() - 1] + 1) * PAGE;
        // A question about all says why it fails.
        let _ = scan(range, &mut |pages, behind| {
            there.extend(pages.map(|page| (page, behind)))
        });
    }
    there
}

/// Tells which pages of the program are there, of a range of its addresses; how many.
fn tell(ring: &Ring, range: Range<u64>) -> u64 {
    let base = guest::host_address(0);
    let host = range.start.saturating_add(base).min(END)..range.end.saturating_add(base).min(END);
    if !wanted() || host.is_empty() {
        return 0;
    }
    let mut runs = Vec::new();
    let mut there = 0;
    let mut add = |pages: Range<u64>, behind: Behind| {
        // The kernel has mapped them around those that were faulted.
        if behind == Behind::File && faults::are_known() {
            return;
        }
        let mut first = pages.start - base / PAGE;
        let mut left = pages.end - pages.start;
        there += left;
        while left > 0 {
            let pages = left.min(Run::MOST);
            runs.push(
                Run {
                    first,
                    pages,
                    behind,
                }
                .word(),
            );
            first += pages;
            left -= pages;
        }
    };
    if let Err(error) = scan(host, &mut add) {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            let text = format!(
                "which pages were touched where accesses were left out is not known: /proc/self/pagemap: {error}"
            );
            ring::put_bytes(ring, Kind::Note, text.as_bytes());
        });
    }
    put_runs(ring, Kind::Present, &runs);
    there
}

fn put_runs(ring: &Ring, kind: Kind, runs: &[u64]) {
    for runs in runs.chunks(MOST_RUNS) {
        let first = kind.word(runs.len() as u64);
        ring::put(ring, &[&[first], runs].concat());
    }
}

/// Finds the pages that are there in a range of QEMU's addresses.
fn scan(range: Range<u64>, add: &mut impl FnMut(Range<u64>, Behind)) -> io::Result<()> {
    // Opened anew each time: it shows the memory of who has opened it, and programs count their descriptors.
    let pagemap = File::open("/proc/self/pagemap")?;
    match by_walk(&pagemap, range.clone(), add) {
        // Before Linux 6.7.
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
            by_entries(&pagemap, range, add)
        }
        done => done,
    }
}

/// Pages that are alike, as PAGEMAP_SCAN tells of them (struct page_region of linux/fs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// struct pm_scan_arg of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong =
    3 << 30 | (size_of::<Scan>() as libc::c_ulong) << 16 | 0x66 << 8 | 16;
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// By PAGEMAP_SCAN (Documentation/admin-guide/mm/pagemap.rst, since Linux 6.7).
fn by_walk(
    pagemap: &File,
    range: Range<u64>,
    add: &mut impl FnMut(Range<u64>, Behind),
) -> io::Result<()> {
    let mut regions = vec![Region::default(); 1024];
    let mut at = range.start;
    while at < range.end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: at,
            end: range.end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_FILE | PAGE_IS_PRESENT | PAGE_IS_SWAPPED | PAGE_IS_PFNZERO,
            ..Scan::default()
        };
        // SAFETY: both structures are as the kernel has them, and `regions` has as many as is said.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let found = usize::try_from(found).map_err(|_| io::Error::last_os_error())?;
        for region in &regions[..found] {
            let behind = if region.categories & PAGE_IS_PFNZERO != 0 {
                Behind::Zeros
            } else if region.categories & PAGE_IS_FILE != 0 {
                Behind::File
            } else {
                Behind::Own
            };
            add(region.start / PAGE..region.end / PAGE, behind);
        }
        if scan.walk_end <= at {
            break;
        }
        at = scan.walk_end;
    }
    Ok(())
}

/// By an entry for each page of what is mapped. The page of zeros looks like any other.
fn by_entries(
    pagemap: &File,
    range: Range<u64>,
    add: &mut impl FnMut(Range<u64>, Behind),
) -> io::Result<()> {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const FILE: u64 = 1 << 61;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut bytes = vec![0; 8 << 13];
    for mapped in maps.lines().filter_map(accessible) {
        let mut at = mapped.start.max(range.start) / PAGE;
        let end = mapped.end.min(range.end) / PAGE;
        while at < end {
            let wanted = bytes.len().min(8 * (end - at) as usize);
            let read = pagemap.read_at(&mut bytes[..wanted], 8 * at)?;
            if read < 8 {
                break;
            }
            for entry in bytes[..read].as_chunks().0 {
                let entry = u64::from_le_bytes(*entry);
                let file = entry & FILE != 0;
                let behind = if file { Behind::File } else { Behind::Own };
                if entry & (PRESENT | SWAPPED) != 0 {
                    add(at..at + 1, behind);
                }
                at += 1;
            }
        }
    }
    Ok(())
}

/// The range of a line of proc_pid_maps(5), unless nothing of it can be touched.
fn accessible(line: &str) -> Option<Range<u64>> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap_or(0));
    (!rest.starts_with("---")).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of which the first page was stored to, the third loaded from, and the others left alone.
    #[test]
    fn the_kernel_tells_what_was_touched() {
        const PAGES: usize = 8;
        // SAFETY: a new mapping, inside which it is stored to and loaded from.
        let start = unsafe {
            let memory = libc::mmap(
                std::ptr::null_mut(),
                PAGES * PAGE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(memory, libc::MAP_FAILED);
            libc::madvise(memory, PAGES * PAGE as usize, libc::MADV_NOHUGEPAGE);
            let memory: *mut u8 = memory.cast();
            memory.write_volatile(1);
            memory.add(2 * PAGE as usize).read_volatile();
            memory as u64
        };
        let range = start..start + PAGES as u64 * PAGE;
        let pagemap = File::open("/proc/self/pagemap").expect("/proc is mounted");
        let first = start / PAGE;
        let mut found = Vec::new();
        let mut add = |pages: Range<u64>, behind| {
            found.push((pages.start - first, pages.end - first, behind))
        };
        match by_walk(&pagemap, range.clone(), &mut add) {
            Ok(()) => assert_eq!(found, [(0, 1, Behind::Own), (2, 3, Behind::Zeros)]),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOTTY)),
        }
        let mut found = Vec::new();
        let mut add = |pages: Range<u64>, behind| {
            found.push((pages.start - first, pages.end - first, behind))
        };
        by_entries(&pagemap, range, &mut add).expect("it can be read");
        assert_eq!(found, [(0, 1, Behind::Own), (2, 3, Behind::Own)]);
    }

    #[test]
    fn what_lies_around_is_in_the_same_page_tables() {
        assert_eq!(around(AROUND + 5 * PAGE, PAGE), AROUND..2 * AROUND);
        assert_eq!(around(AROUND, AROUND), AROUND..2 * AROUND);
        assert_eq!(around(u64::MAX - 1, u64::MAX).end, END);
    }
}
