//! How fast programs are recorded into a file, with their code, against the same under QEMU alone.
//!
//! Prints, for each program, medians of the wall times and of QEMU's processor times, their
//! ratios, the recorder's own processor time for each access, accesses a second and bytes an
//! access. On a busy machine trust the processor times. With words behind `--bench`, only programs
//! whose names have one of them are measured.

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
    ];
    println!(
        "{:16} {:>9} {:>9} {:>6} {:>9} {:>9} {:>6} {:>9} {:>9} {:>10} {:>8}",
        "program",
        "bare s",
        "record s",
        "ratio",
        "bare cpu",
        "qemu cpu",
        "ratio",
        "ns/access",
        "accesses",
        "million/s",
        "B/access"
    );
    let wanted: Vec<String> = (std::env::args().skip(1))
        .filter(|word| !word.starts_with("--"))
        .collect();
    for (name, words) in programs {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word)) {
            continue;
        }
        if which(&words[0]).is_none() {
            println!("{name:16} not installed");
            continue;
        }
        measure(name, &words, &directory.join("bench.trace"));
    }
}

/// What PAGELAB_TEST_QEMU names; the first in PATH otherwise.
fn emulator() -> PathBuf {
    std::env::var_os("PAGELAB_TEST_QEMU").map_or_else(|| "qemu-x86_64".into(), PathBuf::from)
}

fn measure(name: &str, words: &[String], trace: &Path) {
    let qemu = emulator();
    let mut rows = Vec::new();
    let mut last = None;
    for _ in 0..RUNS {
        let (bare, bare_cpu) = timed(|| {
            let status = Command::new(&qemu)
                .arg(which(&words[0]).expect("found before"))
                .args(&words[1..])
                .stdout(Stdio::null())
                .status();
            assert!(status.is_ok_and(|status| status.success()), "{name} fails");
        });
        let request = Request {
            program: (&words[0]).into(),
            arguments: words[1..].iter().map(Into::into).collect(),
            qemu: Some(qemu.clone()),
            with_code: true,
            ..Request::default()
        };
        let own = cpu_time(libc::RUSAGE_SELF);
        let (recorded, qemu_cpu) = timed(|| {
            let outcome = record(&request, trace, &mut |_| ControlFlow::Continue(()));
            last = Some(outcome.expect("it records"));
        });
        let own = cpu_time(libc::RUSAGE_SELF) - own;
        rows.push([bare, recorded, bare_cpu, qemu_cpu, own]);
    }
    let median = |column: usize| {
        let mut values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        values.sort_by(f64::total_cmp);
        values[RUNS / 2]
    };
    let [bare, recorded, bare_cpu, qemu_cpu, own] = [0, 1, 2, 3, 4].map(median);
    let outcome = last.expect("there was a run");
    let accesses = outcome.accesses as f64;
    println!(
        "{name:16} {bare:9.2} {recorded:9.2} {:6.2} {bare_cpu:9.2} {qemu_cpu:9.2} {:6.2} {:9.1} {:8.0}M {:10.1} {:8.3}",
        recorded / bare,
        qemu_cpu / bare_cpu,
        own / accesses * 1e9,
        accesses / 1e6,
        accesses / recorded / 1e6,
        outcome.bytes as f64 / accesses
    );
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

fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
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
