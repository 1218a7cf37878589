//! Speed at which programs are recorded into a file, with their code, against the same under QEMU
//! alone.
//!
//! Each program is run alone, recorded, and recorded with the trace made afterwards, in turns.
//! Prints medians of the wall times until the program and until the trace is done, and of QEMU's
//! processor times, each with its ratio, the recorder's own processor time for each access,
//! accesses a second, and bytes an access of the trace and of the words. On a busy machine trust
//! the processor times. With words behind `--bench`, only programs whose names have one of them are
//! measured.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use pagelab_recorder::{Request, record};

const RUNS: usize = 3;

const SQL: &str = "create table t(a, b);
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 300000)
    insert into t select x, x * 7919 % 1000003 from c;
    create index i on t(b);
    select count(*) from t where b between 1000 and 200000;";

const PYTHON: &str = "d = {}
for i in range(400000):
    d[str(i * 7919 % 1000003)] = i
print(sum(d[str(i)] for i in range(200000) if str(i) in d))";

fn main() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lines = directory.join("lines");
    let programs = [
        ("random updates", vec![random(directory), "20".into()]),
        (
            "sort",
            vec![
                "sort".into(),
                write_lines(&lines),
                "-o".into(),
                "/dev/null".into(),
            ],
        ),
        (
            "sqlite3 index",
            vec!["sqlite3".into(), ":memory:".into(), SQL.into()],
        ),
        (
            "python3",
            vec!["python3".into(), "-S".into(), "-c".into(), PYTHON.into()],
        ),
    ];
    println!(
        "{:24} {:>8} {:>9} {:>6} {:>8} {:>6} {:>8} {:>8} {:>6} {:>9} {:>8} {:>9} {:>8} {:>7}",
        "program",
        "bare s",
        "program s",
        "ratio",
        "trace s",
        "ratio",
        "bare cpu",
        "qemu cpu",
        "ratio",
        "ns/access",
        "accesses",
        "million/s",
        "B/access",
        "words"
    );
    let wanted: Vec<String> = (std::env::args().skip(1))
        .filter(|word| !word.starts_with("--"))
        .collect();
    for (name, words) in programs {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word)) {
            continue;
        }
        if which(&words[0]).is_none() {
            println!("{name:24} not installed");
            continue;
        }
        measure(name, &words, &directory.join("bench.trace"));
    }
}

/// Emulator that PAGELAB_TEST_QEMU names; the first in PATH otherwise.
fn emulator() -> PathBuf {
    std::env::var_os("PAGELAB_TEST_QEMU").map_or_else(|| "qemu-x86_64".into(), PathBuf::from)
}

fn measure(name: &str, words: &[String], trace: &Path) {
    let qemu = emulator();
    let program = which(&words[0]).expect("found before");
    let mut rows = [Vec::new(), Vec::new()];
    let mut last = [None, None];
    let mut bytes = 0;
    for _ in 0..RUNS {
        let (bare, bare_cpu) = timed(|| {
            let status = Command::new(&qemu)
                .arg(&program)
                .args(&words[1..])
                .stdout(Stdio::null())
                .status();
            assert!(status.is_ok_and(|status| status.success()), "{name} fails");
        });
        for way in [0, 1] {
            let file = trace.with_extension("words");
            let request = Request {
                program: program.clone().into(),
                arguments: words[1..].iter().map(Into::into).collect(),
                qemu: Some(qemu.clone()),
                with_code: true,
                words: (way == 1).then(|| file.clone()),
                keep_words: true,
                ..Request::default()
            };
            let own = cpu_time(libc::RUSAGE_SELF);
            let (recorded, qemu_cpu) = timed(|| {
                let outcome = record(&request, trace, &mut |_| ControlFlow::Continue(()));
                last[way] = Some(outcome.expect("it records"));
            });
            let own = cpu_time(libc::RUSAGE_SELF) - own;
            let running = last[way].as_ref().and_then(|outcome| outcome.running);
            let running = running.unwrap_or(recorded);
            rows[way].push([bare, running, recorded, bare_cpu, qemu_cpu, own]);
            if let Ok(words) = file.metadata() {
                bytes = words.len();
                std::fs::remove_file(&file).expect("it is there");
            }
        }
    }
    for (way, rows) in rows.iter().enumerate() {
        let median = |column: usize| {
            let mut values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
            values.sort_by(f64::total_cmp);
            values[RUNS / 2]
        };
        let [bare, running, recorded, bare_cpu, qemu_cpu, own] = [0, 1, 2, 3, 4, 5].map(median);
        let outcome = last[way].as_ref().expect("there was a run");
        let accesses = outcome.accesses as f64;
        let (title, words) = match way {
            0 => (name.to_owned(), 0),
            _ => (format!("{name}, afterwards"), bytes),
        };
        println!(
            "{title:24} {bare:8.2} {running:9.2} {:6.2} {recorded:8.2} {:6.2} {bare_cpu:8.2} {qemu_cpu:8.2} {:6.2} {:9.1} {:7.0}M {:9.1} {:8.3} {:7.3}",
            running / bare,
            recorded / bare,
            qemu_cpu / bare_cpu,
            own / accesses * 1e9,
            accesses / 1e6,
            accesses / recorded / 1e6,
            outcome.bytes as f64 / accesses,
            words as f64 / accesses
        );
    }
}

/// Wall time of `work`, and the processor time of the child processes that end in it.
fn timed(work: impl FnOnce()) -> (f64, f64) {
    let before = cpu_time(libc::RUSAGE_CHILDREN);
    let start = Instant::now();
    work();
    (
        start.elapsed().as_secs_f64(),
        cpu_time(libc::RUSAGE_CHILDREN) - before,
    )
}

/// Processor time so far, of this process or of its children.
fn cpu_time(who: libc::c_int) -> f64 {
    // SAFETY: the kernel fills the structure; zeroes are valid for it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The first program of this name in PATH; scripts that stand for others are passed over.
fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|path| std::fs::read(path).is_ok_and(|file| file.starts_with(b"\x7fELF")))
}

fn random(directory: &Path) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/record/random.c");
    let program = directory.join("random");
    let built = Command::new("gcc")
        .arg("-O2")
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "gcc fails");
    program.to_string_lossy().into_owned()
}

/// A million lines in no order.
fn write_lines(path: &Path) -> String {
    let file = std::fs::File::create(path).expect("it can be written");
    let mut file = std::io::BufWriter::new(file);
    for line in 0..1_000_000u64 {
        writeln!(file, "{}", line * 7919 % 1_000_003).expect("it can be written");
    }
    path.to_string_lossy().into_owned()
}
