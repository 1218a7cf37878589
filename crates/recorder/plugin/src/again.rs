//! Command by which QEMU was started.

use std::path::PathBuf;

use crate::memory;

/// Parts of a command that starts QEMU with this plugin again.
#[derive(Debug)]
pub struct Again {
    pub plugin: PathBuf,
    pub memory: PathBuf,
    /// The program that runs now.
    pub program: PathBuf,
    /// The emulated processor, if it was chosen.
    pub cpu: Option<String>,
}

impl Again {
    /// The program may be about to change its user, or to give up capabilities.
    pub fn keep_memory(&self) {
        memory::keep(&self.memory);
    }

    pub fn new(plugin: &str, memory: &str, program: &str, cpu: &str) -> Again {
        Again {
            cpu: (!cpu.is_empty()).then(|| cpu.to_owned()),
            plugin: plugin.into(),
            memory: memory.into(),
            program: program.into(),
        }
    }
}
