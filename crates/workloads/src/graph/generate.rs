use crate::hash::{below, random, unit};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Edges that start at a vertex, on average: that of the LDBC graph that comes with GraphBIG
/// (1 million vertices, 28.82 million edges).
pub(crate) const DEGREE: u64 = 28;

/// A graph with a power-law degree distribution, in compressed rows: what the kernels compute on.
/// Where a program would find it in memory is the matter of [`super::Layout`].
///
/// Both ends of each edge are drawn at random, each vertex with a probability in proportion to
/// its weight (Chung and Lu, "Connected components in random graphs with given expected degree
/// sequences", 2002). The weight of the r-th vertex is r^(-3/4), which makes the number of
/// vertices of degree d fall as d^(-7/3), near to the exponent 2.28 of Twitter's followers
/// (Kwak et al., WWW 2010). Each edge is there in both directions. Edges may be there more than
/// once; none leads from a vertex to itself. Numbers are given to the vertices without regard to
/// their degrees, and each vertex's edges are in the order of their targets.
#[derive(Debug)]
pub(crate) struct Graph {
    /// The first edge of each vertex, and the number of edges.
    first: Vec<u32>,
    targets: Vec<u32>,
}

impl Graph {
    /// The graph of so many vertices and a seed. Runs side by side share it.
    pub(crate) fn shared(vertices: u64, seed: u64) -> Arc<Graph> {
        type Graphs = HashMap<(u64, u64), Weak<Graph>>;
        static GRAPHS: Mutex<Option<Graphs>> = Mutex::new(None);
        // Held while generating, so that whoever wants the same graph waits for it.
        let mut graphs = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
        let graphs = graphs.get_or_insert_default();
        if let Some(graph) = graphs.get(&(vertices, seed)).and_then(Weak::upgrade) {
            return graph;
        }
        graphs.retain(|_, graph| graph.strong_count() > 0);
        let graph = Arc::new(Graph::generate(vertices, seed));
        graphs.insert((vertices, seed), Arc::downgrade(&graph));
        graph
    }

    pub(crate) fn generate(vertices: u64, seed: u64) -> Graph {
        let pairs = vertices * DEGREE / 2;
        let ends = |pair| ends(vertices, seed, pair);
        let mut first = vec![0; vertices as usize + 1];
        for pair in 0..pairs {
            let (from, to) = ends(pair);
            first[from as usize] += 1;
            first[to as usize] += 1;
        }
        // Each entry becomes the end of its vertex's edges, and moves to their beginning while
        // they are put in.
        let mut sum = 0;
        for entry in &mut first {
            sum += *entry;
            *entry = sum;
        }
        let mut targets = vec![0; sum as usize];
        let mut put = |from: u32, to: u32| {
            let place = &mut first[from as usize];
            *place -= 1;
            targets[*place as usize] = to;
        };
        for pair in 0..pairs {
            let (from, to) = ends(pair);
            put(from, to);
            put(to, from);
        }
        let mut graph = Graph { first, targets };
        for vertex in 0..vertices as u32 {
            let edges = graph.edges(vertex);
            graph.targets[edges].sort_unstable();
        }
        graph
    }

    pub(crate) fn vertices(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// Edges, each direction for itself.
    pub(crate) fn edge_count(&self) -> u64 {
        self.targets.len() as u64
    }

    /// The edges of a vertex, by number.
    #[inline(always)]
    pub(crate) fn edges(&self, vertex: u32) -> Range<usize> {
        self.first[vertex as usize] as usize..self.first[vertex as usize + 1] as usize
    }

    /// Where an edge leads to.
    #[inline(always)]
    pub(crate) fn target(&self, edge: usize) -> u32 {
        self.targets[edge]
    }

    /// Where the edges of a vertex lead to.
    pub(crate) fn neighbours(&self, vertex: u32) -> &[u32] {
        &self.targets[self.edges(vertex)]
    }
}

/// The two ends of a pair of edges, which are not the same.
fn ends(vertices: u64, seed: u64, pair: u64) -> (u32, u32) {
    let from = vertex(vertices, seed, 2 * pair);
    let to = vertex(vertices, seed, 2 * pair + 1);
    let to = if to == from { (to + 1) % vertices } else { to };
    (from as u32, to as u32)
}

/// Draws a vertex by weight. With weights r^(-3/4) the share of the first r of n vertices is
/// (r/n)^(1/4), and a fourth power inverts that.
#[inline]
fn vertex(vertices: u64, seed: u64, draw: u64) -> u64 {
    let square = {
        let share = unit(random(seed, draw));
        share * share
    };
    let rank = (square * square * vertices as f64) as u64;
    number(vertices, seed, rank.min(vertices - 1))
}

/// The number of the vertex of a rank: a permutation, the multiples of a number without a common
/// factor.
#[inline]
fn number(vertices: u64, seed: u64, rank: u64) -> u64 {
    // A prime above 2^32 has no factor in common with any number of vertices.
    const PRIME: u64 = (1 << 32) + 15;
    (rank * (PRIME % vertices) + below(random(seed, u64::MAX), vertices)) % vertices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_is_there_in_both_directions_and_leads_elsewhere() {
        let graph = Graph::generate(3000, 5);
        let mut forth = Vec::new();
        for vertex in 0..graph.vertices() {
            assert!(graph.neighbours(vertex).is_sorted());
            forth.extend(graph.neighbours(vertex).iter().map(|&to| (vertex, to)));
        }
        assert_eq!(forth.len() as u64, 3000 * DEGREE);
        assert!(forth.iter().all(|&(from, to)| from != to));
        let mut back: Vec<_> = forth.iter().map(|&(from, to)| (to, from)).collect();
        back.sort_unstable();
        assert_eq!(forth, back);
    }

    #[test]
    fn numbers_are_a_permutation_of_ranks() {
        for vertices in [2, 3, 1000, 1 << 16, 99_999] {
            let mut seen = vec![false; vertices as usize];
            for rank in 0..vertices {
                let number = number(vertices, 9, rank);
                assert!(!std::mem::replace(&mut seen[number as usize], true));
            }
        }
    }

    /// The maximum-likelihood estimate of the exponent for a tail of whole numbers (Clauset,
    /// Shalizi and Newman, SIAM Review 51, 2009, equation 3.7).
    #[test]
    fn degrees_follow_a_power_law_with_exponent_seven_thirds() {
        let graph = Graph::generate(200_000, 1);
        let least = 60.0;
        let (mut sum, mut count) = (0.0, 0.0);
        for vertex in 0..graph.vertices() {
            let degree = graph.edges(vertex).len() as f64;
            if degree >= least {
                sum += (degree / (least - 0.5)).ln();
                count += 1.0;
            }
        }
        let exponent = 1.0 + count / sum;
        assert!((exponent - 7.0 / 3.0).abs() < 0.05, "{exponent}, {count}");
    }
}
