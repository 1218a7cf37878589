use crate::count::result::RunResult;

/// Progress of a run.
#[derive(Clone, Copy)]
pub struct Progress<'a> {
    /// Accesses simulated.
    pub accesses: u64,
    /// Accesses yet to come, as far as the source knows.
    pub remaining: Option<u64>,
    /// Result of what has been simulated, of a sample up to its last whole window. Asking changes nothing.
    pub so_far: Option<&'a dyn Fn() -> RunResult>,
}
