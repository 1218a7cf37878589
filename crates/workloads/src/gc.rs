use crate::emitter::{Emitter, Loaded};
use crate::graph::{Layout, PARAMETERS, Properties};
use crate::hash::random;
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameters, Workload};

/// GraphBIG's graph colouring: `parallel_graphcoloring` of bench_graphColoring/graphcoloring.cpp
/// on one thread. In each round a vertex that has the largest random number among its neighbours
/// without a colour takes the round's colour; the others wait for the next round.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "gc",
    description: "colouring of a power-law graph by random priorities (GraphBIG GraphColoring)",
    parameters: PARAMETERS,
    build,
};

/// Properties of a vertex: `rand` and `color`, 2 bytes each.
const RANDOM: u64 = 0;
const COLOR: u64 = 2;

/// The colour of a vertex that has none.
const NONE: u16 = 0xfff0;

fn build(parameters: &Parameters) -> Program {
    let mut memory = Memory::default();
    let layout = Layout::new(parameters, &mut memory, Properties(8), 16, 0);
    let vertices = u64::from(layout.graph.vertices());
    // The tasks of this round and of the next.
    let tasks = [memory.allocate(8 * vertices), memory.allocate(8 * vertices)];
    let seed = parameters.get("seed");
    Program::new(memory, None, move |out| {
        colours(&layout, tasks, seed, out);
    })
}

fn colours(layout: &Layout, [input, output]: [u64; 2], seed: u64, out: &mut Emitter) -> Vec<u16> {
    let vertices = layout.graph.vertices();
    let priority: Vec<u16> = (0..u64::from(vertices))
        .map(|vertex| random(!seed, vertex) as u16)
        .collect();
    let mut colours = vec![NONE; vertices as usize];
    let mut tasks: Vec<u32> = (0..vertices).collect();
    let mut waiting = Vec::new();
    for colour in 0..NONE {
        for (place, &at) in tasks.iter().enumerate() {
            let number = out.load(input + 8 * place as u64, 8, 3, Loaded::NONE);
            let vertex = layout.find_vertex(out, at, number);
            out.load(layout.property(at, RANDOM), 2, 1, vertex);
            if waits(layout, out, (at, vertex), colour, &priority, &colours) {
                out.store(output + 8 * waiting.len() as u64, 8, 4, Loaded::NONE);
                waiting.push(at);
            } else {
                out.store(layout.property(at, COLOR), 2, 1, vertex);
                colours[at as usize] = colour;
            }
        }
        // The output's tasks become the input: insert copies them.
        for place in 0..waiting.len() as u64 {
            out.load(output + 8 * place, 8, 1, Loaded::NONE);
            out.store(input + 8 * place, 8, 0, Loaded::NONE);
        }
        std::mem::swap(&mut tasks, &mut waiting);
        waiting.clear();
        if tasks.is_empty() {
            break;
        }
    }
    colours
}

/// True if a neighbour without a colour of an earlier round goes before a vertex.
fn waits(
    layout: &Layout,
    out: &mut Emitter,
    (at, vertex): (u32, Loaded),
    colour: u16,
    priority: &[u16],
    colours: &[u16],
) -> bool {
    let graph = &layout.graph;
    let mut node = layout.edges_begin(out, at, vertex);
    for edge in graph.edges(at) {
        let to = graph.target(edge);
        let number = layout.target(out, edge, node);
        let found = layout.find_vertex(out, to, number);
        out.load(layout.property(to, COLOR), 2, 1, found);
        if colours[to as usize] >= colour {
            out.load(layout.property(to, RANDOM), 2, 1, found);
            let (mine, its) = (priority[at as usize], priority[to as usize]);
            if its > mine || its == mine && to < at {
                return true;
            }
        }
        node = layout.next_edge(out, edge, node);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::reference;
    use crate::testing::{check_places, run};

    #[test]
    fn neighbours_have_different_colours() {
        let (mut memory, layout, input) = reference::layout(1 << 20, Properties(8), 8);
        let output = memory.allocate(8 * u64::from(layout.graph.vertices()));
        let (colours, accesses) = run(|out| colours(&layout, [input, output], 3, out));
        for vertex in 0..layout.graph.vertices() {
            let own = colours[vertex as usize];
            assert_ne!(own, NONE);
            for &to in layout.graph.neighbours(vertex) {
                assert_ne!(own, colours[to as usize]);
            }
            // A vertex takes the first round in which it may.
            let largest = layout
                .graph
                .neighbours(vertex)
                .iter()
                .map(|&to| colours[to as usize]);
            assert!(own == 0 || largest.into_iter().any(|colour| colour < own));
        }
        check_places(&memory, &accesses);
    }
}
