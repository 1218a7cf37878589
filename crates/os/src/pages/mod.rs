//! Mapped pages: entered, taken out, split, collapsed and moved.

pub(crate) mod collapse;
pub(crate) mod mapper;
mod migrate;
mod split;
