//! Programs that are named by an open file: fexecve(3) and execveat(2) do, also where the file is closed by execve.
//! The kernel has it open by then; a QEMU that takes the process's place has yet to open it.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::{Component, Path, PathBuf};

/// A path that leads through a descriptor of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    descriptor: RawFd,
    /// Path behind it.
    rest: PathBuf,
}

/// The descriptor that a path leads through, if it is closed by execve.
pub fn closed_by_execve(path: &Path) -> Option<Named> {
    let named = named(path, std::process::id())?;
    // SAFETY: asks for a flag.
    let flags = unsafe { libc::fcntl(named.descriptor, libc::F_GETFD) };
    (flags >= 0 && flags & libc::FD_CLOEXEC != 0).then_some(named)
}

fn named(path: &Path, own: u32) -> Option<Named> {
    let own = format!("/proc/{own}/fd");
    let folders = [
        "/proc/self/fd",
        "/dev/fd",
        "/proc/thread-self/fd",
        own.as_str(),
    ];
    let below = folders.iter().find_map(|at| path.strip_prefix(at).ok())?;
    let mut parts = below.components();
    let Component::Normal(number) = parts.next()? else {
        return None;
    };
    Some(Named {
        descriptor: number.to_str()?.parse().ok()?,
        rest: parts.as_path().to_owned(),
    })
}

impl Named {
    /// The path through a copy of the descriptor that stays open, and the copy.
    pub fn kept_open(&self) -> io::Result<(PathBuf, OwnedFd)> {
        let copy = far_up(self.descriptor, libc::F_DUPFD)?;
        let mut path = through(copy);
        if self.rest != Path::new("") {
            path.push(&self.rest);
        }
        // SAFETY: it was made for this, and is nobody else's.
        Ok((path, unsafe { OwnedFd::from_raw_fd(copy) }))
    }
}

/// The path of what is open.
pub fn through(descriptor: RawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{descriptor}"))
}

/// Copies a descriptor to one that programs hardly ever get to, by F_DUPFD or F_DUPFD_CLOEXEC.
pub fn far_up(descriptor: RawFd, by: libc::c_int) -> io::Result<RawFd> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is ours to write.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let from = limit.rlim_cur.saturating_sub(16).clamp(3, 1 << 19) as i32;
    for from in [from, 3] {
        // SAFETY: makes a descriptor.
        let copy = unsafe { libc::fcntl(descriptor, by, from) };
        if copy >= 0 {
            return Ok(copy);
        }
    }
    Err(io::Error::last_os_error())
}

/// Has execve close a descriptor, or not.
pub fn close_by_execve(descriptor: RawFd, whether: bool) -> bool {
    let flags = if whether { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: changes a flag.
    unsafe { libc::fcntl(descriptor, libc::F_SETFD, flags) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_through_descriptors_are_told_from_others() {
        let of = |path: &str| named(Path::new(path), 77);
        let named = |descriptor, rest: &str| {
            Some(Named {
                descriptor,
                rest: rest.into(),
            })
        };
        assert_eq!(of("/proc/self/fd/4"), named(4, ""));
        assert_eq!(of("/dev/fd/12"), named(12, ""));
        assert_eq!(of("/proc/77/fd/5/bin/ls"), named(5, "bin/ls"));
        for other in ["/proc/78/fd/5", "/proc/self/fd", "/dev/fd/x", "/bin/ls"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
