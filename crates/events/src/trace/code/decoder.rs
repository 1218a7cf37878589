use super::blocks::Blocks;
use super::entries::Entries;
use super::executions::Walk;
use super::{BLOCK, Followers, MAX_FLOW, OTHER, Streams, THREAD, Version4Streams};
use crate::CodeTable;
use crate::trace::accesses::{BATCH, Columns, Form, FourShapes, FourSites, Layout, WINDOW, before};
use crate::trace::varint::{take, unzigzag};

/// Decodes the code of one chunk after the other.
pub struct Decoder {
    /// The chunk's entries; none when it has no code.
    pub entries: Entries,
    /// Entries that have accesses, and how many these are; what is after them is from an earlier chunk.
    executed: Vec<Executed>,
    executions: usize,
    /// Accesses whose addresses follow from no other.
    own: usize,
    /// Sites of a file up to version 4, whose accesses do not refer to their code: the site of
    /// each.
    old_sites: Option<Vec<u32>>,
    blocks: Blocks,
    followers: Followers,
    /// The entry whose accesses come next, and how many of these there were.
    next: usize,
    done: usize,
}

/// An entry that has accesses.
#[derive(Clone, Copy, Default)]
struct Executed {
    accesses: u32,
    /// Instructions between the last access and the entry, where they are not in the first access's gap.
    gap: u32,
    /// Begin of the block's facts about them, in fours.
    sites: u32,
    /// And what the form says.
    shapes: u32,
    siblings: (u32, u32),
}

impl Executed {
    #[inline(always)]
    fn of(accesses: u32, gap: u32, sites: u32, form: Form) -> Executed {
        Executed {
            accesses,
            gap,
            sites,
            shapes: form.fours,
            siblings: form.siblings,
        }
    }
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder {
            entries: Entries::default(),
            executed: Vec::new(),
            executions: 0,
            own: 0,
            old_sites: None,
            blocks: Blocks::default(),
            followers: Followers::new(),
            next: 0,
            done: 0,
        }
    }

    /// A chunk without code.
    pub fn start_without(&mut self) {
        self.entries.clear();
        self.executions = 0;
        self.own = 0;
        self.old_sites = None;
        self.next = 0;
        self.done = 0;
    }

    /// Starts a chunk of `accesses`; with forms if there is a stream of them.
    ///
    /// # Errors
    /// What is wrong with the streams.
    pub fn start(
        &mut self,
        streams: &Streams,
        accesses: usize,
        table: &CodeTable,
        layout: &mut Layout,
        forms: Option<&[u8]>,
    ) -> Result<(), &'static str> {
        self.start_without();
        if streams.runs.is_empty() {
            let empty = streams.turns.is_empty() && streams.exceptions.is_empty();
            return if empty { Ok(()) } else { Err(DAMAGED) };
        }
        self.blocks.follow(table);
        self.followers.clear();
        self.flow(streams).ok_or(DAMAGED_FLOW)?;
        let Some(forms) = forms else {
            return self
                .place(&streams.exceptions, accesses, table, |_, accesses| {
                    layout.own(accesses)
                })
                .ok_or(DAMAGED_SITES);
        };
        layout.start_forms(forms).ok_or(DAMAGED_FORMS)?;
        self.place(
            &streams.exceptions,
            accesses,
            table,
            |block, accesses| match block {
                Some(block) => layout.form(forms, block, accesses),
                None => layout.own(accesses),
            },
        )
        .ok_or(DAMAGED_SITES)?;
        layout.is_at_end(forms).then_some(()).ok_or(DAMAGED_FORMS)
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
        if streams.flow_low.is_empty() {
            let empty = streams.symbols.is_empty()
                && streams.flow_high.is_empty()
                && streams.exceptions.is_empty();
            return if empty { Ok(()) } else { Err(DAMAGED) };
        }
        self.blocks.follow(table);
        let symbols = streams.symbols(table).ok_or("a block is not defined")?;
        streams
            .entries(&symbols, &mut self.entries)
            .ok_or(DAMAGED_FLOW)?;
        self.place(&streams.exceptions, accesses, table, |_, _| {
            Some(Form::default())
        })
        .ok_or(DAMAGED_SITES)?;
        self.old_sites = Some(self.all_sites());
        Ok(())
    }

    /// Reads which entries there are.
    fn flow(&mut self, streams: &Streams) -> Option<()> {
        let mut runs = streams.runs.as_slice();
        let mut turns = streams.turns.as_slice();
        let blocks = self.blocks.len();
        loop {
            let run = take(&mut runs)?;
            if run > (MAX_FLOW - self.entries.len()) as u64 {
                return None;
            }
            if !(self.followers).predict(run as usize, blocks, self.entries.all_mut()) {
                return None;
            }
            if turns.is_empty() {
                break;
            }
            if self.entries.len() == MAX_FLOW {
                return None;
            }
            self.turn(&mut turns)?;
        }
        (runs.is_empty() && self.entries.begin_with_thread()).then_some(())
    }

    fn turn(&mut self, turns: &mut &[u8]) -> Option<()> {
        let context = self.followers.context();
        let block = match take(turns)? {
            OTHER => self.followers.other(context)?,
            THREAD => {
                let thread = u32::try_from(take(turns)?).ok()?;
                let process = u32::try_from(take(turns)?).ok()?;
                self.entries.push_thread(process, thread);
                return Some(());
            }
            turn => {
                let block = i64::from(self.followers.next).checked_add(unzigzag(turn - BLOCK))?;
                u32::try_from(block).ok()?
            }
        };
        if block as usize >= self.blocks.len() {
            return None;
        }
        self.followers.came(context, block);
        self.entries.push_block(block);
        Some(())
    }

    /// Finds where the entries start, and what their accesses are. `form` tells the form of so many: the usual ones of
    /// a block, or others.
    #[inline(always)]
    fn place(
        &mut self,
        mut input: &[u8],
        accesses: usize,
        table: &CodeTable,
        mut form: impl FnMut(Option<u32>, u32) -> Option<Form>,
    ) -> Option<()> {
        let entries = self.entries.all_mut();
        let most = entries.len().min(accesses);
        if self.executed.len() < most {
            self.executed.resize(most, Executed::default());
        }
        let mut room = self.executed.iter_mut();
        let mut until_exception = next_exception(&mut input)?;
        let mut pending = 0u32;
        let mut done = 0usize;
        let mut own = 0usize;
        for entry in entries {
            entry.at = done as u32;
            if until_exception == 0 {
                let mut walk = match entry.block() {
                    Some(block) => Blocks::enter(table, block, pending),
                    None => Walk::default(),
                };
                let count = take(&mut input)?;
                if count > (accesses - done) as u64 {
                    return None;
                }
                let blocks = &mut self.blocks;
                let sites = blocks.take_sites(&mut input, count as usize, table, &mut walk)?;
                if count > 0 {
                    let form = form(None, count as u32)?;
                    *room.next()? = Executed::of(count as u32, 0, sites, form);
                }
                done += count as usize;
                own += count as usize;
                pending = walk.leave();
                until_exception = next_exception(&mut input)?;
                continue;
            }
            until_exception -= 1;
            let Some(block) = entry.block() else {
                pending = 0;
                continue;
            };
            let usual = self.blocks.block(block);
            if usual.accesses == 0 {
                pending = pending.wrapping_add(usual.rest);
                continue;
            }
            done += usual.accesses as usize;
            if done > accesses {
                return None;
            }
            own += usual.own as usize;
            let form = form(Some(block), usual.accesses)?;
            *room.next()? = Executed::of(usual.accesses, pending, usual.fours, form);
            pending = usual.rest;
        }
        let left = room.len();
        self.executions = self.executed.len() - left;
        self.own = own;
        (input.is_empty() && done == accesses).then_some(())
    }

    /// True if the chunk has a flow.
    pub fn has_flow(&self) -> bool {
        self.entries.len() > 0
    }

    /// Number of accesses whose addresses follow from no other.
    pub fn own(&self) -> usize {
        self.own
    }

    /// The sites of a chunk's accesses, of a file of version 2 or 4, which its codes refer to.
    pub fn old_sites(&self) -> Option<&[u32]> {
        self.old_sites.as_deref()
    }

    fn all_sites(&self) -> Vec<u32> {
        let sites = self.executed().iter().flat_map(|executed| {
            let fours = &self.blocks.fours()[executed.sites as usize..];
            let sites = fours.iter().flat_map(|four| four.site);
            sites.take(executed.accesses as usize)
        });
        sites.collect()
    }

    fn executed(&self) -> &[Executed] {
        &self.executed[..self.executions]
    }

    /// All but the addresses of the next `count` accesses, of which the last dependences before them are known.
    pub fn columns(
        &mut self,
        layout: &Layout,
        count: usize,
        last_deps: &[u32; WINDOW],
        columns: &mut Columns,
    ) {
        let count = count.min(BATCH);
        let mut at = 0;
        let mut skipped = self.done;
        let rest = &self.executed[..self.executions][self.next..];
        for executed in rest {
            let accesses = executed.accesses as usize;
            let fours = accesses.div_ceil(4);
            let sites = &self.blocks.fours()[executed.sites as usize..][..fours];
            let shapes = &layout.fours()[executed.shapes as usize..][..fours];
            let end = at + accesses - skipped;
            if skipped == 0 {
                let mut to = at;
                for (sites, shapes) in sites.iter().zip(shapes) {
                    if to >= count {
                        break;
                    }
                    columns.put(to, shapes, sites);
                    to += 4;
                }
                columns.gap[at] = columns.gap[at].wrapping_add(executed.gap);
            } else {
                put_rest(columns, sites, shapes, skipped, at..end.min(count));
            }
            let (from, to) = executed.siblings;
            if from != to {
                let siblings = &layout.siblings()[from as usize..to as usize];
                wait_like_siblings(columns, siblings, last_deps, at, skipped, count);
            }
            if end >= count {
                let whole = end == count;
                self.next += usize::from(whole);
                self.done = if whole { 0 } else { skipped + count - at };
                return;
            }
            at = end;
            skipped = 0;
            self.next += 1;
        }
    }
}

/// Sets the dependences of accesses that wait for the same loads as others. The first of them is access `at` of the
/// batch but for those that were in the batch before.
#[inline(always)]
fn wait_like_siblings(
    columns: &mut Columns,
    siblings: &[(u32, u32)],
    last_deps: &[u32; WINDOW],
    at: usize,
    skipped: usize,
    count: usize,
) {
    for &(access, back) in siblings {
        let Some(after) = (access as usize).checked_sub(skipped) else {
            continue;
        };
        if at + after >= count {
            break;
        }
        let dep = before(columns.dep, last_deps, at + after, back as usize);
        columns.dep[at + after] = dep.wrapping_add(back);
    }
}

/// Writes accesses of an entry from number `skipped` on.
#[inline(never)]
fn put_rest(
    columns: &mut Columns,
    sites: &[FourSites],
    shapes: &[FourShapes],
    skipped: usize,
    to: std::ops::Range<usize>,
) {
    for (access, at) in (skipped..).zip(to) {
        columns.put_one(at, &shapes[access / 4], &sites[access / 4], access % 4);
    }
}

const DAMAGED: &str = "its code is damaged";
const DAMAGED_FLOW: &str = "the flow of its code is damaged";
const DAMAGED_FORMS: &str = "the forms of its executions are damaged";
const DAMAGED_SITES: &str = "the instructions of its accesses are damaged";

/// Number of entries before the next exception; more than there can be when there is none.
fn next_exception(input: &mut &[u8]) -> Option<u64> {
    if input.is_empty() {
        return Some(u64::MAX);
    }
    take(input)
}
