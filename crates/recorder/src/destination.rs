//! Places to which a recording is not written, whatever was asked for.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use pagelab_recorder_wire::elf::Program;

use crate::RecordError;

/// Refuses an output that cannot hold a trace: one goes back in it.
pub(crate) fn check(output: &Path) -> Result<(), RecordError> {
    match output.metadata() {
        Ok(about) if about.file_type().is_fifo() || about.file_type().is_socket() => {
            Err(refused(output, "it is a pipe, and a trace needs a file"))
        }
        // A file that is not there yet can be made, or making it says why not.
        _ => Ok(()),
    }
}

/// Refuses an output that is the program, which would be gone: its file, or that of the script.
pub(crate) fn check_beside(output: &Path, program: &Program) -> Result<(), RecordError> {
    check(output)?;
    let Ok(about) = output.metadata() else {
        return Ok(());
    };
    // The path of a script is among these.
    let scripts = program.arguments.iter().skip(1).map(Path::new);
    let mut files = scripts.chain([program.path.as_path()]);
    if files.any(|file| file.metadata().is_ok_and(|file| same(&file, &about))) {
        return Err(refused(output, "it is the program that is to be recorded"));
    }
    Ok(())
}

fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn refused(output: &Path, why: &str) -> RecordError {
    RecordError::Output {
        path: output.to_owned(),
        error: io::Error::other(why),
    }
}
