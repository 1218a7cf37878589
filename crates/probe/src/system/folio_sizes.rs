//! Sizes of anonymous transparent huge pages, and which of them the kernel gives
//! (Documentation/admin-guide/mm/transhuge.rst).

use super::environment::THP;
use super::mapping::HUGE;
use super::tuning::Tuning;
use super::{Refused, files};

/// Sizes in bytes that this kernel knows, ascending.
pub fn sizes() -> Vec<usize> {
    let mut sizes: Vec<usize> = std::fs::read_dir(THP)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let kib = name
                .to_str()?
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?;
            let bytes = kib.parse::<usize>().ok()? << 10;
            // Some sizes are for files only and have no such setting.
            setting(bytes).map(|_| bytes)
        })
        .collect();
    if sizes.is_empty() && overall().is_some() {
        sizes.push(HUGE);
    }
    sizes.sort_unstable();
    sizes
}

/// `always`, `madvise`, `inherit` or `never`.
pub fn setting(bytes: usize) -> Option<String> {
    files::choice(path(bytes))
}

/// True if any memory may get this size.
pub fn is_on(bytes: usize) -> bool {
    setting(bytes).is_some_and(|s| s != "never")
}

/// Has the kernel give one size as `text` says, and no other.
///
/// # Errors
/// When a setting may not be changed or the kernel refuses it.
pub fn give(tuning: &mut Tuning, chosen: usize, text: &str) -> Result<(), Refused> {
    for bytes in sizes() {
        let text = if bytes == chosen { text } else { "never" };
        if setting(bytes).as_deref() != Some(text) {
            tuning.set(path(bytes), text)?;
        }
    }
    Ok(())
}

fn overall() -> Option<String> {
    files::choice(format!("{THP}/enabled"))
}

fn path(bytes: usize) -> String {
    format!("{THP}/hugepages-{}kB/enabled", bytes >> 10)
}
