//! Accesses that the kernel makes on behalf of the program.

use pagelab_events::{Batch, Op};
use pagelab_recorder_wire::syscall::{Call, call};

use crate::controls::Returned;
use crate::thread::Thread;

/// The kernel copies whole cache lines at a time, and caches are modelled by the line: a longer
/// copy is recorded in pieces that do not cross one.
const LINE: u64 = 64;

/// No call copies more at once (MAX_RW_COUNT): longer lengths come from damaged arguments.
#[cfg(not(fuzzing))]
const MOST: u64 = 0x7fff_f000;
/// Limit without which every other random call would fill the memory.
#[cfg(fuzzing)]
const MOST: u64 = 1 << 16;

/// Adds the accesses of a call that has returned, through these I/O vectors if it has any.
pub(crate) fn accesses(
    thread: &mut Thread,
    returned: &Returned,
    vectors: &[(u64, u64)],
    batch: &mut Batch,
    with_code: bool,
) {
    each(returned, vectors, &mut |address, op| {
        thread.by_kernel(address, op, batch, with_code);
    });
}

/// Number of those accesses.
pub(crate) fn count(returned: &Returned, vectors: &[(u64, u64)]) -> u64 {
    let mut count = 0;
    each(returned, vectors, &mut |_, _| count += 1);
    count
}

fn each(returned: &Returned, vectors: &[(u64, u64)], access: &mut impl FnMut(u64, Op)) {
    if returned.failed() {
        return;
    }
    match call(returned.number) {
        Call::Copy(pieces) => {
            for piece in pieces {
                let start = returned.arguments[piece.pointer];
                let bytes = piece.bytes(&returned.arguments, returned.result);
                copy(start, bytes, piece.store, access);
            }
        }
        Call::Vector { store, .. } => {
            let mut left = returned.result.min(MOST);
            for &(start, bytes) in vectors {
                copy(start, bytes.min(left), store, access);
                left -= bytes.min(left);
            }
        }
        _ => {}
    }
}

fn copy(start: u64, bytes: u64, store: bool, access: &mut impl FnMut(u64, Op)) {
    if start == 0 || bytes > MOST {
        return;
    }
    let end = start.saturating_add(bytes);
    let mut at = start;
    while at < end {
        let next = (at / LINE + 1).saturating_mul(LINE).min(end);
        let size = (next - at) as u16;
        let op = if store {
            Op::store(size)
        } else {
            Op::load(size)
        };
        access(at, op);
        at = next;
    }
}
