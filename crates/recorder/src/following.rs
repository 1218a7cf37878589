//! Work while a program runs.

use std::io;

use crate::Progress;
use crate::controls::Returned;

/// System calls that may make a process: clone, fork, vfork.
pub(crate) const FORK_CALLS: [u64; 3] = [56, 57, 58];

const WAIT4: u64 = 61;
const WAITID: u64 = 247;

/// The process that a call has waited for, and its status as of wait4.
pub(crate) fn waited_for(call: &Returned) -> Option<(u32, i32)> {
    let status = call.fact as u32 as i32;
    match call.number {
        _ if call.failed() => None,
        WAIT4 => Some((call.result as u32, status)),
        WAITID => Some(((call.fact >> 32) as u32, status)),
        _ => None,
    }
}

/// Follows a program: reads what the rings hold.
pub(crate) trait Following {
    /// Reads what there is; `false` if it was nothing, or so little that it was too early. Fails also when the program
    /// goes on unrecorded.
    fn round(&mut self) -> io::Result<bool>;

    /// Ends every process that is no more. The recorder's own child, process 0, has ended when
    /// `root` is its status. `false` while any lives.
    fn bury(&mut self, root: Option<i32>) -> io::Result<bool>;

    /// The numbers in the system of processes that have not ended, as far as is known.
    fn living(&self) -> Vec<u32>;

    /// Progress so far, but for the time.
    fn progress(&self) -> Progress;
}
