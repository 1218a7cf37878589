//! Follows what is executed from block to block, and fetches the lines of code that are not at hand.

mod miss;

use super::{Cursor, Machine};
use crate::error::RunError;
use crate::fetch::{Fetch, Later, Look};
use crate::mmu::Mmu;
use pagelab_addr::Asid;
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
            let known = thread.and_then(|thread| threads.get(&(batch.process, thread)));
            pinned.or(known.copied())
        };
        cursor.core = cursor.core.or_else(|| known(cursor.thread));
        let mut core = cursor.core.unwrap_or(current);
        let mut front_end = &mut cores[core];
        front_end.enter(asid);
        let wanted = |core, line, site| {
            let gap = batch.gap.get(at).copied().unwrap_or(0);
            Step::Fetch(Wanted {
                core,
                asid,
                line,
                site,
                gap,
            })
        };
        if let Some(begun) = &batch.begun {
            for (access, line, site) in lines.rest(begun, cursor.begun) {
                if access >= end {
                    return Ok(Step::Until(end));
                }
                let mut name = |addr| gibs.page(directory, asid, addr);
                if front_end.look(line, counts, &mut name)? == Look::Missing {
                    if access > at {
                        return Ok(Step::Until(access));
                    }
                    return Ok(wanted(core, line, site));
                }
                cursor.begun += 1;
            }
        }
        // Kept apart from the cursor while they change at each block.
        let (mut entry, mut number) = (cursor.flow, cursor.line);
        let step = 'blocks: loop {
            if number == 0 {
                // Most blocks lie in one line, which is at hand.
                while let Some(&(start, Flow::Block(block))) = batch.flow.get(entry)
                    && (start as usize) < end
                    && front_end.has(lines.only_line(block), counts)
                {
                    entry += 1;
                }
            }
            let Some(&(start, flow)) = batch.flow.get(entry) else {
                break Step::Until(end);
            };
            if start as usize >= end {
                break Step::Until(end);
            }
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
            let mut name = |addr| gibs.page(directory, asid, addr);
            if number == 0 {
                match front_end.look(block.first, counts, &mut name)? {
                    Look::AtHand if block.others == 0 => {
                        entry += 1;
                        continue;
                    }
                    Look::AtHand => number = 1,
                    Look::Missing if start as usize > at => break Step::Until(start as usize),
                    Look::Missing => break wanted(core, block.first, block.site),
                }
            }
            let next = batch.flow.get(entry + 1);
            let next = next.map_or(batch.len(), |next| next.0 as usize);
            while number <= block.others {
                // The access that comes after it; no later one than that after the block.
                let access = |later: Later| (start as usize + later.accesses as usize).min(next);
                if next >= end && access(lines.later(block, number - 1)) >= end {
                    break 'blocks Step::Until(end);
                }
                let line = block.first.wrapping_add(u64::from(number));
                if front_end.look(line, counts, &mut name)? == Look::AtHand {
                    number += 1;
                    continue;
                }
                let later = lines.later(block, number - 1);
                let access = access(later);
                if access > at {
                    break 'blocks Step::Until(access);
                }
                break 'blocks wanted(core, line, block.site + later.instruction);
            }
            number = 0;
            entry += 1;
        };
        (cursor.flow, cursor.line) = (entry, number);
        Ok(step)
    }
}
