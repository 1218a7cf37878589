//! Signals to the recorder are meant for the program.
//!
//! A terminal sends Ctrl-C to both; then the program alone decides what becomes of it, as under
//! time(1) or strace(1). A signal from a process goes to the recorder only, and is passed on. When the program has
//! ended and processes that it has started have not, a signal that asks to end is for those.

use std::mem::MaybeUninit;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};
use std::time::Duration;

/// Signals that ask to end.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Others, which the kernel does not send for what the recorder itself does. (Real-time signals have other numbers for
/// QEMU than for its program.)
const OTHERS: [i32; 10] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGURG,
];

/// A program that ends so soon after a signal has ended because of it.
const PROMPT: Duration = Duration::from_secs(10);

/// The code of a signal that the kernel sends: <asm-generic/siginfo.h>.
const SI_KERNEL: i32 = 0x80;

/// The program; 0 for none.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// A signal that asks to end, for what the program has left behind; 0 for none. Whether the terminal sent it.
static ASKED: AtomicI32 = AtomicI32::new(0);
static BY_TERMINAL: AtomicBool = AtomicBool::new(false);

/// The last signal that asked to end, 0 for none, and when it came: seconds of the monotonic clock.
static LAST: AtomicI32 = AtomicI32::new(0);
static LAST_AT: AtomicI64 = AtomicI64::new(0);

/// The program has been told to stop, as by Ctrl-Z.
static STOP: AtomicBool = AtomicBool::new(false);

/// While this lives, signals are passed on.
pub(crate) struct Forwarding {
    before: Vec<(i32, libc::sigaction)>,
}

impl Forwarding {
    /// Passes signals on to `child`, except those that were ignored before.
    pub(crate) fn to(child: &Child) -> Forwarding {
        ASKED.store(0, Ordering::Relaxed);
        LAST.store(0, Ordering::Relaxed);
        STOP.store(false, Ordering::Relaxed);
        PROGRAM.store(child.id() as i32, Ordering::Relaxed);
        let ending = ENDING.into_iter().map(|signal| (signal, false));
        let others = OTHERS.into_iter().map(|signal| (signal, true));
        let before = ending
            .chain(others)
            .filter_map(|(signal, only_default)| Some((signal, handle(signal, only_default)?)))
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

/// A signal that asks to end and has come when the program had ended, and whether the terminal sent it.
pub(crate) fn asked() -> Option<(i32, bool)> {
    let signal = ASKED.swap(0, Ordering::Relaxed);
    (signal != 0).then(|| (signal, BY_TERMINAL.load(Ordering::Relaxed)))
}

/// The signal that has ended what was recorded, if one did, by itself or because the program obeyed it.
pub(crate) fn ended_by() -> Option<i32> {
    let signal = LAST.load(Ordering::Relaxed);
    let since = monotonic_seconds() - LAST_AT.load(Ordering::Relaxed);
    (signal != 0 && since <= PROMPT.as_secs() as i64).then_some(signal)
}

fn monotonic_seconds() -> i64 {
    // SAFETY: zeroes are valid, and the call writes there; it may be made in a signal handler.
    unsafe {
        let mut now = MaybeUninit::<libc::timespec>::zeroed().assume_init();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
        now.tv_sec
    }
}

/// Stops the recorder where the program has stopped that was told to: a shell waits for the one, and knows nothing of
/// the other.
pub(crate) fn stop_with(child: &Child) {
    if !STOP.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: zeroes are valid, and waitid() writes there; the child has not been waited for.
    unsafe {
        let mut about = MaybeUninit::<libc::siginfo_t>::zeroed().assume_init();
        let options = libc::WSTOPPED | libc::WNOHANG;
        if libc::waitid(libc::P_PID, child.id(), &raw mut about, options) == 0
            && about.si_signo != 0
        {
            STOP.store(false, Ordering::Relaxed);
            libc::kill(libc::getpid(), libc::SIGSTOP);
        }
    }
}

/// The signals that this thread has blocked.
pub(crate) fn blocked() -> libc::sigset_t {
    // SAFETY: zeroes are valid, and the call writes there.
    unsafe {
        let mut blocked = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &raw mut blocked);
        blocked
    }
}

/// Handles a signal; returns what was done about it before, unless it was ignored, or something else than by default if
/// only that is to be replaced: whose process this is may use it itself.
fn handle(signal: i32, only_default: bool) -> Option<libc::sigaction> {
    // SAFETY: `pass_on` has the signature that SA_SIGINFO asks for, and only does what signal
    // handlers may; zeroes are valid for the rest.
    unsafe {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        if libc::sigaction(signal, std::ptr::null(), &raw mut before) != 0
            || before.sa_sigaction == libc::SIG_IGN
            || only_default && before.sa_sigaction != libc::SIG_DFL
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
    // SAFETY: the kernel passes a valid description.
    let by_kernel = unsafe { (*info).si_code == SI_KERNEL };
    // A signal that the kernel sends by itself, for a terminal, goes to the program as well; but a timer that was set
    // before the recorder was started is the recorder's alone.
    let by_terminal = by_kernel && signal != libc::SIGALRM;
    if signal == libc::SIGTSTP {
        STOP.store(true, Ordering::Relaxed);
    }
    if ENDING.contains(&signal) {
        LAST.store(signal, Ordering::Relaxed);
        LAST_AT.store(monotonic_seconds(), Ordering::Relaxed);
    }
    if program > 0 && !by_terminal {
        // SAFETY: kill() may be called in a handler.
        unsafe { libc::kill(program, signal) };
    }
    if program == 0 && ENDING.contains(&signal) {
        BY_TERMINAL.store(by_terminal, Ordering::Relaxed);
        ASKED.store(signal, Ordering::Relaxed);
    }
}
