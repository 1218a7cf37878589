//! Replacement policies beside what their papers say, entry by entry, and properties that the papers
//! show.

mod chirp;
mod drrip;
mod lists;
mod ship;
mod srrip;
mod t_drrip;
