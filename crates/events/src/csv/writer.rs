use super::TITLE;
use super::words::{ADVICE, BACKINGS, HUGE_PAGES, TOUCHES, protection};
use crate::{Access, Advice, Batch, Control, dependence};
use std::collections::HashMap;
use std::io::{self, Write};

/// Writes events as lines of text.
pub struct CsvWriter<W> {
    output: W,
    process: u32,
    /// The thread that each process has named last.
    threads: HashMap<u32, u32>,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the first line, which names the columns. The output should be buffered.
    ///
    /// # Errors
    /// When the output cannot be written; so do all methods.
    pub fn new(mut output: W) -> io::Result<Self> {
        writeln!(output, "{TITLE}")?;
        Ok(CsvWriter {
            output,
            process: 0,
            threads: HashMap::new(),
        })
    }

    /// Writes the events of a batch.
    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        if batch.process != self.process {
            self.process = batch.process;
            writeln!(self.output, "process,{}", batch.process)?;
        }
        let mut done = 0;
        for &(at, control) in &batch.controls {
            self.write_accesses(batch, done, at as usize)?;
            done = at as usize;
            self.write_control(control)?;
        }
        self.write_accesses(batch, done, batch.len())
    }

    /// Ends the text and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    fn write_accesses(&mut self, batch: &Batch, from: usize, to: usize) -> io::Result<()> {
        let mut mispredicted = batch.mispredicted_in(from..to).iter().peekable();
        for index in from..to {
            while let Some((_, branch)) = mispredicted.next_if(|(at, _)| *at as usize == index) {
                write!(self.output, "mispredicted,")?;
                self.write_dependence(branch.dep)?;
                match (branch.reconverges, branch.more) {
                    (false, 0) => writeln!(self.output)?,
                    (true, 0) => writeln!(self.output, ",reconverges")?,
                    (false, more) => writeln!(self.output, ",,{more}")?,
                    (true, more) => writeln!(self.output, ",reconverges,{more}")?,
                }
            }
            let Access { addr, op, gap, dep } = batch.access(index);
            let kind = match (op.is_kernel(), op.is_store()) {
                _ if op.is_prefetch() => "P",
                (false, false) => "L",
                (false, true) => "S",
                (true, false) => "KL",
                (true, true) => "KS",
            };
            let further = if op.continues() { "+" } else { "" };
            write!(self.output, "{kind}{further},{addr:x},{},{gap},", op.size())?;
            self.write_dependence(dep)?;
            writeln!(self.output)?;
        }
        Ok(())
    }

    /// Writes the loads that are waited for.
    fn write_dependence(&mut self, dep: u32) -> io::Result<()> {
        match (dependence::near(dep), dependence::far(dep)) {
            (near, 0) => write!(self.output, "{near}"),
            (near, far) => write!(self.output, "{near}:{far}"),
        }
    }

    fn write_control(&mut self, control: Control) -> io::Result<()> {
        let output = &mut self.output;
        match control {
            Control::Thread { thread } => {
                if self.threads.insert(self.process, thread) == Some(thread) {
                    return Ok(());
                }
                writeln!(output, "thread,{thread}")
            }
            Control::Map {
                addr,
                len,
                prot,
                backing,
                populate,
            } => {
                let prot = protection(prot);
                let known = BACKINGS.iter().find(|known| known.0 == backing);
                let backing = known.map_or("", |known| known.1);
                let populate = if populate { ",populate" } else { "" };
                writeln!(output, "map,{addr:x},{len},{prot},{backing}{populate}")
            }
            Control::Unmap { addr, len } => writeln!(output, "unmap,{addr:x},{len}"),
            Control::Protect { addr, len, prot } => {
                writeln!(output, "protect,{addr:x},{len},{}", protection(prot))
            }
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => writeln!(
                output,
                "remap,{old_addr:x},{old_len},{new_addr:x},{new_len}"
            ),
            Control::Advise { addr, len, advice } => {
                write!(output, "advise,{addr:x},{len},")?;
                match (advice, ADVICE.iter().find(|known| known.0 == advice)) {
                    (_, Some((_, word))) => writeln!(output, "{word}"),
                    (Advice::Other(number), _) => writeln!(output, "{number}"),
                    _ => unreachable!("all other advice has a word"),
                }
            }
            Control::HugePages { allowed } => {
                let known = HUGE_PAGES.iter().find(|known| known.0 == allowed);
                writeln!(output, "huge-pages,{}", known.map_or("", |known| known.1))
            }
            Control::Brk { end } => writeln!(output, "brk,{end:x}"),
            Control::Fork { child } => writeln!(output, "fork,{child}"),
            Control::Exec => writeln!(output, "exec"),
            Control::ThreadStart { thread } => writeln!(output, "thread-start,{thread}"),
            Control::ThreadEnd { thread } => writeln!(output, "thread-end,{thread}"),
            Control::Exit { status } => writeln!(output, "exit,{status}"),
            Control::Touched { addr, len, touch } => {
                let known = TOUCHES.iter().find(|known| known.0 == touch);
                let touch = known.map_or("", |known| known.1);
                writeln!(output, "touched,{addr:x},{len},{touch}")
            }
            Control::Allocating { site } => writeln!(output, "allocating,{site}"),
            Control::Allocated { addr, len } => writeln!(output, "allocated,{addr:x},{len}"),
            Control::Freed { addr } => writeln!(output, "freed,{addr:x}"),
            Control::Skipped {
                instructions,
                accesses,
            } => writeln!(output, "skipped,{instructions},{accesses}"),
        }
    }
}
