//! Programs started by recorded ones.

/// How to start QEMU with this plugin again.
#[derive(Debug)]
pub struct Again {
    plugin: String,
    memory: String,
}

impl Again {
    pub fn new(plugin: &str, memory: &str) -> Again {
        Again {
            plugin: plugin.to_owned(),
            memory: memory.to_owned(),
        }
    }
}
