//! Access of the plugin to the memory that it shares with the recorder, also after the program has
//! changed its user or given up capabilities.
//!
//! The memory is a descriptor of the recorder's, which can be opened through /proc by those only who
//! may trace the recorder (proc_pid_fd(5), ptrace(2), "Ptrace access mode checking"). So a program that
//! is about to lose that keeps a descriptor, far up and closed by execve; and a program that is
//! replaced by QEMU hands one on to it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use pagelab_recorder_wire::region;

use crate::{descriptors, ring};

/// The descriptor that is kept, if one is.
static KEPT: AtomicI32 = AtomicI32::new(-1);
/// Device and inode of the memory.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// Maps the memory: what this descriptor is, which whoever started QEMU has left open, or what is at `path`.
/// The descriptor stays open only if the path does not lead there.
pub fn map(path: &str, handed: Option<RawFd>) -> io::Result<()> {
    let file = match handed {
        // SAFETY: it was opened for us, and is nobody else's.
        Some(descriptor) => unsafe { File::from_raw_fd(descriptor) },
        None => open(Path::new(path))?,
    };
    let header = region::map(file.as_fd(), out_of_the_way())?;
    // SAFETY: the recorder made the file as large as it is mapped; it is never unmapped.
    unsafe {
        if (*header).magic != region::MAGIC {
            return Err(io::Error::other(
                "the plugin and the recorder are not of the same build",
            ));
        }
        ring::adopt(header);
    }
    if let Some((device, inode)) = identity(file.as_raw_fd()) {
        DEVICE.store(device, Ordering::Relaxed);
        INODE.store(inode, Ordering::Relaxed);
    }
    if handed.is_some() && open(Path::new(path)).is_err() {
        far_up(file).map(|descriptor| KEPT.store(descriptor, Ordering::Relaxed))?;
    }
    Ok(())
}

/// A place for the memory, which is larger than a call's reach, that leaves the one below the plugin to the buffer
/// that QEMU translates into. From there it then calls the plugin directly (`tcg_out_branch()`).
fn out_of_the_way() -> usize {
    const ROOM: usize = 1 << 30;
    const HUGE_PAGE: usize = 2 << 20;
    let plugin = map as *const () as usize;
    plugin.saturating_sub(ROOM + region::BYTES) & !(HUGE_PAGE - 1)
}

/// The program may be about to lose the right to open the memory.
pub fn keep(path: &Path) {
    if kept().is_none()
        && let Ok(descriptor) = open(path).and_then(far_up)
    {
        KEPT.store(descriptor, Ordering::Relaxed);
    }
}

/// A descriptor of the memory that stays open over execve; `None` if it cannot be had any more.
pub fn to_hand_on(path: &Path) -> Option<File> {
    let file = match open(path) {
        Ok(file) => file,
        Err(_) => {
            // SAFETY: it is a descriptor of the memory; the copy is ours.
            let copy = unsafe { libc::fcntl(kept()?, libc::F_DUPFD_CLOEXEC, 3) };
            if copy < 0 {
                return None;
            }
            // SAFETY: as above.
            unsafe { File::from_raw_fd(copy) }
        }
    };
    descriptors::close_by_execve(file.as_raw_fd(), false).then_some(file)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// The kept descriptor, unless the program has closed it, or made it something else.
fn kept() -> Option<RawFd> {
    let descriptor = KEPT.load(Ordering::Relaxed);
    let memory = (
        DEVICE.load(Ordering::Relaxed),
        INODE.load(Ordering::Relaxed),
    );
    (descriptor >= 0 && identity(descriptor) == Some(memory)).then_some(descriptor)
}

/// Moves a file to a descriptor that programs hardly ever get to, closed by execve.
fn far_up(file: File) -> io::Result<RawFd> {
    if let Ok(moved) = descriptors::far_up(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC) {
        return Ok(moved);
    }
    // As it is, then.
    descriptors::close_by_execve(file.as_raw_fd(), true);
    Ok(file.into_raw_fd())
}

/// Device and inode of an open file.
fn identity(descriptor: RawFd) -> Option<(u64, u64)> {
    // SAFETY: all zeros are a valid `stat`, which the call fills in.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        (libc::fstat(descriptor, &raw mut about) == 0).then_some((about.st_dev, about.st_ino))
    }
}
