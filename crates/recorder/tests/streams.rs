//! Programs whose every access is known: what is recorded must be exactly that.

mod common;

use common::{Program, address, assemble, build, emulator, run};
use pagelab_events::{Access, Op, dependence::of_two};
use pagelab_recorder::Request;

/// The accesses that the comments of a program announce: "#= L 8 data+8 gap=0 dep=0; S ...; P 0 ...".
fn announced(program: &Program) -> Vec<(String, Access)> {
    let symbols = program.symbols();
    let mut accesses = Vec::new();
    for (number, line) in (1..).zip(program.source.lines()) {
        let Some((_, text)) = line.split_once("#= ") else {
            continue;
        };
        // A line is an instruction.
        for (index, text) in text.split(';').enumerate() {
            let fields: Vec<&str> = text.split_whitespace().collect();
            let [kind, size, place, gap, dep] = fields[..] else {
                panic!("line {number}: {text}");
            };
            let size = size.parse().expect("a size");
            let value = |text: &str| text.split_once('=').expect("name=value").1.to_owned();
            let distance = |text: &str| text.parse().expect("a number");
            let dep = value(dep);
            let (near, far) = dep.split_once(':').unwrap_or((&dep, "0"));
            let access = Access {
                addr: address(place, &symbols),
                op: if kind == "S" {
                    Op::store(size)
                } else {
                    Op::load(size)
                }
                // With instructions between it is the same one once more.
                .continuing(index > 0 && value(gap) == "0"),
                gap: distance(&value(gap)),
                dep: of_two(distance(near), distance(far)),
            };
            accesses.push((format!("line {number}: {text}"), access));
        }
    }
    accesses
}

/// True for a QEMU that reports 80-bit operands and `fxsave`: docs/record.md, "How it works".
fn reports_extended() -> bool {
    let qemu = emulator().unwrap_or_else(|| "qemu-x86_64".into());
    let output = std::process::Command::new(qemu)
        .arg("--version")
        .output()
        .expect("QEMU runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse::<u32>().ok())
        .skip_while(|&number| number == 86 || number == 64);
    (numbers.next(), numbers.next()) < (Some(9), Some(1))
}

fn check(name: &str, verbatim: bool) {
    if name == "extended.s" && !reports_extended() {
        eprintln!("not tried: this QEMU does not report 80-bit operands");
        return;
    }
    let program = assemble(name);
    let recorded = run(&Request {
        verbatim,
        ..program.request()
    });
    let got = recorded.program_accesses();
    let wanted = announced(&program);
    for (index, (line, wanted)) in wanted.iter().enumerate() {
        assert_eq!(got.get(index), Some(wanted), "{name}, {line}");
    }
    assert_eq!(
        got.get(wanted.len()),
        None,
        "{name}: more accesses than announced"
    );
}

#[test]
fn atomic_instructions_are_recorded_exactly_in_a_program_with_threads() {
    let flags = ["-nostdlib", "-static", "-Wa,--defsym,PARALLEL=1"];
    let parallel = build("atomic.s", &flags);
    for verbatim in [false, true] {
        let recorded = run(&Request {
            verbatim,
            ..parallel.request()
        });
        assert_eq!(recorded.outcome.threads, 2);
        let got = recorded.program_accesses();
        let wanted = announced(&parallel);
        // The first gap is longer: the thread is made there.
        assert_eq!(got[0].addr, wanted[0].1.addr);
        let wanted: Vec<Access> = wanted.into_iter().map(|(_, access)| access).collect();
        assert_eq!(got[1..], wanted[1..]);
    }
}

macro_rules! stream {
    ($($name:ident: $file:literal;)*) => {
        $(mod $name {
            #[test]
            fn is_recorded_exactly() {
                super::check($file, false);
            }

            #[test]
            fn is_recorded_exactly_when_every_access_is_reported() {
                super::check($file, true);
            }
        })*
    };
}

stream! {
    plain: "plain.s";
    atomic: "atomic.s";
    string: "string.s";
    vector: "vector.s";
    dependence: "dependence.s";
    memory: "memory.s";
    extended: "extended.s";
}
