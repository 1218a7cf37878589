use super::Graph;
use super::generate::DEGREE;
use crate::emitter::{Emitter, Loaded};
use crate::memory::Memory;
use crate::{Parameter, Parameters, footprint};
use std::sync::Arc;

/// GraphBIG's property graph (openG) in the memory of a program built with libstdc++ and glibc,
/// on a 64-bit machine. Its default (`ILV_ILE` in openG_property.h) keeps the vertices in a list
/// and each vertex's outgoing and incoming edges in two lists more, every list with a hash table
/// from numbers to nodes. Nothing is an array: a kernel goes from one node of a vertex's edges to
/// the next, and from an edge to the vertex it leads to through the hash table of all vertices.
///
/// Objects lie in the heap in the order in which loading a graph allocates them, vertices first
/// and then edge by edge in the order of their sources, each as large as malloc makes it (8 bytes
/// of header, multiples of 16, no less than 32). Left out are the names that vertices have in the
/// files and the bucket arrays of the edges' hash tables, which no kernel looks at.
pub(crate) struct Layout {
    pub(crate) graph: Arc<Graph>,
    /// Bytes of a vertex's properties.
    properties: u64,
    /// The array of buckets of the vertices' hash table, and their number.
    buckets: u64,
    bucket_count: u64,
    vertices: u64,
    edges: u64,
}

/// Bytes that malloc takes for so many.
pub(crate) const fn chunk(bytes: u64) -> u64 {
    let bytes = (bytes + 8).next_multiple_of(16);
    if bytes < 32 { 32 } else { bytes }
}

/// A node of a hash table: number, pointer to the list's node, pointer to the next in the bucket.
const INDEX_NODE: u64 = chunk(24);
/// Two pointers to the neighbours, before what a list's node holds.
const LINKS: u64 = 16;
/// An indexed list: the list's two links and length, and a hash table's six words.
const INDEXED_LIST: u64 = 24 + 48;
/// A node of a list of edges: number, target, and a shared pointer (two words) to its properties.
const EDGE_NODE: u64 = chunk(LINKS + 32);
/// The properties of an edge, of 8 bytes at most, and the shared pointer's counts.
const EDGE_PROPERTIES: u64 = chunk(8) + chunk(32);
/// Bytes that one edge allocates: a node and an index entry at its source, its properties, and a
/// node and an index entry at its target.
const EDGE: u64 = 2 * (EDGE_NODE + INDEX_NODE) + EDGE_PROPERTIES;

/// Places of the members of an edge's node.
mod edge {
    pub(super) const NEXT: u64 = 0;
    pub(super) const TARGET: u64 = super::LINKS + 8;
    pub(super) const PROPERTIES: u64 = super::LINKS + 16;
}

/// Places of the members of a vertex's node.
mod vertex {
    pub(super) const PROPERTIES: u64 = super::LINKS + 8;
}

/// Properties of a vertex: how many bytes, padding included.
pub(crate) struct Properties(pub(crate) u64);

/// Parameters of every workload on this graph. The paper's graphs take 8 GB.
pub(crate) const PARAMETERS: &[Parameter] = &[footprint(8 << 30, 1 << 20)];

impl Layout {
    /// A graph of the footprint in question, less `per_vertex` and `per_edge` bytes that the
    /// kernel takes for itself.
    pub(crate) fn new(
        parameters: &Parameters,
        memory: &mut Memory,
        Properties(properties): Properties,
        per_vertex: u64,
        per_edge: u64,
    ) -> Layout {
        let node = chunk(LINKS + 8 + properties + 2 * INDEXED_LIST);
        let vertex = node + INDEX_NODE + 8 + per_vertex + DEGREE * (EDGE + per_edge);
        let vertices = parameters.get("footprint") / vertex;
        let graph = Graph::shared(vertices, parameters.get("seed"));
        // The hash table has a prime number of buckets, at least as many as vertices
        // (`_Prime_rehash_policy`).
        let bucket_count = next_prime(vertices);
        let buckets = memory.allocate(8 * bucket_count);
        let heap = vertices * (node + INDEX_NODE);
        let first = memory.allocate(heap + graph.edge_count() * EDGE);
        Layout {
            graph,
            properties,
            buckets,
            bucket_count,
            vertices: first,
            edges: first + heap,
        }
    }

    fn vertex_bytes(&self) -> u64 {
        chunk(LINKS + 8 + self.properties + 2 * INDEXED_LIST) + INDEX_NODE
    }

    /// The node of a vertex.
    #[inline(always)]
    fn vertex(&self, vertex: u32) -> u64 {
        self.vertices + u64::from(vertex) * self.vertex_bytes()
    }

    /// The address of a vertex's property, `place` bytes into its properties.
    #[inline(always)]
    pub(crate) fn property(&self, vertex: u32, place: u64) -> u64 {
        self.vertex(vertex) + vertex::PROPERTIES + place
    }

    #[inline(always)]
    fn edge(&self, edge: usize) -> u64 {
        self.edges + edge as u64 * EDGE
    }

    /// Goes to the next vertex of the list of all: loads the pointer in the one before it.
    #[inline(always)]
    pub(crate) fn next_vertex(&self, out: &mut Emitter, vertex: u32, node: Loaded) -> Loaded {
        match vertex.checked_sub(1) {
            None => Loaded::NONE,
            Some(before) => out.load(self.vertex(before), 8, 1, node),
        }
    }

    /// Finds a vertex by its number, which `number` loaded: the bucket, the entry's number to
    /// compare with, and the entry's pointer to the vertex, which is returned.
    ///
    /// With consecutive numbers and no fewer buckets than vertices no two share a bucket.
    #[inline(always)]
    pub(crate) fn find_vertex(&self, out: &mut Emitter, vertex: u32, number: Loaded) -> Loaded {
        let bucket = u64::from(vertex) % self.bucket_count;
        let entry = out.load(self.buckets + 8 * bucket, 8, 5, number);
        let node = self.vertex(vertex) + self.vertex_bytes() - INDEX_NODE;
        out.load(node, 8, 2, entry);
        out.load(node + 8, 8, 2, entry)
    }

    /// The first edge of a vertex that `vertex` points to.
    #[inline(always)]
    pub(crate) fn edges_begin(&self, out: &mut Emitter, at: u32, vertex: Loaded) -> Loaded {
        let list = self.property(at, self.properties) + INDEXED_LIST;
        out.load(list, 8, 2, vertex)
    }

    /// The number of the vertex that an edge leads to.
    #[inline(always)]
    pub(crate) fn target(&self, out: &mut Emitter, edge: usize, node: Loaded) -> Loaded {
        out.load(self.edge(edge) + edge::TARGET, 8, 2, node)
    }

    /// The weight among an edge's properties, which lie behind a pointer.
    #[inline(always)]
    pub(crate) fn weight(&self, out: &mut Emitter, edge: usize, node: Loaded) -> Loaded {
        let pointer = out.load(self.edge(edge) + edge::PROPERTIES, 8, 2, node);
        let properties = self.edge(edge) + EDGE_NODE + INDEX_NODE;
        out.load(properties, 2, 0, pointer)
    }

    /// Goes to the next edge of the same vertex.
    #[inline(always)]
    pub(crate) fn next_edge(&self, out: &mut Emitter, edge: usize, node: Loaded) -> Loaded {
        out.load(self.edge(edge) + edge::NEXT, 8, 1, node)
    }
}

fn next_prime(from: u64) -> u64 {
    let is_prime = |n: u64| {
        (2..)
            .take_while(|d| d * d <= n)
            .all(|d| !n.is_multiple_of(d))
    };
    (from.max(2)..).find(|&n| is_prime(n)).unwrap_or(from)
}
