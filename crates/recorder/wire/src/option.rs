//! Options by which QEMU is told of the plugin, by the recorder and by the plugin itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The value of `-plugin`: QEMU separates options by commas, and doubles those inside one.
pub fn plugin_option(plugin: &Path, arguments: &[(&str, &str)]) -> String {
    let mut option = plugin.to_string_lossy().replace(',', ",,");
    for (name, value) in arguments {
        option += &format!(",{name}={}", value.replace(',', ",,"));
    }
    option
}

/// Descriptors that a QEMU is left by the one that it replaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandedOn {
    /// The shared memory.
    pub memory: Option<i32>,
    /// Descriptor that the program's path leads through.
    pub program: Option<i32>,
}

/// The arguments with which the plugin records: shared memory, by its path and by a descriptor if one is handed on, the
/// first thread's ring, its own path, the program's, what the kernel would call its process, and the emulated processor
/// if it was chosen, for what the program starts.
#[allow(
    clippy::too_many_arguments,
    reason = "each is an argument of the plugin"
)]
pub fn recording(
    plugin: &Path,
    memory: &Path,
    handed_on: HandedOn,
    ring: usize,
    program: &Path,
    called: &Path,
    cpu: Option<&str>,
) -> String {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let number = |descriptor: Option<i32>| descriptor.map(|descriptor| descriptor.to_string());
    let descriptor = number(handed_on.memory);
    let opened = number(handed_on.program);
    // As execve does it, of the path that it was given (bprm->filename, fs/exec.c).
    let name = called.file_name().map(Path::new);
    plugin_option(
        plugin,
        &[
            ("memory", &text(memory)),
            ("descriptor", &descriptor.unwrap_or_default()),
            ("opened", &opened.unwrap_or_default()),
            ("ring", &ring.to_string()),
            ("plugin", &text(plugin)),
            ("program", &text(program)),
            ("name", &name.map(text).unwrap_or_default()),
            ("cpu", cpu.unwrap_or_default()),
        ],
    )
}

/// A path as QEMU takes it for a program and not for an option: one that begins with a dash is relative.
pub fn no_option(path: &Path) -> PathBuf {
    if path.as_os_str().as_bytes().starts_with(b"-") {
        return Path::new(".").join(path);
    }
    path.to_owned()
}

/// A variable of the program's environment that must not be in QEMU's, as QEMU is to be given it: the dynamic loader
/// and the allocator act on it, and would on QEMU. `None` for any other.
///
/// QEMU separates variables by commas and has no way to quote one: what has any stays in the environment of both.
pub fn for_program_only(variable: &OsStr) -> Option<[OsString; 2]> {
    let bytes = variable.as_bytes();
    let of_libraries = [b"LD_".as_slice(), b"GLIBC_TUNABLES=", b"MALLOC_"];
    let only = of_libraries.iter().any(|name| bytes.starts_with(name))
        && bytes.contains(&b'=')
        && !bytes.contains(&b',');
    only.then(|| ["-E".into(), variable.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libraries_act_on_is_for_the_program_only() {
        let only = |text: &str| for_program_only(OsStr::new(text)).is_some();
        for text in [
            "LD_PRELOAD=a:b",
            "LD_LIBRARY_PATH=",
            "GLIBC_TUNABLES=a=b",
            "MALLOC_ARENA_MAX=1",
        ] {
            assert!(only(text), "{text}");
        }
        for text in ["PATH=/bin", "LD_PRELOAD", "LD_PRELOAD=a,b", "GLIBC_=1", ""] {
            assert!(!only(text), "{text}");
        }
    }
}
