//! Numbers and control events as bytes, for what is kept beside traces.

use crate::Control;
use crate::trace::controls::{self, Entry};
pub use crate::trace::varint::{put, take, unzigzag, zigzag};

/// Appends a control event.
pub fn put_control(out: &mut Vec<u8>, control: Control) {
    controls::put(out, 0, Entry::Event(control));
}

/// Takes the event that [`put_control`] put; `None` when the bytes are none.
pub fn take_control(input: &mut &[u8]) -> Option<Control> {
    match controls::take(input)? {
        (0, Entry::Event(control)) => Some(control),
        _ => None,
    }
}
