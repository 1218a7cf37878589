//! Telling whether QEMU can run a program, and following the first lines of scripts.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::headers;

/// A program that QEMU is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file: an x86-64 executable.
    pub path: PathBuf,
    /// argv\[0\], and for a script what comes before its own arguments.
    pub arguments: Vec<OsString>,
}

/// Reason for which a file cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be executed at all.
    Missing(String),
    /// It is a program of another kind.
    Foreign(String),
}

/// Scripts that name scripts as their interpreters: as deep as the kernel follows them.
const MAX_DEPTH: usize = 5;

/// <asm-generic/fcntl.h>
const F_SETSIG: libc::c_int = 10;

/// The program behind a file that is to be executed with this argv\[0\].
///
/// # Errors
/// When the file cannot be read, or is not for x86-64.
pub fn resolve(path: &Path, first: OsString) -> Result<Program, Refusal> {
    let mut found = Program {
        path: path.to_owned(),
        arguments: vec![first],
    };
    for depth in 0..MAX_DEPTH {
        let opened = open(&found.path).and_then(|file| Ok((head(&file)?, file)));
        let (head, file) = opened.map_err(|refusal| match refusal {
            Refusal::Missing(what) if depth > 0 => of_interpreter(&found.path, &what),
            other => other,
        })?;
        let Some((interpreter, argument)) = script(&head) else {
            check_executable(&head).map_err(Refusal::Foreign)?;
            check_loadable(&file)?;
            return Ok(found);
        };
        let script = std::mem::replace(&mut found.path, interpreter.clone());
        // The interpreter is given its own path, the line's argument, and the script's path.
        found.arguments[0] = script.into_os_string();
        found.arguments.splice(0..0, argument);
        found.arguments.insert(0, interpreter.into_os_string());
    }
    Err(Refusal::Missing(
        "scripts as interpreters, too deeply nested".to_owned(),
    ))
}

/// Refusal of a wrong interpreter.
fn of_interpreter(path: &Path, what: &str) -> Refusal {
    let what = match what {
        "no such file" => "does not exist",
        what => what,
    };
    Refusal::Missing(format!("its interpreter {} {what}", path.display()))
}

/// A file that may be executed.
fn open(path: &Path) -> Result<File, Refusal> {
    let refuse = |what: &str| Err(Refusal::Missing(what.to_owned()));
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return refuse("no such file"),
        Err(error) => return refuse(&error.to_string()),
        Ok(about) if about.is_dir() => return refuse("is a directory"),
        Ok(_) if !is_executable(path) => return refuse("is not executable (chmod +x)"),
        Ok(_) => {}
    }
    // A program that may be executed but not read is one QEMU cannot load either.
    let file = File::open(path).map_err(unread)?;
    if is_being_written(&file) {
        return refuse("is open for writing (text file busy)");
    }
    Ok(file)
}

fn unread(error: io::Error) -> Refusal {
    Refusal::Foreign(format!("cannot be read: {error}"))
}

/// The beginning of a file.
fn head(file: &File) -> Result<Vec<u8>, Refusal> {
    let mut head = Vec::new();
    file.take(256).read_to_end(&mut head).map_err(unread)?;
    Ok(head)
}

/// True if somebody has the file open for writing, so that it is not executed (ETXTBSY). To be told, one asks for a
/// lease of it, which its owner is given; a file of somebody else's who writes to it is taken for one that is not
/// written.
fn is_being_written(file: &File) -> bool {
    let descriptor = file.as_raw_fd();
    // SAFETY: these calls take numbers. The signal that whoever opens the file meanwhile causes is one that is ignored.
    unsafe {
        libc::fcntl(descriptor, F_SETSIG, libc::SIGURG);
        if libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK) == 0 {
            libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_UNLCK);
            return false;
        }
    }
    io::Error::last_os_error().kind() == ErrorKind::WouldBlock
}

/// Refuses what the kernel does: of an ELF file for x86-64, what its headers say and the interpreter that they name.
fn check_loadable(file: &File) -> Result<(), Refusal> {
    let interpreter = headers::interpreter(file);
    let Some(path) = interpreter.map_err(|what| Refusal::Missing(what.to_owned()))? else {
        return Ok(());
    };
    let checked = open(&path).and_then(|file| head(&file));
    match checked.map(|head| check_executable(&head)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(what)) | Err(Refusal::Missing(what) | Refusal::Foreign(what)) => {
            Err(of_interpreter(&path, &what))
        }
    }
}

/// True if executing the file gives another user, another group, or capabilities (execve(2)).
pub fn gives_privileges(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    let Ok(about) = path.metadata() else {
        return false;
    };
    // SAFETY: these calls return numbers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let is = |bit: libc::mode_t| about.mode() & bit != 0;
    if is(libc::S_ISUID) && about.uid() != user || is(libc::S_ISGID) && about.gid() != group {
        return true;
    }
    let Ok(text) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability";
    // SAFETY: texts that end with zero bytes, and no room for a value, only whose length is asked for.
    let length = unsafe { libc::getxattr(text.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    // Root has them all already.
    user != 0 && length > 0
}

/// True if this is a file that the user may execute.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(text) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the text ends with a zero byte.
    path.is_file() && unsafe { libc::access(text.as_ptr(), libc::X_OK) == 0 }
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
fn check_executable(head: &[u8]) -> Result<(), String> {
    const CLASS: usize = 4;
    const MACHINE: usize = 18;
    let refuse = |what: &str| Err(what.to_owned());
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
            check_executable(&head)
        };
        assert_eq!(elf(2, 62), Ok(()));
        assert!(elf(1, 3).unwrap_err().contains("32-bit"));
        assert!(elf(2, 183).unwrap_err().contains("AArch64"));
    }
}
