//! Names for code that a program has made itself, from the file in which it tells perf of them.
//!
//! `/tmp/perf-PID.map` has a line for each function: first address and size in hexadecimal, and the
//! name (tools/perf/Documentation/jit-interface.txt of Linux). A process appends to it while it runs, most
//! programs through a buffer, so it is read when the process has ended.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use pagelab_events::Definition;

/// What is read of a file, and of a line of it, in bytes.
const MAX_BYTES: u64 = 256 << 20;
const MAX_LINE: u64 = 4096;
/// What is kept of a name, in characters.
const MAX_NAME: usize = 1000;
/// Blocks of one definition, which must not become too large.
const MAX_BLOCKS: usize = 1 << 16;
/// A file that was last written so long before the recording began is of another process that had the
/// same number. Times of files are a little behind the clock.
const SLACK: Duration = Duration::from_secs(1);

/// Code that lies in no file, and the names that were found for it.
#[derive(Debug, Default)]
pub(crate) struct Generated {
    /// Blocks without a name, by address, each with the process that met it first.
    unnamed: BTreeMap<u64, Vec<(u32, u32)>>,
    /// The process that each was forked from, whose code it may execute.
    parents: HashMap<u32, u32>,
    functions: BTreeMap<String, Vec<u32>>,
}

impl Generated {
    /// Process `process` has met a block there.
    pub(crate) fn add(&mut self, process: u32, pc: u64, block: u32) {
        self.unnamed.entry(pc).or_default().push((process, block));
    }

    /// One process has forked another.
    pub(crate) fn forked(&mut self, parent: u32, child: u32) {
        self.parents.insert(child, parent);
    }

    /// A process runs another program: the code and the children that it had are now those of the
    /// process that it was forked from, which may have made that code and execute it as well.
    pub(crate) fn replaced(&mut self, process: u32) {
        let Some(parent) = self.parents.remove(&process) else {
            self.parents.retain(|_, up| *up != process);
            self.unnamed.retain(|_, blocks| {
                blocks.retain(|&(owner, _)| owner != process);
                !blocks.is_empty()
            });
            return;
        };
        let forked = self.parents.values_mut();
        let met = (self.unnamed.values_mut().flatten()).map(|(owner, _)| owner);
        for owner in forked.chain(met).filter(|owner| **owner == process) {
            *owner = parent;
        }
    }

    /// A process has ended, or is about to run another program: reads what it has said of its code.
    /// `since` is when the recording began. What the user should know, if anything.
    pub(crate) fn name(&mut self, process: u32, pid: u32, since: SystemTime) -> Option<String> {
        if self.unnamed.is_empty() {
            return None;
        }
        let path = &path(pid);
        // SAFETY: geteuid() has no preconditions.
        let owner = unsafe { libc::geteuid() };
        let found = open(path, owner, since).and_then(|file| match file {
            Some(file) => self.read(process, file),
            None => Ok(false),
        });
        match found {
            Ok(false) => None,
            Ok(true) => Some(format!(
                "{} is larger than {} MiB, the rest was not read",
                path.display(),
                MAX_BYTES >> 20
            )),
            Err(error) => Some(format!("{} was not read: {error}", path.display())),
        }
    }

    /// Names the blocks of a process and of those it has forked. Whether the file is too large.
    fn read(&mut self, process: u32, file: impl Read) -> io::Result<bool> {
        let mut name_of: BTreeMap<u32, Rc<str>> = BTreeMap::new();
        let mut lines = BufReader::new(file).take(MAX_BYTES);
        let mut line = Vec::new();
        loop {
            line.clear();
            (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                break;
            }
            if line.len() as u64 == MAX_LINE && !line.ends_with(b"\n") {
                skip_line(&mut lines)?;
            }
            let Some((start, end, name)) = parse(&line) else {
                continue;
            };
            let blocks = self
                .unnamed
                .range(start..end)
                .flat_map(|(_, blocks)| blocks);
            for &(owner, block) in blocks {
                if self.descends(owner, process) {
                    // Code that was moved, or made anew: the last to be there.
                    name_of.insert(block, Rc::clone(&name));
                }
            }
        }
        for (block, name) in &name_of {
            let function = self.functions.entry(name.to_string()).or_default();
            function.push(*block);
        }
        self.unnamed.retain(|_, blocks| {
            blocks.retain(|(_, block)| !name_of.contains_key(block));
            !blocks.is_empty()
        });
        Ok(lines.limit() == 0)
    }

    /// Whether `process` is `ancestor` or was forked from it.
    fn descends(&self, process: u32, ancestor: u32) -> bool {
        let mut at = Some(process);
        while let Some(current) = at {
            if current == ancestor {
                return true;
            }
            // A process has a higher number than the one that forked it.
            at = self
                .parents
                .get(&current)
                .copied()
                .filter(|&up| up < current);
        }
        false
    }

    /// The functions that were found.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = Definition> {
        self.functions.iter().flat_map(|(name, blocks)| {
            blocks
                .chunks(MAX_BLOCKS)
                .map(|blocks| Definition::Function {
                    name: name.clone(),
                    blocks: blocks.into(),
                })
        })
    }
}

fn path(pid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{pid}.map"))
}

/// The file, if it is there and not from before. Everybody can write to /tmp: a file that is another
/// user's, or none, is refused.
fn open(path: &Path, owner: u32, since: SystemTime) -> io::Result<Option<File>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(io::Error::other("it is a symbolic link"));
        }
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if metadata.uid() != owner {
        return Err(io::Error::other("it is another user's"));
    }
    let old = metadata.modified()? + SLACK < since;
    Ok((!old).then_some(file))
}

fn skip_line(lines: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = lines.fill_buf()?;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        lines.consume(length);
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}

/// Start, end and name of a function; `None` for what says of none.
fn parse(line: &[u8]) -> Option<(u64, u64, Rc<str>)> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.trim().splitn(3, ' ');
    let mut number = || {
        let digits = fields.next()?;
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let name: String = fields.next()?.chars().take(MAX_NAME).map(plain).collect();
    let end = start.saturating_add(size);
    (start < end && !name.trim().is_empty()).then(|| (start, end, name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn named(generated: &Generated) -> Vec<(String, Vec<u32>)> {
        let all = generated.definitions().map(|definition| match definition {
            Definition::Function { name, blocks } => (name, blocks.into_vec()),
            other => panic!("{other:?}"),
        });
        all.collect()
    }

    fn two_processes() -> Generated {
        let mut generated = Generated::default();
        generated.forked(0, 1);
        for (process, pc, block) in [
            (0, 0x1000, 3),
            (0, 0x10ff, 4),
            (1, 0x1100, 5),
            (2, 0x1100, 6),
        ] {
            generated.add(process, pc, block);
        }
        generated
    }

    #[test]
    fn the_last_line_that_covers_a_block_names_it() {
        let mut generated = two_processes();
        let text = "1000 200 before\n1000 0x100 a b(int, λ)\n10ff 1 c\n";
        assert!(!generated.read(0, text.as_bytes()).unwrap());
        let found = [("a b(int, λ)", 3), ("before", 5), ("c", 4)];
        let found = found.map(|(name, block)| (name.to_owned(), vec![block]));
        assert_eq!(named(&generated), found);
        // What has a name keeps it; the other process is none of its children.
        assert!(!generated.read(0, &b"1000 200 later\n"[..]).unwrap());
        assert_eq!(named(&generated), found);
        assert_eq!(generated.unnamed.len(), 1);
    }

    #[test]
    fn lines_that_are_none_name_nothing() {
        let mut text = "\n \nzz 1 a\n1000\n1000 200\n1000 200 \n1000 0 empty\n-1000 200 minus\n\
             1000 fffffffffffffffff too-long\n10000000000000000 1 high\n"
            .to_owned();
        text += &format!("1000 200 {}\n", "x".repeat(3_000_000));
        text += "1100 ffffffffffffffff to-the-end\n10ff 1 with\tcontrol\u{1b}\n1000 1 \u{fffd}";
        let mut bytes = text.into_bytes();
        // No UTF-8.
        bytes.push(0xff);
        let mut generated = two_processes();
        assert!(!generated.read(0, bytes.as_slice()).unwrap());
        let found = named(&generated);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], ("to-the-end".to_owned(), vec![5]));
        assert_eq!(found[1], ("with control ".to_owned(), vec![4]));
        assert_eq!(found[2], ("\u{fffd}\u{fffd}".to_owned(), vec![3]));
    }

    #[test]
    fn a_file_without_end_is_read_up_to_the_limit() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.fill(b'x');
                Ok(buffer.len())
            }
        }
        let mut generated = two_processes();
        assert!(generated.read(0, Endless).unwrap());
        assert_eq!(named(&generated), []);
    }

    #[test]
    fn only_ones_own_files_of_this_recording_are_opened() {
        let folder = std::env::temp_dir().join(format!("pagelab-perf-map-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("perf-1.map");
        let now = SystemTime::now();
        assert!(open(&file, 0, now).unwrap().is_none());
        std::fs::write(&file, "1000 200 a\n").unwrap();
        let owner = std::fs::metadata(&file).unwrap().uid();
        assert!(open(&file, owner, now).unwrap().is_some());
        let why = |path: &Path, owner| open(path, owner, now).unwrap_err().to_string();
        assert_eq!(why(&file, owner + 1), "it is another user's");
        assert!(
            open(&file, owner, now + Duration::from_secs(60))
                .unwrap()
                .is_none()
        );
        let link = folder.join("link");
        symlink(&file, &link).unwrap();
        assert_eq!(why(&link, owner), "it is a symbolic link");
        assert_eq!(why(&folder, owner), "it is no file");
        let pipe = folder.join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(why(&pipe, owner), "it is no file");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_process_that_runs_another_program_leaves_its_code_to_its_parent() {
        let mut generated = two_processes();
        generated.forked(1, 3);
        generated.add(3, 0x1180, 7);
        // No file has this number: pids end at 2^22.
        assert_eq!(generated.name(1, u32::MAX, SystemTime::now()), None);
        generated.replaced(1);
        generated.add(1, 0x1000, 8);
        // That of one without a parent goes with it.
        generated.replaced(2);
        assert!(!generated.read(1, &b"1000 200 other\n"[..]).unwrap());
        assert!(!generated.read(2, &b"1000 200 none\n"[..]).unwrap());
        assert!(!generated.read(0, &b"1000 200 a\n"[..]).unwrap());
        let found = [("a", vec![3, 4, 5, 7]), ("other", vec![8])];
        let found = found.map(|(name, blocks)| (name.to_owned(), blocks));
        assert_eq!(named(&generated), found);
    }
}
