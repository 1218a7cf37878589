//! Follows what is executed from block to block, and fetches the lines of code that are not at hand.

mod miss;

use super::gib_cache::GibCache;
use super::{Cursor, Machine};
use crate::error::RunError;
use crate::fetch::{Block, BlockLines, Fetch, FetchCounts, FollowingLine, FrontEnd, Lookup};
use crate::mmu::Mmu;
use pagelab_addr::{Asid, DirectoryFull, PageDirectory};
use pagelab_events::{Batch, Flow};

/// A line that has to be fetched.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    core: usize,
    asid: Asid,
    /// Its virtual address, divided by its size.
    line: u64,
    /// The first instruction that needs it.
    site: u32,
    /// Instructions of the access that follows.
    gap: u32,
}

/// Next step of a batch's flow.
enum Step {
    /// Nothing that has to be fetched before this access.
    Until(usize),
    Fetch(Wanted),
}

/// Search for the lines of a program from access `at` of a batch up to access `end`.
struct Search<'a> {
    lines: &'a BlockLines,
    counts: &'a mut FetchCounts,
    gibs: &'a mut GibCache,
    directory: &'a mut PageDirectory,
    asid: Asid,
    at: usize,
    end: usize,
    /// Instructions before the access `at`.
    gap: u32,
}

impl Search<'_> {
    #[inline(always)]
    fn look(&mut self, front_end: &mut FrontEnd, line: u64) -> Result<Lookup, DirectoryFull> {
        let name = |addr| self.gibs.page(self.directory, self.asid, addr);
        front_end.look(line, self.counts, name)
    }

    /// Next step where a line is missing before an access.
    #[inline(always)]
    fn missing(&self, core: usize, access: usize, line: u64, site: u32) -> Step {
        if access > self.at {
            return Step::Until(access);
        }
        Step::Fetch(Wanted {
            core,
            asid: self.asid,
            line,
            site,
            gap: self.gap,
        })
    }

    /// Follows the lines of a block but its first, from a number on. The block starts before access `start`, the
    /// next one before access `next`.
    #[inline(always)]
    fn behind_first(
        &mut self,
        (front_end, core): (&mut FrontEnd, usize),
        block: &Block,
        number: &mut u32,
        (start, next): (usize, usize),
    ) -> Result<Option<Step>, DirectoryFull> {
        // The access that comes after a line; no later one than that after the block.
        let access = |later: FollowingLine| (start + later.accesses as usize).min(next);
        while *number <= block.others {
            let later = *number - 1;
            if next >= self.end && access(self.lines.later(block, later)) >= self.end {
                return Ok(Some(Step::Until(self.end)));
            }
            let line = block.first.wrapping_add(u64::from(*number));
            if self.look(front_end, line)? == Lookup::Missing {
                let later = self.lines.later(block, later);
                let site = block.site + later.instruction;
                return Ok(Some(self.missing(core, access(later), line, site)));
            }
            *number += 1;
        }
        Ok(None)
    }
}

impl<M: Mmu> Machine<M> {
    /// Fetches what is executed from access `at` of a batch on, up to access `end`. If something has
    /// to be fetched in between, returns before which access; else `end`.
    #[inline(never)]
    pub(crate) fn fetch(
        &mut self,
        batch: &Batch,
        cursor: &mut Cursor,
        at: usize,
        end: usize,
    ) -> Result<usize, RunError> {
        let core = self.current_core();
        loop {
            match self.next_fetch(core, batch, cursor, at, end)? {
                Step::Until(access) => return Ok(access),
                Step::Fetch(wanted) => {
                    self.branches(&wanted, batch, cursor, at);
                    self.fetch_line(&wanted)?;
                }
            }
        }
    }

    /// Follows a batch's flow to the next line that is not at hand.
    #[inline(always)]
    fn next_fetch(
        &mut self,
        current: usize,
        batch: &Batch,
        cursor: &mut Cursor,
        at: usize,
        end: usize,
    ) -> Result<Step, RunError> {
        let program = self.program();
        let Machine {
            fetch,
            gibs,
            directory,
            threads,
            pinned,
            ..
        } = self;
        let Some(Fetch {
            cores,
            programs,
            counts,
            ..
        }) = fetch.as_deref_mut()
        else {
            return Ok(Step::Until(end));
        };
        let Some(lines) = programs.get(program) else {
            return Ok(Step::Until(end));
        };
        let asid = Asid(batch.process as u16);
        let known = |thread: Option<u32>| {
            pinned.or_else(|| threads.get(&(batch.process, thread?)).copied())
        };
        cursor.core = cursor.core.or_else(|| known(cursor.thread));
        let mut core = cursor.core.unwrap_or(current);
        let mut front_end = &mut cores[core];
        front_end.enter(asid);
        let mut search = Search {
            lines,
            counts,
            gibs,
            directory,
            asid,
            at,
            end,
            gap: batch.gap.get(at).copied().unwrap_or(0),
        };
        // Kept apart from the cursor while they change at each block.
        let (mut entry, mut number) = (cursor.flow, cursor.line);
        let step = loop {
            if number == 0 {
                // Most blocks lie in one line, which is at hand.
                while let Some(&(start, Flow::Block(block))) = batch.flow.get(entry)
                    && (start as usize) < end
                    && front_end.has(lines.only_line(block), search.counts)
                {
                    entry += 1;
                }
            }
            let next = batch.flow.get(entry).filter(|of| (of.0 as usize) < end);
            let Some(&(start, flow)) = next else {
                break Step::Until(end);
            };
            let block = match flow {
                Flow::Block(block) => lines.block(block),
                Flow::Thread(thread) => {
                    cursor.thread = Some(thread);
                    cursor.core = known(cursor.thread);
                    core = cursor.core.unwrap_or(current);
                    front_end = &mut cores[core];
                    front_end.enter(asid);
                    entry += 1;
                    continue;
                }
            };
            let start = start as usize;
            if number == 0 {
                if search.look(front_end, block.first)? == Lookup::Missing {
                    break search.missing(core, start, block.first, block.site);
                }
                if block.others == 0 {
                    entry += 1;
                    continue;
                }
                number = 1;
            }
            let next = (batch.flow.get(entry + 1)).map_or(batch.len(), |next| next.0 as usize);
            let of = (&mut *front_end, core);
            if let Some(step) = search.behind_first(of, block, &mut number, (start, next))? {
                break step;
            }
            number = 0;
            entry += 1;
        };
        (cursor.flow, cursor.line) = (entry, number);
        Ok(step)
    }
}
