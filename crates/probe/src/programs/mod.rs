//! Small programs with known behaviour, which `pagelab validate --suite` runs natively and records:
//! a user need have neither a compiler nor the programs.
//!
//! They allocate by the C library's allocator like any program, so that what decides on huge pages for
//! others decides for them. The data is the same in every run.

mod chains;
mod graph;
mod memory;
mod ordered;

use clap::{Arg, ArgMatches, Command, value_parser};
use fastrand::Rng;
use std::io::Write;

/// The subcommand under which the programs stand.
pub const NAME: &str = "program";

/// One of them. `steps` are what it does once its data is there.
struct Program {
    name: &'static str,
    about: &'static str,
    /// MiB of data and steps without options: far more than TLBs reach, and few enough accesses
    /// (some ten million) for a recording and two simulations in a minute.
    mib: u64,
    steps: u64,
    /// Works on so many bytes of data and returns a number that depends on every step.
    run: fn(bytes: usize, steps: u64, rng: &mut Rng) -> u64,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "random-updates",
        about: "reads, changes and writes random elements of a table (HPC Challenge RandomAccess)",
        mib: 256,
        steps: 4_000_000,
        run: memory::random_updates,
    },
    Program {
        name: "chase",
        about: "follows one pointer an element, elements in random order",
        mib: 96,
        steps: 4_000_000,
        run: chains::one_field,
    },
    Program {
        name: "chase-two-fields",
        about: "the same, reading another field of the element's line before the pointer",
        mib: 96,
        steps: 4_000_000,
        run: chains::two_fields,
    },
    Program {
        name: "linked-list",
        about: "walks a list whose nodes were allocated one by one and then shuffled",
        mib: 64,
        steps: 4_000_000,
        run: chains::linked_list,
    },
    Program {
        name: "hash-table",
        about: "looks up random keys of the standard library's hash table",
        mib: 96,
        steps: 2_000_000,
        run: ordered::hash_table,
    },
    Program {
        name: "sorted-array",
        about: "binary searches in a sorted array",
        mib: 128,
        steps: 500_000,
        run: ordered::sorted_array,
    },
    Program {
        name: "b-tree",
        about: "looks up random keys of the standard library's B-tree",
        mib: 24,
        steps: 500_000,
        run: ordered::b_tree,
    },
    Program {
        name: "sort",
        about: "sorts random numbers (the standard library's stable sort)",
        mib: 16,
        steps: 1,
        run: ordered::sort,
    },
    Program {
        name: "graph-search",
        about: "breadth-first search of a random graph of degree eight in compressed rows",
        mib: 64,
        steps: 1,
        run: graph::search,
    },
    Program {
        name: "stream",
        about: "the triad of STREAM over three arrays",
        mib: 96,
        steps: 4,
        run: memory::triad,
    },
];

/// The subcommand.
pub fn command() -> Command {
    let number = |name: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).help(help).value_name("N");
        arg.value_parser(value_parser!(u64).range(1..=1 << 40))
    };
    let programs = PROGRAMS.iter().map(|program| {
        Command::new(program.name)
            .about(program.about)
            .arg(number("mib", "MiB of data"))
            .arg(number("steps", "What it does once its data is there"))
    });
    Command::new(NAME)
        .about("A small program with known behaviour, for  pagelab validate --suite")
        .subcommand_required(true)
        .subcommands(programs)
}

/// Runs the program that was named and prints its number, which keeps the compiler from leaving
/// anything out.
///
/// The buffer of standard output is there before: allocating it later has the C library look through all
/// that the program has freed, or not, as the lengths of its arguments decide, so that a recording does
/// what a native run does not.
pub fn run(matches: &ArgMatches) {
    const SEED: u64 = 20_260_101;
    let Some((name, options)) = matches.subcommand() else {
        return;
    };
    let mut output = std::io::stdout().lock();
    for program in PROGRAMS.iter().filter(|program| program.name == name) {
        let of = |key, default| options.get_one(key).copied().unwrap_or(default);
        let bytes = of("mib", program.mib) << 20;
        let steps = of("steps", program.steps);
        let sum = (program.run)(bytes as usize, steps, &mut Rng::with_seed(SEED));
        // A reader that is gone is nobody's error.
        let _ = writeln!(output, "{name}: {sum}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each does all of its steps: its number changes with the last of them, and is the same again.
    #[test]
    fn programs_are_deterministic_and_do_every_step() {
        for program in PROGRAMS {
            let run = |bytes, steps| (program.run)(bytes, steps, &mut Rng::with_seed(7));
            let steps = program.steps.min(1_000);
            assert_eq!(run(1 << 20, steps), run(1 << 20, steps), "{}", program.name);
            if steps > 1 {
                let fewer = run(1 << 20, steps - 1);
                assert_ne!(run(1 << 20, steps), fewer, "{}", program.name);
            }
        }
    }

    #[test]
    fn names_are_told_apart_and_parsed() {
        for program in PROGRAMS {
            let matches = command().try_get_matches_from([NAME, program.name, "--mib", "3"]);
            let matches = matches.expect("valid options");
            assert_eq!(matches.subcommand_name(), Some(program.name));
        }
    }
}
