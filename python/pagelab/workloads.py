"""The built-in programs. Made by scripts/generate-api.py; do not edit.

A parameter is a number, or text with a unit (`10GiB`, `40M`). Every function raises
`pagelab.errors.UsageError` for a value out of its range. docs/workloads.md describes
them.

Of every program:

- seed: where everything random starts from; 1 unless set, 0 to 2**64 - 1.
- windows: windows to sample, 0 for the whole program; unless set, 30 if they are less than
  a quarter of it, else 0; 30 unless set, 0 to 1,000,000.
- warm_up: accesses at the start of each window that are not measured; 1,000,000 unless set,
  0 to 2**40.
- measured: accesses of each window that are measured; 1,000,000 unless set, 1 to 2**40.
- region: accesses, from the program's first, over which windows are spread; 2,000,000,000
  unless set, 1 to 2**60.
- sparsity: address space for its memory: 2 MiB in use of every so many times 2 MiB; 1
  unless set, 1 to 1,024.

>>> pointer_chase(pages="4k", loads=10_000)
Workload('pointer-chase:pages=4k,loads=10000')
"""

from typing import TypedDict, Unpack

from pagelab.sources import Workload as Workload
from pagelab.sources import workload

Quantity = int | str


class Common(TypedDict, total=False):
    """Parameters of every program."""

    seed: Quantity
    windows: Quantity
    warm_up: Quantity
    measured: Quantity
    region: Quantity
    sparsity: Quantity


def bc(
    *,
    footprint: Quantity | None = None,
    sources: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Betweenness centrality in a power-law graph, Brandes' algorithm (GraphBIG BC).

    - footprint: memory that its data take, to within a few percent; 8GiB unless set, 1MiB to
      2**36.
    - sources: vertices from which paths start (GraphBIG: all, or --maxiter); 2 unless set, 1 to
      2**32 - 1.
    """
    return workload("bc", {"footprint": footprint, "sources": sources, **common})


def bfs(
    *,
    footprint: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Breadth-first search of a power-law graph (GraphBIG BFS).

    - footprint: memory that its data take, to within a few percent; 8GiB unless set, 1MiB to
      2**36.
    """
    return workload("bfs", {"footprint": footprint, **common})


def cc(
    *,
    footprint: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Connected components of a power-law graph (GraphBIG CComp).

    - footprint: memory that its data take, to within a few percent; 8GiB unless set, 1MiB to
      2**36.
    """
    return workload("cc", {"footprint": footprint, **common})


def gc(
    *,
    footprint: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Colouring of a power-law graph by random priorities (GraphBIG GraphColoring).

    - footprint: memory that its data take, to within a few percent; 8GiB unless set, 1MiB to
      2**36.
    """
    return workload("gc", {"footprint": footprint, **common})


def pr(
    *,
    footprint: Quantity | None = None,
    iterations: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """PageRank of a power-law graph, pushed along its edges (GraphBIG PageRank).

    - footprint: memory that its data take, to within a few percent; 8GiB unless set, 1MiB to
      2**36.
    - iterations: iterations at the most; fewer when the ranks change no more; 100 unless set, 1
      to 1MiB.
    """
    return workload("pr", {"footprint": footprint, "iterations": iterations, **common})


def tc(
    *,
    footprint: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Triangles of a power-law graph, by intersecting neighbours (GraphBIG TC).

    - footprint: memory that its data take, to within a few percent; 8GiB unless set, 1MiB to
      2**36.
    """
    return workload("tc", {"footprint": footprint, **common})


def sssp(
    *,
    footprint: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Shortest paths in a power-law graph with weights (GraphBIG ShortestPath).

    - footprint: memory that its data take, to within a few percent; 8GiB unless set, 1MiB to
      2**36.
    """
    return workload("sssp", {"footprint": footprint, **common})


def kmer(
    *,
    footprint: Quantity | None = None,
    genome: Quantity | None = None,
    coverage: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Counts k-mers of DNA reads in an array of counters (GenomicsBench kmer-cnt).

    - footprint: memory that its data take, to within a few percent; 33GiB unless set, 65,536 to
      2**36.
    - genome: bases of the genome; 4,641,652 unless set, 100 to 16GiB.
    - coverage: how often the reads cover the genome; 50 unless set, 1 to 1MiB.
    """
    return workload(
        "kmer", {"footprint": footprint, "genome": genome, "coverage": coverage, **common}
    )


def random_updates(
    *,
    footprint: Quantity | None = None,
    updates: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Read-modify-write of random 8-byte elements of a table (HPCC RandomAccess).

    - footprint: memory that its data take, to within a few percent; 10GiB unless set, 4,096 to
      2**36.
    - updates: updates; HPC Challenge makes 4 for each element; 1,000,000,000 unless set, 0 to
      2**58.
    """
    return workload("random-updates", {"footprint": footprint, "updates": updates, **common})


def xsbench(
    *,
    footprint: Quantity | None = None,
    lookups: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Neutron cross sections: binary search, then the grids of nuclides (XSBench).

    - footprint: memory that its data take, to within a few percent; 9GiB unless set, 2MiB to
      2**36.
    - lookups: macroscopic cross sections looked up; 17,000,000 unless set, 1 to 2**50.
    """
    return workload("xsbench", {"footprint": footprint, "lookups": lookups, **common})


def dlrm(
    *,
    footprint: Quantity | None = None,
    batches: Quantity | None = None,
    zipf: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Sums of rows of embedding tables that indices name (DLRM, SparseLengthsSum).

    - footprint: memory that its data take, to within a few percent; 10547MiB unless set, 1MiB
      to 2**36.
    - batches: batches of 64 samples; 5,000 unless set, 1 to 2**40.
    - zipf: skew of the indices in hundredths: 0 for uniform, 99 as in YCSB; 0 unless set, 0 to
      99.
    """
    return workload("dlrm", {"footprint": footprint, "batches": batches, "zipf": zipf, **common})


def stream(
    *,
    footprint: Quantity | None = None,
    iterations: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Copy, scale, add and triad over three arrays of doubles (STREAM).

    - footprint: memory that its data take, to within a few percent; 8GiB unless set, 4,096 to
      2**36.
    - iterations: passes of the four kernels (NTIMES); 10 unless set, 1 to 1MiB.
    """
    return workload("stream", {"footprint": footprint, "iterations": iterations, **common})


def kv(
    *,
    footprint: Quantity | None = None,
    operations: Quantity | None = None,
    reads: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """Key-value store, zipfian keys (YCSB, 0.99), records of 1,000 bytes.

    - footprint: memory that its data take, to within a few percent; 10GiB unless set, 1MiB to
      2**36.
    - operations: reads and updates; 20,000,000 unless set, 1 to 2**50.
    - reads: reads in a hundred operations (YCSB workload A: 50, B: 95, C: 100); 95 unless set,
      0 to 100.
    """
    return workload(
        "kv", {"footprint": footprint, "operations": operations, "reads": reads, **common}
    )


def pointer_chase(
    *,
    pages: Quantity | None = None,
    loads: Quantity | None = None,
    **common: Unpack[Common],
) -> Workload:
    """A chain of dependent loads, one line a page, over N pages in random order.

    - pages: pages of the chain; 100,000 unless set, 1 to 256MiB.
    - loads: loads; 10,000,000 unless set, 0 to 2**60.
    """
    return workload("pointer-chase", {"pages": pages, "loads": loads, **common})


ALL = (
    bc,
    bfs,
    cc,
    gc,
    pr,
    tc,
    sssp,
    kmer,
    random_updates,
    xsbench,
    dlrm,
    stream,
    kv,
    pointer_chase,
)
"""Every built-in program, to be called."""
