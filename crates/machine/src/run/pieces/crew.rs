//! Workers that do the same work side by side.

use crate::run::progress::Progress;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval of reports of progress.
const REPORT: Duration = Duration::from_millis(50);

/// So many workers, and what they share.
#[derive(Debug)]
pub(super) struct Crew {
    workers: usize,
    /// Set when somebody asks for the end.
    pub(super) stop: AtomicBool,
    /// Accesses that are done with.
    pub(super) done: AtomicU64,
    /// Pieces that have ended.
    pub(super) ended: AtomicU64,
}

impl Crew {
    pub(super) fn new(workers: usize) -> Self {
        Crew {
            workers: workers.max(1),
            stop: AtomicBool::new(false),
            done: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Has all workers do the same work, and says meanwhile how far it is: of so many accesses, in so
    /// many pieces.
    pub(super) fn side_by_side(
        &self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
        accesses: u64,
        pieces: Option<u64>,
        work: impl Fn() + Sync,
    ) {
        self.done.store(0, Ordering::Relaxed);
        // Closed when the last worker has ended, however it has.
        let (working, ended) = channel::<()>();
        let work = &work;
        std::thread::scope(|scope| {
            for _ in 0..self.workers {
                let working = working.clone();
                scope.spawn(move || {
                    work();
                    drop(working);
                });
            }
            drop(working);
            while ended.recv_timeout(REPORT) == Err(RecvTimeoutError::Timeout) {
                let done = self.done.load(Ordering::Relaxed);
                let now = Progress {
                    accesses: done,
                    remaining: Some(accesses.saturating_sub(done)),
                    pieces: pieces.map(|all| (self.ended.load(Ordering::Relaxed), all)),
                    so_far: None,
                };
                if progress(now).is_break() {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
        });
    }
}

/// Takes a lock whoever may have died with it: what it guards is only ever replaced whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
