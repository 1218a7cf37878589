use crate::emitter::{Emitter, Loaded};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameter, Parameters, Workload, footprint};

/// STREAM (McCalpin, stream.c 5.10): copy, scale, add and triad over three arrays of doubles, in
/// the 16-byte vectors that compilers use on x86-64 unless told of more.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "stream",
    description: "copy, scale, add and triad over three arrays of doubles (STREAM)",
    parameters: &[
        footprint(8 << 30, 1 << 12),
        Parameter {
            name: "iterations",
            description: "passes of the four kernels (NTIMES)",
            default: 10,
            min: 1,
            max: 1 << 20,
        },
    ],
    build,
};

/// Bytes of a vector.
const VECTOR: u64 = 16;
/// Accesses of the four kernels for each vector.
const ACCESSES: u64 = 2 + 2 + 3 + 3;

fn build(parameters: &Parameters) -> Program {
    let vectors = parameters.get("footprint") / 3 / VECTOR;
    let iterations = parameters.get("iterations");
    let mut memory = Memory::default();
    let [a, b, c] = std::array::from_fn(|_| memory.allocate(vectors * VECTOR));
    Program {
        memory,
        accesses: Some(iterations * vectors * ACCESSES),
        kernel: Box::new(move |out| {
            for _ in 0..iterations {
                pass(out, vectors, &[a], c, 0);
                pass(out, vectors, &[c], b, 1);
                pass(out, vectors, &[a, b], c, 1);
                pass(out, vectors, &[b, c], a, 2);
            }
        }),
    }
}

/// One kernel: reads `from`, computes with so many instructions and writes `to`, vector by vector.
fn pass(out: &mut Emitter, vectors: u64, from: &[u64], to: u64, arithmetic: u32) {
    // The loop: advancing the offset, comparing, branching.
    const LOOP: u32 = 3;
    for offset in (0..vectors * VECTOR).step_by(VECTOR as usize) {
        let mut gap = LOOP;
        for array in from {
            out.load(array + offset, VECTOR as u16, gap, Loaded::NONE);
            gap = 0;
        }
        out.store(to + offset, VECTOR as u16, arithmetic, Loaded::NONE);
    }
}
