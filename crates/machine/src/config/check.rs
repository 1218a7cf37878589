//! Limits of a machine's description, and parts of it that do not go together.

use crate::caches::coherence::MAX_CORES;
use crate::config::MachineConfig;
use crate::error::BuildError;
use toml::{Table, Value};

/// References carry line numbers of 31 bits.
pub(crate) const MAX_MEMORY_BYTES: u64 = 128 << 30;

/// Limit for all caches together: the simulator takes four bytes for each of their lines.
const MAX_CACHES_KIB: u64 = 16 << 20;
/// Limit for all TLBs together: the simulator takes some ten bytes for each entry.
const MAX_TLB_ENTRIES: u64 = 1 << 24;

/// The largest values of keys of these names, wherever they are: what a key makes the simulator allocate,
/// and times past which its clocks would overflow.
const LARGEST: [(&str, f64); 6] = [
    ("entries", 1048576.0),
    ("kib", 4194304.0),
    ("max_displacements", 65536.0),
    ("_ns", 1e9),
    ("ghz", 1e9),
    ("gigabytes_per_second", 1e9),
];

/// Refuses what no machine can be; what its parts refuse by themselves is not here.
pub(crate) fn check(config: &MachineConfig) -> Result<(), BuildError> {
    let check = |key, value: String, good, expected| {
        if good {
            Ok(())
        } else {
            Err(BuildError::Value {
                key,
                value,
                expected,
            })
        }
    };
    check(
        "cores",
        config.cores.to_string(),
        (1..=1024).contains(&config.cores),
        "between 1 and 1024",
    )?;
    let bytes = config.memory.memory_bytes;
    check(
        "memory.memory_bytes",
        bytes.to_string(),
        (1..=MAX_MEMORY_BYTES).contains(&bytes),
        "above 0 and at most 128 GiB",
    )?;
    check(
        "memory.memory_bytes",
        bytes.to_string(),
        config.caches.others.is_none() || bytes < MAX_MEMORY_BYTES,
        "less than 128 GiB with caches.others",
    )?;
    if config.caches.coherence.is_some() {
        check(
            "cores",
            config.cores.to_string(),
            config.cores as usize <= MAX_CORES,
            "at most 64 with caches.coherence",
        )?;
    }
    let kib = caches_kib(config);
    check(
        "caches",
        format!("{kib} KiB on {} cores", config.cores),
        kib <= MAX_CACHES_KIB,
        "at most 16 GiB in all",
    )?;
    let entries = tlb_entries(config);
    check(
        "tlb",
        format!("{entries} entries on {} cores", config.cores),
        entries <= MAX_TLB_ENTRIES,
        "at most 16777216 in all",
    )
}

/// Refuses what no design could be simulated on, before anything of that size is made.
pub(crate) fn check_all(config: &MachineConfig) -> Result<(), BuildError> {
    check(config)?;
    config.core.check()?;
    Ok(config.memory.validate()?)
}

fn caches_kib(config: &MachineConfig) -> u64 {
    let caches = &config.caches;
    let fetched = config.fetch.as_ref().map_or(0, |fetch| fetch.l1.kib);
    let own: u64 = [caches.l1.kib, caches.l2.kib, fetched]
        .map(u64::from)
        .iter()
        .sum();
    u64::from(config.cores) * own + u64::from(caches.llc.kib)
}

fn tlb_entries(config: &MachineConfig) -> u64 {
    let tlb = &config.tlb;
    let others = [tlb.l1_2m, tlb.l1_1g, tlb.l2_2m, tlb.l2_1g];
    let fetched = config.fetch.as_ref().map(|fetch| fetch.tlb);
    let arrays = [Some(tlb.l1_4k), Some(tlb.l2_4k), fetched]
        .into_iter()
        .chain(others);
    let own: u64 = arrays.flatten().map(|a| u64::from(a.entries)).sum();
    u64::from(config.cores) * own
}

/// Says which key of a description is larger than anything that can be made, if one is.
pub(crate) fn sizes(description: &Table) -> Result<(), String> {
    description
        .iter()
        .try_for_each(|(key, value)| size(key, value))
}

fn size(path: &str, value: &Value) -> Result<(), String> {
    let (number, written) = match value {
        Value::Table(below) => {
            let mut keys = below.iter();
            return keys.try_for_each(|(key, value)| size(&format!("{path}.{key}"), value));
        }
        Value::Array(values) => return values.iter().try_for_each(|value| size(path, value)),
        Value::Integer(number) => (*number as f64, number.to_string()),
        // 1e300 and not as many zeros.
        Value::Float(number) => (*number, format!("{number:e}")),
        _ => return Ok(()),
    };
    match largest(path, value) {
        Some(largest) if number.is_nan() || number > largest => {
            Err(format!("{path} = {written} is not between 0 and {largest}"))
        }
        _ => Ok(()),
    }
}

fn largest(path: &str, value: &Value) -> Option<f64> {
    let named = LARGEST.iter().find(|(name, _)| path.ends_with(name));
    let any = value.is_float().then_some(1e9);
    named.map(|(_, largest)| *largest).or(any)
}
