//! Private caches that are kept coherent: the states of MESI (Papamarcos and Patel, ISCA 1984), as
//! far as they cost time.
//!
//! A core's chunk of references goes through its own two levels first, which no other core changes
//! meanwhile. Here what other cores hold is changed for it, in the order of its references: a miss
//! of both levels takes a line from a core that has it alone, a store takes it out of all others.
//! What is modified is a bit of each cache's line; who may hold a line, and whether its holders
//! share it, is in the directory.

mod directory;
#[cfg(test)]
mod tests;

pub use directory::CoherenceCounts;
pub(crate) use directory::{CoreReferences, Directory, MAX_CORES};
