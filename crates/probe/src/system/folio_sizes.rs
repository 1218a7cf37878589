//! Sizes of anonymous transparent huge pages, and which of them the kernel gives
//! (Documentation/admin-guide/mm/transhuge.rst).

use super::environment::THP;
use super::mapping::HUGE;
use super::tuning::Tuning;
use super::{Refused, files};
use std::io::{self, BufRead, Write};

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

/// Gives what each line of `wanted` names until that ends: a size in KiB, or `own` for what the
/// kernel was set to. Answers each with a line, `ok` once it is so.
///
/// A size is given to whom huge pages are given: `inherit` (Linux 6.8).
///
/// # Errors
/// When a line names no size of this kernel, a setting may not be changed, or nobody reads.
pub fn serve(
    tuning: &mut Tuning,
    wanted: impl BufRead,
    mut answers: impl Write,
) -> Result<(), Refused> {
    for line in wanted.lines() {
        let line = line.map_err(|e| Refused::because("reading which size is wanted", e))?;
        if line == "own" {
            tuning.undo()?;
        } else {
            let bytes = line.parse::<usize>().ok().and_then(|k| k.checked_mul(1024));
            let known = bytes.filter(|&bytes| setting(bytes).is_some());
            let bytes = known.ok_or_else(|| {
                let what = format!("pages of {line} KiB");
                let have: Vec<_> = sizes().iter().map(|b| (b >> 10).to_string()).collect();
                let why = format!("this kernel has those of {} KiB", have.join(", "));
                Refused::because(what, io::Error::other(why))
            })?;
            give(tuning, bytes, "inherit")?;
        }
        writeln!(answers, "ok")
            .and_then(|()| answers.flush())
            .map_err(|e| Refused::because("answering", e))?;
    }
    Ok(())
}

fn overall() -> Option<String> {
    files::choice(format!("{THP}/enabled"))
}

fn path(bytes: usize) -> String {
    format!("{THP}/hugepages-{}kB/enabled", bytes >> 10)
}
