//! Rights of a thread beyond its user's: capabilities(7).

/// _LINUX_CAPABILITY_VERSION_3, whose sets have 64 bits in two halves.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Does what a program may do that this one becomes: execve takes the capabilities from who is not root.
pub fn without<T>(what: impl FnOnce() -> T) -> T {
    // SAFETY: it returns a number.
    if unsafe { libc::geteuid() } == 0 {
        return what();
    }
    let Some(before) = get() else {
        return what();
    };
    set(before.map(|half| Half {
        effective: 0,
        ..half
    }));
    let done = what();
    set(before);
    done
}

fn get() -> Option<[Half; 2]> {
    let mut halves = [Half::default(); 2];
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    // SAFETY: capget(2): the header says that there are two halves.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw const header, halves.as_mut_ptr()) };
    (result == 0).then_some(halves)
}

/// Sets those of this thread alone; taking effective ones away and back again is always allowed.
fn set(halves: [Half; 2]) {
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    // SAFETY: capset(2): the header says that there are two halves.
    unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) };
}
