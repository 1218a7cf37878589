//! The recorder alone, for its tests and its bench: `pagelab-record [OPTIONS] OUTPUT PROGRAM ARGS...`;
//! with `-` for OUTPUT it only counts. Options: `--follow-exec`, `--verbatim`, `--skip=N`, `--limit=N`,
//! `--period=N`, `--sample=N`.

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
    let mut request = Request::default();
    while let Some(option) = arguments.next_if(|word| word.to_string_lossy().starts_with("--")) {
        let option = option.to_string_lossy().into_owned();
        let (name, value) = option.split_once('=').unwrap_or((&option, "0"));
        let value = value.parse().unwrap_or(0);
        match name {
            "--follow-exec" => request.follow_exec = true,
            "--verbatim" => request.verbatim = true,
            "--skip" => request.window.skip = value,
            "--limit" => request.window.limit = value,
            "--period" => request.window.period = value,
            "--sample" => request.window.sample = value,
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
    let outcome = if output == "-" {
        record_into(&request, Nothing, go_on).map(|(outcome, _)| outcome)
    } else {
        record(&request, output.as_ref(), go_on)
    };
    match outcome {
        Ok(outcome) => {
            eprintln!("{outcome:?}");
            let complete = outcome.incomplete.is_none();
            std::process::exit(if complete { outcome.ended.code() } else { 1 });
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
