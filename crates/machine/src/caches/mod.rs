//! The caches: what a chunk's references find in each level.

pub(crate) mod coherence;
mod descent;
mod descriptions;
mod levels;
pub(crate) mod neighbour_pages;
pub(crate) mod other_pages;
pub(crate) mod others;
mod outcomes;
mod prefetching;
mod private;
mod scratch;
pub(crate) mod served;
mod shared;
pub(crate) mod unknown;

pub(crate) use descent::{Descent, OUT};
pub(crate) use levels::{
    fetch, fetch_coherently, fill, note, note_between, reference, reference_at, want_descriptions,
};
pub(crate) use private::PrivateCaches;
pub(crate) use scratch::Scratch;
pub(crate) use shared::SharedCache;
