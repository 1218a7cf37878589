//! The caches: what a chunk's references find in each level.

mod descent;
mod levels;
mod outcomes;
mod prefetching;
mod private;
mod scratch;
mod shared;

pub(crate) use descent::{Descent, OUT};
pub(crate) use levels::{fetch, fetch_coherently, fill, note, reference, reference_at, touch};
pub(crate) use private::PrivateCaches;
pub(crate) use scratch::Scratch;
pub(crate) use shared::SharedCache;
