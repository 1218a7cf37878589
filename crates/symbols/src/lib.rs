//! Functions and lines of source that a trace's instructions are of.
//!
//! A trace says which file each block of code is mapped from, and where in it. The rest is in that
//! file: its symbols, and its DWARF debug information, or that in a file beside it.

mod object_file;
mod origin;
mod regular;

use object_file::ObjectFile;
pub use origin::Origin;
use pagelab_events::{CodeTable, Frame};
use regular::regular;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fs;

/// Object of a guest's kernel, as tools name it.
const KERNEL: &str = "[kernel]";

/// Finds out where the instructions of a trace are from.
pub struct Symbols<'a> {
    code: &'a CodeTable,
    /// By number of the file; `None` where it cannot be read.
    objects: HashMap<u32, Option<ObjectFile>>,
    /// Blocks by their file and the offset in it, once that has been asked for.
    at: Option<HashMap<(u32, u64), u32>>,
    /// By block: whether its bytes are in its file.
    unchanged: HashMap<u32, bool>,
    changed: BTreeSet<&'a str>,
}

impl<'a> Symbols<'a> {
    /// For the instructions of `code`.
    pub fn new(code: &'a CodeTable) -> Self {
        Symbols {
            code,
            objects: HashMap::new(),
            at: None,
            unchanged: HashMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Files that are not what they were when the trace was recorded, or are gone. Of their code
    /// nothing but the file is known.
    pub fn changed(&self) -> impl Iterator<Item = &'a str> {
        self.changed.iter().copied()
    }

    /// Origin of the instruction at a site.
    pub fn origin(&mut self, site: u32) -> Origin {
        let Some(instruction) = self.code.instruction(site) else {
            return Origin::default();
        };
        let block = &self.code.blocks()[instruction.block as usize];
        let Some(number) = block.file.checked_sub(1) else {
            let named = self.code.function(instruction.block).map(str::to_owned);
            let of_kernel = named.is_some() && block.pc >> 63 == 1;
            // The address is the name where nothing else was ever known (ChampSim's traces).
            let address = || (block.lengths[..] == [0]).then(|| format!("{:#x}", block.pc));
            let function = named.or_else(address);
            let line = self.code.line(site);
            return Origin {
                object: of_kernel.then(|| KERNEL.to_owned()),
                function,
                file: line.map(|(path, _)| path.to_owned()),
                line: line.map(|(_, line)| line),
                ..Origin::default()
            };
        };
        let inside = instruction.pc.wrapping_sub(block.pc);
        let offset = block.file_offset.wrapping_add(inside);
        self.in_file(number, offset, block.file_offset, Some(instruction.block))
    }

    /// Origin of the call that returns to an address.
    pub fn caller(&mut self, frame: Frame) -> Origin {
        let Some(number) = frame.file.checked_sub(1) else {
            return Origin {
                function: Some(format!("{:#x}", frame.offset)),
                ..Origin::default()
            };
        };
        let blocks = self.code.blocks();
        let at = self.at.get_or_insert_with(|| {
            let of_files = (0..).zip(blocks);
            of_files
                .map(|(block, code)| ((code.file, code.file_offset), block))
                .collect()
        });
        // A call ends a block: the next one begins behind it.
        let block = at.get(&(frame.file, frame.offset)).copied();
        // The call may be its function's last instruction, and its line's.
        self.in_file(number, frame.offset.saturating_sub(1), frame.offset, block)
    }

    /// Origin of the instruction at a place of a file, which is as it was recorded if it has the bytes of a block.
    fn in_file(&mut self, number: u32, offset: u64, start: u64, block: Option<u32>) -> Origin {
        let path = &self.code.files()[number as usize];
        let mut origin = Origin {
            object: Some(path.clone()),
            ..Origin::default()
        };
        let object = self
            .objects
            .entry(number)
            .or_insert_with(|| ObjectFile::open(path));
        let holds = |block: u32| {
            let block = &self.code.blocks()[block as usize];
            (object.as_ref()).is_some_and(|object| object.holds(block.file_offset, &block.bytes))
        };
        let unchanged = block.is_none_or(|block| match self.unchanged.entry(block) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => *place.insert(holds(block)),
        });
        let (Some(object), true) = (object, unchanged) else {
            self.changed.insert(path);
            return origin;
        };
        object.locate(offset, start, &mut origin);
        origin
    }
}

/// Lines of source files.
#[derive(Default)]
pub struct SourceText(HashMap<String, Option<Vec<String>>>);

impl SourceText {
    /// A line, counted from 1, without the blanks around it; `None` where the file cannot be read.
    pub fn line(&mut self, file: &str, line: u32) -> Option<&str> {
        let lines = self.0.entry(file.to_owned()).or_insert_with(|| {
            let bytes = regular(file.as_ref()).then(|| fs::read(file))?.ok()?;
            let text = String::from_utf8_lossy(&bytes);
            Some(text.lines().map(|line| line.trim().to_owned()).collect())
        });
        let index = (line as usize).checked_sub(1)?;
        lines.as_ref()?.get(index).map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
