//! Blocks of code as the recording numbers them.
//!
//! The plugin numbers every translation. The same code is translated again when QEMU's buffer is
//! full, when reporting begins or ends, and in each process that did not inherit the translation;
//! in the recording it is one block.

use std::collections::HashMap;

use pagelab_events::{Batch, CodeBlock, Definition, Follows, NO_SITE};
use pagelab_recorder_wire::block::{AddressFrom, Entry};

use crate::perf_map::Generated;
use crate::place::Code;
use crate::plan::Plan;

/// All blocks defined so far.
#[derive(Debug, Default)]
pub(crate) struct CodeBook {
    /// By address, file and bytes.
    blocks: HashMap<(u64, u32, Box<[u8]>), Code>,
    files: HashMap<String, u32>,
    next_site: u32,
    /// Code that lies in no file.
    pub(crate) generated: Generated,
}

impl CodeBook {
    /// Numbers a block that process `process` executes, with the file that is mapped there and
    /// the place in it, and defines it unless it has been.
    pub(crate) fn define(
        &mut self,
        plan: &mut Plan,
        process: u32,
        file: Option<(&str, u64)>,
        batch: &mut Batch,
    ) {
        let (file, file_offset) = match file {
            Some((path, offset)) => (self.file(path, batch), offset),
            None => (0, 0),
        };
        let (lengths, bytes) = plan.take_code();
        let key = (plan.block.pc, file, bytes);
        if let Some(&code) = self.blocks.get(&key) {
            plan.number(code);
            return;
        }
        let script = &plan.block.script;
        let instructions = lengths.len() as u32;
        let code = Code {
            block: self.blocks.len() as u32,
            first_site: self.next_site,
            last_site: match instructions {
                0 => NO_SITE,
                some => self.next_site + some - 1,
            },
        };
        self.next_site += instructions;
        if file == 0 {
            (self.generated).add(process, plan.block.pc, code, &lengths);
        }
        batch.definitions.push(Definition::Block(CodeBlock {
            process,
            pc: plan.block.pc,
            file,
            file_offset,
            lengths,
            bytes: key.2.clone(),
            accesses: script.iter().map(|entry| entry.instruction).collect(),
            addresses: script.iter().enumerate().map(follows).collect(),
        }));
        self.blocks.insert(key, code);
        plan.number(code);
    }

    /// 1 + the number of a file, which is defined unless it has been.
    pub(crate) fn file(&mut self, path: &str, batch: &mut Batch) -> u32 {
        if let Some(&number) = self.files.get(path) {
            return number;
        }
        let number = self.files.len() as u32 + 1;
        self.files.insert(path.to_owned(), number);
        batch.definitions.push(Definition::File(path.to_owned()));
        number
    }
}

/// Entry from which the address of entry `index` of a script follows.
fn follows((index, entry): (usize, &Entry)) -> Follows {
    let AddressFrom::Relative { entry, offset } = entry.place else {
        return Follows::default();
    };
    let back = u8::try_from(index - usize::from(entry));
    match (back, i32::try_from(offset)) {
        (Ok(back), Ok(offset)) => Follows { back, offset },
        // So far from each other that it is found anew each time.
        _ => Follows::default(),
    }
}
