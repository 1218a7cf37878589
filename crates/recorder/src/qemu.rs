//! Finding QEMU and the plugin, and asking what they speak.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pagelab_recorder_wire::elf::is_executable;
use pagelab_recorder_wire::option::{for_program_only, plugin_option};

use crate::RecordError;

const NAME: &str = "qemu-x86_64";
const PLUGIN: &str = "libpagelab_plugin.so";

/// Origin of an emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The caller named it.
    Named,
    /// The one that comes with pagelab.
    Bundled,
    /// The first one in PATH.
    Path,
}

/// A QEMU that has loaded the plugin.
#[derive(Clone, Debug)]
pub struct Emulator {
    /// The file.
    pub path: PathBuf,
    /// First line of `--version`: "qemu-x86_64 version 7.2.22 (Debian ...)".
    pub version: String,
    /// Place where it was found.
    pub origin: Origin,
    /// Reasons for which others were passed over that would have come first.
    pub passed_over: Vec<String>,
    pub(crate) plugin: PathBuf,
}

impl Emulator {
    /// True if QEMU may be asked, while the program runs, to translate it anew: what a window costs
    /// outside of it depends on that.
    ///
    /// Before 8.0 it must not be: a block that ends with an instruction which QEMU emulates in a
    /// function leaves a pointer to its callbacks behind, and translating anew frees those (mended by
    /// "tcg: Clear plugin_mem_cbs on TB exit"). And before 10.0.2 or so it keeps a lock that
    /// new threads wait for (plugin_reset_destroy() locked twice).
    pub fn can_translate_anew(&self) -> bool {
        release(&self.version).is_some_and(|release| release >= TRANSLATES_ANEW)
    }

    /// True if addresses are those of a native run without randomisation, modulo the size of a huge page:
    /// pagelab-qemu's are, by packaging/qemu/patches/place-as-linux-does.patch.
    pub fn places_as_linux(&self) -> bool {
        self.version.ends_with(BUILT_HERE)
    }
}

/// Told at the end of a recording where [`Emulator::places_as_linux`] doesn't hold.
pub const PLACED_OTHERWISE: &str = "this emulator places mappings by rules of its own: which of them hold huge pages, \
    and which addresses are used again, is not as under Linux; pagelab-qemu places them as Linux does";

/// Addition of packaging/qemu/build.py to the version.
const BUILT_HERE: &str = " (pagelab)";

/// The first release in which [`Emulator::can_translate_anew`] was seen to hold.
const TRANSLATES_ANEW: [u32; 3] = [10, 0, 2];

/// The release in what `--version` says.
fn release(version: &str) -> Option<[u32; 3]> {
    let (_, rest) = version.split_once(" version ")?;
    let mut numbers = rest
        .split(|letter: char| !letter.is_ascii_digit())
        .map_while(|number| number.parse().ok());
    Some([
        numbers.next()?,
        numbers.next()?,
        numbers.next().unwrap_or(0),
    ])
}

/// Finds an emulator that loads the plugin: `qemu` if it is named, else `bundled`, else the first in
/// PATH.
///
/// # Errors
/// When there is none, with what was wrong with each.
pub fn emulator(
    qemu: Option<&Path>,
    bundled: Option<&Path>,
    plugins: Option<&Path>,
) -> Result<Emulator, RecordError> {
    let plugin = find_plugin(plugins)?;
    if let Some(path) = qemu {
        return check(path, Origin::Named, &plugin);
    }
    let mut passed_over = Vec::new();
    let in_path = in_path(NAME);
    for (path, origin) in [
        (bundled, Origin::Bundled),
        (in_path.as_deref(), Origin::Path),
    ] {
        let Some(path) = path else { continue };
        match check(path, origin, &plugin) {
            Ok(found) => {
                return Ok(Emulator {
                    passed_over,
                    ..found
                });
            }
            Err(error) => passed_over.push(error.to_string()),
        }
    }
    Err(RecordError::NoQemu { passed_over })
}

fn check(path: &Path, origin: Origin, plugin: &Path) -> Result<Emulator, RecordError> {
    let version = version(path)?;
    check_interface(path, &version, plugin)?;
    Ok(Emulator {
        path: path.to_owned(),
        version,
        origin,
        passed_over: Vec::new(),
        plugin: plugin.to_owned(),
    })
}

/// The first executable file of this name in PATH.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|directory| directory.join(name))
        .find(|path| is_executable(path))
}

/// Finds it where asked for; otherwise beside the running program, or before that where cargo puts
/// what a test depends on.
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

/// QEMU at `path`, for a program with our environment and `more`: of what acts on libraries in it, QEMU is told
/// and has nothing itself.
pub(crate) fn command(path: &Path, more: &[(OsString, OsString)]) -> Command {
    let mut command = Command::new(path);
    command.envs(more.iter().map(|(name, value)| (name, value)));
    let ours = env::vars_os().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    for (name, value) in ours.chain(more.iter().cloned()) {
        let mut variable = name.clone();
        variable.push("=");
        variable.push(value);
        if let Some(option) = for_program_only(&variable) {
            command.args(option).env_remove(name);
        }
    }
    command
}

fn version(path: &Path) -> Result<String, RecordError> {
    let cannot = |error| RecordError::Qemu {
        path: path.to_owned(),
        error,
    };
    let output = command(path, &[])
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(cannot)?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(first) if output.status.success() => Ok(first.to_owned()),
        _ => Err(cannot(std::io::Error::other(explained(
            &String::from_utf8_lossy(&output.stderr),
        )))),
    }
}

/// Loads the plugin for nothing but its answer to which interface QEMU speaks. QEMU itself refuses
/// one that is too old or too new for it.
fn check_interface(path: &Path, version: &str, plugin: &Path) -> Result<(), RecordError> {
    let output = command(path, &[])
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
            path: path.to_owned(),
            version: version.to_owned(),
            said: explained(&said),
        }),
    }
}

/// Words of QEMU, and their meaning where it is known.
fn explained(said: &str) -> String {
    let said = said.trim();
    if said.contains("nknown option 'plugin'") {
        return "it was built without plugins, as Debian 13's qemu-user and later ones are"
            .to_owned();
    }
    if let Some(version) = said.split("version `GLIBC_").nth(1) {
        let version = version.split('\'').next().unwrap_or_default();
        return format!("it needs glibc {version}, which is newer than this system's");
    }
    if said.is_empty() {
        return "it said nothing".to_owned();
    }
    said.to_owned()
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

    #[test]
    fn the_release_is_read_from_what_distributions_say() {
        let debian = "qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)";
        assert_eq!(release(debian), Some([7, 2, 22]));
        assert_eq!(release("qemu-x86_64 version 10.0.13"), Some([10, 0, 13]));
        assert_eq!(
            release("qemu-x86_64 version 11.1.50 (v11.1-3-g1)"),
            Some([11, 1, 50])
        );
        assert_eq!(release("hello"), None);
    }
}
