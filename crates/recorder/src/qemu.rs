//! Finding QEMU and the plugin, and asking what they speak.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pagelab_recorder_wire::elf::is_executable;
use pagelab_recorder_wire::option::plugin_option;

use crate::RecordError;

const NAME: &str = "qemu-x86_64";
const PLUGIN: &str = "libpagelab_plugin.so";

/// A QEMU that can run the plugin.
#[derive(Clone, Debug)]
pub(crate) struct Qemu {
    pub(crate) path: PathBuf,
    /// What `--version` says first: "qemu-x86_64 version 7.2.22 (Debian ...)".
    pub(crate) version: String,
    pub(crate) plugin: PathBuf,
}

/// Finds QEMU (or takes the one that is named) and the plugin, and checks that they fit.
pub(crate) fn find(qemu: Option<&Path>, plugins: Option<&Path>) -> Result<Qemu, RecordError> {
    let path = match qemu {
        Some(path) => path.to_owned(),
        None => in_path(NAME).ok_or(RecordError::NoQemu)?,
    };
    let plugin = find_plugin(plugins)?;
    let version = version(&path)?;
    check_interface(&path, &version, &plugin)?;
    Ok(Qemu {
        path,
        version,
        plugin,
    })
}

/// The first executable file of this name in PATH.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|directory| directory.join(name))
        .find(|path| is_executable(path))
}

/// Where asked for; otherwise beside the running program, or before that where cargo puts what a
/// test depends on.
fn find_plugin(directory: Option<&Path>) -> Result<PathBuf, RecordError> {
    let mut directories = Vec::new();
    match directory {
        Some(directory) => directories.push(directory.to_owned()),
        None => {
            let program = env::current_exe().unwrap_or_default();
            if let Some(directory) = program.parent() {
                directories.push(directory.join("deps"));
                directories.push(directory.with_file_name("deps"));
                directories.push(directory.to_owned());
            }
        }
    }
    directories
        .iter()
        .map(|directory| directory.join(PLUGIN))
        .find(|path| path.is_file())
        .ok_or(RecordError::NoPlugin { directories })
}

fn version(path: &Path) -> Result<String, RecordError> {
    let cannot = |error| RecordError::Qemu {
        path: path.to_owned(),
        error,
    };
    let output = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(cannot)?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Loads the plugin for nothing but its answer to which interface QEMU speaks. QEMU itself refuses
/// one that is too old or too new for it.
fn check_interface(path: &Path, version: &str, plugin: &Path) -> Result<(), RecordError> {
    let output = Command::new(path)
        .arg("-plugin")
        .arg(plugin_option(plugin, &[("ask", "1")]))
        .arg("/proc/self/exe")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| RecordError::Qemu {
            path: path.to_owned(),
            error,
        })?;
    let said = String::from_utf8_lossy(&output.stderr);
    match answer(&said) {
        Some((current, newest)) if current <= newest => Ok(()),
        _ => Err(RecordError::Interface {
            version: version.to_owned(),
            said: said.trim().to_owned(),
        }),
    }
}

/// From "pagelab-plugin: interface 0 to 1, knows 1 to 5": QEMU's newest and the plugin's newest.
fn answer(said: &str) -> Option<(u32, u32)> {
    let (_, answer) = said.split_once("pagelab-plugin: interface ")?;
    let mut numbers = answer
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse().ok());
    let (_, current) = (numbers.next()?, numbers.next()?);
    let (_, newest) = (numbers.next()?, numbers.next()?);
    Some((current, newest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugins_answer_is_read() {
        let said = "pagelab-plugin: interface 0 to 1, knows 1 to 5\nqemu-x86_64: exiting\n";
        assert_eq!(answer(said), Some((1, 5)));
        assert_eq!(answer("Unknown option 'plugin'"), None);
    }
}
