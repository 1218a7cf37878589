//! What a machine's description may not say, or not say together.

use crate::coherence::MAX_CORES;
use crate::config::MachineConfig;
use crate::error::BuildError;

/// References carry line numbers of 31 bits.
pub(crate) const MAX_MEMORY_BYTES: u64 = 128 << 30;

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
    check(
        "memory.bytes",
        config.memory.memory_bytes.to_string(),
        config.memory.memory_bytes <= MAX_MEMORY_BYTES,
        "at most 128 GiB",
    )?;
    check(
        "memory.bytes",
        config.memory.memory_bytes.to_string(),
        config.caches.others.is_none() || config.memory.memory_bytes < MAX_MEMORY_BYTES,
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
    Ok(())
}
