//! A machine's description, from a preset or a file and with single keys changed.

use crate::config::check::{check_all, sizes};
use crate::config::{ConfigError, MachineConfig, PRESETS, suggestion};
use std::path::Path;
use toml::{Table, Value};

impl MachineConfig {
    /// Reads a machine: a preset's name or a TOML file, with single keys overridden.
    ///
    /// A file may say `base = "PRESET"` and then only what differs. An override reads
    /// `key.key=value`, the value in TOML (a bare word counts as a string), or for a part that a
    /// machine may be without `key=none`.
    ///
    /// # Errors
    /// [`ConfigError`] names the file or override, the key, and the valid ones.
    pub fn load(machine: &str, overrides: &[String]) -> Result<Self, ConfigError> {
        let mut table = match PRESETS.iter().find(|(name, _)| *name == machine) {
            Some((name, text)) => parse(name, text)?,
            None => read_file(machine)?,
        };
        for text in overrides {
            let invalid = |what: String| ConfigError::Invalid {
                name: format!("override {text:?}"),
                what,
            };
            let (path, value) = text
                .split_once('=')
                .ok_or_else(|| invalid("expected KEY.KEY=VALUE".into()))?;
            let (path, value) = (path.trim(), value.trim());
            let keys: Vec<&str> = path.split('.').collect();
            if value == "none" && OPTIONAL.contains(&path) {
                remove(&mut table, &keys);
            } else {
                set(&mut table, &keys, parse_value(value)).map_err(invalid)?;
            }
        }
        let name = if overrides.is_empty() {
            machine.to_owned()
        } else {
            format!("{machine} with {}", overrides.join(", "))
        };
        Self::from_table(&name, table)
    }

    fn from_table(name: &str, table: Table) -> Result<Self, ConfigError> {
        let invalid = |what: String| ConfigError::Invalid {
            name: name.to_owned(),
            what,
        };
        let sizes_are_possible = sizes(&table);
        let mut config: MachineConfig = table.try_into().map_err(|error: toml::de::Error| {
            let what = error.to_string();
            invalid(format!("{}{}", what.trim(), unknown_field_hint(&what)))
        })?;
        // A key that there is not is said first.
        sizes_are_possible.map_err(invalid)?;
        let sizes = config.memory.nodes.iter().map(|node| node.bytes);
        if !config.memory.nodes.is_empty() {
            config.memory.memory_bytes = sizes.fold(0, u64::saturating_add);
        }
        check_all(&config).map_err(|error| invalid(error.to_string()))?;
        Ok(config)
    }
}

fn parse(name: &str, text: &str) -> Result<Table, ConfigError> {
    text.parse()
        .map_err(|error: toml::de::Error| ConfigError::Invalid {
            name: name.to_owned(),
            what: error.to_string().trim().to_owned(),
        })
}

fn read_file(path: &str) -> Result<Table, ConfigError> {
    if Path::new(path).extension().is_none_or(|e| e != "toml") {
        return Err(ConfigError::UnknownMachine {
            name: path.to_owned(),
        });
    }
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Io {
        name: path.to_owned(),
        error,
    })?;
    let mut table = parse(path, &text)?;
    let Some(base) = table.remove("base") else {
        return Ok(table);
    };
    let Value::String(base) = base else {
        return Err(ConfigError::Invalid {
            name: path.to_owned(),
            what: format!("base = {base} is not the name of a preset; write it as \"dpt-paper\""),
        });
    };
    let Some((name, text)) = PRESETS.iter().find(|(name, _)| *name == base) else {
        return Err(ConfigError::UnknownMachine { name: base });
    };
    let mut merged = parse(name, text)?;
    merge(&mut merged, table);
    Ok(merged)
}

/// Lays one table over another, key by key.
fn merge(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

fn parse_value(text: &str) -> Value {
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Parts that a machine may be without.
const OPTIONAL: &[&str] = &[
    "fetch",
    "tlb_prefetch",
    "caches.prefetch",
    "caches.coherence",
    "caches.others",
    "core.execution",
    "core.execution.arithmetic",
    "core.execution.arithmetic.forwarding",
    "core.execution.arithmetic.vector_forwarding",
    "core.execution.integer_registers",
    "core.l2_miss_buffers",
    "dram.spread",
    "dram.rows",
];

fn remove(table: &mut Table, keys: &[&str]) {
    match keys {
        [] => {}
        [key] => {
            table.remove(*key);
        }
        [key, rest @ ..] => {
            if let Some(Value::Table(below)) = table.get_mut(*key) {
                remove(below, rest);
            }
        }
    }
}

fn set(table: &mut Table, keys: &[&str], value: Value) -> Result<(), String> {
    match keys {
        [] | [""] => Err("the key is empty".into()),
        [key] => {
            table.insert((*key).to_owned(), value);
            Ok(())
        }
        [key, rest @ ..] => {
            let below = table
                .entry((*key).to_owned())
                .or_insert_with(|| Value::Table(Table::new()));
            match below {
                Value::Table(below) => set(below, rest, value),
                _ => Err(format!("{key} is a value, not a table")),
            }
        }
    }
}

/// For "unknown field `x`, expected one of `a`, `b`": the key of that name in another table, or
/// the nearest of those.
fn unknown_field_hint(message: &str) -> String {
    let Some(at) = message.find("unknown field `") else {
        return String::new();
    };
    let names: Vec<&str> = message[at..].split('`').skip(1).step_by(2).collect();
    let Some((unknown, valid)) = names.split_first() else {
        return String::new();
    };
    let (name, text) = PRESETS[0];
    let machine = parse(name, text).and_then(|table| MachineConfig::from_table(name, table));
    let whole = machine.map(|machine| Table::try_from(machine).unwrap_or_default());
    match whole.ok().and_then(|table| path_of(&table, unknown)) {
        Some(path) => format!(" (did you mean {path}?)"),
        None => suggestion(unknown, valid.iter().copied()),
    }
}

/// Path of the first key of this name, below the top.
fn path_of(table: &Table, name: &str) -> Option<String> {
    let tables = table
        .iter()
        .filter_map(|(key, value)| Some((key, value.as_table()?)));
    tables
        .into_iter()
        .find_map(|(key, below)| match below.contains_key(name) {
            true => Some(format!("{key}.{name}")),
            false => Some(format!("{key}.{}", path_of(below, name)?)),
        })
}
