use super::executions::{Executions, Walk};
use super::{BLOCK, Followers, MAX_FLOW, OTHER, Streams, Symbol, THREAD};
use crate::CodeTable;
use crate::trace::accesses::FromCode;
use crate::trace::varint::{put, zigzag};

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
    /// The last entry, and where its accesses start.
    current: Option<Symbol>,
    started: usize,
    /// Whether these are its usual ones, all of them, after `pending` instructions.
    usual: bool,
    /// Instructions from the last access to the end of the last entry; from there to the start of the current one
    /// until that has an access.
    pending: u32,
    /// Where in the current entry it is, unless its accesses are the usual ones.
    walk: Walk,
    /// Of the chunk's accesses.
    sites: Vec<u32>,
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
            started: 0,
            usual: false,
            pending: 0,
            walk: Walk::default(),
            sites: Vec::new(),
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
    #[inline]
    pub fn push(&mut self, symbol: Symbol) {
        self.end_entry();
        self.current = Some(symbol);
        self.entries += 1;
        match symbol {
            Symbol::Block(block) => {
                let context = self.followers.context();
                if self.followers.predicted(context) == block {
                    self.run += 1;
                } else {
                    self.turn(context, block);
                }
                self.followers.came(context, block);
            }
            Symbol::Thread { process, thread } => {
                self.end_run();
                put(&mut self.streams.turns, THREAD);
                put(&mut self.streams.turns, thread.into());
                put(&mut self.streams.turns, process.into());
                self.pending = 0;
            }
        }
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

    /// Appends the sites of accesses that belong to the last entry.
    #[inline]
    pub fn push_sites(&mut self, sites: &[u32]) {
        if sites.is_empty() {
            return;
        }
        let first = self.sites.len() == self.started;
        if first && let Some(Symbol::Block(block)) = self.current {
            let usual = self.executions.usual(block);
            let same = sites.iter().zip(usual.sites).all(|(a, b)| a == b);
            if same && sites.len() == usual.sites.len() {
                let at = self.gaps.len();
                self.sites.extend(sites);
                self.gaps.extend(usual.gaps);
                self.gaps[at] = self.gaps[at].wrapping_add(self.pending);
                self.usual = true;
                return;
            }
        }
        self.push_unusual(sites);
    }

    fn push_unusual(&mut self, sites: &[u32]) {
        if self.usual || self.sites.len() == self.started {
            self.walk = match self.current {
                Some(Symbol::Block(block)) => self.executions.enter(block, self.pending),
                _ => Walk::default(),
            };
            // More than the usual ones have come.
            for &site in &self.sites[self.started..] {
                self.walk.gap(site);
            }
            self.usual = false;
        }
        self.sites.extend_from_slice(sites);
        self.gaps.extend(sites.iter().map(|&site| self.walk.gap(site)));
    }

    #[inline]
    fn end_entry(&mut self) {
        let none = self.sites.len() == self.started;
        if let Some(Symbol::Block(block)) = self.current
            && (self.usual || none)
        {
            let usual = self.executions.usual(block);
            if self.usual {
                self.pending = usual.rest;
                self.regular += 1;
                self.started = self.sites.len();
                self.usual = false;
                return;
            }
            if usual.sites.is_empty() {
                self.pending = self.pending.wrapping_add(usual.rest);
                self.regular += 1;
                return;
            }
        }
        self.end_unusual();
    }

    fn end_unusual(&mut self) {
        let Some(symbol) = self.current else {
            return;
        };
        let sites = &self.sites[self.started..];
        let walk = match symbol {
            Symbol::Thread { .. } if sites.is_empty() => {
                self.regular += 1;
                return;
            }
            Symbol::Block(block) if sites.is_empty() => self.executions.enter(block, self.pending),
            _ => self.walk,
        };
        self.pending = walk.leave();
        let out = &mut self.streams.exceptions;
        put(out, self.regular);
        put(out, sites.len() as u64);
        let mut previous = walk.first_site;
        for &site in sites {
            put(out, zigzag(i64::from(site) - i64::from(previous)));
            previous = site;
        }
        self.regular = 0;
        self.started = self.sites.len();
    }

    /// What is known of the accesses from number `first` on.
    pub fn known(&self, first: usize) -> Option<FromCode<'_>> {
        (self.entries > 0).then(|| FromCode {
            sites: &self.sites[first..],
            gaps: &self.gaps[first..],
        })
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
        self.started = 0;
        self.usual = false;
        self.pending = 0;
        self.walk = Walk::default();
        self.sites.clear();
        self.gaps.clear();
    }
}
