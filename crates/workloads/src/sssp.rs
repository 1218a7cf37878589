use crate::emitter::{Emitter, Loaded};
use crate::graph::{Layout, PARAMETERS, Properties};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameters, Workload};

/// GraphBIG's single-source shortest paths: `sssp` of bench_shortestPath/sssp.cpp, the version for
/// one thread: a binary heap of (vertex, distance) pairs into which a vertex goes again each time
/// its distance falls.
///
/// Edges have weights from 1 to 64 that depend on their two ends, as in a build with EDGE_WEIGHT
/// and a file that has weights; without, all weights are 1 and the heap sorts nothing.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "sssp",
    description: "shortest paths in a power-law graph with weights (GraphBIG ShortestPath)",
    parameters: PARAMETERS,
    build,
};

/// Properties of a vertex: `distance` (2 bytes), `predecessor` (8), `update` (2), with padding.
const DISTANCE: u64 = 0;
const PREDECESSOR: u64 = 8;

/// The paths start at the vertex of this number, GraphBIG's default.
const SOURCE: u32 = 0;
/// The distance of a vertex that cannot be reached.
const FAR: u32 = u32::MAX;

fn build(parameters: &Parameters) -> Program {
    let mut memory = Memory::default();
    let layout = Layout::new(parameters, &mut memory, Properties(24), 16, 0);
    let heap = memory.allocate(PAIR * u64::from(layout.graph.vertices()) * ROOM);
    Program::new(memory, None, move |out| {
        distances(&layout, heap, out);
    })
}

/// The weight of the edges between two vertices.
pub(crate) fn weight(from: u32, to: u32) -> u32 {
    let ends = u64::from(from.min(to)) << 32 | u64::from(from.max(to));
    1 + (crate::hash::mix(ends) % 64) as u32
}

fn distances(layout: &Layout, heap: u64, out: &mut Emitter) -> Vec<u32> {
    let graph = &layout.graph;
    let mut distances = vec![FAR; graph.vertices() as usize];
    let mut queue = Heap::new(heap);
    let source = layout.find_vertex(out, SOURCE, Loaded::NONE);
    out.store(layout.property(SOURCE, DISTANCE), 2, 1, source);
    distances[SOURCE as usize] = 0;
    queue.push(out, (0, SOURCE));
    while let Some((from, taken)) = queue.pop(out) {
        let vertex = layout.find_vertex(out, from, taken);
        let mut node = layout.edges_begin(out, from, vertex);
        for edge in graph.edges(from) {
            let to = graph.target(edge);
            let number = layout.target(out, edge, node);
            let found = layout.find_vertex(out, to, number);
            out.load(layout.property(from, DISTANCE), 2, 1, vertex);
            layout.weight(out, edge, node);
            out.load(layout.property(to, DISTANCE), 2, 1, found);
            let distance = distances[from as usize] + weight(from, to);
            if distance < distances[to as usize] {
                distances[to as usize] = distance;
                out.store(layout.property(to, DISTANCE), 2, 1, found);
                out.store(layout.property(to, PREDECESSOR), 8, 0, found);
                queue.push(out, (distance, to));
            }
            node = layout.next_edge(out, edge, node);
        }
    }
    distances
}

/// Bytes of a pair of two `size_t`.
const PAIR: u64 = 16;
/// Pairs in the heap for each vertex, at the most. A vertex is in the heap more than once when its
/// distance falls while it waits.
const ROOM: u64 = 4;

/// std::priority_queue: a binary heap in a vector, with the smallest distance on top. The steps
/// are those of std::push_heap and std::pop_heap.
struct Heap {
    base: u64,
    pairs: Vec<(u32, u32)>,
}

impl Heap {
    fn new(base: u64) -> Self {
        Heap {
            base,
            pairs: Vec::new(),
        }
    }

    fn at(&self, place: usize) -> u64 {
        self.base + PAIR * place as u64
    }

    fn push(&mut self, out: &mut Emitter, pair: (u32, u32)) {
        self.pairs.push(pair);
        let last = self.pairs.len() - 1;
        out.store(self.at(last), 16, 4, Loaded::NONE);
        self.rise(out, last, 0, pair);
    }

    /// `__push_heap`: moves parents down until the pair fits above its place.
    fn rise(&mut self, out: &mut Emitter, from: usize, top: usize, pair: (u32, u32)) {
        let mut place = from;
        while place > top {
            let parent = (place - 1) / 2;
            out.load(self.at(parent) + 8, 8, 3, Loaded::NONE);
            if self.pairs[parent].0 <= pair.0 {
                break;
            }
            out.load(self.at(parent), 8, 0, Loaded::NONE);
            out.store(self.at(place), 16, 1, Loaded::NONE);
            self.pairs[place] = self.pairs[parent];
            place = parent;
        }
        out.store(self.at(place), 16, 1, Loaded::NONE);
        self.pairs[place] = pair;
    }

    /// The nearest vertex, and what loaded its number.
    fn pop(&mut self, out: &mut Emitter) -> Option<(u32, Loaded)> {
        let &(_, nearest) = self.pairs.first()?;
        let top = out.load(self.base, 8, 3, Loaded::NONE);
        let last = self.pairs.len() - 1;
        if last > 0 {
            out.load(self.at(last), 16, 2, Loaded::NONE);
            out.store(self.at(last), 16, 1, Loaded::NONE);
        }
        let moved = self.pairs.pop()?;
        if last > 0 {
            self.sink(out, moved);
        }
        Some((nearest, top))
    }

    /// `__adjust_heap`: moves the nearer child up all the way down, then lets the pair rise.
    fn sink(&mut self, out: &mut Emitter, pair: (u32, u32)) {
        let len = self.pairs.len();
        let mut place = 0;
        while 2 * place + 1 < len {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let child = if right < len {
                out.load(self.at(right) + 8, 8, 2, Loaded::NONE);
                out.load(self.at(left) + 8, 8, 0, Loaded::NONE);
                if self.pairs[right].0 > self.pairs[left].0 {
                    left
                } else {
                    right
                }
            } else {
                left
            };
            out.load(self.at(child), 16, 2, Loaded::NONE);
            out.store(self.at(place), 16, 0, Loaded::NONE);
            self.pairs[place] = self.pairs[child];
            place = child;
        }
        self.rise(out, place, 0, pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::reference;
    use crate::testing::{check_places, run};

    #[test]
    fn distances_are_those_of_repeated_relaxation() {
        let (memory, layout, heap) = reference::layout(1 << 20, Properties(24), PAIR * ROOM);
        let (distances, accesses) = run(|out| distances(&layout, heap, out));
        assert_eq!(
            distances,
            reference::distances(&layout.graph, SOURCE, weight)
        );
        check_places(&memory, &accesses);
    }

    #[test]
    fn pairs_come_out_of_the_heap_in_order() {
        let (out, _) = run(|out| {
            let mut heap = Heap::new(1 << 30);
            let keys = (0..1000u32).map(|i| (i * 7919 % 1009, i));
            let mut pairs: Vec<_> = keys.collect();
            for &pair in &pairs {
                heap.push(out, pair);
            }
            pairs.sort_unstable();
            let of = |vertex: u32| vertex * 7919 % 1009;
            let popped: Vec<u32> = std::iter::from_fn(|| heap.pop(out))
                .map(|p| of(p.0))
                .collect();
            assert!(popped.iter().copied().eq(pairs.iter().map(|p| p.0)));
        });
        out
    }
}
