#![allow(dead_code, unused_imports)]

mod map_table;
mod processes;
mod shadow;

pub use map_table::{MapTable, Placement};
pub use processes::{Processes, READ_WRITE};
pub use shadow::Shadow;

use pagelab_addr::{Asid, PAGE_BYTES, PageDirectory, PageId, PageSize, Pfn, Vpn};
use pagelab_events::{Advice, Backing, Control};
use pagelab_os::{Effects, KernelThread, Os, OsConfig, OsError, PagePolicy};
use pagelab_translation::{FrameUse, Frames, Page, PageTable, Translation};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// The operating system with a page table and a map beside it, a TLB that never forgets by itself, and the
/// processes as their programs see them.
pub struct Machine<T> {
    pub os: Os,
    pub table: Shadow<T>,
    pub directory: PageDirectory,
    pub effects: Effects,
    pub processes: Processes,
    tlb: HashMap<PageId, Translation>,
    /// Pages to which the event under way gives what others have in the swap device.
    following: Vec<(u32, u64, u64)>,
    /// Contents of shared memory in the swap device, by slot.
    left_slots: HashMap<u32, u64>,
}

/// Map a range of anonymous memory.
pub fn map(machine: &mut Machine<MapTable>, process: u32, pages: Range<u64>) {
    map_of(machine, process, pages, Backing::Anonymous);
}

/// Advise the first process's kernel on a range.
pub fn advise(machine: &mut Machine<MapTable>, pages: Range<u64>, advice: Advice) {
    advise_of(machine, 0, pages, advice);
}

/// Advise a process's kernel on a range.
pub fn advise_of(machine: &mut Machine<MapTable>, process: u32, pages: Range<u64>, advice: Advice) {
    let event = Control::Advise {
        addr: pages.start * PAGE_BYTES,
        len: (pages.end - pages.start) * PAGE_BYTES,
        advice,
    };
    machine.control(process, event).unwrap();
}

/// Map a range of some kind of memory.
pub fn map_of(machine: &mut Machine<MapTable>, process: u32, pages: Range<u64>, backing: Backing) {
    let event = Control::Map {
        addr: pages.start * PAGE_BYTES,
        len: (pages.end - pages.start) * PAGE_BYTES,
        prot: READ_WRITE,
        backing,
        populate: false,
    };
    machine.control(process, event).unwrap();
}

impl<T: PageTable> Machine<T> {
    pub fn new(config: OsConfig, table: T) -> Self {
        Self::with_os(Os::new(config, 7).unwrap(), table)
    }

    pub fn with_os(os: Os, table: T) -> Self {
        let mut table = Shadow::new(table);
        table.left = os.config().reclaim.map(|_| HashMap::new());
        Machine {
            os,
            table,
            directory: PageDirectory::new(),
            effects: Effects::new(),
            processes: Processes::default(),
            tlb: HashMap::new(),
            following: Vec::new(),
            left_slots: HashMap::new(),
        }
    }

    pub fn page(&mut self, process: u32, vpn: u64) -> Page {
        let (asid, vpn) = (Os::asid(process).unwrap(), Vpn(vpn));
        let id = self.directory.page(asid, vpn).unwrap();
        Page { id, asid, vpn }
    }

    /// Calls the operating system, and does what a machine does afterwards.
    fn call<R>(
        &mut self,
        what: impl FnOnce(&mut Os, &mut Shadow<T>, &mut PageDirectory, &mut Effects) -> R,
    ) -> R {
        self.effects.clear();
        let held = self.contents_of_slots();
        let unmapped = self.take_unmapped();
        let done = what(
            &mut self.os,
            &mut self.table,
            &mut self.directory,
            &mut self.effects,
        );
        self.put_back(&unmapped);
        self.settle();
        self.keep_slots(held);
        let following = std::mem::take(&mut self.following);
        self.keep_swapped(following);
        done
    }

    /// Contents of shared memory, where it may leave.
    fn contents_of_slots(&self) -> HashMap<u32, u64> {
        if self.table.left.is_none() {
            return HashMap::new();
        }
        let contents = &self.table.contents;
        let slots = self.slots();
        slots
            .filter_map(|(slot, pfn)| Some((slot, *contents.get(&pfn)?)))
            .collect()
    }

    /// Keeps the contents of shared memory that has left, and gives them to what has come back.
    fn keep_slots(&mut self, held: HashMap<u32, u64>) {
        if self.table.left.is_none() {
            return;
        }
        let frames = self.os.frames();
        let left = held.into_iter();
        let left = left.filter(|&(slot, _)| frames.is_swapped_slot(slot));
        let left: Vec<_> = left.collect();
        let back: Vec<_> = (self.slots())
            .filter_map(|(slot, pfn)| Some((pfn, *self.left_slots.get(&slot)?)))
            .collect();
        self.table.contents.extend(back);
        self.left_slots.extend(left);
        let frames = self.os.frames();
        self.left_slots
            .retain(|&slot, _| frames.is_swapped_slot(slot));
    }

    /// Carries an event out, in the operating system and as the programs see it.
    pub fn control(&mut self, process: u32, event: Control) -> Result<(), OsError> {
        let collapses = matches!(
            event,
            Control::Advise {
                advice: Advice::COLLAPSE,
                ..
            }
        );
        self.table.collapsing = collapses.then(HashMap::new);
        let renews = matches!(event, Control::Brk { .. } | Control::Map { .. });
        self.table.renewed = renews.then(HashSet::new);
        self.following = self.following(process, &event);
        let done = self.call(|os, table, directory, effects| {
            os.control(table, directory, process, &event, effects)
        });
        self.table.collapsing = None;
        self.table.renewed = None;
        done?;
        self.processes.control(process, &event);
        self.lose();
        Ok(())
    }

    /// Pages to which an event gives what others have in the swap device, with their contents: a child's, and
    /// those that pages are moved to.
    fn following(&self, process: u32, event: &Control) -> Vec<(u32, u64, u64)> {
        let left = self.table.left.clone().unwrap_or_default();
        let mut following = Vec::new();
        for (id, contents) in left {
            let (Asid(owner), vpn) = self.directory.resolve(id);
            if u32::from(owner) != process {
                continue;
            }
            let to = match *event {
                Control::Fork { child } if child != process => (child, vpn.0),
                Control::Remap {
                    old_addr,
                    old_len,
                    new_addr,
                    new_len,
                } if old_addr != new_addr
                    && (old_addr..old_addr + old_len.min(new_len)).contains(&vpn.address().0) =>
                {
                    let [old, new] = [old_addr, new_addr].map(|addr| addr / PAGE_BYTES);
                    (process, vpn.0 - old + new)
                }
                _ => continue,
            };
            following.push((to.0, to.1, contents));
        }
        following
    }

    /// Keeps the contents of pages that are in the swap device, and of no others.
    fn keep_swapped(&mut self, following: Vec<(u32, u64, u64)>) {
        if self.table.left.is_none() {
            return;
        }
        let following: Vec<_> = following
            .into_iter()
            .map(|(process, vpn, contents)| (self.page(process, vpn).id, contents))
            .collect();
        let (frames, directory) = (self.os.frames(), &self.directory);
        if let Some(left) = &mut self.table.left {
            left.extend(following);
            left.retain(|&id, _| {
                let (asid, vpn) = directory.resolve(id);
                frames.is_swapped(asid, vpn)
            });
        }
    }

    /// Loads from a page.
    pub fn load(&mut self, process: u32, vpn: u64) -> Result<u64, OsError> {
        let page = self.page(process, vpn);
        let found = self.access(page, false);
        // Memory appears also where its first page then finds no place.
        self.processes.touch(process, vpn);
        self.lose();
        let translation = found?;
        Ok(self.contents(translation.pfn))
    }

    /// Has the programs know what they called free and does not exist any more.
    fn lose(&mut self) {
        let free: Vec<_> = self.processes.free.iter().copied().collect();
        let kept: BTreeSet<_> = (free.into_iter())
            .filter(|&(process, vpn)| {
                let page = self.page(process, vpn);
                self.table.lookup(page).is_some()
                    || self.os.frames().is_swapped(page.asid, page.vpn)
            })
            .collect();
        self.processes
            .lose(|process, vpn| kept.contains(&(process, vpn)));
    }

    /// Stores to a page.
    pub fn store(&mut self, process: u32, vpn: u64, contents: u64) -> Result<(), OsError> {
        let page = self.page(process, vpn);
        self.os.note_store(page.asid, page.vpn);
        let found = self.access(page, true);
        self.processes.touch(process, vpn);
        let translation = found?;
        self.processes.write(process, vpn, contents);
        self.table.contents.insert(translation.pfn, contents);
        self.lose();
        Ok(())
    }

    fn contents(&self, pfn: Pfn) -> u64 {
        self.table.contents.get(&pfn).copied().unwrap_or(0)
    }

    /// The translation through which an access goes: the TLB's, or the page table's, after a
    /// fault if need be.
    fn access(&mut self, page: Page, store: bool) -> Result<Translation, OsError> {
        let allows = |translation: &Translation| !store || translation.writable;
        if let Some(cached) = self.tlb.get(&page.id).filter(|cached| allows(cached)) {
            return Ok(*cached);
        }
        let mut found = self.table.lookup(page).filter(allows);
        if found.is_none() {
            self.fault(page, store)?;
            found = self.table.lookup(page).filter(allows);
        }
        let translation = found.expect("a page is accessible after its fault");
        self.os.access(translation.pfn);
        self.tlb.insert(page.id, translation);
        Ok(translation)
    }

    /// Lets the memory manager move pages, or khugepaged collapse them.
    pub fn tick(&mut self) -> Result<(), OsError> {
        let collapses = self.os.config().khugepaged.is_some();
        self.table.collapsing = collapses.then(HashMap::new);
        let done = self.call(|os, table, directory, effects| os.tick(table, directory, effects));
        self.table.collapsing = None;
        self.lose();
        done
    }

    /// Lets a thread of the kernel work.
    pub fn work(&mut self, thread: KernelThread) {
        self.call(|os, table, directory, effects| os.work(thread, table, directory, effects));
    }

    /// Moves a page into its set of a restrictive segment.
    pub fn move_in(&mut self, page: Page) {
        self.call(|os, table, directory, effects| os.move_in(table, directory, page, effects));
    }

    pub fn fault(&mut self, page: Page, store: bool) -> Result<(), OsError> {
        self.call(|os, table, directory, effects| os.fault(table, directory, page, store, effects))
    }

    /// The machine's work after each call: drops stale translations, and the contents of frames
    /// that are free now.
    fn settle(&mut self) {
        for stale in &self.effects.invalidations {
            assert_eq!(stale.first.0 >> 18, (stale.first.0 + stale.pages - 1) >> 18);
            for id in stale.first.0..stale.first.0 + stale.pages {
                self.tlb.remove(&PageId(id));
            }
        }
        let (directory, flushed) = (&self.directory, &self.effects.flushed);
        self.tlb
            .retain(|&id, _| !flushed.contains(&directory.resolve(id).0));
        let frames = self.os.frames();
        self.table
            .contents
            .retain(|&pfn, _| matches!(frames.usage(pfn), FrameUse::Movable(_)));
    }

    /// Checks that everything agrees with everything.
    pub fn check(&mut self) {
        self.check_frames();
        self.check_reverse_map();
        self.check_tlb();
    }

    /// Frames by use add up, and to what the counters say.
    fn check_frames(&self) {
        let frames = self.os.frames();
        let mut counts = BTreeMap::new();
        for pfn in (0..frames.count()).map(Pfn) {
            let class = match frames.usage(pfn) {
                FrameUse::Free => "free",
                FrameUse::PageTable => "table",
                _ if frames.is_preallocated(pfn) => "preallocated",
                _ if frames.is_restricted(pfn) => "restricted",
                _ if frames.is_reserved_part(pfn) => "reserved",
                _ if frames.is_unmapped_part(pfn) => "partly mapped",
                // Nothing stays pinned between calls.
                FrameUse::Unmovable(_) => panic!("{pfn:?} is pinned"),
                FrameUse::Movable(_) => "data",
            };
            *counts.entry(class).or_insert(0u32) += 1;
        }
        let count = |class| counts.get(class).copied().unwrap_or(0);
        assert_eq!(count("free"), frames.buddy().free_frames());
        assert_eq!(count("table"), frames.table_frames());
        assert_eq!(
            u64::from(count("table")) * PAGE_BYTES,
            self.table.table_bytes()
        );
        assert_eq!(count("preallocated"), frames.preallocated_frames());
        let unmapped = count("partly mapped");
        let statistics = self.os.statistics(&self.table);
        assert_eq!(
            u64::from(unmapped) * PAGE_BYTES,
            statistics.partly_mapped_bytes
        );
        let data = count("data") + unmapped;
        assert_eq!(data, frames.data_frames());
        assert_eq!(u64::from(data) * PAGE_BYTES, self.os.resident_bytes());
        let map = self.os.memory_map(100);
        let sum: u32 = map.iter().map(|cell| cell.data).sum();
        assert_eq!(sum, data);
        let held = self.data_frames();
        assert_eq!(
            held,
            count("data"),
            "frames that nothing holds, or held twice"
        );
    }

    /// Frames that must hold data: mapped ones, and pages of shared memory that were ever touched
    /// (those that nothing maps can be told only by their contents).
    fn data_frames(&self) -> u32 {
        let frames = self.os.frames();
        let mapped: BTreeMap<Pfn, PageSize> = self
            .table
            .entries()
            .map(|(_, entry)| (entry.pfn, entry.size))
            .filter(|&(pfn, _)| !frames.is_zeros(pfn))
            .collect();
        let unmapped = self.unmapped_slots().count() as u32;
        mapped.values().map(|size| size.base_pages()).sum::<u32>() + unmapped
    }

    /// The slots of shared memory, each with its frame.
    fn slots(&self) -> impl Iterator<Item = (u32, Pfn)> {
        let frames = self.os.frames();
        let pfns = (0..frames.count()).map(Pfn);
        pfns.filter_map(|pfn| Some((frames.slot(pfn)?, pfn)))
    }

    fn unmapped_slots(&self) -> impl Iterator<Item = (u32, Pfn)> {
        (self.slots()).filter(|&(_, pfn)| self.os.frames().owners(pfn).is_empty())
    }

    /// Takes the contents of shared memory that nothing maps, by slot. Where it moves no entry says
    /// so, and what comes into its frame meanwhile must not find them.
    fn take_unmapped(&mut self) -> HashMap<u32, u64> {
        let unmapped: Vec<_> = self.unmapped_slots().collect();
        let contents = &mut self.table.contents;
        let taken = unmapped.into_iter();
        taken
            .filter_map(|(slot, pfn)| Some((slot, contents.remove(&pfn)?)))
            .collect()
    }

    /// Puts them where they are now, mapped or not.
    fn put_back(&mut self, unmapped: &HashMap<u32, u64>) {
        for (slot, pfn) in self.slots().collect::<Vec<_>>() {
            if let Some(&contents) = unmapped.get(&slot) {
                self.table.contents.insert(pfn, contents);
            }
        }
    }

    /// The reverse map equals a walk over all pages.
    fn check_reverse_map(&self) {
        let frames = self.os.frames();
        let mut walked: BTreeMap<Pfn, Vec<PageId>> = BTreeMap::new();
        for (id, entry) in self.table.entries() {
            if frames.is_zeros(entry.pfn) {
                assert!(!entry.writable, "the page of zeros may be written");
                continue;
            }
            assert_eq!(frames.usage(entry.pfn), FrameUse::Movable(entry.size));
            walked.entry(entry.pfn).or_default().push(id);
        }
        for (pfn, mut expected) in walked {
            let mut owners = frames.owners(pfn);
            assert_eq!(frames.map_count(pfn) as usize, owners.len());
            owners.sort_unstable();
            expected.sort_unstable();
            assert_eq!(owners, expected, "owners of {pfn:?}");
        }
    }

    fn check_tlb(&self) {
        for (&id, cached) in &self.tlb {
            let (asid, vpn) = self.directory.resolve(id);
            let now = self.table.lookup(Page { id, asid, vpn });
            assert_eq!(now, Some(*cached), "stale {asid:?} {vpn:?}");
        }
    }

    /// Every page of every process reads back what its program wrote last. Pages never written
    /// need no frame; where they have one it is zero. A page of shared memory that only others map
    /// may find no place in this process's page table, and one in the swap device no room under its limit.
    pub fn check_contents(&mut self) {
        let pages: Vec<(u32, u64)> = self.processes.pages.keys().copied().collect();
        for (process, vpn) in pages {
            let page = self.page(process, vpn);
            let expected = self.processes.read(process, vpn).unwrap();
            match self.table.lookup(page) {
                Some(translation) => {
                    assert_eq!(
                        self.contents(translation.pfn),
                        expected,
                        "{process} {vpn:#x}"
                    );
                }
                None if expected == 0 => {}
                None => match self.load(process, vpn) {
                    Err(OsError::NoPlace { .. } | OsError::OutOfMemory { .. })
                        if self.processes.is_shared(process, vpn) || self.table.left.is_some() => {}
                    found => assert_eq!(found, Ok(expected), "{process} {vpn:#x}"),
                },
            }
        }
        for (id, _) in self.table.entries() {
            let (Asid(process), vpn) = self.directory.resolve(id);
            assert!(
                self.processes
                    .pages
                    .contains_key(&(u32::from(process), vpn.0))
            );
        }
    }

    /// After all processes have ended, only what was in use before they started is in use.
    pub fn check_end(&mut self, processes: impl Iterator<Item = u32>) {
        for process in processes {
            self.control(process, Control::Exit { status: 0 }).unwrap();
            self.check();
        }
        let frames = self.os.frames();
        assert_eq!(frames.data_frames(), 0);
        assert_eq!(frames.table_frames(), 0);
        let restricted = (0..frames.count()).filter(|&pfn| frames.is_restricted(Pfn(pfn)));
        let used = frames.count() - frames.buddy().free_frames() - restricted.count() as u32;
        assert_eq!(used, frames.preallocated_frames());
    }
}

/// A machine of 64 MiB whose stacks do not grow.
pub fn config(page_policy: PagePolicy, utilisation: f64) -> OsConfig {
    OsConfig {
        memory_bytes: 64 << 20,
        zone_starts: vec![0, 8 << 20],
        utilisation,
        fragmentation: 0.2,
        stack_limit: 0,
        page_policy,
        zero_page: true,
        ..OsConfig::default()
    }
}
