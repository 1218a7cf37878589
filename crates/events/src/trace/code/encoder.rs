use super::executions::{Executions, Walk};
use super::{BLOCK, Followers, MAX_FLOW, OTHER, Streams, Symbol, THREAD};
use crate::trace::accesses;
use crate::trace::varint::{put, zigzag};
use crate::{Batch, CodeTable, Flow};

/// Encodes the code of one chunk after the other.
pub struct Encoder {
    streams: Streams,
    executions: Executions,
    followers: Followers,
    entries: usize,
    /// Entries as predicted since the last turn.
    run: u64,
    /// Entries since the last exception.
    regular: u64,
    /// The last entry, unless it has ended, and the sites of its accesses.
    current: Option<Symbol>,
    sites: Vec<u32>,
    /// Instructions between the last access and the current entry.
    pending: u32,
    /// Where in the current entry it is.
    walk: Walk,
    /// The gaps of the accesses that were appended last.
    gaps: Vec<u32>,
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder {
            streams: Streams::default(),
            executions: Executions::default(),
            followers: Followers::new(),
            entries: 0,
            run: 0,
            regular: 0,
            current: None,
            sites: Vec::new(),
            pending: 0,
            walk: Walk::default(),
            gaps: Vec::new(),
        }
    }

    /// Entries so far in this chunk.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Entries for which there is room.
    pub fn room(&self) -> usize {
        MAX_FLOW - self.entries
    }

    /// Blocks may have been defined.
    pub fn define(&mut self, table: &CodeTable) {
        self.executions.follow(table);
    }

    /// Appends an entry. There is room.
    pub fn push(&mut self, symbol: Symbol) {
        self.end_entry();
        self.entries += 1;
        self.current = Some(symbol);
        match symbol {
            Symbol::Block(block) => {
                self.execute(block);
                self.walk = self.executions.enter(block, self.pending);
            }
            Symbol::Thread { process, thread } => {
                self.end_run();
                put(&mut self.streams.turns, THREAD);
                put(&mut self.streams.turns, thread.into());
                put(&mut self.streams.turns, process.into());
                self.walk = Walk::default();
            }
        }
    }

    /// Appends entries from the front of the batch's flow, from entry `from` on, which is a block, and their
    /// accesses, as long as the entries start before access `until`, are blocks before others, and make
    /// their usual accesses. Returns how many entries.
    pub fn push_usual(
        &mut self,
        accesses: &mut accesses::Encoder,
        batch: &Batch,
        flow: &[(u32, Flow)],
        until: usize,
    ) -> usize {
        self.end_entry();
        let known = batch.regular.len() == batch.flow.len();
        let regular = if known {
            &batch.regular[batch.flow.len() - flow.len()..]
        } else {
            &[]
        };
        let mut done = 0;
        let mut pending = self.pending;
        for pair in flow.windows(2) {
            let (from, to) = (pair[0].0 as usize, pair[1].0 as usize);
            // The name of a thread that goes on anyway ends no block.
            let (Flow::Block(block), Flow::Block(_)) = (pair[0].1, pair[1].1) else {
                break;
            };
            if from >= until || to > until {
                break;
            }
            let usual = self.executions.usual(block);
            if to - from != usual.accesses.len() {
                break;
            }
            if from == to {
                pending = pending.wrapping_add(usual.rest);
            } else {
                if regular.get(done) == Some(&true) {
                    accesses.push_regular(batch, from, block, usual.accesses, pending);
                } else if !accesses.push_execution(batch, from, block, usual.accesses, pending) {
                    break;
                }
                pending = usual.rest;
            }
            self.execute(block);
            done += 1;
        }
        self.pending = pending;
        self.entries += done;
        self.regular += done as u64;
        done
    }

    #[inline(always)]
    fn execute(&mut self, block: u32) {
        if self.followers.came_again(block) {
            self.run += 1;
        } else {
            self.execute_other(block);
        }
    }

    #[inline(never)]
    fn execute_other(&mut self, block: u32) {
        let context = self.followers.context();
        if self.followers.predicted(context) == block {
            self.run += 1;
        } else {
            self.turn(context, block);
        }
        self.followers.came(context, block);
    }

    fn turn(&mut self, context: usize, block: u32) {
        self.end_run();
        let turn = if self.followers.other(context) == Some(block) {
            OTHER
        } else {
            BLOCK + zigzag(i64::from(block) - i64::from(self.followers.next))
        };
        put(&mut self.streams.turns, turn);
    }

    fn end_run(&mut self) {
        put(&mut self.streams.runs, self.run);
        self.run = 0;
    }

    /// Appends the sites of accesses that belong to the last entry. Returns the gaps that they have by the
    /// flow.
    pub fn push_sites(&mut self, sites: &[u32]) -> &[u32] {
        self.sites.extend_from_slice(sites);
        self.gaps.clear();
        let gaps = sites.iter().map(|&site| self.walk.gap(site));
        self.gaps.extend(gaps);
        &self.gaps
    }

    fn end_entry(&mut self) {
        let Some(symbol) = self.current.take() else {
            return;
        };
        self.pending = self.walk.leave();
        // Accesses that were appended one by one are exceptions, even if they are the usual ones.
        let none_usual = match symbol {
            Symbol::Block(block) => self.executions.usual(block).accesses.is_empty(),
            Symbol::Thread { .. } => true,
        };
        if none_usual && self.sites.is_empty() {
            self.regular += 1;
        } else {
            let out = &mut self.streams.exceptions;
            put(out, self.regular);
            put(out, self.sites.len() as u64);
            let mut previous = self.walk.first_site;
            for &site in &self.sites {
                put(out, zigzag(i64::from(site) - i64::from(previous)));
                previous = site;
            }
            self.regular = 0;
        }
        self.sites.clear();
    }

    /// Ends the chunk. The next one starts after [`Encoder::clear`].
    pub fn finish(&mut self) -> &Streams {
        self.end_entry();
        if self.entries > 0 {
            self.end_run();
        }
        &self.streams
    }

    /// Starts the next chunk.
    pub fn clear(&mut self) {
        self.streams.runs.clear();
        self.streams.turns.clear();
        self.streams.exceptions.clear();
        if self.entries > 0 {
            self.followers.clear();
        }
        self.entries = 0;
        self.run = 0;
        self.regular = 0;
        self.current = None;
        self.pending = 0;
        self.walk = Walk::default();
        self.sites.clear();
    }
}
