use crate::emitter::{Emitter, Loaded};
use crate::hash::{below, random};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameter, Parameters, Workload, footprint};

/// GenomicsBench's k-mer counting (Subramaniyan et al., ISPASS 2021), which is that of the
/// assembler Flye: `KmerCounter::count` of kmer-cnt/vertex_index.cpp with its flat counter, an
/// array with 4 bits for each possible k-mer. Every k-mer of every read, or its reverse complement
/// if that is smaller, adds one to its counter with a compare-and-exchange.
///
/// k is such that the counters come nearest to the footprint: 18 (32 GiB) for the paper's 33 GB.
/// Reads are generated: stretches of a random genome the size of Escherichia coli's, in which each
/// base is wrong with a chance of 12 %, about that of the nanopore reads that GenomicsBench comes
/// with. Implicit are the counters. One that is full (15) would stop the exchange and go to a hash
/// table instead: at this rate of errors a k-mer of the genome is seen right 5 times in 50.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "kmer",
    description: "counts k-mers of DNA reads in an array of counters (GenomicsBench kmer-cnt)",
    parameters: &[
        footprint(33 << 30, 1 << 16),
        Parameter {
            name: "genome",
            description: "bases of the genome",
            default: 4_641_652,
            min: 100,
            max: 1 << 34,
        },
        Parameter {
            name: "coverage",
            description: "how often the reads cover the genome",
            default: 50,
            min: 1,
            max: 1 << 20,
        },
    ],
    build,
};

/// Bases of a read.
const READ: u64 = 10_000;
/// One base in so many is wrong.
const ERROR: f64 = 0.12;
/// Accesses for each k-mer: the read, the counter, and the exchange, which loads and stores it.
const ACCESSES: u64 = 4;

fn build(parameters: &Parameters) -> Program {
    let mut memory = Memory::default();
    let counting = Counting::new(
        &mut memory,
        parameters.get("footprint"),
        parameters.get("genome"),
        parameters.get("coverage"),
        parameters.get("seed"),
    );
    Program::new(
        memory,
        Some(counting.reads * counting.kmers_of_read() * ACCESSES),
        move |out| counting.count(out),
    )
}

struct Counting {
    k: u32,
    counters: u64,
    /// Reads, 32 bases to a word, one after the other.
    sequences: u64,
    reads: u64,
    read_length: u64,
    genome: u64,
    seed: u64,
}

impl Counting {
    fn new(memory: &mut Memory, footprint: u64, genome: u64, coverage: u64, seed: u64) -> Self {
        // 4^k half bytes.
        let k = ((2 * footprint) as f64).log2() / 2.0;
        let k = k.round() as u32;
        let read_length = READ.min(genome);
        let reads = (genome * coverage).div_ceil(read_length);
        Counting {
            k,
            counters: memory.allocate((1 << (2 * k)) / 2),
            sequences: memory.allocate(8 * reads * read_length.div_ceil(32)),
            reads,
            read_length,
            genome,
            seed,
        }
    }

    fn kmers_of_read(&self) -> u64 {
        (self.read_length + 1).saturating_sub(u64::from(self.k))
    }

    /// A base of a read, 0 to 3.
    #[inline]
    fn base(&self, read: u64, start: u64, at: u64) -> u64 {
        let place = start + at;
        let right = random(self.seed, place / 32) >> (2 * (place % 32)) & 3;
        let luck = random(!self.seed, read * self.read_length + at);
        const CHANCE: u64 = (ERROR * (1u64 << 32) as f64) as u64;
        // One of the three other bases.
        let wrong = u64::from(luck >> 32 < CHANCE) * (1 + luck % 3);
        (right + wrong) & 3
    }

    fn start(&self, read: u64) -> u64 {
        let starts = self.genome - self.read_length + 1;
        below(random(self.seed.wrapping_add(1), read), starts)
    }

    fn count(&self, out: &mut Emitter) {
        // Five instructions a base to reverse and complement a k-mer, which is done for each one.
        let standard_form = 5 * self.k + 6;
        let bits = 2 * self.k;
        let mask = (1u64 << bits) - 1;
        for read in 0..self.reads {
            let start = self.start(read);
            let words = self.sequences + 8 * read * self.read_length.div_ceil(32);
            let (mut forward, mut reverse) = (0, 0);
            for at in 0..self.read_length {
                let base = self.base(read, start, at);
                forward = (forward << 2 | base) & mask;
                reverse = reverse >> 2 | (3 - base) << (bits - 2);
                if at + 1 < u64::from(self.k) {
                    continue;
                }
                let word = out.load(words + at / 32 * 8, 8, 12, Loaded::NONE);
                let counter = self.counters + forward.min(reverse) / 2;
                out.load(counter, 1, standard_form, word);
                out.load(counter, 1, 6, word);
                out.store(counter, 1, 0, word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_places, run};
    use std::collections::HashMap;

    /// Counts the k-mers of the reads as text.
    fn plain(counting: &Counting) -> HashMap<u64, u64> {
        let mut counts = HashMap::new();
        let k = counting.k as usize;
        for read in 0..counting.reads {
            let start = counting.start(read);
            let letters: Vec<char> = (0..counting.read_length)
                .map(|at| ['A', 'C', 'G', 'T'][counting.base(read, start, at) as usize])
                .collect();
            for kmer in letters.windows(k) {
                let complement = |letter: &char| match letter {
                    'A' => 'T',
                    'C' => 'G',
                    'G' => 'C',
                    _ => 'A',
                };
                let reverse: Vec<char> = kmer.iter().rev().map(complement).collect();
                let smaller = if *kmer < *reverse { kmer } else { &reverse };
                let number = smaller.iter().fold(0, |sum, letter| {
                    4 * sum + "ACGT".find(*letter).unwrap_or(0) as u64
                });
                *counts.entry(number / 2).or_default() += 1;
            }
        }
        counts
    }

    #[test]
    fn counters_are_those_of_the_text() {
        let mut memory = Memory::default();
        let counting = Counting::new(&mut memory, 1 << 15, 3000, 4, 11);
        assert_eq!(counting.k, 8);
        let ((), accesses) = run(|out| counting.count(out));
        check_places(&memory, &accesses);
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for store in accesses.iter().filter(|access| access.op.is_store()) {
            *counts.entry(store.addr - counting.counters).or_default() += 1;
        }
        assert_eq!(counts, plain(&counting));
        assert_eq!(
            accesses.len() as u64,
            counting.reads * counting.kmers_of_read() * ACCESSES
        );
    }

    #[test]
    fn bases_are_wrong_as_often_as_stated() {
        let counting = Counting::new(&mut Memory::default(), 1 << 16, 100_000, 10, 2);
        let (mut wrong, mut bases) = (0u32, 0u32);
        for read in 0..counting.reads {
            let start = counting.start(read);
            for at in 0..counting.read_length {
                let place = start + at;
                let right = random(2, place / 32) >> (2 * (place % 32)) & 3;
                wrong += u32::from(counting.base(read, start, at) != right);
                bases += 1;
            }
        }
        let share = f64::from(wrong) / f64::from(bases);
        assert!((share - ERROR).abs() < 0.001, "{share}");
    }
}
