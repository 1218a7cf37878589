//! Names for code that a program has made itself, from the files in which it tells perf of them.
//!
//! One is a jitdump (`jitdump.rs`), which the program maps so that perf finds it.
//! `/tmp/perf-PID.map` has a line for each function: first address and size in hexadecimal, and the
//! name (tools/perf/Documentation/jit-interface.txt of Linux). A process appends to it while it
//! runs, most programs through a buffer, so it is read when the process has ended.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use pagelab_events::Definition;

use crate::jitdump::{self, MAX_KEPT};
use crate::place::Code;

/// Limit of what is read of a file, and of a line of it, in bytes.
const MAX_BYTES: u64 = 256 << 20;
const MAX_LINE: u64 = 4096;
/// Blocks, or lines, of one definition, which must not become too large.
const MAX_BLOCKS: usize = 1 << 16;
/// Limit of the times that blocks are named by one jitdump: what it says of code that is not executed costs nothing.
const MAX_NAMINGS: usize = 1 << 26;
/// A file that was last written so long before the recording began is of another process that had the
/// same number. Times of files are a little behind the clock.
const SLACK: Duration = Duration::from_secs(1);

/// Code that lies in no file, and the names that were found for it.
#[derive(Debug, Default)]
pub(crate) struct Generated {
    /// Blocks without a name, by address.
    unnamed: BTreeMap<u64, Vec<Unnamed>>,
    /// The process that each was forked from, whose code it may execute.
    parents: HashMap<u32, u32>,
    functions: BTreeMap<String, Vec<u32>>,
    /// By file, sites with their lines.
    lines: BTreeMap<Rc<str>, Vec<(u32, u32)>>,
    /// The jitdump that a process has mapped.
    dumps: HashMap<u32, PathBuf>,
}

/// A block whose function is not known.
#[derive(Debug)]
struct Unnamed {
    /// The process that met it first.
    process: u32,
    block: u32,
    first_site: u32,
    /// Lengths of its instructions.
    lengths: Box<[u8]>,
}

impl Generated {
    /// Process `process` has met a block there, with instructions of these lengths.
    pub(crate) fn add(&mut self, process: u32, pc: u64, code: Code, lengths: &[u8]) {
        self.unnamed.entry(pc).or_default().push(Unnamed {
            process,
            block: code.block,
            first_site: code.first_site,
            lengths: lengths.into(),
        });
    }

    /// A process has mapped a file: if that is its jitdump, it is read when the process has ended.
    pub(crate) fn mapped(&mut self, process: u32, pid: u32, path: &str) {
        let path = Path::new(path);
        if path.file_name() == Some(format!("jit-{pid}.dump").as_ref()) {
            self.dumps.insert(process, path.to_owned());
        }
    }

    /// One process has forked another.
    pub(crate) fn forked(&mut self, parent: u32, child: u32) {
        self.parents.insert(child, parent);
    }

    /// A process runs another program: the code and the children that it had are now those of the
    /// process that it was forked from, which may have made that code and execute it as well.
    pub(crate) fn replaced(&mut self, process: u32) {
        self.dumps.remove(&process);
        let Some(parent) = self.parents.remove(&process) else {
            self.parents.retain(|_, up| *up != process);
            self.unnamed.retain(|_, blocks| {
                blocks.retain(|one| one.process != process);
                !blocks.is_empty()
            });
            return;
        };
        let forked = self.parents.values_mut();
        let met = (self.unnamed.values_mut().flatten()).map(|one| &mut one.process);
        for owner in forked.chain(met).filter(|owner| **owner == process) {
            *owner = parent;
        }
    }

    /// A process has ended, or is about to run another program: reads what it has said of its code.
    /// `since` is when the recording began. What the user should know.
    pub(crate) fn name(&mut self, process: u32, pid: u32, since: SystemTime) -> Vec<String> {
        // SAFETY: geteuid() has no preconditions.
        let owner = unsafe { libc::geteuid() };
        let mut notes = Vec::new();
        // Code that has a line is not named anew.
        let dump = self.dumps.get(&process).cloned().map(|path| (path, true));
        for (path, has_lines) in dump.into_iter().chain([(path(pid), false)]) {
            if self.unnamed.is_empty() {
                break;
            }
            let found = open(&path, owner, since).and_then(|file| match file {
                Some(file) if has_lines => self.read_dump(process, file),
                Some(file) => self.read(process, file),
                None => Ok(false),
            });
            let path = path.display();
            match found {
                Ok(false) => {}
                Ok(true) => notes.push(format!("{path} is too large, the rest was not read")),
                Err(error) => notes.push(format!("{path} was not read: {error}")),
            }
        }
        notes
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
            if let Some((start, end, name)) = parse(&line) {
                // Code that was moved, or made anew: the last to be there.
                self.each(process, start, end, |block| {
                    name_of.insert(block, Rc::clone(&name));
                });
            }
        }
        self.take(&name_of, |name| name, |_, _| None);
        Ok(lines.limit() == 0)
    }

    /// The same with a jitdump, which knows lines as well.
    fn read_dump(&mut self, process: u32, file: impl Read) -> io::Result<bool> {
        let mut function_of: BTreeMap<u32, Rc<jitdump::Function>> = BTreeMap::new();
        let mut left = MAX_NAMINGS;
        let more = jitdump::read(file, &mut |function| {
            let mut shared = None;
            self.each(process, function.start, function.end, |block| {
                let function = shared.get_or_insert_with(|| Rc::new(function.clone()));
                function_of.insert(block, Rc::clone(function));
                left = left.saturating_sub(1);
            });
            left > 0
        })?;
        self.take(
            &function_of,
            |function| &function.name,
            |function, address| function.line(address),
        );
        Ok(more)
    }

    /// Calls `found` with the blocks there of a process and of those it has forked.
    fn each(&self, process: u32, start: u64, end: u64, mut found: impl FnMut(u32)) {
        for one in self.unnamed.range(start..end).flat_map(|(_, of)| of) {
            if self.descends(one.process, process) {
                found(one.block);
            }
        }
    }

    /// Keeps what was found of blocks: the function's name, and the line of the instruction at an address.
    fn take<T>(
        &mut self,
        found: &BTreeMap<u32, T>,
        name: impl Fn(&T) -> &Rc<str>,
        line: impl Fn(&T, u64) -> Option<&jitdump::Line>,
    ) {
        for (&block, of) in found {
            let function = self.functions.entry(name(of).to_string()).or_default();
            function.push(block);
        }
        let lines = &mut self.lines;
        self.unnamed.retain(|&pc, blocks| {
            blocks.retain(|one| {
                let Some(of) = found.get(&one.block) else {
                    return true;
                };
                let mut address = pc;
                for (site, &length) in (one.first_site..).zip(&one.lengths) {
                    if let Some(jitdump::Line { file, line, .. }) = line(of, address) {
                        let sites = lines.entry(Rc::clone(file)).or_default();
                        sites.push((site, *line));
                    }
                    address = address.wrapping_add(length.into());
                }
                false
            });
            !blocks.is_empty()
        });
    }

    /// True if `process` is `ancestor` or was forked from it.
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

    /// The functions and lines that were found.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = Definition> {
        let functions = self.functions.iter().flat_map(|(name, blocks)| {
            blocks
                .chunks(MAX_BLOCKS)
                .map(|blocks| Definition::Function {
                    name: name.clone(),
                    blocks: blocks.into(),
                })
        });
        let lines = self.lines.iter().flat_map(|(path, sites)| {
            sites.chunks(MAX_BLOCKS).map(|sites| Definition::Lines {
                path: path.to_string(),
                sites: sites.into(),
            })
        });
        functions.chain(lines)
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
    let name: String = fields.next()?.chars().take(MAX_KEPT).map(plain).collect();
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
            add(&mut generated, process, pc, block);
        }
        generated
    }

    /// A block of two instructions of a byte each, at sites twice its number.
    fn add(generated: &mut Generated, process: u32, pc: u64, block: u32) {
        let code = Code {
            block,
            first_site: 2 * block,
            last_site: 2 * block + 1,
        };
        generated.add(process, pc, code, &[1, 1]);
    }

    #[test]
    fn the_last_line_that_covers_a_block_names_it() {
        let mut generated = two_processes();
        let text = "1000 200 before\n1000 0x100 a b(int, λ)\n10ff 1 c\n";
        assert!(!generated.read(0, text.as_bytes()).unwrap());
        let found = [("a b(int, λ)", 3), ("before", 5), ("c", 4)];
        let found = found.map(|(name, block)| (name.to_owned(), vec![block]));
        assert_eq!(named(&generated), found);
        // Code that has a name keeps it; the other process is none of its children.
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
        add(&mut generated, 3, 0x1180, 7);
        // No file has this number: pids end at 2^22.
        assert_eq!(generated.name(1, u32::MAX, SystemTime::now()), [""; 0]);
        generated.replaced(1);
        add(&mut generated, 1, 0x1000, 8);
        // That of one without a parent goes with it.
        generated.replaced(2);
        assert!(!generated.read(1, &b"1000 200 other\n"[..]).unwrap());
        assert!(!generated.read(2, &b"1000 200 none\n"[..]).unwrap());
        assert!(!generated.read(0, &b"1000 200 a\n"[..]).unwrap());
        let found = [("a", vec![3, 4, 5, 7]), ("other", vec![8])];
        let found = found.map(|(name, blocks)| (name.to_owned(), blocks));
        assert_eq!(named(&generated), found);
    }

    #[test]
    fn lines_of_a_jitdump_go_to_the_sites_of_the_blocks_there() {
        let mut generated = two_processes();
        let mut dump = jitdump::tests::header(0);
        dump += &jitdump::tests::lines(0x1000, &[(0x1000, 1, "a.js"), (0x1001, 2, "b.js")], 0);
        dump += &jitdump::tests::load(0x1000, 0x102, 1, "f");
        let bytes = jitdump::tests::bytes(&dump);
        assert!(!generated.read_dump(0, bytes.as_slice()).unwrap());
        let found: Vec<_> = generated.definitions().collect();
        let lines = |path: &str, sites: &[(u32, u32)]| Definition::Lines {
            path: path.to_owned(),
            sites: sites.into(),
        };
        // Blocks 3 and 4 of process 0, and block 5 of its child; of block 5 what lies in the function.
        let function = Definition::Function {
            name: "f".to_owned(),
            blocks: [3, 4, 5].into(),
        };
        let of_b = [(7, 2), (8, 2), (9, 2), (10, 2), (11, 2)];
        assert_eq!(
            found,
            [function, lines("a.js", &[(6, 1)]), lines("b.js", &of_b)]
        );
    }

    #[test]
    fn a_dump_is_known_by_its_name_and_comes_before_the_map() {
        let folder = std::env::temp_dir().join(format!("pagelab-jitdump-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("jit-4194305.dump");
        let dump = jitdump::tests::header(0) + &jitdump::tests::load(0x1000, 0x200, 1, "f");
        std::fs::write(&file, jitdump::tests::bytes(&dump)).unwrap();
        let since = SystemTime::now();
        let mut generated = two_processes();
        // No process has so high a number: pids end at 2^22.
        generated.mapped(0, 4_194_305, "/else/jit-4194304.dump");
        assert_eq!(generated.name(0, 4_194_305, since), [""; 0]);
        assert_eq!(named(&generated), []);
        generated.mapped(0, 4_194_305, file.to_str().unwrap());
        assert_eq!(generated.name(0, 4_194_305, since), [""; 0]);
        assert_eq!(named(&generated), [("f".to_owned(), vec![3, 4, 5])]);
        std::fs::write(&file, "no jitdump".repeat(10)).unwrap();
        let [note] = &generated.name(0, 4_194_305, since)[..] else {
            panic!("no note");
        };
        assert!(
            note.ends_with("was not read: it is no jitdump of version 1"),
            "{note}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
