//! Plain implementations of what the kernels compute, to compare them with.

use super::{Graph, Layout, Properties};
use crate::memory::Memory;
use crate::{Parameters, bfs};
use std::collections::HashSet;

/// The memory and the layout of a small graph, and an array of so many bytes for each vertex.
pub(crate) fn layout(
    footprint: u64,
    properties: Properties,
    per_vertex: u64,
) -> (Memory, Layout, u64) {
    let given = [("footprint".to_owned(), footprint.to_string())];
    let parameters = Parameters::new(bfs::WORKLOAD.parameters, &given).expect("a valid footprint");
    let mut memory = Memory::default();
    let layout = Layout::new(&parameters, &mut memory, properties, 0, 0);
    let array = memory.allocate(per_vertex * u64::from(layout.graph.vertices()));
    (memory, layout, array)
}

/// Edges between each vertex and the root, by widening the set of those within a distance.
pub(crate) fn levels(graph: &Graph, root: u32) -> Vec<Option<u16>> {
    let mut levels = vec![None; graph.vertices() as usize];
    levels[root as usize] = Some(0);
    for level in 0.. {
        let before = levels.clone();
        for vertex in 0..graph.vertices() {
            let near = |&to: &u32| before[to as usize] == Some(level);
            if before[vertex as usize].is_none() && graph.neighbours(vertex).iter().any(near) {
                levels[vertex as usize] = Some(level + 1);
            }
        }
        if levels == before {
            break;
        }
    }
    levels
}

/// The smallest vertex of each vertex's component: sets that each edge merges.
pub(crate) fn components(graph: &Graph) -> Vec<u32> {
    let mut parent: Vec<u32> = (0..graph.vertices()).collect();
    fn find(parent: &[u32], mut vertex: u32) -> u32 {
        while parent[vertex as usize] != vertex {
            vertex = parent[vertex as usize];
        }
        vertex
    }
    for vertex in 0..graph.vertices() {
        for &to in graph.neighbours(vertex) {
            let (a, b) = (find(&parent, vertex), find(&parent, to));
            parent[a.max(b) as usize] = a.min(b);
        }
    }
    (0..graph.vertices())
        .map(|vertex| find(&parent, vertex))
        .collect()
}

/// Ranks, each vertex pulling from its neighbours, in double precision.
pub(crate) fn page_rank(graph: &Graph, iterations: u32, least_change: f64) -> Vec<f64> {
    let vertices = f64::from(graph.vertices());
    let mut ranks = vec![1.0 / vertices; graph.vertices() as usize];
    for _ in 0..iterations {
        let pulled = |vertex| {
            let shares = graph.neighbours(vertex).iter();
            let sum: f64 = shares
                .map(|&to| ranks[to as usize] / graph.neighbours(to).len() as f64)
                .sum();
            0.15 / vertices + 0.85 * sum
        };
        let next: Vec<f64> = (0..graph.vertices()).map(pulled).collect();
        let change = next
            .iter()
            .zip(&ranks)
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>();
        ranks = next;
        if change.sqrt() < least_change {
            break;
        }
    }
    ranks
}

/// Distances, by relaxing all edges until nothing changes (Bellman and Ford).
pub(crate) fn distances(graph: &Graph, source: u32, weight: fn(u32, u32) -> u32) -> Vec<u32> {
    let mut distances = vec![u32::MAX; graph.vertices() as usize];
    distances[source as usize] = 0;
    loop {
        let before = distances.clone();
        for from in 0..graph.vertices() {
            for &to in graph.neighbours(from) {
                let through = distances[from as usize].saturating_add(weight(from, to));
                distances[to as usize] = distances[to as usize].min(through);
            }
        }
        if distances == before {
            return distances;
        }
    }
}

/// Triangles: each of three vertices that are pairwise joined.
pub(crate) fn triangles(graph: &Graph) -> u64 {
    let joined: Vec<HashSet<u32>> = (0..graph.vertices())
        .map(|vertex| graph.neighbours(vertex).iter().copied().collect())
        .collect();
    let mut count = 0;
    for (a, neighbours) in (0..).zip(&joined) {
        for &b in neighbours.iter().filter(|&&b| b > a) {
            let common = neighbours.intersection(&joined[b as usize]);
            count += common.filter(|&&c| c > b).count() as u64;
        }
    }
    count
}

/// Betweenness by its definition, for paths that start at the first so many vertices: for each
/// pair of source and target, the share of the shortest paths between them that a vertex is on.
/// Each undirected path counts half, as in GraphBIG.
pub(crate) fn centrality(graph: &Graph, sources: u32) -> Vec<f64> {
    let vertices = graph.vertices();
    let from: Vec<_> = (0..vertices).map(|source| paths(graph, source)).collect();
    let mut centrality = vec![0.0; vertices as usize];
    for source in 0..sources {
        for target in 0..vertices {
            let (levels, counts) = &from[source as usize];
            let Some(far) = levels[target as usize] else {
                continue;
            };
            for via in (0..vertices).filter(|&via| via != source && via != target) {
                let (Some(to), Some(rest)) =
                    (levels[via as usize], from[via as usize].0[target as usize])
                else {
                    continue;
                };
                if to + rest == far {
                    let through = counts[via as usize] * from[via as usize].1[target as usize];
                    centrality[via as usize] += through / counts[target as usize] / 2.0;
                }
            }
        }
    }
    centrality
}

/// Distance of each vertex from a source, and the number of shortest paths to it.
fn paths(graph: &Graph, source: u32) -> (Vec<Option<u16>>, Vec<f64>) {
    let levels = levels(graph, source);
    let mut counts = vec![0.0; graph.vertices() as usize];
    counts[source as usize] = 1.0;
    let furthest = levels.iter().flatten().copied().max().unwrap_or(0);
    for level in 1..=furthest {
        for vertex in (0..graph.vertices()).filter(|&v| levels[v as usize] == Some(level)) {
            let nearer = graph.neighbours(vertex).iter();
            let before = nearer.filter(|&&to| levels[to as usize] == Some(level - 1));
            counts[vertex as usize] = before.map(|&to| counts[to as usize]).sum();
        }
    }
    (levels, counts)
}
