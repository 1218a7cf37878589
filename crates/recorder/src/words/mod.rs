//! Words in a file: written while the program runs, read afterwards.

mod codec;
mod drain;
mod event;
mod file;
mod limit;
mod play;
mod read;

pub(crate) use drain::Drain;
pub(crate) use event::{Event, Head};
pub(crate) use file::{FrameWriter, Unread};
pub(crate) use limit::Limit;
pub(crate) use play::Player;
pub(crate) use read::{Reading, said};

#[cfg(test)]
mod tests;
