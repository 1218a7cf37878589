use super::Access;
use super::policy::Policy;

/// See [`super::Replacement::Random`].
#[derive(Clone, Debug)]
pub(crate) struct Random {
    ways: usize,
    state: u64,
}

impl Policy for Random {
    type Keys = ();
    const DESCRIBED: bool = false;

    fn new((): &(), _: usize, ways: usize) -> Self {
        Random { ways, state: 1 }
    }

    fn hit(&mut self, _: usize, _: usize, _: &Access) {}

    fn fill(&mut self, _: usize, _: usize, _: &Access) {}

    fn victim(&mut self, _: usize, _: &[u32], _: &Access) -> usize {
        // Xorshift (Marsaglia, Journal of Statistical Software 2003).
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 32) as usize % self.ways
    }

    fn seed(&mut self, seed: u64) {
        // Xorshift has no state 0; a multiplicative hash parts seeds that are neighbours.
        self.state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    }
}
