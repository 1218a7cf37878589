use std::fs;
use std::path::Path;

/// True if it is a file to be read: a trace, or debug information, may name a device or a pipe, which does not end or
/// has nobody at its other side.
pub(crate) fn regular(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
}
