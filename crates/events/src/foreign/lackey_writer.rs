use crate::Batch;
use std::io::{self, Write};

/// Writes accesses as Valgrind Lackey does, for tools that read that.
///
/// Instructions have no addresses in a trace of accesses: their lines say 0. Control events,
/// processes, threads and dependences have no place in that text.
pub struct LackeyWriter<W> {
    output: W,
}

impl<W: Write> LackeyWriter<W> {
    /// Writes to `output`, which should be buffered.
    pub fn new(output: W) -> Self {
        LackeyWriter { output }
    }

    /// Writes the accesses of a batch.
    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        for index in 0..batch.len() {
            let access = batch.access(index);
            // The instruction of a prefetch, as of what accesses nothing, is among those before the next.
            for _ in 0..access.op.instructions(access.gap) {
                writeln!(self.output, "I  0,1")?;
            }
            if access.op.is_prefetch() {
                continue;
            }
            let kind = if access.op.is_store() { 'S' } else { 'L' };
            let (addr, size) = (access.addr, access.op.size());
            writeln!(self.output, " {kind} {addr:08x},{size}")?;
        }
        Ok(())
    }

    /// Ends the text and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}
