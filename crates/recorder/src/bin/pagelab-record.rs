//! The recorder alone, for its tests and its bench: `pagelab-record [OPTIONS] OUTPUT PROGRAM ARGS...`;
//! with `-` for OUTPUT it only counts. Options: `--follow-exec`, `--allocations=LIBRARY`, `--code`, `--verbatim`,
//! `--instructions`, `--quiet`, `--skip=N`, `--limit=N`, `--sample=N:PERIOD`, `--cpu=MODEL`, `--words=PATH` (make the
//! trace afterwards),
//! `--keep-words`, `--qemu=PATH` (by default what PAGELAB_TEST_QEMU names, else the one in PATH).
//! `pagelab-record --finish OUTPUT WORDS` makes the trace of words that were kept.

use std::io;
use std::ops::ControlFlow;

use pagelab_events::Batch;
use pagelab_recorder::{Request, Sink, record, record_into};

struct Nothing;

impl Sink for Nothing {
    fn write(&mut self, _batch: &Batch) -> io::Result<()> {
        Ok(())
    }
}

fn main() {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let mut request = Request {
        qemu: std::env::var_os("PAGELAB_TEST_QEMU").map(Into::into),
        ..Request::default()
    };
    let (mut quiet, mut finishes) = (false, false);
    while let Some(option) = arguments.next_if(|word| word.to_string_lossy().starts_with("--")) {
        let option = option.to_string_lossy().into_owned();
        let (name, value) = option.split_once('=').unwrap_or((&option, "0"));
        let (text, period) = value.split_once(':').unwrap_or((value, "0"));
        let (number, period) = (text.parse().unwrap_or(0), period.parse().unwrap_or(0));
        match name {
            "--follow-exec" => request.follow_exec = true,
            "--finish" => finishes = true,
            "--quiet" => quiet = true,
            "--allocations" => request.allocations = Some(value.into()),
            "--code" => request.with_code = true,
            "--verbatim" => request.verbatim = true,
            "--instructions" => request.window.in_instructions = true,
            "--skip" => request.window.skip = number,
            "--limit" => request.window.limit = number,
            "--sample" => (request.window.sample, request.window.period) = (number, period),
            "--words" => request.words = Some(value.into()),
            "--keep-words" => request.keep_words = true,
            "--cpu" => request.cpu = Some(value.to_owned()),
            "--qemu" => request.qemu = Some(value.into()),
            _ => eprintln!("unknown option {name}"),
        }
    }
    let (Some(output), Some(program)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: pagelab-record [OPTIONS] OUTPUT PROGRAM ARGS...");
        std::process::exit(2);
    };
    request.program = program;
    request.arguments = arguments.collect();
    let go_on = &mut |_| ControlFlow::Continue(());
    let outcome = if finishes {
        let words = std::path::PathBuf::from(&request.program);
        pagelab_recorder::finish(&words, output.as_ref(), true, go_on)
    } else if output == "-" {
        record_into(&request, Nothing, go_on).map(|(outcome, _)| outcome)
    } else {
        record(&request, output.as_ref(), go_on)
    };
    match outcome {
        Ok(outcome) => {
            if !quiet {
                eprintln!("{outcome:?}");
            }
            let complete = outcome.incomplete.is_none();
            std::process::exit(if complete { outcome.ended.code() } else { 1 });
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
