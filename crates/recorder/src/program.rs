//! Finding the program, and telling before it starts whether it can be recorded.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pagelab_recorder_wire::elf::{self, Program, Refusal};

use crate::{RecordError, qemu};

/// Looks the program up, as a shell would, and follows `#!` lines.
pub(crate) fn resolve(program: &OsStr) -> Result<Program, RecordError> {
    let refused = |what: String| RecordError::Program {
        program: program.to_string_lossy().into_owned(),
        what,
    };
    let path = if program.as_bytes().contains(&b'/') {
        PathBuf::from(program)
    } else {
        qemu::in_path(&program.to_string_lossy())
            .ok_or_else(|| refused("not found in PATH".to_owned()))?
    };
    elf::resolve(&path, program.to_owned()).map_err(|refusal| match refusal {
        Refusal::Missing(what) | Refusal::Foreign(what) => refused(what),
    })
}
