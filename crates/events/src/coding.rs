//! Numbers as bytes, for what is kept beside traces.

pub use crate::trace::varint::{put, take};
