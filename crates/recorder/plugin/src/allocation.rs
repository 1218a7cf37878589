//! Calls of allocators, as the preloaded library marks them.

use pagelab_recorder_wire::allocation::Mark;
use pagelab_recorder_wire::word::Kind;

use crate::unwind::callers;

/// The message that reports a mark.
pub fn message(mark: Mark, arguments: &[u64; 6]) -> Vec<u64> {
    let [_, first, second, ..] = *arguments;
    let mut message = vec![0, mark as u64, first];
    match mark {
        Mark::Begin => message.extend(callers(second)),
        Mark::End => message.push(second),
        Mark::Free => {}
    }
    message[0] = Kind::Allocation.word(message.len() as u64 - 1);
    message
}
