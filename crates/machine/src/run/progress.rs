/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Accesses simulated.
    pub accesses: u64,
    /// Accesses yet to come, as far as the source knows.
    pub remaining: Option<u64>,
    /// For a stream in pieces: how many have ended, of how many.
    pub pieces: Option<(u64, u64)>,
}
