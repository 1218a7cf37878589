use crate::emitter::{Emitter, Loaded};
use crate::graph::{Layout, PARAMETERS, Properties};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameters, Workload};

/// GraphBIG's breadth-first search: `bfs` of bench_BFS/bfs.cpp, the version for one thread.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "bfs",
    description: "breadth-first search of a power-law graph (GraphBIG BFS)",
    parameters: PARAMETERS,
    build,
};

/// Properties of a vertex: `color` (1 byte), `order` (8), `level` (2), with padding.
const COLOR: u64 = 0;
const ORDER: u64 = 8;
const LEVEL: u64 = 16;

/// The search starts at the vertex of this number, GraphBIG's default.
const ROOT: u32 = 0;

/// A level that no vertex has.
const UNSEEN: u16 = u16::MAX;

fn build(parameters: &Parameters) -> Program {
    let mut memory = Memory::default();
    let layout = Layout::new(parameters, &mut memory, Properties(24), 8, 0);
    // The queue, a deque of pointers whose blocks lie one after the other.
    let queue = memory.allocate(8 * u64::from(layout.graph.vertices()));
    Program::new(memory, None, move |out| {
        search(&layout, queue, out);
    })
}

/// Returns the level of each vertex.
fn search(layout: &Layout, queue: u64, out: &mut Emitter) -> Vec<u16> {
    let graph = &layout.graph;
    let mut levels = vec![UNSEEN; graph.vertices() as usize];
    let mut queued = Vec::with_capacity(levels.len());
    levels[ROOT as usize] = 0;
    let root = layout.find_vertex(out, ROOT, Loaded::NONE);
    out.store(layout.property(ROOT, COLOR), 1, 1, root);
    out.store(layout.property(ROOT, ORDER), 8, 0, root);
    out.store(layout.property(ROOT, LEVEL), 2, 0, root);
    out.store(queue, 8, 2, Loaded::NONE);
    queued.push(ROOT);
    let mut at = 0;
    while at < queued.len() {
        let from = queued[at];
        let vertex = out.load(queue + 8 * at as u64, 8, 4, Loaded::NONE);
        at += 1;
        let mut node = layout.edges_begin(out, from, vertex);
        for edge in graph.edges(from) {
            let to = graph.target(edge);
            let number = layout.target(out, edge, node);
            let found = layout.find_vertex(out, to, number);
            out.load(layout.property(to, COLOR), 1, 1, found);
            if levels[to as usize] == UNSEEN {
                levels[to as usize] = levels[from as usize] + 1;
                out.store(layout.property(to, COLOR), 1, 3, found);
                out.store(layout.property(to, ORDER), 8, 1, found);
                out.load(layout.property(from, LEVEL), 2, 0, vertex);
                out.store(layout.property(to, LEVEL), 2, 1, found);
                out.store(queue + 8 * queued.len() as u64, 8, 4, Loaded::NONE);
                queued.push(to);
            }
            node = layout.next_edge(out, edge, node);
        }
        out.store(layout.property(from, COLOR), 1, 2, vertex);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::reference;
    use crate::testing::{check_places, run};

    #[test]
    fn levels_are_those_of_widening_circles() {
        let (memory, layout, queue) = reference::layout(1 << 20, Properties(24), 8);
        let (levels, accesses) = run(|out| search(&layout, queue, out));
        let expected = reference::levels(&layout.graph, ROOT);
        let levels: Vec<_> = levels.iter().map(|&l| (l != UNSEEN).then_some(l)).collect();
        assert_eq!(levels, expected);
        check_places(&memory, &accesses);
    }
}
