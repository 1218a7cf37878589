//! Shared code: what N processes of one program take, by proportional set size and page tables,
//! started apart and forked.

use super::{Context, Failure, Part};
use crate::rounds::{Clock, timed_by};
use crate::system::{Refused, files, process};
use clap::{Arg, ArgAction, ArgMatches, Command as Options};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const PART: Part = Part {
    name: "shared-code",
    about: "Memory of many processes of one program, static and shared, started apart and forked",
    in_all: true,
    options,
    run,
};

fn options(command: Options) -> Options {
    command.arg(
        Arg::new("program")
            .long("program")
            .action(ArgAction::Append)
            .help("Program that waits for its standard input to end [default: cat and the shells found]"),
    )
}

/// Programs that read their standard input and do nothing until it ends; static ones as well.
const CANDIDATES: [&str; 5] = [
    "/bin/cat",
    "/bin/bash",
    "/bin/bash-static",
    "/bin/busybox",
    "/usr/bin/python3",
];

fn run(context: &mut Context, arguments: &ArgMatches) -> Result<Value, Failure> {
    let named: Vec<&String> = arguments
        .try_get_many("program")
        .ok()
        .flatten()
        .map_or_else(Vec::new, Iterator::collect);
    let programs: Vec<PathBuf> = if named.is_empty() {
        let candidates = CANDIDATES.iter().map(PathBuf::from);
        candidates.filter(|path| path.exists()).collect()
    } else {
        named.into_iter().map(PathBuf::from).collect()
    };
    let count = if context.quick { 4 } else { 16 };
    let mut rows = Vec::new();
    for program in programs {
        let what = format!("{count} processes of {}", program.display());
        rows.extend(context.attempt(&what, |_| started_apart(&program, count)));
    }
    let pair = context.attempt("one program linked shared and static", |_| pair(count));
    let forked = context.attempt(&format!("{count} forked processes"), |_| forked(count));
    Ok(json!({ "processes": count, "started_apart": rows, "pair": pair, "forked": forked }))
}

/// A program for the pair: an interactive calculator of the size of a small tool, which uses the
/// parts of the C library that any program drags in: streams, formats, numbers, regular
/// expressions, the locale.
const SOURCE: &str = r#"
#include <locale.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void)
{
	char line[256], stamp[64];
	regex_t number;
	time_t now = time(NULL);

	setlocale(LC_ALL, "");
	if (regcomp(&number, "^[-+0-9.]+$", REG_EXTENDED | REG_NOSUB))
		return 1;
	strftime(stamp, sizeof(stamp), "%c", localtime(&now));
	fprintf(stderr, "%s\n", stamp);
	while (fgets(line, sizeof(line), stdin))
		if (!regexec(&number, line, 0, NULL, 0))
			printf("%.17g\n", sqrt(strtod(line, NULL)));
	return 0;
}
"#;

/// The same program linked shared and static by the C compiler found, measured both ways.
fn pair(count: usize) -> Result<Value, Failure> {
    let directory = Scratch::new()?;
    let source = directory.0.join("calculator.c");
    std::fs::write(&source, SOURCE).map_err(|e| Refused::because("writing a C program", e))?;
    let mut rows = Vec::new();
    for (name, option) in [("shared", None), ("static", Some("-static"))] {
        let program = directory.0.join(name);
        let mut compiler = Command::new("cc");
        compiler.arg("-O2").args(option).arg("-o").arg(&program);
        compiler.arg(&source).arg("-lm").stdin(Stdio::null());
        let output = compiler
            .output()
            .map_err(|e| Failure::Lacking(format!("no C compiler here ({e})")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            return Err(Failure::Lacking(format!("cc cannot link {name}: {last}")));
        }
        rows.push(started_apart(&program, count)?);
    }
    Ok(rows.into())
}

/// A directory that is removed with what is in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, Refused> {
        let path = std::env::temp_dir().join(format!("pagelab-probe-pair-{}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|e| Refused::because(format!("making {}", path.display()), e))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that cannot be removed is left to whoever clears the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Memory of several processes together, bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Memory {
    /// Pages mapped, those shared counted once for each process.
    rss: u64,
    /// Pages mapped, those shared divided by the number of processes.
    pss: u64,
    /// Pages of files among the above: code and constants.
    pss_file: u64,
    /// Page tables.
    page_tables: u64,
}

impl Memory {
    fn add(&mut self, pid: u32) -> Result<(), Failure> {
        let read = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            std::fs::read_to_string(&path).map_err(|e| Refused::because(path, e))
        };
        let (rollup, status) = (read("smaps_rollup")?, read("status")?);
        let kib = |text: &str, key: &str| files::field_of(text, key).unwrap_or(0) * 1024;
        self.rss += kib(&rollup, "Rss");
        self.pss += kib(&rollup, "Pss");
        self.pss_file += kib(&rollup, "Pss_File");
        self.page_tables += kib(&status, "VmPTE");
        Ok(())
    }

    fn of(pids: impl IntoIterator<Item = u32>) -> Result<Memory, Failure> {
        let mut memory = Memory::default();
        pids.into_iter().try_for_each(|pid| memory.add(pid))?;
        Ok(memory)
    }
}

/// Children that end when their standard input does, at the latest when this is dropped.
struct Waiting(Vec<Child>);

impl Drop for Waiting {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A child that is gone already is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn started_apart(program: &Path, count: usize) -> Result<Value, Failure> {
    let refused = |e| Refused::because(format!("starting {}", program.display()), e);
    let mut children = Waiting(Vec::new());
    let start = |children: &mut Waiting| -> Result<(), Failure> {
        let mut command = Command::new(program);
        if program.file_name().is_some_and(|name| name == "busybox") {
            command.arg("cat");
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        children.0.push(command.spawn().map_err(refused)?);
        Ok(())
    };
    start(&mut children)?;
    settle();
    let one = Memory::of(children.0.iter().map(Child::id))?;
    let (ns, result) = timed_by(Clock::Wall, || {
        (1..count).try_for_each(|_| start(&mut children))
    });
    result?;
    settle();
    let all = Memory::of(children.0.iter().map(Child::id))?;
    let size = std::fs::metadata(program).map_err(refused)?.len();
    Ok(json!({
        "program": program,
        "static": is_static(program),
        "file_bytes": size,
        "one": one,
        "all": all,
        "start_ns": ns / (count - 1) as f64,
    }))
}

/// Programs load in milliseconds; there is no event for having done so.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(300));
}

/// True if an ELF file names no interpreter: then no library is shared. `None` if it is no ELF file
/// of this class and byte order.
fn is_static(path: &Path) -> Option<bool> {
    const INTERPRETER: u32 = 3;
    let mut bytes = Vec::new();
    // Program headers follow the file header.
    let file = std::fs::File::open(path).ok()?;
    file.take(4096).read_to_end(&mut bytes).ok()?;
    let at = |from: usize, len: usize| -> Option<u64> {
        let slice = bytes.get(from..from + len)?;
        Some(slice.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
    };
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (offset, size, count) = (at(32, 8)? as usize, at(54, 2)? as usize, at(56, 2)?);
    let kinds = (0..count as usize).map(|i| at(offset + i * size, 4));
    let kinds: Option<Vec<u64>> = kinds.collect();
    Some(!kinds?.contains(&u64::from(INTERPRETER)))
}

/// This program itself, forked: everything is shared but what each child has written.
fn forked(count: usize) -> Result<Value, Failure> {
    let wait = || {
        // SAFETY: waits for a signal, which is the parent's SIGKILL.
        unsafe { libc::pause() };
    };
    let children = (0..count)
        .map(|_| process::fork(wait))
        .collect::<Result<Vec<_>, _>>()?;
    settle();
    let all = Memory::of(children.iter().map(|c| c.pid() as u32))?;
    Ok(json!({ "all": all }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_program_is_larger_and_shares_its_file_with_itself() {
        let Ok(rows) = pair(3) else {
            // No compiler, or no static C library: the result says so.
            return;
        };
        let number = |row: usize, pointer: &str| rows[row].pointer(pointer).and_then(Value::as_u64);
        assert_eq!(rows[0]["static"], false);
        assert_eq!(rows[1]["static"], true);
        assert!(number(1, "/file_bytes") > number(0, "/file_bytes"));
        for row in [0, 1] {
            assert!(number(row, "/all/page_tables") > Some(0));
            // Three processes of one file: less than three times what they map.
            assert!(number(row, "/all/pss") < number(row, "/all/rss"));
        }
    }

    #[test]
    fn a_test_program_names_its_interpreter_unless_it_is_linked_static() {
        let me = std::env::current_exe().expect("own path");
        assert_eq!(is_static(&me), Some(cfg!(target_feature = "crt-static")));
        assert_eq!(is_static(Path::new("/proc/self/status")), None);
    }
}
