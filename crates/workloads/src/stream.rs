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
    Program::new(memory, Some(iterations * vectors * ACCESSES), move |out| {
        for _ in 0..iterations {
            pass(out, vectors, &[a], c, 0);
            pass(out, vectors, &[c], b, 1);
            pass(out, vectors, &[a, b], c, 1);
            pass(out, vectors, &[b, c], a, 2);
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_places, run};
    use pagelab_events::Access;

    /// The bytes that stream.c counts for a pass: 2, 2, 3 and 3 arrays.
    #[test]
    fn each_kernel_moves_the_bytes_that_stream_counts() {
        let given = [
            ("footprint".to_owned(), "48KiB".to_owned()),
            ("iterations".to_owned(), "1".to_owned()),
        ];
        let parameters = Parameters::new(WORKLOAD.parameters, &given).expect("valid parameters");
        let program = build(&parameters);
        let ((), accesses) = run(|out| (program.kernel)(out));
        check_places(&program.memory, &accesses);
        let array = 16 << 10;
        let bytes: u64 = accesses
            .iter()
            .map(|access| u64::from(access.op.size()))
            .sum();
        assert_eq!(bytes, (2 + 2 + 3 + 3) * array);
        // Loads and stores of a, b and c.
        for (mapping, loads, stores) in [(0, 2, 1), (1, 2, 1), (2, 2, 2)] {
            let first = program.memory.mappings()[mapping].addr;
            let inside = accesses
                .iter()
                .filter(|a| (first..first + array).contains(&a.addr));
            let (written, read): (Vec<&Access>, Vec<&Access>) =
                inside.partition(|a| a.op.is_store());
            assert_eq!(read.len() as u64 * VECTOR, loads * array);
            assert_eq!(written.len() as u64 * VECTOR, stores * array);
        }
    }
}
