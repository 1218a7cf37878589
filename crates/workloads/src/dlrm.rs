use crate::emitter::{Emitter, Loaded};
use crate::hash::{below, mix, random};
use crate::memory::Memory;
use crate::program::Program;
use crate::zipf::Zipf;
use crate::{Parameter, Parameters, Workload, footprint};

/// The sparse-length sum of DLRM (Naumov et al., arXiv:1906.00091): the operator SparseLengthsSum
/// of its Caffe2 version, EmbeddingBag in PyTorch. For each sample of a batch and each embedding
/// table, the rows that the sample's indices name are added up, in 32-byte vectors.
///
/// Rows hold 64 numbers of 4 bytes, a sample names 80 of them in each of 8 tables: the sizes of
/// RMC1 in "The Architectural Implications of Facebook's DNN-Based Personalized Recommendation"
/// (Gupta et al., HPCA 2020) but for the rows, which are twice as wide. Indices are uniform, as in
/// DLRM's own generator of random data, or zipfian. The kernels' software prefetches are left out.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "dlrm",
    description: "sums of rows of embedding tables that indices name (DLRM, SparseLengthsSum)",
    parameters: &[
        // 10.3 GB in the paper.
        footprint(10_547 << 20, 1 << 20),
        Parameter {
            name: "batches",
            description: "batches of 64 samples",
            default: 5000,
            min: 1,
            max: 1 << 40,
        },
        Parameter {
            name: "zipf",
            description: "skew of the indices in hundredths: 0 for uniform, 99 as in YCSB",
            default: 0,
            min: 0,
            max: 99,
        },
    ],
    build,
};

const TABLES: u64 = 8;
const LOOKUPS: u64 = 80;
const SAMPLES: u64 = 64;
/// Bytes of a row and of a vector.
const ROW: u64 = 64 * 4;
const VECTOR: u64 = 32;
/// Accesses for a sample's lookups in one table: its length, indices with their rows, the sum.
const ACCESSES: u64 = 1 + LOOKUPS * (1 + ROW / VECTOR) + ROW / VECTOR;

fn build(parameters: &Parameters) -> Program {
    // A table of a batch takes little besides its rows.
    let rows = parameters.get("footprint") / TABLES / ROW;
    let batches = parameters.get("batches");
    let seed = parameters.get("seed");
    let skew = parameters.get("zipf");
    let zipf = (skew > 0).then(|| Zipf::new(rows, skew as f64 / 100.0));
    let mut memory = Memory::default();
    let tables = Tables {
        rows,
        weights: std::array::from_fn(|_| memory.allocate(rows * ROW)),
        lengths: memory.allocate(TABLES * SAMPLES * 4),
        indices: memory.allocate(TABLES * SAMPLES * LOOKUPS * 8),
        sums: memory.allocate(TABLES * SAMPLES * ROW),
        seed,
        zipf,
    };
    Program::new(
        memory,
        Some(batches * TABLES * SAMPLES * ACCESSES),
        move |out| {
            for batch in 0..batches {
                for table in 0..TABLES {
                    tables.look_up(out, batch, table);
                }
            }
        },
    )
}

struct Tables {
    rows: u64,
    weights: [u64; TABLES as usize],
    /// One batch's lengths, indices and sums, table by table. Each batch takes the same place.
    lengths: u64,
    indices: u64,
    sums: u64,
    seed: u64,
    zipf: Option<Zipf>,
}

impl Tables {
    /// The row that index number `index` of a batch names.
    #[inline]
    fn row(&self, batch: u64, index: u64) -> u64 {
        let random = random(self.seed, batch * TABLES * SAMPLES * LOOKUPS + index);
        match &self.zipf {
            None => below(random, self.rows),
            // Frequent rows are anywhere in the table.
            Some(zipf) => below(mix(zipf.rank(random)), self.rows),
        }
    }

    /// Sums up the rows of all samples of a batch in one table.
    fn look_up(&self, out: &mut Emitter, batch: u64, table: u64) {
        let weights = self.weights[table as usize];
        for sample in table * SAMPLES..(table + 1) * SAMPLES {
            out.load(self.lengths + 4 * sample, 4, 8, Loaded::NONE);
            for index in sample * LOOKUPS..(sample + 1) * LOOKUPS {
                let loaded = out.load(self.indices + 8 * index, 8, 3, Loaded::NONE);
                let row = weights + ROW * self.row(batch, index);
                // The index is checked and scaled; each load is part of an addition.
                out.load(row, VECTOR as u16, 4, loaded);
                for vector in 1..ROW / VECTOR {
                    out.load(row + VECTOR * vector, VECTOR as u16, 0, loaded);
                }
            }
            for vector in 0..ROW / VECTOR {
                let sum = self.sums + ROW * sample + VECTOR * vector;
                out.store(sum, VECTOR as u16, 0, Loaded::NONE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_places, run};
    use std::collections::HashMap;

    /// Runs one batch; returns how often each row of each table was read, by its address.
    fn rows(zipf: &str) -> HashMap<u64, u64> {
        let given = [
            ("footprint".to_owned(), "8MiB".to_owned()),
            ("batches".to_owned(), "1".to_owned()),
            ("zipf".to_owned(), zipf.to_owned()),
        ];
        let parameters = Parameters::new(WORKLOAD.parameters, &given).expect("valid parameters");
        let program = build(&parameters);
        let ((), accesses) = run(|out| (program.kernel)(out));
        check_places(&program.memory, &accesses);
        assert_eq!(accesses.len() as u64, TABLES * SAMPLES * ACCESSES);
        let mut rows = HashMap::new();
        for access in accesses.iter().filter(|access| access.dep > 0) {
            *rows.entry(access.addr / ROW).or_default() += u64::from(access.op.size());
        }
        rows.values_mut().for_each(|bytes| *bytes /= ROW);
        rows
    }

    #[test]
    fn every_sample_reads_80_rows_of_each_table() {
        for zipf in ["0", "99"] {
            let total: u64 = rows(zipf).values().sum();
            assert_eq!(total, 8 * 64 * 80);
        }
    }

    #[test]
    fn skewed_indices_prefer_few_rows() {
        // 4,096 rows a table: the most frequent has 1 / (1 + 1/2^0.99 + ...) = 11 %.
        let most = |zipf| rows(zipf).values().copied().max().unwrap_or(0) as f64;
        let lookups = (SAMPLES * LOOKUPS) as f64;
        assert!(most("0") < 0.01 * lookups);
        assert!(
            (most("99") / lookups - 0.11).abs() < 0.02,
            "{}",
            most("99") / lookups
        );
    }
}
