//! `pagelab-probe`: measures what virtual memory costs on the machine it runs on.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use fastrand::Rng;
use pagelab_probe::looks;
use pagelab_probe::noise;
use pagelab_probe::parts::{Context, PARTS, Part};
use pagelab_probe::programs;
use pagelab_probe::system::environment::Environment;
use pagelab_probe::system::mapping::PAGE;
use pagelab_probe::system::tuning::{self, Tuning};
use pagelab_probe::system::{Refused, process, settings};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SETTINGS: &str = "settings";
const LOOKS: &str = "looks";

/// Version of the result's format: raised when a reader of an older one would misunderstand it.
const FORMAT_VERSION: u32 = 1;

fn main() -> ExitCode {
    let matches = command().get_matches();
    match run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("pagelab-probe: {message}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).help(help);
        arg.action(ArgAction::SetTrue).global(true)
    };
    let number = |name: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).help(help).global(true);
        arg.value_parser(value_parser!(u64)).value_name("N")
    };
    let mut command = Command::new("pagelab-probe")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "Measures what virtual memory costs on this machine.\n\
             Writes one JSON object to standard output and progress to standard error.",
        )
        .subcommand_required(true)
        .arg(flag("quick", "Measure less: everything in under a minute"))
        .arg(flag(
            "allow-tuning",
            "Allow changes of kernel settings; each is undone at the end, also after a crash",
        ))
        .arg(number(
            "end-with-parent",
            "End when the process that started this one, which has this number, ends, however that ends",
        ))
        .arg(number(
            "seed",
            "Seed of everything random [default: from the clock]",
        ))
        .arg(number(
            "cpu",
            "CPU to run on [default: the one it starts on]",
        ))
        .subcommand(Command::new("all").about("Every part that needs no further arguments"))
        .subcommand(
            Command::new("environment").about("What the machine is and what it has free now"),
        )
        .subcommand(
            Command::new("restore")
                .about("Undo the changes of a run that was killed, and nothing else"),
        )
        .subcommand(
            Command::new(SETTINGS)
                .about("Set the kernel as each line of standard input says: NAME=VALUE ..."),
        )
        .subcommand(
            Command::new(LOOKS)
                .about(
                    "Answer each line of standard input, `cores` or `last-level CPU`, by what the \
                     machine leaves a program now; half of a core leaves no room for so many",
                )
                .arg(
                    Arg::new("instructions")
                        .required(true)
                        .value_parser(value_parser!(u64).range(1..=10_000)),
                ),
        )
        .subcommand(programs::command())
        .subcommand(
            Command::new("exec")
                .about("Become another program, with a setting of its own: exec -- PROGRAM ARGS")
                .arg(flag(
                    "no-huge-pages",
                    "Give it no transparent huge pages, whatever the kernel's setting is",
                ))
                .arg(flag(
                    "only-advised-huge-pages",
                    "Give it huge pages only where it asks for them (Linux 6.18)",
                ))
                .arg(flag("interleaved", "Spread its memory over all nodes, page by page"))
                .arg(
                    Arg::new("command")
                        .num_args(1..)
                        .required(true)
                        .last(true)
                        .value_parser(value_parser!(OsString)),
                ),
        );
    for part in PARTS {
        command = command.subcommand((part.options)(Command::new(part.name).about(part.about)));
    }
    command
}

fn run(matches: &ArgMatches) -> Result<(), String> {
    // SAFETY: no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if page != PAGE as i64 {
        return Err(format!(
            "base pages of {page} bytes are not supported, only of {PAGE}"
        ));
    }
    if let Some(program) = matches.subcommand_matches(programs::NAME) {
        programs::run(program);
        return Ok(());
    }
    let end_with_parent = |signal| match matches.get_one::<u64>("end-with-parent") {
        Some(&parent) if !process::end_with_parent(parent as u32, signal) => {
            Err("the process that started this one has ended")
        }
        _ => Ok(()),
    };
    if let Some(become_this) = matches.subcommand_matches("exec") {
        // The program may have other plans with signals that can be handled.
        end_with_parent(libc::SIGKILL)?;
        let cpu = matches.get_one("cpu").map(|&n: &u64| n as usize);
        return Err(exec(become_this, cpu));
    }
    if matches.subcommand_matches("environment").is_some() {
        return print(&Environment::here(process::current_cpu()));
    }
    let fail = |error: Refused| error.to_string();
    end_with_parent(libc::SIGTERM)?;
    if let Some(options) = matches.subcommand_matches(LOOKS) {
        return looks(options);
    }
    let restored = tuning::recover().map_err(fail);
    let (name, arguments) = matches.subcommand().ok_or("no part given")?;
    if name == "restore" {
        let count = restored?.len();
        eprintln!("pagelab-probe: undid the changes of {count} runs");
        return Ok(());
    }
    let allowed = matches.get_flag("allow-tuning");
    let mut tuning = if allowed {
        restored?;
        Tuning::allowed().map_err(fail)?
    } else {
        Tuning::forbidden()
    };
    if name == SETTINGS {
        let (wanted, answers) = (std::io::stdin().lock(), std::io::stdout().lock());
        return settings::serve(&mut tuning, wanted, answers).map_err(fail);
    }
    let cpu = matches
        .get_one("cpu")
        .map(|&n: &u64| n as usize)
        .or_else(process::current_cpu);
    if let Some(cpu) = cpu {
        process::pin(cpu).map_err(fail)?;
    }
    let parts: Vec<&Part> = PARTS
        .iter()
        .filter(|part| part.name == name || (name == "all" && part.in_all))
        .collect();
    print(&measure(matches, arguments, &parts, tuning, cpu))
}

fn print(result: &impl serde::Serialize) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, result)
        .map_err(std::io::Error::from)
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .map_err(|error| format!("cannot write the result: {error}"))
}

/// Answers lines by what the machine has now.
fn looks(options: &ArgMatches) -> Result<(), String> {
    let instructions: u64 = *options
        .get_one("instructions")
        .ok_or("no number of instructions given")?;
    let (wanted, answers) = (std::io::stdin().lock(), std::io::stdout().lock());
    looks::serve(instructions as usize, &mut Rng::new(), wanted, answers)
        .map_err(|error| error.to_string())
}

/// Becomes another program, bound to a CPU if one is given; returns only to say why it cannot.
fn exec(options: &ArgMatches, cpu: Option<usize>) -> String {
    if let Some(cpu) = cpu
        && let Err(error) = process::pin(cpu)
    {
        return error.to_string();
    }
    for (flag, except_advised) in [("no-huge-pages", false), ("only-advised-huge-pages", true)] {
        if options.get_flag(flag)
            && let Err(error) = process::forgo_huge_pages(except_advised)
        {
            return error.to_string();
        }
    }
    if options.get_flag("interleaved")
        && let Err(error) = process::interleave_memory()
    {
        return error.to_string();
    }
    let mut command = options
        .get_many::<OsString>("command")
        .into_iter()
        .flatten();
    let Some(program) = command.next() else {
        return "no program given".into();
    };
    let error = std::process::Command::new(program).args(command).exec();
    format!("cannot run {}: {error}", program.display())
}

fn measure(
    matches: &ArgMatches,
    arguments: &ArgMatches,
    parts: &[&Part],
    tuning: Tuning,
    cpu: Option<usize>,
) -> Value {
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seed = matches.get_one("seed").copied();
    let seed: u64 = seed.unwrap_or(started.as_nanos() as u64);
    let quick = matches.get_flag("quick");
    let allowed = tuning.is_allowed();
    let environment = Environment::here(cpu);
    eprintln!("noise: watching the machine");
    let noise = noise::estimate(Duration::from_millis(if quick { 500 } else { 2_000 }));
    let mut context = Context {
        quick,
        cpu,
        rng: Rng::with_seed(seed),
        tuning,
        noise: noise.clone(),
        not_done: Vec::new(),
        part: "noise",
    };
    context.say(noise.verdict);
    let mut results = Map::new();
    let mut seconds = Map::new();
    for part in parts {
        context.part = part.name;
        let begin = Instant::now();
        match (part.run)(&mut context, arguments) {
            Ok(value) => {
                results.insert(part.name.into(), value);
            }
            Err(error) => context.skip("everything", error),
        }
        if let Err(error) = context.tuning.undo() {
            context.skip("restoring a setting", error);
        }
        seconds.insert(part.name.into(), json!(begin.elapsed().as_secs_f64()));
    }
    json!({
        "format": "pagelab-probe",
        "version": FORMAT_VERSION,
        "probe": env!("CARGO_PKG_VERSION"),
        "started": started.as_secs(),
        "seed": seed,
        "quick": quick,
        "allowed_tuning": allowed,
        "environment": environment,
        "noise": noise,
        "seconds": seconds,
        "parts": results,
        "not_done": context.not_done,
    })
}
