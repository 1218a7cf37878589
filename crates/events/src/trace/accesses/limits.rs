/// The largest number of accesses in a chunk: a code fits 16 bits.
pub const MAX_ACCESSES: usize = 1 << 16;
