use crate::emitter::{Emitter, Loaded};
use crate::graph::{Layout, Properties};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameter, Parameters, Workload, footprint};

/// GraphBIG's PageRank: `parallel_pagerank` of bench_pageRank/pagerank.cpp on one thread. Each
/// iteration saves the ranks, pushes every vertex's share to its neighbours and adds up how much
/// the ranks have changed.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "pr",
    description: "PageRank of a power-law graph, pushed along its edges (GraphBIG PageRank)",
    parameters: &[
        footprint(8 << 30, 1 << 20),
        Parameter {
            name: "iterations",
            description: "iterations at the most; fewer when the ranks change no more",
            default: 100,
            min: 1,
            max: 1 << 20,
        },
    ],
    build,
};

/// Properties of a vertex: `pr` and `old_pr`, 4 bytes each.
const RANK: u64 = 0;
const OLD_RANK: u64 = 4;

/// GraphBIG's defaults: the damping factor, and the change below which it stops.
const DAMPING: f64 = 0.85;
const LEAST_CHANGE: f32 = 0.001;

fn build(parameters: &Parameters) -> Program {
    let mut memory = Memory::default();
    let layout = Layout::new(parameters, &mut memory, Properties(8), 0, 0);
    let iterations = parameters.get("iterations");
    Program::new(memory, None, move |out| {
        ranks(&layout, iterations, out);
    })
}

fn ranks(layout: &Layout, iterations: u64, out: &mut Emitter) -> Vec<f32> {
    let graph = &layout.graph;
    let vertices = graph.vertices();
    let random = ((1.0 - DAMPING) / f64::from(vertices)) as f32;
    let mut rank = vec![(1.0 / f64::from(vertices)) as f32; vertices as usize];
    let mut old = rank.clone();
    for _ in 0..iterations {
        for vertex in 0..vertices {
            let found = layout.find_vertex(out, vertex, Loaded::NONE);
            out.load(layout.property(vertex, RANK), 4, 1, found);
            out.store(layout.property(vertex, OLD_RANK), 4, 0, found);
            out.store(layout.property(vertex, RANK), 4, 0, found);
        }
        old.copy_from_slice(&rank);
        rank.fill(random);
        for vertex in 0..vertices {
            push(layout, out, vertex, old[vertex as usize], &mut rank);
        }
        let mut sum = 0.0;
        for vertex in 0..vertices {
            let found = layout.find_vertex(out, vertex, Loaded::NONE);
            out.load(layout.property(vertex, RANK), 4, 1, found);
            out.load(layout.property(vertex, OLD_RANK), 4, 0, found);
            let change = rank[vertex as usize] - old[vertex as usize];
            sum += change * change;
        }
        if sum.sqrt() < LEAST_CHANGE {
            break;
        }
    }
    rank
}

/// Adds a vertex's share to the ranks of its neighbours.
fn push(layout: &Layout, out: &mut Emitter, from: u32, old: f32, rank: &mut [f32]) {
    let graph = &layout.graph;
    let vertex = layout.find_vertex(out, from, Loaded::NONE);
    out.load(layout.property(from, OLD_RANK), 4, 1, vertex);
    // The degree: list::size counts the nodes in the library's old ABI and is a member in the
    // new one, which is followed here.
    let share = (DAMPING * f64::from(old) / graph.edges(from).len() as f64) as f32;
    let mut node = layout.edges_begin(out, from, vertex);
    for edge in graph.edges(from) {
        let to = graph.target(edge);
        let number = layout.target(out, edge, node);
        let found = layout.find_vertex(out, to, number);
        // The atomic addition.
        out.load(layout.property(to, RANK), 4, 2, found);
        out.store(layout.property(to, RANK), 4, 2, found);
        rank[to as usize] += share;
        node = layout.next_edge(out, edge, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::reference;
    use crate::testing::{check_places, run};

    #[test]
    fn ranks_are_those_of_the_pulled_iteration() {
        let (memory, layout, _) = reference::layout(1 << 20, Properties(8), 0);
        let (ranks, accesses) = run(|out| ranks(&layout, 5, out));
        let expected = reference::page_rank(&layout.graph, 5, f64::from(LEAST_CHANGE));
        for (rank, expected) in ranks.iter().zip(expected) {
            assert!((f64::from(*rank) - expected).abs() < 1e-4 * expected);
        }
        check_places(&memory, &accesses);
    }
}
