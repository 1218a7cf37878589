//! Memory mappings that unmap themselves.

use super::Refused;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// The base page size of everything here. The probe refuses to run on other page sizes.
pub const PAGE: usize = 4096;

/// The size of a page mapped by a page-middle-directory entry.
pub const HUGE: usize = 2 << 20;

/// A range of address space of this process.
#[derive(Debug)]
pub struct Mapping {
    addr: *mut u8,
    len: usize,
}

// SAFETY: the range belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes with the given protection, flags and file.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn new(
        len: usize,
        prot: c_int,
        flags: c_int,
        file: Option<&OwnedFd>,
    ) -> Result<Mapping, Refused> {
        let fd = file.map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: a new range at an address of the kernel's choice overlaps nothing.
        let addr = unsafe { libc::mmap(ptr::null_mut(), len, prot, flags, fd, 0) };
        if addr == libc::MAP_FAILED {
            return Err(Refused::last(format!("mmap of {len} bytes")));
        }
        let addr = addr.cast();
        Ok(Mapping { addr, len })
    }

    /// Readable and writable private anonymous memory, touched by nobody yet.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn anonymous(len: usize) -> Result<Mapping, Refused> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        Mapping::new(len, libc::PROT_READ | libc::PROT_WRITE, flags, None)
    }

    /// The same, beginning at a multiple of [`HUGE`].
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn anonymous_huge_aligned(len: usize) -> Result<Mapping, Refused> {
        Mapping::anonymous_aligned(len, HUGE)
    }

    /// A mapping in huge pages, if they are wanted and the kernel gives them, or in base pages alone.
    ///
    /// # Errors
    /// Errors of mmap(2) or madvise(2).
    pub fn anonymous_in(huge: bool, len: usize) -> Result<Mapping, Refused> {
        let mapping = Mapping::anonymous_huge_aligned(len)?;
        let advice = if huge {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        mapping.advise(0, len, advice)?;
        Ok(mapping)
    }

    fn anonymous_aligned(len: usize, align: usize) -> Result<Mapping, Refused> {
        let mut wide = Mapping::anonymous(len + align)?;
        let front = wide.addr.align_offset(align);
        let back = align - front;
        // SAFETY: both cuts lie inside `wide`, which nobody points into yet.
        unsafe {
            if front > 0 {
                libc::munmap(wide.addr.cast(), front);
            }
            if back > 0 {
                libc::munmap(wide.addr.add(front + len).cast(), back);
            }
            wide.addr = wide.addr.add(front);
        }
        wide.len = len;
        Ok(wide)
    }

    /// Shared memory of a file, readable and writable, brought in at once.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn shared(file: &OwnedFd, len: usize) -> Result<Mapping, Refused> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Mapping::new(len, libc::PROT_READ | libc::PROT_WRITE, flags, Some(file))
    }

    /// Address space that holds nothing yet, beginning at a multiple of `align`.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn reserved(len: usize, align: usize) -> Result<Mapping, Refused> {
        let mapping = Mapping::anonymous_aligned(len, align)?;
        mapping.protect(0, len, libc::PROT_NONE)?;
        Ok(mapping)
    }

    /// First byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.addr
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has no bytes, which mmap(2) refuses.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Maps `len` bytes of `file` from `offset` over `at..at + len` of this range, shared and
    /// present.
    ///
    /// # Errors
    /// What mmap(2) says; ENOMEM often means vm.max_map_count.
    pub fn overlay(
        &mut self,
        at: usize,
        len: usize,
        file: &OwnedFd,
        offset: usize,
    ) -> Result<(), Refused> {
        assert!(at + len <= self.len, "{at}+{len} exceeds {}", self.len);
        // SAFETY: MAP_FIXED replaces only pages inside the range, which `self` owns alone.
        let addr = unsafe {
            libc::mmap(
                self.addr.add(at).cast(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if addr == libc::MAP_FAILED {
            return Err(Refused::last("mmap of a file page over reserved space"));
        }
        Ok(())
    }

    /// madvise(2) for `len` bytes from `at`.
    ///
    /// # Errors
    /// What madvise(2) says.
    pub fn advise(&self, at: usize, len: usize, advice: c_int) -> Result<(), Refused> {
        assert!(at + len <= self.len, "{at}+{len} exceeds {}", self.len);
        // SAFETY: inside the range; advice that discards pages leaves zeros, which any reader
        // of this untyped memory must expect.
        if unsafe { libc::madvise(self.addr.add(at).cast(), len, advice) } != 0 {
            return Err(Refused::last(format!("madvise {advice} of {len} bytes")));
        }
        Ok(())
    }

    /// mprotect(2) for `len` bytes from `at`.
    ///
    /// # Errors
    /// What mprotect(2) says.
    pub fn protect(&self, at: usize, len: usize, prot: c_int) -> Result<(), Refused> {
        assert!(at + len <= self.len, "{at}+{len} exceeds {}", self.len);
        // SAFETY: inside the range; every access goes through raw pointers.
        if unsafe { libc::mprotect(self.addr.add(at).cast(), len, prot) } != 0 {
            return Err(Refused::last(format!("mprotect of {len} bytes")));
        }
        Ok(())
    }

    /// Moves the pages of this range over `target`, which must be as long.
    ///
    /// # Errors
    /// What mremap(2) says.
    pub fn move_over(self, target: Mapping) -> Result<Mapping, Refused> {
        assert_eq!(self.len, target.len, "ranges of different lengths");
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: both ranges are owned; the target is replaced, and the source is gone after.
        let moved = unsafe {
            libc::mremap(
                self.addr.cast(),
                self.len,
                self.len,
                flags,
                target.addr.cast::<u8>(),
            )
        };
        if moved == libc::MAP_FAILED {
            return Err(Refused::last(format!("mremap of {} bytes", self.len)));
        }
        std::mem::forget(self);
        Ok(target)
    }

    /// Writes one byte in every `stride` bytes of `at..at + len`.
    pub fn touch(&self, at: usize, len: usize, stride: usize) {
        assert!(at + len <= self.len, "{at}+{len} exceeds {}", self.len);
        for offset in (at..at + len).step_by(stride) {
            // SAFETY: inside the range, which is writable wherever the probe touches it.
            unsafe { self.addr.add(offset).write_volatile(1) };
        }
    }

    /// Reads one byte in every `stride` bytes of `at..at + len`.
    pub fn read(&self, at: usize, len: usize, stride: usize) {
        assert!(at + len <= self.len, "{at}+{len} exceeds {}", self.len);
        for offset in (at..at + len).step_by(stride) {
            // SAFETY: inside the range, which is readable wherever the probe reads it.
            unsafe { self.addr.add(offset).read_volatile() };
        }
    }

    /// Takes the lines at some offsets out of all caches; whether there is an instruction for that which
    /// programs may use.
    ///
    /// # Panics
    /// When one is past the end.
    pub fn flush(&self, offsets: impl Iterator<Item = usize>) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_mm_clflush, _mm_mfence};
            for offset in offsets {
                assert!(offset < self.len, "{offset} exceeds {}", self.len);
                // SAFETY: inside the range, which is mapped; flushing changes no contents.
                unsafe { _mm_clflush(self.addr.add(offset)) };
            }
            // SAFETY: SSE2 is part of x86-64. Loads after it find the lines flushed.
            unsafe { _mm_mfence() };
            true
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = offsets;
            false
        }
    }

    /// Splits a page-middle-directory mapping of the range into base-page entries, and leaves
    /// the folios whole: changing the protection of one base page of each huge page forces the
    /// kernel to split the entry (`__split_huge_pmd` in mm/huge_memory.c), not the folio.
    ///
    /// # Errors
    /// What mprotect(2) or madvise(2) says.
    pub fn split_huge_entries(&self) -> Result<(), Refused> {
        for at in (0..self.len).step_by(HUGE) {
            self.protect(at, PAGE, libc::PROT_READ)?;
            self.protect(at, PAGE, libc::PROT_READ | libc::PROT_WRITE)?;
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is owned, and no pointer into it outlives its owner.
        unsafe { libc::munmap(self.addr.cast(), self.len) };
    }
}

/// Empties the TLBs of this process's translations: unmaps more pages than the kernel invalidates
/// one by one (`tlb_single_page_flush_ceiling`, 33, in arch/x86/mm/tlb.c).
///
/// # Errors
/// What mmap(2) says.
pub fn flush_tlb() -> Result<(), Refused> {
    const PAGES: usize = 64;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    Mapping::new(PAGES * PAGE, both, flags, None).map(drop)
}

/// An anonymous file of `len` bytes in memory; `flags` as for memfd_create(2).
///
/// # Errors
/// What memfd_create(2) or ftruncate(2) says.
pub fn memory_file(len: usize, flags: u32) -> Result<OwnedFd, Refused> {
    // SAFETY: the name is a terminated string.
    let fd = unsafe { libc::memfd_create(c"pagelab-probe".as_ptr(), flags | libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(Refused::last("memfd_create"));
    }
    // SAFETY: the descriptor is new and nobody else's.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a valid descriptor.
    if unsafe { libc::ftruncate(fd, len as libc::off_t) } != 0 {
        return Err(Refused::last(format!(
            "ftruncate of a memory file to {len}"
        )));
    }
    Ok(file)
}

/// Backing of a range of memory, from /proc/self/smaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Backing {
    /// Bytes present.
    pub resident: u64,
    /// Bytes of anonymous memory mapped by page-middle-directory entries.
    pub anonymous_huge: u64,
    /// Bytes of shared memory or files mapped by such entries.
    pub file_huge: u64,
    /// Bytes of hugetlb pages.
    pub hugetlb: u64,
}

/// Backing of the mappings that lie inside `mapping`. `None` if smaps cannot be read.
pub fn backing(mapping: &Mapping) -> Option<Backing> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let start = mapping.addr as usize;
    let mut inside = false;
    let mut backing = Backing::default();
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let (Some(key), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        if let Some((from, to)) = key.split_once('-') {
            let parse = |s| usize::from_str_radix(s, 16).ok();
            if let (Some(from), Some(to)) = (parse(from), parse(to)) {
                inside = from < start + mapping.len && start < to;
                continue;
            }
        }
        if !inside {
            continue;
        }
        let bytes = value.parse::<u64>().unwrap_or(0) * 1024;
        match key {
            "Rss:" => backing.resident += bytes,
            "AnonHugePages:" => backing.anonymous_huge += bytes,
            "ShmemPmdMapped:" | "FilePmdMapped:" => backing.file_huge += bytes,
            "Private_Hugetlb:" | "Shared_Hugetlb:" => backing.hugetlb += bytes,
            _ => {}
        }
    }
    Some(backing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_one_file_page_show_the_same_bytes() {
        let file = memory_file(PAGE, 0).expect("memory file");
        let mut space = Mapping::reserved(3 * PAGE, PAGE).expect("space");
        for at in [0, 2 * PAGE] {
            space.overlay(at, PAGE, &file, 0).expect("overlay");
        }
        // SAFETY: both pages are mapped readable and writable above.
        let seen = unsafe {
            space.as_ptr().write(42);
            space.as_ptr().add(2 * PAGE).read()
        };
        assert_eq!(seen, 42);
    }

    #[test]
    fn touched_pages_are_resident_and_a_range_can_be_huge_aligned() {
        let mapping = Mapping::anonymous_huge_aligned(2 * HUGE).expect("mapping");
        assert_eq!(mapping.as_ptr() as usize % HUGE, 0);
        mapping
            .advise(0, 2 * HUGE, libc::MADV_NOHUGEPAGE)
            .expect("advise");
        mapping.touch(0, 40 * PAGE, PAGE);
        let backing = backing(&mapping).expect("smaps");
        assert_eq!(backing.resident, 40 * PAGE as u64);
        assert_eq!(backing.anonymous_huge, 0);
    }
}
