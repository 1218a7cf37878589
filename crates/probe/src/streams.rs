//! Memory that is gone through in order: what it gives a core, and what it gives and takes.

use crate::chain::LINE;
use crate::system::mapping::{Mapping, PAGE};

/// Access to each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is read.
    Read,
    /// It is read and written, as it is: so memory gets it back.
    Update,
}

impl Way {
    /// Bytes that go from memory and to it for a byte of lines.
    pub fn moves(self) -> usize {
        match self {
            Way::Read => 1,
            Way::Update => 2,
        }
    }
}

/// Stretches that are gone through side by side: prefetchers follow each by itself, as far ahead as they
/// do, so that of one alone fewer lines are under way than a core has room for.
pub const STREAMS: [usize; 3] = [1, 4, 16];

/// Goes through `len` bytes of memory from `at` on, in so many stretches side by side; bytes that went
/// from memory and to it.
///
/// # Panics
/// When they reach past the end, or are less than a page a stretch.
pub fn go_through(memory: &Mapping, at: usize, len: usize, streams: usize, way: Way) -> usize {
    let stretch = stretch(len, streams);
    assert!(
        at + len <= memory.len() && stretch > 0,
        "{at}+{len} in {streams}"
    );
    let base = memory.as_ptr();
    for offset in (0..stretch).step_by(LINE) {
        for stream in 0..streams {
            // SAFETY: inside the mapping, which is readable and writable and only this thread's now; what
            // is written is what is there.
            unsafe {
                let word = base.add(at + stream * stretch + offset).cast::<u64>();
                let value = word.read_volatile();
                if way == Way::Update {
                    word.write_volatile(value);
                }
            }
        }
    }
    stretch * streams * way.moves()
}

/// Bytes of each stretch: an odd number of pages, so that no two are in the same sets of a cache at the
/// same time.
fn stretch(len: usize, streams: usize) -> usize {
    let pages = len / streams / PAGE;
    (pages - usize::from(pages.is_multiple_of(2) && streams > 1)) * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::mapping::HUGE;

    #[test]
    fn what_is_updated_is_as_it_was_and_every_byte_is_counted() {
        let memory = Mapping::anonymous(HUGE).unwrap();
        memory.touch(0, HUGE, 8);
        for streams in STREAMS {
            let read = go_through(&memory, PAGE, HUGE - PAGE, streams, Way::Read);
            assert!(read <= HUGE - PAGE && read > HUGE - PAGE - 2 * streams * PAGE);
            let moved = go_through(&memory, PAGE, HUGE - PAGE, streams, Way::Update);
            assert_eq!(moved, 2 * read);
        }
        // SAFETY: inside the mapping.
        let bytes = unsafe { std::slice::from_raw_parts(memory.as_ptr(), HUGE) };
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(at, &byte)| byte == u8::from(at % 8 == 0))
        );
    }

    #[test]
    fn stretches_begin_in_different_sets() {
        for streams in [4, 16] {
            let stretch = stretch(4 << 20, streams);
            assert_eq!(stretch / PAGE % 2, 1);
            assert!(stretch * streams <= 4 << 20);
        }
        assert_eq!(stretch(4 << 20, 1), 4 << 20);
    }
}
