use super::Access;
use super::policy::Policy;

/// See [`super::Replacement::Nru`].
#[derive(Clone, Debug)]
pub(crate) struct Nru {
    ways: usize,
    /// By set: a bit an entry.
    used: Vec<u128>,
}

impl Policy for Nru {
    type Keys = ();
    const DESCRIBED: bool = false;

    fn new((): &(), sets: usize, ways: usize) -> Self {
        Nru {
            ways,
            used: vec![0; sets],
        }
    }

    fn hit(&mut self, set: usize, way: usize, _: &Access) {
        self.used[set] |= 1 << way;
    }

    fn fill(&mut self, set: usize, way: usize, access: &Access) {
        self.hit(set, way, access);
    }

    fn victim(&mut self, set: usize, _: &[u32], _: &Access) -> usize {
        let first = self.used[set].trailing_ones() as usize;
        if first < self.ways {
            return first;
        }
        self.used[set] = 0;
        0
    }
}
