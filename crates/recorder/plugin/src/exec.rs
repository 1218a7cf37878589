//! Programs started by recorded ones.
//!
//! A plugin cannot change what QEMU does for execve, which is to start the program outside QEMU.
//! But it is called before: so it replaces the process itself, by a QEMU that runs the program.
//! That works for whatever QEMU can run, statically linked or not; where it does not work,
//! QEMU goes on as usual, and the recorder is told.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pagelab_recorder_wire::elf;
use pagelab_recorder_wire::option::{self, HandedOn, for_program_only};
use pagelab_recorder_wire::region::Ring;
use pagelab_recorder_wire::word::Kind;

use crate::again::Again;
use crate::{capabilities, descriptors, guest, memory, process, ring, window};

const EXECVEAT: i64 = 322;

/// More arguments than this are refused by the kernel (MAX_ARG_STRINGS is larger, but not useful).
const MOST_ARGUMENTS: usize = 1 << 20;

/// Before an execve: replaces this process by QEMU with the program, if the program is to be
/// recorded. Comes back if not, or if it could not be done, after telling the recorder.
pub fn follow(ring: &Ring, number: i64, arguments: &[u64; 6]) {
    let Some(again) = process::again() else {
        return;
    };
    // A program that is not there or may not be executed is QEMU's to refuse.
    let Some(start) = Start::read(number, arguments, &again.program) else {
        return;
    };
    let wanted = ring::header().follow_exec != 0;
    let refusal = match start.prepare() {
        Ok(Some(program)) if wanted => Some(start.replace(ring, again, &program)),
        // The recorder is told in any case: it forgets it when execve has failed, as is to be expected of `None`.
        Ok(_) => None,
        Err(what) => Some(what),
    };
    let path = start.path.display().to_string();
    ring::put_bytes(ring, Kind::Unrecorded, path.as_bytes());
    if wanted && let Some(refusal) = refusal {
        let text = format!("{path}: not recorded: {refusal}");
        ring::put_bytes(ring, Kind::Note, text.as_bytes());
    }
}

/// The arguments of execve.
struct Start {
    path: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<OsString>,
}

impl Start {
    fn read(number: i64, arguments: &[u64; 6], current: &Path) -> Option<Start> {
        let at = usize::from(number == EXECVEAT);
        let path = guest::text(arguments[at])?;
        let path = if number == EXECVEAT {
            from_directory(arguments[0] as i32, path)
        } else {
            PathBuf::from(path)
        };
        Some(Start {
            path: own_program(path, current),
            arguments: texts(arguments[at + 1])?,
            environment: texts(arguments[at + 2])?,
        })
    }

    /// The program that QEMU is to load, and the words that come before the arguments from
    /// argv\[1\] on; `None` if execve will fail; an explanation if it cannot be recorded.
    fn prepare(&self) -> Result<Option<elf::Program>, String> {
        let first = self.arguments.first().cloned().unwrap_or_default();
        match elf::resolve(&self.path, first) {
            Ok(program) if elf::gives_privileges(&program.path) => Err(
                "it has privileges of its own (setuid, setgid or capabilities), which the kernel does not give to an emulator"
                    .to_owned(),
            ),
            // An interpreter is given the script's path, which leads nowhere by then: ENOENT.
            Ok(program)
                if program.path != self.path
                    && descriptors::closed_by_execve(&self.path).is_some() =>
            {
                Ok(None)
            }
            Ok(program) => Ok(Some(program)),
            Err(elf::Refusal::Missing(_)) => Ok(None),
            Err(elf::Refusal::Foreign(what)) => Err(what),
        }
    }

    /// Becomes QEMU; returns only why that did not work.
    fn replace(&self, ring: &Ring, again: &Again, program: &elf::Program) -> String {
        let Ok(qemu_path) = fs::read_link("/proc/self/exe") else {
            return "QEMU's own path is not known (is /proc mounted?)".to_owned();
        };
        // Without its rings the new QEMU would give up, and the program would not run at all.
        let Some(memory) = memory::to_hand_on(&again.memory) else {
            return "the recorder cannot be reached from there (chroot?)".to_owned();
        };
        // A file that a privilege lets it read, and the new program could not, would be its end,
        // too.
        for path in [&qemu_path, &again.plugin] {
            if let Err(error) = capabilities::without(|| fs::File::open(path)) {
                return format!("{}: {error}", path.display());
            }
        }
        let mut handed_on = HandedOn {
            memory: Some(memory.as_raw_fd()),
            program: None,
        };
        let mut path = option::no_option(&program.path);
        let kept = descriptors::closed_by_execve(&path).map(|named| named.kept_open());
        match &kept {
            Some(Ok((through, copy))) => {
                path = through.clone();
                handed_on.program = Some(copy.as_raw_fd());
            }
            Some(Err(error)) => return format!("{}: {error}", path.display()),
            None => {}
        }
        let Some(index) = process::prepare_replacement() else {
            return "the recording has ended".to_owned();
        };
        let option = option::recording(
            &again.plugin,
            &again.memory,
            handed_on,
            index,
            &path,
            &self.path,
            again.cpu.as_deref(),
        );
        window::say_left_out(ring);
        ring::put(ring, &[Kind::Replaced.word(index as u64)]);
        let words = self.words(&qemu_path, again, program, &path, option);
        let error = execute(&qemu_path, &words, &self.environment_of_both());
        process::cancel(index);
        error
    }

    /// Words of QEMU's command.
    fn words(
        &self,
        qemu: &Path,
        again: &Again,
        program: &elf::Program,
        path: &Path,
        option: String,
    ) -> Vec<OsString> {
        let mut words = vec![qemu.into(), "-plugin".into(), option.into()];
        if let Some(cpu) = &again.cpu {
            words.extend(["-cpu".into(), cpu.into()]);
        }
        let only = self.environment.iter().map(|each| for_program_only(each));
        words.extend(only.flatten().flatten());
        words.extend(["-0".into(), program.arguments[0].clone(), path.into()]);
        words.extend(program.arguments[1..].iter().cloned());
        words.extend(self.arguments.iter().skip(1).cloned());
        words
    }

    /// Variables in QEMU's environment as well as in the program's.
    fn environment_of_both(&self) -> Vec<OsString> {
        let both = |variable: &&OsString| for_program_only(variable).is_none();
        self.environment.iter().filter(both).cloned().collect()
    }
}

fn execute(program: &Path, words: &[OsString], environment: &[OsString]) -> String {
    let text = |text: &OsStr| CString::new(text.as_bytes()).unwrap_or_default();
    let words: Vec<CString> = words.iter().map(|word| text(word)).collect();
    let environment: Vec<CString> = environment.iter().map(|word| text(word)).collect();
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        let pointers = texts.iter().map(|text| text.as_ptr());
        pointers.chain([std::ptr::null()]).collect()
    };
    let (words, environment) = (pointers(&words), pointers(&environment));
    let program = text(program.as_os_str());
    // SAFETY: texts that end with zero bytes, in arrays that end with null pointers.
    unsafe { libc::execve(program.as_ptr(), words.as_ptr(), environment.as_ptr()) };
    std::io::Error::last_os_error().to_string()
}

/// The path of execveat(2): relative to a directory, or empty for the file itself.
fn from_directory(descriptor: i32, path: OsString) -> PathBuf {
    if descriptor == libc::AT_FDCWD || Path::new(&path).is_absolute() {
        return path.into();
    }
    let directory = descriptors::through(descriptor);
    if path.is_empty() {
        directory
    } else {
        directory.join(path)
    }
}

/// /proc/self/exe is QEMU to us, and the program to the program.
fn own_program(path: PathBuf, current: &Path) -> PathBuf {
    let this = format!("/proc/{}/exe", std::process::id());
    if path == Path::new("/proc/self/exe") || path == Path::new(&this) {
        return current.to_owned();
    }
    path
}

/// An array of texts that ends with a null pointer.
fn texts(mut address: u64) -> Option<Vec<OsString>> {
    let mut texts = Vec::new();
    while address != 0 && texts.len() < MOST_ARGUMENTS {
        let mut pointer = [0u64];
        if !guest::words(address, &mut pointer) {
            return None;
        }
        if pointer[0] == 0 {
            break;
        }
        texts.push(guest::text(pointer[0])?);
        address += 8;
    }
    Some(texts)
}
