use super::executions::{Executions, Walk};
use super::{BLOCK, Followers, MAX_FLOW, OTHER, Streams, Symbol, THREAD, Version4Streams};
use crate::trace::accesses::{FromCode, Layout};
use crate::trace::varint::{take, unzigzag};
use crate::{Batch, CodeTable, NO_SITE};

/// Decodes the code of one chunk after the other.
pub struct Decoder {
    /// The chunk's entries, and the access before which each starts.
    pub flow: Vec<(u32, Symbol)>,
    /// The site of each access; empty when the chunk has no code.
    sites: Vec<u32>,
    /// Instructions since the access before, of each.
    gaps: Vec<u32>,
    /// Of a file up to version 4, whose accesses do not refer to their code.
    old: bool,
    executions: Executions,
    followers: Followers,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder {
            flow: Vec::new(),
            sites: Vec::new(),
            gaps: Vec::new(),
            old: false,
            executions: Executions::default(),
            followers: Followers::new(),
        }
    }

    /// A chunk without code.
    pub fn start_without(&mut self) {
        self.flow.clear();
        self.sites.clear();
        self.gaps.clear();
    }

    /// Starts a chunk of `accesses`; with forms if there is a layout for them, and their stream.
    ///
    /// # Errors
    /// What is wrong with the streams.
    pub fn start(
        &mut self,
        streams: &Streams,
        accesses: usize,
        table: &CodeTable,
        layout: Option<(&mut Layout, &[u8])>,
    ) -> Result<(), &'static str> {
        self.start_without();
        self.old = false;
        if streams.runs.is_empty() {
            let empty = streams.turns.is_empty() && streams.exceptions.is_empty();
            return if empty { Ok(()) } else { Err(DAMAGED) };
        }
        self.executions.follow(table);
        self.followers.clear();
        self.entries(streams, table.blocks().len())
            .ok_or(DAMAGED_FLOW)?;
        match layout {
            Some((layout, forms)) => {
                layout.start_forms(forms, accesses).ok_or(DAMAGED_FORMS)?;
                self.place(&streams.exceptions, accesses, table, Some((layout, forms)))
                    .ok_or(DAMAGED_SITES)?;
                layout.end_forms(forms).ok_or(DAMAGED_FORMS)
            }
            None => self
                .place(&streams.exceptions, accesses, table, None)
                .ok_or(DAMAGED_SITES),
        }
    }

    /// Starts a chunk of `accesses` of a file of version 2 or 4.
    ///
    /// # Errors
    /// What is wrong with the streams.
    pub fn start_old(
        &mut self,
        streams: &Version4Streams,
        accesses: usize,
        table: &CodeTable,
    ) -> Result<(), &'static str> {
        self.start_without();
        self.old = true;
        if streams.flow_low.is_empty() {
            let empty = streams.symbols.is_empty()
                && streams.flow_high.is_empty()
                && streams.exceptions.is_empty();
            return if empty { Ok(()) } else { Err(DAMAGED) };
        }
        self.executions.follow(table);
        let symbols = streams.symbols(table).ok_or("a block is not defined")?;
        streams
            .entries(&symbols, &mut self.flow)
            .ok_or(DAMAGED_FLOW)?;
        self.place(&streams.exceptions, accesses, table, None)
            .ok_or(DAMAGED_SITES)
    }

    /// Reads the entries; where they start is found by `place`.
    fn entries(&mut self, streams: &Streams, blocks: usize) -> Option<()> {
        let mut runs = streams.runs.as_slice();
        let mut turns = streams.turns.as_slice();
        loop {
            let run = take(&mut runs)?;
            if run > (MAX_FLOW - self.flow.len()) as u64 {
                return None;
            }
            for _ in 0..run {
                let context = self.followers.context();
                let block = self.followers.predicted(context);
                self.execute(context, block, blocks)?;
            }
            if turns.is_empty() {
                break;
            }
            if self.flow.len() == MAX_FLOW {
                return None;
            }
            self.turn(&mut turns, blocks)?;
        }
        let thread_first = matches!(self.flow.first(), Some((0, Symbol::Thread { .. })));
        (runs.is_empty() && thread_first).then_some(())
    }

    fn turn(&mut self, turns: &mut &[u8], blocks: usize) -> Option<()> {
        let context = self.followers.context();
        match take(turns)? {
            OTHER => {
                let block = self.followers.other(context)?;
                self.execute(context, block, blocks)
            }
            THREAD => {
                let thread = u32::try_from(take(turns)?).ok()?;
                let process = u32::try_from(take(turns)?).ok()?;
                self.flow.push((0, Symbol::Thread { process, thread }));
                Some(())
            }
            turn => {
                let block = i64::from(self.followers.next).checked_add(unzigzag(turn - BLOCK))?;
                self.execute(context, u32::try_from(block).ok()?, blocks)
            }
        }
    }

    fn execute(&mut self, context: usize, block: u32, blocks: usize) -> Option<()> {
        if block as usize >= blocks {
            return None;
        }
        self.followers.came(context, block);
        self.flow.push((0, Symbol::Block(block)));
        Some(())
    }

    /// Finds where the entries start, and what the accesses have from them.
    fn place(
        &mut self,
        mut input: &[u8],
        accesses: usize,
        table: &CodeTable,
        mut layout: Option<(&mut Layout, &[u8])>,
    ) -> Option<()> {
        let mut until_exception = next_exception(&mut input)?;
        let mut pending = 0u32;
        self.sites.resize(accesses, NO_SITE);
        self.gaps.resize(accesses, 0);
        let mut done = 0;
        for (at, symbol) in &mut self.flow {
            *at = done as u32;
            match &mut until_exception {
                Some(0) => {
                    let mut walk = match *symbol {
                        Symbol::Block(block) => self.executions.enter(block, pending),
                        Symbol::Thread { .. } => Walk::default(),
                    };
                    let count = take(&mut input)?;
                    if count > (accesses - done) as u64 {
                        return None;
                    }
                    let range = done..done + count as usize;
                    let to = self.sites[range.clone()].iter_mut();
                    let mut site = i64::from(walk.first_site);
                    for (to, gap) in to.zip(&mut self.gaps[range.clone()]) {
                        site = site.checked_add(unzigzag(take(&mut input)?))?;
                        let known = u32::try_from(site).ok()?;
                        if known >= table.sites() && known != NO_SITE {
                            return None;
                        }
                        *to = known;
                        *gap = walk.gap(known);
                    }
                    done = range.end;
                    if let Some((layout, _)) = &mut layout {
                        layout.push_own(range.len())?;
                    }
                    pending = walk.leave();
                    until_exception = next_exception(&mut input)?;
                    continue;
                }
                Some(regular) => *regular -= 1,
                None => {}
            }
            let Symbol::Block(block) = *symbol else {
                pending = 0;
                continue;
            };
            let usual = self.executions.usual(block);
            let range = done..done + usual.accesses.len();
            let to = self.sites.get_mut(range.clone())?.iter_mut();
            let to = to.zip(self.gaps.get_mut(range.clone())?);
            for ((site, gap), access) in to.zip(usual.accesses) {
                *site = access.site;
                *gap = access.gap.into();
            }
            done = range.end;
            if range.is_empty() {
                pending = pending.wrapping_add(usual.rest);
                continue;
            }
            let gap = &mut self.gaps[range.start];
            *gap = gap.wrapping_add(pending);
            pending = usual.rest;
            if let Some((layout, forms)) = &mut layout {
                layout.push_form(forms, block, usual.accesses)?;
            }
        }
        (input.is_empty() && done == accesses).then_some(())
    }

    /// Whether the chunk has a flow.
    pub fn has_flow(&self) -> bool {
        !self.flow.is_empty()
    }

    /// The sites that the codes of a chunk of version 2 or 4 refer to.
    pub fn last_codes_at(&self) -> &[u32] {
        if self.old { &self.sites } else { &[] }
    }

    /// What accesses from number `from` on are decoded with.
    pub fn known(&self, from: usize) -> Option<FromCode<'_>> {
        let known = !self.old && !self.flow.is_empty();
        known.then(|| FromCode {
            sites: &self.sites[from..],
            gaps: &self.gaps[from..],
        })
    }

    /// Moves what the next `count` accesses have, from number `from` on, into the batch.
    pub fn sites(&self, from: usize, count: usize, batch: &mut Batch) {
        if !self.sites.is_empty() {
            batch
                .site
                .extend_from_slice(&self.sites[from..from + count]);
        }
    }
}

const DAMAGED: &str = "its code is damaged";
const DAMAGED_FLOW: &str = "the flow of its code is damaged";
const DAMAGED_FORMS: &str = "the forms of its executions are damaged";
const DAMAGED_SITES: &str = "the instructions of its accesses are damaged";

/// How many entries come before the next exception; `None` inside when there is none.
fn next_exception(input: &mut &[u8]) -> Option<Option<u64>> {
    if input.is_empty() {
        return Some(None);
    }
    take(input).map(Some)
}
