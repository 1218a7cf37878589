use crate::emitter::{Emitter, Loaded};
use crate::graph::{Layout, PARAMETERS, Properties, chunk};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameters, Workload};
use std::ops::Range;

/// GraphBIG's triangle count: `triangle_count` of bench_triangleCount/tc.cpp, the version for one
/// thread: for each edge, the sorted neighbours of its two ends are intersected. `tc_init`, which
/// makes the sorted vectors, is part of the initialisation.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "tc",
    description: "triangles of a power-law graph, by intersecting neighbours (GraphBIG TC)",
    parameters: PARAMETERS,
    build,
};

/// Properties of a vertex: `count` (2 bytes) and a vector, which begins with the pointers to its
/// first and past its last element.
const COUNT: u64 = 0;
const BEGIN: u64 = 8;
const END: u64 = 16;
const PROPERTIES: Properties = Properties(32);

fn build(parameters: &Parameters) -> Program {
    let mut memory = Memory::default();
    let layout = Layout::new(parameters, &mut memory, PROPERTIES, 16, 8);
    let sets = Sets::new(&layout, &mut memory);
    Program::new(memory, None, move |out| {
        triangles(&layout, &sets, out);
    })
}

/// Each vertex's neighbours as a vector of 8-byte numbers, allocated vertex by vertex.
struct Sets {
    base: u64,
    /// Address of each vector, in units of 16 bytes.
    places: Vec<u32>,
}

impl Sets {
    fn new(layout: &Layout, memory: &mut Memory) -> Self {
        let mut end = 0;
        let places = (0..layout.graph.vertices())
            .map(|vertex| {
                let place = end;
                end += chunk(8 * layout.graph.edges(vertex).len() as u64);
                (place / 16) as u32
            })
            .collect();
        Sets {
            base: memory.allocate(end),
            places,
        }
    }

    fn of(&self, vertex: u32) -> u64 {
        self.base + 16 * u64::from(self.places[vertex as usize])
    }
}

fn triangles(layout: &Layout, sets: &Sets, out: &mut Emitter) -> u64 {
    let graph = &layout.graph;
    let mut counts = vec![0u64; graph.vertices() as usize];
    let mut vertex = Loaded::NONE;
    for from in 0..graph.vertices() {
        vertex = layout.next_vertex(out, from, vertex);
        let mut node = layout.edges_begin(out, from, vertex);
        for edge in graph.edges(from) {
            let to = graph.target(edge);
            let number = layout.target(out, edge, node);
            if from <= to {
                let found = layout.find_vertex(out, to, number);
                let common = intersect(layout, sets, out, (from, vertex), (to, found));
                for (at, pointer) in [(from, vertex), (to, found)] {
                    out.load(layout.property(at, COUNT), 2, 1, pointer);
                    out.store(layout.property(at, COUNT), 2, 1, pointer);
                    counts[at as usize] += common;
                }
            }
            node = layout.next_edge(out, edge, node);
        }
    }
    let mut total = 0;
    for at in 0..graph.vertices() {
        vertex = layout.next_vertex(out, at, vertex);
        out.load(layout.property(at, COUNT), 2, 1, vertex);
        out.store(layout.property(at, COUNT), 2, 2, vertex);
        total += counts[at as usize] / 2;
    }
    total / 3
}

/// `get_intersect_cnt`: goes through two sorted vectors side by side.
fn intersect(
    layout: &Layout,
    sets: &Sets,
    out: &mut Emitter,
    a: (u32, Loaded),
    b: (u32, Loaded),
) -> u64 {
    let mut side = |(vertex, pointer): (u32, Loaded)| {
        let begin = out.load(layout.property(vertex, BEGIN), 8, 1, pointer);
        out.load(layout.property(vertex, END), 8, 0, pointer);
        Side {
            edges: layout.graph.edges(vertex),
            addr: sets.of(vertex),
            begin,
        }
    };
    let (mut a, mut b) = (side(a), side(b));
    let mut common = 0;
    let (mut left, mut right) = (a.next(layout, out), b.next(layout, out));
    while let (Some(l), Some(r)) = (left, right) {
        common += u64::from(l == r);
        if l <= r {
            left = a.next(layout, out);
        }
        if r <= l {
            right = b.next(layout, out);
        }
    }
    common
}

/// Place of an intersection in one of its vectors.
struct Side {
    edges: Range<usize>,
    addr: u64,
    begin: Loaded,
}

impl Side {
    #[inline(always)]
    fn next(&mut self, layout: &Layout, out: &mut Emitter) -> Option<u32> {
        let edge = self.edges.next()?;
        out.load(self.addr, 8, 4, self.begin);
        self.addr += 8;
        Some(layout.graph.target(edge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::reference;
    use crate::testing::{check_places, run};

    #[test]
    fn triangles_are_those_of_sets() {
        let (mut memory, layout, _) = reference::layout(4 << 20, PROPERTIES, 0);
        let sets = Sets::new(&layout, &mut memory);
        let (count, accesses) = run(|out| triangles(&layout, &sets, out));
        assert!(count > 0);
        assert_eq!(count, reference::triangles(&layout.graph));
        check_places(&memory, &accesses);
    }
}
