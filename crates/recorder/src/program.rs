//! Finding the program, and telling before it starts whether it can be recorded.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::RecordError;
use crate::qemu;

/// What QEMU is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The file: an x86-64 executable.
    pub(crate) path: PathBuf,
    /// argv\[0\], and the arguments that a script's first line adds.
    pub(crate) arguments: Vec<OsString>,
}

/// Scripts that name scripts as their interpreters: as deep as the kernel follows them.
const MAX_DEPTH: usize = 5;

/// Looks the program up, as a shell would, and follows `#!` lines.
pub(crate) fn resolve(program: &OsStr) -> Result<Program, RecordError> {
    let mut found = Program {
        path: look_up(program)?,
        arguments: vec![program.to_owned()],
    };
    for _ in 0..MAX_DEPTH {
        let head = head(&found.path)?;
        let Some((interpreter, argument)) = script(&head) else {
            check_executable(&found.path, &head)?;
            return Ok(found);
        };
        let script = std::mem::replace(&mut found.path, interpreter.clone());
        // The interpreter is given its own path, the line's argument, and the script's path.
        found.arguments[0] = script.into_os_string();
        found.arguments.splice(0..0, argument);
        found.arguments.insert(0, interpreter.into_os_string());
    }
    Err(RecordError::Program {
        program: program.to_string_lossy().into_owned(),
        what: "its interpreters are scripts, too deeply nested".to_owned(),
    })
}

fn look_up(program: &OsStr) -> Result<PathBuf, RecordError> {
    let refuse = |what: &str| {
        Err(RecordError::Program {
            program: program.to_string_lossy().into_owned(),
            what: what.to_owned(),
        })
    };
    if !program.as_bytes().contains(&b'/') {
        return match qemu::in_path(&program.to_string_lossy()) {
            Some(path) => Ok(path),
            None => refuse("not found in PATH"),
        };
    }
    let path = Path::new(program);
    match path.metadata() {
        Err(error) => refuse(&error.to_string()),
        Ok(about) if about.is_dir() => refuse("is a directory"),
        Ok(_) if !qemu::is_executable(path) => refuse("is not executable (chmod +x)"),
        Ok(_) => Ok(path.to_owned()),
    }
}

/// The beginning of a file.
fn head(path: &Path) -> Result<Vec<u8>, RecordError> {
    let cannot = |error: std::io::Error| RecordError::Program {
        program: path.display().to_string(),
        what: error.to_string(),
    };
    let mut head = Vec::new();
    File::open(path)
        .map_err(cannot)?
        .take(256)
        .read_to_end(&mut head)
        .map_err(cannot)?;
    Ok(head)
}

/// The interpreter of a script and its argument: execve(2), "Interpreter scripts".
fn script(head: &[u8]) -> Option<(PathBuf, Option<OsString>)> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let end = line
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(end);
    let argument = argument.trim_ascii();
    Some((
        PathBuf::from(OsString::from_vec(interpreter.to_vec())),
        (!argument.is_empty()).then(|| OsString::from_vec(argument.to_vec())),
    ))
}

/// Refuses what is not an ELF file for x86-64 (elf(5)).
fn check_executable(path: &Path, head: &[u8]) -> Result<(), RecordError> {
    const CLASS: usize = 4;
    const MACHINE: usize = 18;
    let refuse = |what: &str| {
        Err(RecordError::Program {
            program: path.display().to_string(),
            what: what.to_owned(),
        })
    };
    if !head.starts_with(b"\x7fELF") || head.len() < MACHINE + 2 {
        return refuse("is neither an ELF executable nor a script that starts with #!");
    }
    let machine = u16::from_le_bytes([head[MACHINE], head[MACHINE + 1]]);
    match (machine, head[CLASS]) {
        (62, 2) => Ok(()),
        (62, _) => refuse("uses 32-bit addresses (x32); only 64-bit programs can be recorded"),
        (3, _) => refuse("is a 32-bit x86 program; only x86-64 programs can be recorded"),
        (183, _) => refuse("is an AArch64 program; only x86-64 programs can be recorded"),
        (other, _) => refuse(&format!(
            "is a program for another machine (ELF machine {other}); only x86-64 programs can be recorded"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter_and_one_argument() {
        assert_eq!(
            script(b"#! /usr/bin/env  -S python3 -u \necho"),
            Some(("/usr/bin/env".into(), Some("-S python3 -u".into())))
        );
        assert_eq!(script(b"#!/bin/sh\n"), Some(("/bin/sh".into(), None)));
        assert_eq!(script(b"\x7fELF"), None);
    }

    #[test]
    fn programs_of_other_machines_are_told_apart() {
        let elf = |class: u8, machine: u8| {
            let mut head = vec![0; 64];
            head[..4].copy_from_slice(b"\x7fELF");
            head[4] = class;
            head[18] = machine;
            check_executable(Path::new("x"), &head).map_err(|error| error.to_string())
        };
        assert_eq!(elf(2, 62), Ok(()));
        assert!(elf(1, 3).unwrap_err().contains("32-bit"));
        assert!(elf(2, 183).unwrap_err().contains("AArch64"));
    }
}
