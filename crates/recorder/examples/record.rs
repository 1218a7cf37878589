//! Records a program: `record OUTPUT PROGRAM ARGS...`; with `-` for OUTPUT only counts.

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
    let mut arguments = std::env::args_os().skip(1);
    let (Some(output), Some(program)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: record OUTPUT PROGRAM ARGS...");
        std::process::exit(2);
    };
    let request = Request {
        program,
        arguments: arguments.collect(),
        verbatim: std::env::var_os("VERBATIM").is_some(),
        ..Request::default()
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    let outcome = if output == "-" {
        record_into(&request, Nothing, go_on).map(|(outcome, _)| outcome)
    } else {
        record(&request, output.as_ref(), go_on)
    };
    match outcome {
        Ok(outcome) => eprintln!("{outcome:#?}"),
        Err(error) => eprintln!("{error}"),
    }
}
