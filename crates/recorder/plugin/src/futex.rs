//! Waiting in memory that processes share, and a lock that survives fork.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Sleeps while `word` is `value`, at most so long.
pub fn wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: `word` and `timeout` live during the call. Errors mean that it is time to look again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const timeout,
        );
    }
}

/// Wakes one sleeper.
fn wake(word: &AtomicU32) {
    // SAFETY: `word` lives during the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1);
    }
}

/// A lock that is taken in one callback and released in another.
#[derive(Debug)]
pub struct Lock(AtomicU32);

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED_FOR: u32 = 2;

/// A call that holds the lock for so long is stuck, and a lost order is better than a stuck program.
const PATIENCE: Duration = Duration::from_secs(10);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(FREE))
    }

    /// Takes the lock.
    pub fn take(&self) {
        if self
            .0
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
        let since = Instant::now();
        while self.0.swap(WAITED_FOR, Ordering::Acquire) != FREE && since.elapsed() < PATIENCE {
            wait(&self.0, WAITED_FOR, Duration::from_millis(100));
        }
    }

    /// Releases the lock, whoever took it: in a forked child, its parent.
    pub fn release(&self) {
        if self.0.swap(FREE, Ordering::Release) == WAITED_FOR {
            wake(&self.0);
        }
    }
}
