//! Pieces that other processes simulate, and what is kept of a stream, against one process that
//! looks at it anew.

use crate::by_code;
use crate::common::{BASE, Event, Held, differences, load, map, small_machine};
use pagelab_events::{
    Batch, Control, Divisible, DivisibleTrace, Flow, Metadata, Source, TraceWriter,
};
use pagelab_machine::{
    MachineConfig, PiecesApart, Progress, RunResult, SurveyFile, check_in_pieces, look_at_interval,
    simulate_in_pieces, simulate_in_pieces_keeping, simulate_piece,
};
use serde_json::Value;
use std::ops::ControlFlow;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// All that is in a result, with what instructions came to.
fn all_of(result: &RunResult) -> (Value, String) {
    let by_code = format!("{:?}", result.by_code);
    (serde_json::to_value(result).unwrap(), by_code)
}

fn together(config: &MachineConfig, design: &str, stream: &dyn Divisible) -> RunResult {
    simulate_in_pieces(config, design, stream, 2, None, &mut go_on).unwrap()
}

/// As several processes would: nothing but bytes and text goes from one to another.
fn apart(config: &MachineConfig, design: &str, stream: &dyn Divisible) -> RunResult {
    check_in_pieces(config, design).unwrap();
    let accesses = stream.accesses();
    let intervals = PiecesApart::intervals(accesses, config);
    let look = |interval| {
        look_at_interval(stream, interval, &mut go_on)
            .unwrap()
            .unwrap()
    };
    let seen: Vec<_> = (0..intervals).map(look).collect();
    let plan = PiecesApart::plan(accesses, config, &seen, None).unwrap();
    let events = plan.events().unwrap();
    let pieces = plan.pieces().unwrap();
    assert!(pieces.len() > 1, "{design}");
    // In whatever order.
    let mut ended: Vec<String> = pieces
        .iter()
        .rev()
        .map(|piece| {
            let before = &events[..piece.events];
            simulate_piece(config, design, stream, piece, before, &mut go_on).unwrap()
        })
        .collect();
    ended.reverse();
    plan.join(config, design, stream, &ended).unwrap()
}

/// Memory that is mapped, touched, copied and given back, in a program of 600,000 accesses.
fn program() -> Held {
    let mut events = Vec::new();
    for round in 0..300u64 {
        let start = BASE + ((round % 12) << 21);
        events.push(map(start, 1 << 20));
        for number in 0..2000u64 {
            let place = number.wrapping_mul(0x9e37_79b9) % (1 << 20);
            let mut event = load((start + place) & !7, 4, u32::from(number % 3 == 0));
            if let Event::Access(access) = &mut event
                && number % 5 == 0
            {
                access.op = pagelab_events::Op::store(8);
            }
            events.push(event);
        }
        if round % 20 == 9 {
            events.push(Event::Control(Control::Fork {
                child: round as u32 + 1,
            }));
        }
    }
    events.push(Event::Control(Control::Exit { status: 0 }));
    Held(events)
}

/// A trace file with code, and its folder.
fn coded() -> (tempfile::TempDir, DivisibleTrace) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coded.trace");
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::default()).unwrap();
    let mut source = by_code::stream(600_000, 3);
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).unwrap() {
        // A trace says which thread's code it has.
        batch.flow.push((0, Flow::Thread(0)));
        writer.write(&batch).unwrap();
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    let trace = DivisibleTrace::open(&path).unwrap().unwrap();
    assert!(trace.has_code());
    (folder, trace)
}

fn drawn() -> MachineConfig {
    let mut config = small_machine();
    config.heat_map = true;
    // Room for what children of the program have to themselves.
    config.memory.memory_bytes = 1 << 30;
    config
}

#[test]
fn pieces_apart_come_to_the_same_bits() {
    let stream = program();
    let config = drawn();
    for design in ["radix", "dpt", "ecpt", "radix+range", "nested-radix"] {
        let one = together(&config, design, &stream);
        assert!(one.complete, "{design}: {:?}", one.stopped);
        let ((json, by_code), (one, one_by_code)) =
            (all_of(&apart(&config, design, &stream)), all_of(&one));
        let none: Vec<String> = Vec::new();
        assert_eq!(differences(&json, &one), none, "{design}");
        assert_eq!(by_code, one_by_code, "{design}");
    }
}

#[test]
fn what_instructions_came_to_goes_with_the_pieces() {
    let (_folder, trace) = coded();
    let config = drawn();
    let one = together(&config, "radix", &trace);
    assert!(one.by_code[0].sites.len() > 3 && one.by_code[0].code.sites() > 0);
    assert!(one.heat_map.is_some());
    assert_eq!(all_of(&apart(&config, "radix", &trace)), all_of(&one));
}

#[test]
fn pieces_apart_end_where_memory_runs_out() {
    let mut config = small_machine();
    config.memory.utilisation = 0.97;
    config.memory.fragmentation = 0.0;
    let stream = program();
    let one = together(&config, "radix", &stream);
    assert!(one.out_of_memory);
    assert_eq!(all_of(&apart(&config, "radix", &stream)), all_of(&one));
}

#[test]
fn what_is_kept_of_a_stream_serves_every_design_and_machine() {
    let stream = program();
    let folder = tempfile::tempdir().unwrap();
    let file = SurveyFile(folder.path().join("kept/program.survey"));
    let keeping = |config: &MachineConfig, design: &str, stream: &dyn Divisible| {
        simulate_in_pieces_keeping(config, design, stream, 2, &file, &mut go_on).unwrap()
    };
    let small = small_machine();
    let mut large = small_machine();
    large.caches.llc.kib = 256;
    let first = keeping(&small, "radix", &stream);
    assert_eq!(all_of(&first), all_of(&together(&small, "radix", &stream)));
    let kept = std::fs::read(&file.0).unwrap();
    for (config, design) in [(&small, "dpt"), (&large, "radix")] {
        let result = keeping(config, design, &stream);
        assert_eq!(all_of(&result), all_of(&together(config, design, &stream)));
        assert_eq!(std::fs::read(&file.0).unwrap(), kept);
    }
    // A damaged survey is seen anew.
    let mut damaged = kept.clone();
    damaged[kept.len() / 2] ^= 1;
    std::fs::write(&file.0, damaged).unwrap();
    assert_eq!(all_of(&keeping(&small, "radix", &stream)), all_of(&first));
    assert_eq!(std::fs::read(&file.0).unwrap(), kept);
    // Memory says that a survey of another stream of as many accesses is not of this one.
    let mut events = program().0;
    events.retain(|event| !matches!(event, Event::Control(Control::Fork { .. })));
    let other = Held(events);
    assert_eq!(other.accesses(), stream.accesses());
    let wrong = keeping(&small, "radix", &other);
    assert!(wrong.stopped.unwrap().contains("begins with other memory"));
}

#[test]
fn what_is_no_piece_is_refused() {
    let stream = program();
    let config = small_machine();
    let accesses = stream.accesses();
    let seen = look_at_interval(&stream, 0, &mut go_on).unwrap().unwrap();
    assert!(look_at_interval(&stream, 1000, &mut go_on).is_err());
    let few = PiecesApart::plan(accesses, &config, std::slice::from_ref(&seen), None);
    assert!(few.unwrap_err().to_string().contains("damaged"));
    let intervals = PiecesApart::intervals(accesses, &config) as usize;
    // The first interval in place of each.
    let same = PiecesApart::plan(accesses, &config, &vec![seen; intervals], None);
    assert!(same.is_err());
    assert!(check_in_pieces(&config, "victima").is_err());
}
