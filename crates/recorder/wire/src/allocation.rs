//! Marks of the preloaded library (crates/recorder/preload): calls of allocators.
//!
//! The library makes a system call that Linux does not have, which fails; the plugin sees its arguments.

/// Number of that system call: above all that Linux has (`preload/mark.h` has the same).
pub const MARK: u64 = 0x7061_6765;

/// The most return addresses of a call.
pub const MOST_FRAMES: usize = 8;

/// Mark: first argument of the call, and first word of a [`Kind::Allocation`](crate::word::Kind::Allocation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A thread calls an allocator. Arguments: which one (the trace format's numbers), and the address of its frame:
    /// the caller's frame pointer lies there and the return address behind it. Words: which one, and return addresses,
    /// the caller first.
    Begin = 0,
    /// That call returns. Arguments and words: the memory's address (0 for none) and its bytes.
    End = 1,
    /// A thread gives memory back. Argument and word: its address.
    Free = 2,
}

impl Mark {
    /// The mark with a number.
    pub fn of(number: u64) -> Option<Mark> {
        [Mark::Begin, Mark::End, Mark::Free]
            .into_iter()
            .find(|mark| *mark as u64 == number)
    }
}
