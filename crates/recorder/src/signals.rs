//! Signals to the recorder are meant for the program.
//!
//! A terminal sends Ctrl-C to both; then the program alone decides what becomes of it, as under
//! time(1) or strace(1). A signal from a process goes to the recorder only, and is passed on.

use std::mem::MaybeUninit;
use std::process::Child;
use std::sync::atomic::{AtomicI32, Ordering};

const SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The code of a signal that the kernel sends: <asm-generic/siginfo.h>.
const SI_KERNEL: i32 = 0x80;

/// The program; 0 for none.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// While this lives, signals are passed on.
pub(crate) struct Forwarding {
    before: Vec<(i32, libc::sigaction)>,
}

impl Forwarding {
    /// Passes signals on to `child`, except those that were ignored before.
    pub(crate) fn to(child: &Child) -> Forwarding {
        PROGRAM.store(child.id() as i32, Ordering::Relaxed);
        let before = SIGNALS
            .into_iter()
            .filter_map(|signal| Some((signal, handle(signal)?)))
            .collect();
        Forwarding { before }
    }

    /// The program is no more.
    pub(crate) fn stop() {
        PROGRAM.store(0, Ordering::Relaxed);
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        Forwarding::stop();
        for (signal, action) in &self.before {
            // SAFETY: an action that the system has returned for this signal.
            unsafe { libc::sigaction(*signal, action, std::ptr::null_mut()) };
        }
    }
}

/// Handles a signal; returns what was done about it before, unless it was ignored.
fn handle(signal: i32) -> Option<libc::sigaction> {
    // SAFETY: `pass_on` has the signature that SA_SIGINFO asks for, and only does what signal
    // handlers may; zeroes are valid for the rest.
    unsafe {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        if libc::sigaction(signal, std::ptr::null(), &raw mut before) != 0
            || before.sa_sigaction == libc::SIG_IGN
        {
            return None;
        }
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = pass_on as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        Some(before)
    }
}

extern "C" fn pass_on(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    let program = PROGRAM.load(Ordering::Relaxed);
    // SAFETY: the kernel passes a valid description; kill() may be called in a handler.
    unsafe {
        // What the kernel sends by itself, for a terminal, it sends to the program as well.
        if program > 0 && (*info).si_code != SI_KERNEL {
            libc::kill(program, signal);
        }
    }
}
