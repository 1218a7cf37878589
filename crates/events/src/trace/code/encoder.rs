use super::chains::{Chains, NO_FORM};
use super::executions::{Executions, Walk};
use super::{BLOCK, Followers, MAX_FLOW, OTHER, Streams, Symbol, THREAD};
use crate::trace::accesses::{self, Execution};
use crate::trace::varint::{put, zigzag};
use crate::{Batch, ChainRun, CodeTable, Flow};

/// Encodes the code of one chunk after the other.
pub struct Encoder {
    streams: Streams,
    executions: Executions,
    path: Path,
    entries: usize,
    /// Entries since the last exception.
    regular: u64,
    /// The last entry, unless it has ended, and the sites of its accesses.
    current: Option<Symbol>,
    sites: Vec<u32>,
    /// Instructions between the last access and the current entry.
    pending: u32,
    /// Place in the current entry.
    walk: Walk,
    /// The gaps of the accesses that were appended last.
    gaps: Vec<u32>,
    /// Executions in a row that are alike, and how many of those that a batch tells of have been looked at.
    chains: Chains,
    next_alike: usize,
}

/// Blocks that come after others.
struct Path {
    followers: Followers,
    /// Entries as predicted since the last turn.
    run: u64,
}

impl Path {
    #[inline(always)]
    fn execute(&mut self, block: u32, streams: &mut Streams) {
        if self.followers.came_again(block) {
            self.run += 1;
        } else {
            self.execute_other(block, streams);
        }
    }

    #[inline(never)]
    fn execute_other(&mut self, block: u32, streams: &mut Streams) {
        let context = self.followers.context();
        if self.followers.predicted(context) == block {
            self.run += 1;
        } else {
            self.turn(context, block, streams);
        }
        self.followers.came(context, block);
    }

    fn turn(&mut self, context: usize, block: u32, streams: &mut Streams) {
        self.end_run(streams);
        let turn = if self.followers.other(context) == Some(block) {
            OTHER
        } else {
            BLOCK + zigzag(i64::from(block) - i64::from(self.followers.next))
        };
        put(&mut streams.turns, turn);
    }

    fn end_run(&mut self, streams: &mut Streams) {
        put(&mut streams.runs, self.run);
        self.run = 0;
    }
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder {
            streams: Streams::default(),
            executions: Executions::default(),
            path: Path {
                followers: Followers::new(),
                run: 0,
            },
            entries: 0,
            regular: 0,
            current: None,
            sites: Vec::new(),
            pending: 0,
            walk: Walk::default(),
            gaps: Vec::new(),
            chains: Chains::default(),
            next_alike: 0,
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
                self.path.end_run(&mut self.streams);
                put(&mut self.streams.turns, THREAD);
                put(&mut self.streams.turns, thread.into());
                put(&mut self.streams.turns, process.into());
                self.walk = Walk::default();
            }
        }
    }

    /// A batch begins.
    pub fn start_batch(&mut self) {
        self.next_alike = 0;
    }

    /// Appends entries from the front of the batch's flow, the first of which is a block, and their
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
        let first = batch.flow.len() - flow.len();
        let (regular, alike) = if known {
            (&batch.regular[first..], &*batch.alike)
        } else {
            (&[][..], &[][..])
        };
        let mut done = 0;
        let mut pending = self.pending;
        while let [(from, entry), (to, next), ..] = flow[done..] {
            let (from, to) = (from as usize, to as usize);
            // The name of a thread that goes on anyway ends no block.
            let (Flow::Block(block), Flow::Block(_)) = (entry, next) else {
                break;
            };
            if from >= until || to > until {
                break;
            }
            if let Some(alike) = self.alike(alike, first + done) {
                let entries = &flow[done..];
                if let Some(after) =
                    self.push_alike(accesses, batch, entries, until, alike, pending)
                {
                    pending = after;
                    done += alike.entries as usize;
                    continue;
                }
                let gap = batch.gap[from].wrapping_sub(pending);
                self.chains.meet(alike, from, gap);
            }
            let usual = self.executions.usual(block);
            if to - from != usual.accesses.len() {
                break;
            }
            let mut form = None;
            if from == to {
                pending = pending.wrapping_add(usual.rest);
            } else {
                let execution = Execution {
                    batch,
                    from,
                    block,
                    usual: usual.accesses,
                    pending,
                };
                if regular.get(done) == Some(&true) {
                    form = Some(accesses.push_regular(&execution));
                } else if !accesses.push_execution(&execution) {
                    break;
                }
                pending = usual.rest;
            }
            self.execute(block);
            done += 1;
            if let Some(first) = self.chains.note(block, form) {
                let deps = &batch.dep[first..to];
                (self.chains).learn(accesses, &self.executions, deps, pending);
            }
        }
        self.chains.part();
        self.pending = pending;
        self.entries += done;
        self.regular += done as u64;
        done
    }

    /// Common facts of executions from this entry of the flow on, if any are known.
    #[inline(always)]
    fn alike<'a>(&mut self, alike: &'a [ChainRun], entry: usize) -> Option<&'a ChainRun> {
        while let Some(next) = alike.get(self.next_alike) {
            if next.entry as usize > entry {
                return None;
            }
            self.next_alike += 1;
            if next.entry as usize == entry {
                return Some(next);
            }
        }
        None
    }

    /// Appends executions that are like earlier ones of the chunk, if all can be: from the front of
    /// this flow. Returns how many instructions come after their last access; `None`, and nothing
    /// is changed, if they cannot.
    #[inline(always)]
    fn push_alike(
        &mut self,
        accesses: &mut accesses::Encoder,
        batch: &Batch,
        flow: &[(u32, Flow)],
        until: usize,
        alike: &ChainRun,
        pending: u32,
    ) -> Option<u32> {
        let &(end, Flow::Block(_)) = flow.get(alike.entries as usize)? else {
            return None;
        };
        let (from, end) = (flow[0].0 as usize, end as usize);
        if end >= until {
            return None;
        }
        let gap = batch.gap[from].wrapping_sub(pending);
        let found = (self.chains).find(alike, accesses, &batch.dep[from..], gap)?;
        if end - from != found.accesses.len() || found.blocks.len() != alike.entries as usize {
            return None;
        }
        let (addrs, deps) = (&batch.addr[from..end], &batch.dep[from..end]);
        accesses.push_alike(addrs, deps, &found.accesses);
        for &(block, form) in &found.blocks {
            if form != NO_FORM {
                accesses.forms().have(block, form);
            }
            self.path.execute(block, &mut self.streams);
        }
        Some(found.rest)
    }

    #[inline(always)]
    fn execute(&mut self, block: u32) {
        self.path.execute(block, &mut self.streams);
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
            self.path.end_run(&mut self.streams);
        }
        &self.streams
    }

    /// Starts the next chunk.
    pub fn clear(&mut self) {
        self.streams.runs.clear();
        self.streams.turns.clear();
        self.streams.exceptions.clear();
        if self.entries > 0 {
            self.path.followers.clear();
        }
        self.path.run = 0;
        self.chains.clear();
        self.entries = 0;
        self.regular = 0;
        self.current = None;
        self.pending = 0;
        self.walk = Walk::default();
        self.sites.clear();
    }
}
