//! The program's memory: where it lies in QEMU's, and reading it, which need not be there.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest text read: a path or an argument (MAX_ARG_STRLEN).
const LONGEST: usize = 128 * 1024;

/// Host address of the program's address 0.
static GUEST_BASE: AtomicU64 = AtomicU64::new(0);

/// Notes where the program's address 0 lies in QEMU's memory.
pub fn note_guest_base(base: u64) {
    GUEST_BASE.store(base, Ordering::Relaxed);
}

/// The address in QEMU's memory of the program's byte `address`.
pub fn host_address(address: u64) -> u64 {
    GUEST_BASE.load(Ordering::Relaxed).wrapping_add(address)
}

/// Copies words; `false` if some of them are not there.
pub fn words(address: u64, words: &mut [u64]) -> bool {
    let bytes = size_of_val(words);
    // SAFETY: plain integers may hold any bytes.
    let bytes_of = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) };
    read(address, bytes_of) == bytes
}

/// A text that ends with a zero byte.
pub fn text(address: u64) -> Option<OsString> {
    const PAGE: u64 = 4096;
    let mut text = Vec::new();
    let mut at = address;
    while text.len() < LONGEST {
        // Never across the end of a page: the next one need not be there.
        let mut piece = vec![0; (PAGE - at % PAGE) as usize];
        let read = read(at, &mut piece);
        piece.truncate(read);
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            text.extend_from_slice(&piece[..end]);
            return Some(OsString::from_vec(text));
        }
        if read == 0 {
            return None;
        }
        text.extend_from_slice(&piece);
        at += read as u64;
    }
    None
}

/// Copies bytes; how many there were.
fn read(address: u64, bytes: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: host_address(address) as *mut _,
        iov_len: bytes.len(),
    };
    // SAFETY: `local` is ours to write; the kernel checks `remote`, which is in this process.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(read).unwrap_or(0)
}
