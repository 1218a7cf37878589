//! Settings of the kernel for memory that somebody else asks for, by names of their own.

use super::environment::THP;
use super::tuning::Tuning;
use super::{Refused, files, folio_sizes};
use std::io::{self, BufRead, Write};

/// The size in KiB of the only anonymous huge pages that are given, to whom huge pages are given: `inherit`
/// (Linux 6.8).
const FOLIO_KIB: &str = "folio-kib";
/// The number of huge pages that are reserved.
const HUGE_PAGES: &str = "huge-pages";

/// Has the kernel's settings be what each line of `wanted` says until that ends: `NAME=VALUE` with spaces
/// between, and for all others what they were. Answers each with a line, `ok` once it is so.
///
/// # Errors
/// When a line names no setting of this kernel, one may not be changed, or nobody reads.
pub fn serve(
    tuning: &mut Tuning,
    wanted: impl BufRead,
    mut answers: impl Write,
) -> Result<(), Refused> {
    for line in wanted.lines() {
        let line = line.map_err(|e| Refused::because("reading which settings are wanted", e))?;
        tuning.undo()?;
        for setting in line.split_whitespace() {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            set(tuning, name, value)?;
        }
        writeln!(answers, "ok")
            .and_then(|()| answers.flush())
            .map_err(|e| Refused::because("answering", e))?;
    }
    Ok(())
}

fn set(tuning: &mut Tuning, name: &str, value: &str) -> Result<(), Refused> {
    let unknown = |why: String| Refused::because(format!("{name}={value}"), io::Error::other(why));
    match name {
        "thp" => tuning.set(format!("{THP}/enabled"), value),
        "thp-defrag" => tuning.set(format!("{THP}/defrag"), value),
        "thp-max-ptes-none" => tuning.set(format!("{THP}/khugepaged/max_ptes_none"), value),
        HUGE_PAGES => {
            let path = "/proc/sys/vm/nr_hugepages";
            tuning.set(path, value)?;
            // Memory may be too fragmented for as many.
            let found = files::text(path).unwrap_or_default();
            if found == value {
                return Ok(());
            }
            Err(unknown(format!(
                "only {found} huge pages could be reserved"
            )))
        }
        FOLIO_KIB => {
            let bytes = value
                .parse::<usize>()
                .ok()
                .and_then(|k| k.checked_mul(1024));
            let known = bytes.filter(|&bytes| folio_sizes::setting(bytes).is_some());
            let bytes = known.ok_or_else(|| {
                let have: Vec<_> = folio_sizes::sizes()
                    .iter()
                    .map(|b| (b >> 10).to_string())
                    .collect();
                unknown(format!("this kernel has pages of {} KiB", have.join(", ")))
            })?;
            folio_sizes::give(tuning, bytes, "inherit")
        }
        _ => Err(unknown("no such setting".into())),
    }
}
