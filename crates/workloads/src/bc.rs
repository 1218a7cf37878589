use crate::emitter::{Emitter, Loaded};
use crate::graph::{Layout, Properties, chunk};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameter, Parameters, Workload, footprint};

/// GraphBIG's betweenness centrality: `bc` of bench_betweennessCentr/bc.cpp, the version for one
/// thread (Brandes, "A faster algorithm for betweenness centrality", 2001). From each source it
/// searches breadth-first, counts shortest paths and lists each vertex's predecessors on them, and
/// then goes back through the vertices in reverse.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "bc",
    description: "betweenness centrality in a power-law graph, Brandes' algorithm (GraphBIG BC)",
    parameters: &[
        footprint(8 << 30, 1 << 20),
        Parameter {
            name: "sources",
            description: "vertices from which paths start (GraphBIG: all, or --maxiter)",
            default: 2,
            min: 1,
            max: u32::MAX as u64,
        },
    ],
    build,
};

/// The only property of a vertex: `BC` (8 bytes).
const CENTRALITY: u64 = 0;
const PROPERTIES: Properties = Properties(8);

/// A list of predecessors: two links and a length.
const LIST: u64 = 24;
/// A node of it: two links and a number.
const NODE: u64 = chunk(24);
/// Bytes of the arrays below for each vertex, and of the nodes for each edge: an edge is on
/// shortest paths in one of its directions at the most.
const PER_VERTEX: u64 = LIST + 8 + 1 + 8 + 8 + 8;
const PER_EDGE: u64 = NODE / 2;

fn build(parameters: &Parameters) -> Program {
    let mut memory = Memory::default();
    let layout = Layout::new(parameters, &mut memory, PROPERTIES, PER_VERTEX, PER_EDGE);
    let places = Places::new(&layout, &mut memory);
    let sources = parameters
        .get("sources")
        .min(u64::from(layout.graph.vertices()));
    Program::new(memory, None, move |out| {
        centrality(&layout, &places, sources as u32, out);
    })
}

/// Addresses of the arrays.
struct Places {
    parents: u64,
    paths: u64,
    depths: u64,
    updates: u64,
    /// Queue and stack, deques whose blocks lie one after the other.
    queue: u64,
    stack: u64,
    /// Nodes of the lists of predecessors. For each source they are taken from the first one on.
    nodes: u64,
}

impl Places {
    fn new(layout: &Layout, memory: &mut Memory) -> Self {
        let vertices = u64::from(layout.graph.vertices());
        Places {
            parents: memory.allocate(LIST * vertices),
            paths: memory.allocate(8 * vertices),
            depths: memory.allocate(vertices),
            updates: memory.allocate(8 * vertices),
            queue: memory.allocate(8 * vertices),
            stack: memory.allocate(8 * vertices),
            nodes: memory.allocate(NODE * layout.graph.edge_count() / 2),
        }
    }

    fn parents(&self, vertex: u32) -> u64 {
        self.parents + LIST * u64::from(vertex)
    }

    fn paths(&self, vertex: u32) -> u64 {
        self.paths + 8 * u64::from(vertex)
    }

    fn depth(&self, vertex: u32) -> u64 {
        self.depths + u64::from(vertex)
    }

    fn update(&self, vertex: u32) -> u64 {
        self.updates + 8 * u64::from(vertex)
    }

    fn node(&self, node: usize) -> u64 {
        self.nodes + NODE * node as u64
    }
}

/// No vertex, no node.
const END: u32 = u32::MAX;

/// State while paths start at one vertex.
struct State {
    paths: Vec<u64>,
    /// Negative before a vertex is reached.
    depths: Vec<i8>,
    updates: Vec<f64>,
    /// Vertices in the order in which they were reached.
    seen: Vec<u32>,
    /// First and last node of each vertex's predecessors.
    lists: Vec<(u32, u32)>,
    /// Predecessor and next node.
    nodes: Vec<(u32, u32)>,
}

fn centrality(layout: &Layout, places: &Places, sources: u32, out: &mut Emitter) -> Vec<f64> {
    let vertices = layout.graph.vertices();
    let mut centrality = vec![0.0; vertices as usize];
    let mut state = State {
        paths: Vec::new(),
        depths: Vec::new(),
        updates: Vec::new(),
        seen: Vec::new(),
        lists: Vec::new(),
        nodes: Vec::new(),
    };
    for source in 0..sources {
        state.reset(places, vertices, source, out);
        state.search(layout, places, source, out);
        for index in (0..state.seen.len()).rev() {
            let at = state.seen[index];
            let number = out.load(places.stack + 8 * index as u64, 8, 3, Loaded::NONE);
            state.accumulate(places, at, number, out);
            if at != source {
                let vertex = layout.find_vertex(out, at, number);
                out.load(places.update(at), 8, 0, number);
                out.load(layout.property(at, CENTRALITY), 8, 1, vertex);
                out.store(layout.property(at, CENTRALITY), 8, 1, vertex);
                centrality[at as usize] += state.updates[at as usize] / 2.0;
            }
        }
    }
    centrality
}

impl State {
    /// Empties the lists and sets all arrays for a new source.
    fn reset(&mut self, places: &Places, vertices: u32, source: u32, out: &mut Emitter) {
        for vertex in 0..vertices {
            let mut node = out.load(places.parents(vertex), 8, 2, Loaded::NONE);
            let mut at = self.lists.get(vertex as usize).map_or(END, |list| list.0);
            while at != END {
                // Freeing it writes into it.
                node = out.load(places.node(at as usize), 8, 2, node);
                out.store(places.node(at as usize), 8, 20, node);
                at = self.nodes[at as usize].1;
            }
            out.store(places.parents(vertex), 16, 1, Loaded::NONE);
            out.store(places.paths(vertex), 8, 1, Loaded::NONE);
            out.store(places.depth(vertex), 1, 1, Loaded::NONE);
            out.store(places.update(vertex), 8, 1, Loaded::NONE);
        }
        let vertices = vertices as usize;
        self.paths.clear();
        self.paths.resize(vertices, 0);
        self.depths.clear();
        self.depths.resize(vertices, -1);
        self.updates.clear();
        self.updates.resize(vertices, 0.0);
        self.lists.clear();
        self.lists.resize(vertices, (END, END));
        self.nodes.clear();
        self.seen.clear();
        self.paths[source as usize] = 1;
        self.depths[source as usize] = 0;
    }

    fn search(&mut self, layout: &Layout, places: &Places, source: u32, out: &mut Emitter) {
        let graph = &layout.graph;
        out.store(places.queue, 8, 2, Loaded::NONE);
        self.seen.push(source);
        let mut at = 0;
        while at < self.seen.len() {
            let from = self.seen[at];
            let number = out.load(places.queue + 8 * at as u64, 8, 3, Loaded::NONE);
            out.store(places.stack + 8 * at as u64, 8, 3, Loaded::NONE);
            at += 1;
            let vertex = layout.find_vertex(out, from, number);
            let mut node = layout.edges_begin(out, from, vertex);
            for edge in graph.edges(from) {
                let to = graph.target(edge);
                let target = layout.target(out, edge, node);
                out.load(places.depth(to), 1, 1, target);
                if self.depths[to as usize] < 0 {
                    out.store(
                        places.queue + 8 * self.seen.len() as u64,
                        8,
                        3,
                        Loaded::NONE,
                    );
                    self.seen.push(to);
                    out.load(places.depth(from), 1, 0, number);
                    out.store(places.depth(to), 1, 1, target);
                    self.depths[to as usize] = self.depths[from as usize] + 1;
                }
                out.load(places.depth(from), 1, 0, number);
                if self.depths[to as usize] == self.depths[from as usize] + 1 {
                    self.add_path(places, (from, number), (to, target), out);
                }
                node = layout.next_edge(out, edge, node);
            }
        }
    }

    /// Counts the paths that come to a vertex from a predecessor, and lists the predecessor.
    fn add_path(
        &mut self,
        places: &Places,
        (from, number): (u32, Loaded),
        (to, target): (u32, Loaded),
        out: &mut Emitter,
    ) {
        out.load(places.paths(from), 8, 1, number);
        out.load(places.paths(to), 8, 0, target);
        out.store(places.paths(to), 8, 1, target);
        let paths = self.paths[from as usize];
        let sum = &mut self.paths[to as usize];
        *sum = sum.wrapping_add(paths);
        // malloc, and hooking the node in behind the last one.
        let new = self.nodes.len() as u32;
        out.store(places.node(new as usize) + 16, 8, 25, Loaded::NONE);
        let last = out.load(places.parents(to) + 8, 8, 2, target);
        out.store(places.node(new as usize), 16, 1, Loaded::NONE);
        let list = &mut self.lists[to as usize];
        if list.1 == END {
            list.0 = new;
            out.store(places.parents(to), 8, 0, target);
        } else {
            self.nodes[list.1 as usize].1 = new;
            out.store(places.node(list.1 as usize), 8, 0, last);
        }
        list.1 = new;
        out.store(places.parents(to) + 8, 8, 0, target);
        self.nodes.push((from, END));
    }

    /// Hands a vertex's dependency on to its predecessors.
    fn accumulate(&mut self, places: &Places, at: u32, number: Loaded, out: &mut Emitter) {
        out.load(places.update(at), 8, 1, number);
        out.load(places.paths(at), 8, 1, number);
        let share = (1.0 + self.updates[at as usize]) / self.paths[at as usize] as f64;
        let mut pointer = out.load(places.parents(at), 8, 3, number);
        let mut node = self.lists[at as usize].0;
        while node != END {
            let (parent, next) = self.nodes[node as usize];
            let value = out.load(places.node(node as usize) + 16, 8, 2, pointer);
            out.load(places.paths(parent), 8, 1, value);
            out.load(places.update(parent), 8, 2, value);
            out.store(places.update(parent), 8, 1, value);
            self.updates[parent as usize] += self.paths[parent as usize] as f64 * share;
            pointer = out.load(places.node(node as usize), 8, 1, pointer);
            node = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::reference;
    use crate::testing::{check_places, run};

    #[test]
    fn centralities_are_those_of_counted_paths() {
        let (mut memory, layout, _) = reference::layout(1 << 20, PROPERTIES, 0);
        let places = Places::new(&layout, &mut memory);
        let (centrality, accesses) = run(|out| centrality(&layout, &places, 3, out));
        let expected = reference::centrality(&layout.graph, 3);
        for (mine, expected) in centrality.iter().zip(expected) {
            assert!(
                (mine - expected).abs() <= 1e-9 * expected.max(1.0),
                "{mine} {expected}"
            );
        }
        check_places(&memory, &accesses);
    }
}
