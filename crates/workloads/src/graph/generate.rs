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
/// sequences", 2002). The weight of the r-th vertex is (r + c)^(-1/2), which makes the number of
/// vertices of degree d fall as d^(-3), as preferential attachment does. The vertex at the end of
/// an edge then has 3.0 times as many edges as a vertex on average; for Facebook, whose degrees
/// LDBC's generator follows, that is 3.3 (Ugander et al., arXiv:1111.4503: 190 friends, who have
/// 635).
///
/// The constant c keeps degrees below the square root of the number of edges, above which a graph
/// cannot have such degrees without double edges (Boguna, Pastor-Satorras and Vespignani, European
/// Physical Journal B 38, 2004); the few that are drawn twice are there once.
///
/// Each edge is there in both directions, and none leads from a vertex to itself. Numbers are
/// given to the vertices without regard to their degrees, and each vertex's edges are in the order
/// of their targets.
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
        let draw = Draw::new(vertices, seed);
        let ends = |pair| draw.ends(pair);
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
        graph.sort();
        graph
    }

    /// Sorts the edges of each vertex and removes those that are there twice.
    fn sort(&mut self) {
        let mut kept = 0;
        for vertex in 0..self.vertices() {
            let edges = self.edges(vertex);
            self.first[vertex as usize] = kept as u32;
            self.targets[edges.clone()].sort_unstable();
            let begin = kept;
            for edge in edges {
                let target = self.targets[edge];
                if kept == begin || self.targets[kept - 1] != target {
                    self.targets[kept] = target;
                    kept += 1;
                }
            }
        }
        if let Some(end) = self.first.last_mut() {
            *end = kept as u32;
        }
        self.targets.truncate(kept);
        self.targets.shrink_to_fit();
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

    /// Vertex to which an edge leads.
    #[inline(always)]
    pub(crate) fn target(&self, edge: usize) -> u32 {
        self.targets[edge]
    }

    /// Vertices to which the edges of a vertex lead.
    #[cfg(test)]
    pub(crate) fn neighbours(&self, vertex: u32) -> &[u32] {
        &self.targets[self.edges(vertex)]
    }
}

/// Draws the ends of edges.
struct Draw {
    vertices: u64,
    seed: u64,
    /// Multiplies a rank to give a number.
    stride: u64,
    /// The number of the first rank.
    offset: u64,
    /// c, the least rank.
    least: f64,
    /// Square roots of c and of c plus the number of vertices.
    roots: (f64, f64),
}

impl Draw {
    fn new(vertices: u64, seed: u64) -> Draw {
        // A prime above 2^32 has no factor in common with any number of vertices, so its
        // multiples are a permutation.
        const PRIME: u64 = (1 << 32) + 15;
        let n = vertices as f64;
        let roots = |least: f64| (least.sqrt(), (least + n).sqrt());
        // The first vertex has n * DEGREE / (2 * (high - low) * c^(1/2)) edges, which is to be
        // the square root of n * DEGREE. Solved by substitution, as high - low changes little.
        let mut least = 1.0;
        for _ in 0..32 {
            let (low, high) = roots(least);
            least = ((n * DEGREE as f64).sqrt() / (2.0 * (high - low))).powi(2);
        }
        Draw {
            vertices,
            seed,
            stride: PRIME % vertices,
            offset: below(random(seed, u64::MAX), vertices),
            least,
            roots: roots(least),
        }
    }

    /// The two ends of a pair of edges, which are not the same.
    fn ends(&self, pair: u64) -> (u32, u32) {
        let from = self.vertex(2 * pair);
        let to = self.vertex(2 * pair + 1);
        let to = if to == from {
            (to + 1) % self.vertices
        } else {
            to
        };
        (from as u32, to as u32)
    }

    /// Draws a vertex by weight. With weights (r + c)^(-1/2) the share of the ranks below r grows
    /// with the square root of r + c, which squaring inverts.
    #[inline]
    fn vertex(&self, draw: u64) -> u64 {
        let (low, high) = self.roots;
        let root = low + unit(random(self.seed, draw)) * (high - low);
        let rank = (root * root - self.least) as u64;
        self.number(rank.min(self.vertices - 1))
    }

    /// The number of the vertex of a rank.
    #[inline]
    fn number(&self, rank: u64) -> u64 {
        (rank * self.stride + self.offset) % self.vertices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_is_there_in_both_directions_and_leads_elsewhere() {
        let graph = Graph::generate(3000, 5);
        let mut forth = Vec::new();
        for vertex in 0..graph.vertices() {
            assert!(graph.neighbours(vertex).is_sorted_by(|a, b| a < b));
            forth.extend(graph.neighbours(vertex).iter().map(|&to| (vertex, to)));
        }
        assert_eq!(forth.len() as u64, graph.edge_count());
        assert!((graph.edge_count() as f64) > 0.95 * (3000 * DEGREE) as f64);
        assert!(forth.iter().all(|&(from, to)| from != to));
        let mut back: Vec<_> = forth.iter().map(|&(from, to)| (to, from)).collect();
        back.sort_unstable();
        assert_eq!(forth, back);
    }

    #[test]
    fn numbers_are_a_permutation_of_ranks() {
        for vertices in [2, 3, 1000, 1 << 16, 99_999] {
            let draw = Draw::new(vertices, 9);
            let mut seen = vec![false; vertices as usize];
            for rank in 0..vertices {
                let number = draw.number(rank);
                assert!(!std::mem::replace(&mut seen[number as usize], true));
            }
        }
    }

    /// Densities fall as d^-e where, of ranges of degrees that each double, one holds 2^(e-1) times
    /// as many vertices as the next, wherever the largest degrees end.
    #[test]
    fn degrees_follow_a_power_law_with_exponent_three() {
        let graph = Graph::generate(200_000, 1);
        let count = |degrees: Range<usize>| {
            let all = 0..graph.vertices();
            let inside = all.filter(|&vertex| degrees.contains(&graph.edges(vertex).len()));
            inside.count() as f64
        };
        let exponent = 1.0 + (count(60..120) / count(120..240)).log2();
        assert!((exponent - 3.0).abs() < 0.15, "{exponent}");
        let largest = (0..graph.vertices())
            .map(|vertex| graph.edges(vertex).len())
            .max();
        let limit = (graph.edge_count() as f64).sqrt();
        assert!(largest.is_some_and(|degree| (degree as f64) < 1.1 * limit));
    }
}
