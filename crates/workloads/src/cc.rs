use crate::emitter::{Emitter, Loaded};
use crate::graph::{Layout, PARAMETERS, Properties};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameters, Workload};

/// GraphBIG's connected components: `connected_component` and `bfs_component` of
/// bench_connectedComp/connectedcomponent.cpp, the version for one thread: a breadth-first search
/// from each vertex that no earlier one has reached.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "cc",
    description: "connected components of a power-law graph (GraphBIG CComp)",
    parameters: PARAMETERS,
    build,
};

/// Properties of a vertex: `level` and `label`, 2 bytes each.
const LEVEL: u64 = 0;
const LABEL: u64 = 2;

/// The label of a vertex that no search has reached. (GraphBIG's labels have 16 bits; here they
/// are whole numbers of vertices.)
const UNSEEN: u32 = u32::MAX;

fn build(parameters: &Parameters) -> Program {
    let mut memory = Memory::default();
    let layout = Layout::new(parameters, &mut memory, Properties(8), 8, 0);
    // The queue, a deque of pointers whose blocks lie one after the other.
    let queue = memory.allocate(8 * u64::from(layout.graph.vertices()));
    Program::new(memory, None, move |out| {
        components(&layout, queue, out);
    })
}

/// Returns the first vertex of each vertex's component.
fn components(layout: &Layout, queue: u64, out: &mut Emitter) -> Vec<u32> {
    let mut labels = vec![UNSEEN; layout.graph.vertices() as usize];
    let mut queued = Vec::with_capacity(labels.len());
    let mut node = Loaded::NONE;
    for root in 0..layout.graph.vertices() {
        node = layout.next_vertex(out, root, node);
        out.load(layout.property(root, LEVEL), 2, 2, node);
        if labels[root as usize] == UNSEEN {
            component(layout, queue, out, root, &mut labels, &mut queued);
        }
    }
    labels
}

fn component(
    layout: &Layout,
    queue: u64,
    out: &mut Emitter,
    root: u32,
    labels: &mut [u32],
    queued: &mut Vec<u32>,
) {
    let graph = &layout.graph;
    let found = layout.find_vertex(out, root, Loaded::NONE);
    out.store(layout.property(root, LEVEL), 2, 1, found);
    out.store(layout.property(root, LABEL), 2, 0, found);
    out.store(queue, 8, 2, Loaded::NONE);
    labels[root as usize] = root;
    queued.clear();
    queued.push(root);
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
            out.load(layout.property(to, LEVEL), 2, 1, found);
            if labels[to as usize] == UNSEEN {
                labels[to as usize] = root;
                out.load(layout.property(from, LEVEL), 2, 1, vertex);
                out.store(layout.property(to, LEVEL), 2, 1, found);
                out.store(layout.property(to, LABEL), 2, 0, found);
                out.store(queue + 8 * queued.len() as u64, 8, 4, Loaded::NONE);
                queued.push(to);
            }
            node = layout.next_edge(out, edge, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::reference;
    use crate::testing::{check_places, run};

    #[test]
    fn labels_are_those_of_merged_sets() {
        let (memory, layout, queue) = reference::layout(1 << 20, Properties(8), 8);
        let (labels, accesses) = run(|out| components(&layout, queue, out));
        assert_eq!(labels, reference::components(&layout.graph));
        check_places(&memory, &accesses);
    }
}
