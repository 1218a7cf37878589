/// Whom a walk or fault is charged to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Payer {
    pub(crate) site: u32,
    pub(crate) program: u16,
    pub(crate) mapping: u16,
    /// As [`crate::count::allocations::Charged`].
    pub(crate) allocation: u32,
}
