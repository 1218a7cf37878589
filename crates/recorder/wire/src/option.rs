//! How QEMU is told of the plugin, by the recorder and by the plugin itself.

use std::path::Path;

/// The value of `-plugin`: QEMU separates options by commas, and doubles those inside one.
pub fn plugin_option(plugin: &Path, arguments: &[(&str, &str)]) -> String {
    let mut option = plugin.to_string_lossy().replace(',', ",,");
    for (name, value) in arguments {
        option += &format!(",{name}={}", value.replace(',', ",,"));
    }
    option
}

/// The arguments with which the plugin records: shared memory, by its path and by a descriptor if one is handed on, the
/// first thread's ring, its own path, the program's, and the emulated processor if it was chosen, for what the program
/// starts.
pub fn recording(
    plugin: &Path,
    memory: &Path,
    descriptor: Option<i32>,
    ring: usize,
    program: &Path,
    cpu: Option<&str>,
) -> String {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let descriptor = descriptor.map(|descriptor| descriptor.to_string());
    plugin_option(
        plugin,
        &[
            ("memory", &text(memory)),
            ("descriptor", &descriptor.unwrap_or_default()),
            ("ring", &ring.to_string()),
            ("plugin", &text(plugin)),
            ("program", &text(program)),
            ("cpu", cpu.unwrap_or_default()),
        ],
    )
}
