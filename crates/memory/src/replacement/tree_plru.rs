use super::Access;
use super::policy::{MAX_WAYS, Policy};

/// See [`super::Replacement::TreePlru`].
#[derive(Clone, Debug)]
pub(crate) struct TreePlru {
    ways: usize,
    /// By set: a bit a node of the tree, from bit 1 on as in a heap.
    nodes: Vec<u128>,
}

impl Policy for TreePlru {
    type Keys = ();
    const DESCRIBED: bool = false;

    fn new((): &(), sets: usize, ways: usize) -> Self {
        TreePlru {
            ways,
            nodes: vec![0; sets],
        }
    }

    fn has(ways: u32) -> bool {
        ways.is_power_of_two() && ways <= MAX_WAYS
    }

    fn hit(&mut self, set: usize, way: usize, _: &Access) {
        let nodes = &mut self.nodes[set];
        let mut node = self.ways + way;
        while node > 1 {
            let (parent, right) = (node / 2, node % 2 == 1);
            // Away from the half in which `way` is.
            if right {
                *nodes &= !(1 << parent);
            } else {
                *nodes |= 1 << parent;
            }
            node = parent;
        }
    }

    fn fill(&mut self, set: usize, way: usize, access: &Access) {
        self.hit(set, way, access);
    }

    fn victim(&mut self, set: usize, _: &[u32], _: &Access) -> usize {
        let mut node = 1;
        while node < self.ways {
            node = node * 2 + (self.nodes[set] >> node & 1) as usize;
        }
        node - self.ways
    }
}
