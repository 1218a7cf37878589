//! Accesses encoded and decoded a second, and bytes an access, in memory and on one core.
//!
//! Two streams are made here: one as regular as most programs, one as random as memory can be.
//! Further ones are read from the traces that PAGELAB_BENCH_TRACES names, separated by colons
//! (up to 20 million accesses of each): `pagelab record` makes them.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pagelab_events::{
    Access, Batch, Control, Metadata, Op, Selection, Source, TraceReader, TraceWriter, Window,
    open_any,
};
use std::hint::black_box;
use std::io::Cursor;
use std::time::Duration;

const ACCESSES: usize = 4_000_000;
const BATCH: usize = 4096;

/// A multiplicative generator (Steele and Vigna, "Computationally easy, spectrally good
/// multipliers", 2021), enough for addresses.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// A hash join: for each row of a table read in order, a random bucket of 1 GiB, the row that it
/// points to, three of its columns, and a sum on the stack.
fn hash_join() -> Vec<Access> {
    let mut random = Random(1);
    let mut accesses = Vec::with_capacity(ACCESSES);
    let mut row = 0x7f00_0000_0000;
    while accesses.len() < ACCESSES {
        let bucket = 0x7e00_0000_0000 + random.below(1 << 27) * 8;
        let found = 0x7d00_0000_0000 + random.below(1 << 24) * 64;
        for (addr, op, gap, dep) in [
            (row, Op::load(8), 4, 0),
            (bucket, Op::load(8), 6, 1),
            (found, Op::load(8), 1, 1),
            (found + 16, Op::load(8), 2, 2),
            (found + 24, Op::load(4), 1, 3),
            (0x7fff_ffff_e010, Op::load(8), 1, 0),
            (0x7fff_ffff_e010, Op::store(8), 0, 0),
        ] {
            accesses.push(Access { addr, op, gap, dep });
        }
        row += 16;
    }
    accesses
}

/// Updates of random 8-byte words of 10 GB.
fn random_updates() -> Vec<Access> {
    let mut random = Random(1);
    let mut accesses = Vec::with_capacity(ACCESSES);
    while accesses.len() < ACCESSES {
        let addr = 0x7000_0000_0000 + random.below(10_000_000_000 / 8) * 8;
        let load = Access {
            addr,
            op: Op::load(8),
            gap: 5,
            dep: 0,
        };
        let store = Access {
            op: Op::store(8),
            gap: 0,
            ..load
        };
        accesses.extend([load, store]);
    }
    accesses
}

fn batches(accesses: &[Access]) -> Vec<Batch> {
    let batches = accesses.chunks(BATCH).map(|accesses| {
        let mut batch = Batch::default();
        batch.push_control(Control::Thread { thread: 0 });
        accesses.iter().for_each(|&access| batch.push(access));
        batch
    });
    batches.collect()
}

fn recorded(path: &str) -> Vec<Batch> {
    let selection = Selection {
        limit: Some(20_000_000),
        ..Selection::default()
    };
    let mut source = Window::new(open_any(path).expect("a trace"), selection);
    let mut batches = Vec::new();
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).expect("a readable trace") {
        batches.push(batch.clone());
    }
    batches
}

fn encode(batches: &[Batch], output: Vec<u8>) -> Vec<u8> {
    let mut writer = TraceWriter::new(output, &Metadata::new()).expect("memory");
    for batch in batches {
        writer.write(batch).expect("memory");
    }
    writer.finish().expect("memory")
}

fn decode(trace: &[u8]) {
    let mut reader = TraceReader::new(Cursor::new(trace), "bench").expect("a trace");
    let mut batch = Batch::default();
    while reader.next_batch(&mut batch).expect("a readable trace") {
        black_box(&batch);
    }
}

fn bench(criterion: &mut Criterion) {
    let mut streams = vec![
        ("hash join".to_owned(), batches(&hash_join())),
        ("random updates".to_owned(), batches(&random_updates())),
    ];
    let traces = std::env::var("PAGELAB_BENCH_TRACES").unwrap_or_default();
    for path in traces.split(':').filter(|path| !path.is_empty()) {
        streams.push((path.to_owned(), recorded(path)));
    }
    let mut group = criterion.benchmark_group("trace");
    group.sample_size(10);
    group.warm_up_time(Duration::from_secs(1));
    for (name, batches) in &streams {
        let accesses = batches.iter().map(|batch| batch.len() as u64).sum();
        let trace = encode(batches, Vec::new());
        let bytes = trace.len() as f64 / accesses as f64;
        println!("{name}: {accesses} accesses, {bytes:.3} bytes each");
        group.throughput(Throughput::Elements(accesses));
        group.bench_with_input(
            BenchmarkId::new("encode", name),
            batches,
            |bencher, batches| {
                bencher.iter_with_large_drop(|| encode(batches, Vec::with_capacity(trace.len())));
            },
        );
        group.bench_with_input(
            BenchmarkId::new("decode", name),
            &trace,
            |bencher, trace| {
                bencher.iter(|| decode(trace));
            },
        );
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
