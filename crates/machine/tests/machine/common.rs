use pagelab_events::{Access, Backing, Batch, Control, Op, Protection, Source, SourceError};
use pagelab_machine::{MachineConfig, RunResult, simulate};
use serde_json::{Map, Value};
use std::ops::ControlFlow;

/// A stream held in memory, cut into batches of a given length.
pub struct Cut {
    events: Vec<Event>,
    at: usize,
    length: usize,
}

#[derive(Clone, Debug)]
pub enum Event {
    Access(Access),
    Control(Control),
}

impl Cut {
    pub fn new(events: &[Event], length: usize) -> Self {
        Cut {
            events: events.to_vec(),
            at: 0,
            length,
        }
    }
}

impl Source for Cut {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while self.at < self.events.len() && batch.len() < self.length {
            match &self.events[self.at] {
                Event::Access(access) => batch.push(*access),
                Event::Control(control) => batch.push_control(*control),
            }
            self.at += 1;
        }
        Ok(!batch.is_empty())
    }
}

pub const BASE: u64 = 0x7000_0000_0000;

/// A small machine: little memory, tiny TLBs and caches, so that short streams reach every part.
pub fn small_machine() -> MachineConfig {
    let overrides: Vec<String> = include_str!("../golden/overrides")
        .lines()
        .map(str::to_owned)
        .collect();
    MachineConfig::load("dpt-paper", &overrides).unwrap()
}

pub fn map(addr: u64, len: u64) -> Event {
    Event::Control(Control::Map {
        addr,
        len,
        prot: Protection(Protection::READ | Protection::WRITE),
        backing: Backing::Anonymous,
        populate: false,
    })
}

/// The dpt-paper machine with faults that cost nothing, so that only what is accessed takes time.
pub fn machine(overrides: &[&str]) -> MachineConfig {
    let mut all: Vec<String> = overrides.iter().map(|&o| o.to_owned()).collect();
    for key in ["fault", "zero_4k", "table_page", "probe"] {
        all.push(format!("cost.{key}_ns=0.0"));
    }
    MachineConfig::load("dpt-paper", &all).unwrap()
}

/// A store of 8 bytes.
pub fn store(addr: u64) -> Event {
    Event::Access(Access {
        addr,
        op: Op::store(8),
        gap: 0,
        dep: 0,
    })
}

/// Within 1 % of what was worked out by hand.
pub fn close(got: f64, expected: f64) {
    assert!(
        (got - expected).abs() < 0.01 * expected,
        "{got} cycles, expected {expected}"
    );
}

pub fn load(addr: u64, gap: u32, dep: u32) -> Event {
    Event::Access(Access {
        addr,
        op: Op::load(8),
        gap,
        dep,
    })
}

/// A prefetch.
pub fn prefetch(addr: u64, gap: u32, dep: u32) -> Event {
    Event::Access(Access {
        addr,
        op: Op::PREFETCH,
        gap,
        dep,
    })
}

/// Simulates to the end.
pub fn run(config: &MachineConfig, design: &str, source: &mut dyn Source) -> RunResult {
    simulate(config, design, source, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// All of a result but what its design is called, and the keys that are its own.
pub fn but_the_design(result: &RunResult) -> Value {
    let mut value = serde_json::to_value(result).unwrap();
    let fields = value.as_object_mut().unwrap();
    for name in ["design", "page_table", "tlb_design", "machine"] {
        fields.remove(name).unwrap();
    }
    value
}

/// Places in which two results, as JSON, are not the same.
pub fn differences(one: &Value, other: &Value) -> Vec<String> {
    fn compare(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
        let children = |value: &Value| match value {
            Value::Object(of) => of.clone(),
            Value::Array(of) => (0..)
                .map(|number: usize| number.to_string())
                .zip(of.clone())
                .collect(),
            _ => Map::new(),
        };
        let (ones, others) = (children(one), children(other));
        if ones.is_empty() || others.is_empty() {
            if one != other {
                found.push(format!("{path}: {one}, {other}"));
            }
            return;
        }
        for name in ones
            .keys()
            .chain(others.keys().filter(|n| !ones.contains_key(*n)))
        {
            let of = |all: &Map<_, _>| all.get(name).cloned().unwrap_or_default();
            compare(&format!("{path}.{name}"), &of(&ones), &of(&others), found);
        }
    }
    let mut found = Vec::new();
    compare("", one, other, &mut found);
    found
}
