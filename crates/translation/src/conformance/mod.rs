//! Duties of every page table, checked against a map of pages that cannot be wrong.
//!
//! [`run`] drives a table and its twin through generated sequences of operations over
//! [`FakeFrames`] of every utilisation. After each operation the table must agree with the twin
//! wherever it is asked, by look-up and by walk on any core; its walks must read only frames that
//! are tables; its table bytes must be those that were taken; and at the end none may be left.

mod bench;
mod fake_frames;

pub(crate) use bench::Bench;
pub(crate) use fake_frames::FakeFrames;

use crate::{MapError, Page, PageTable, Translation, Walk, Work};
use pagelab_addr::{Asid, PageDirectory, PageId, PageSize, Pfn, Vpn};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::ops::Range;

const CORES: usize = 2;

/// Runs the suite on tables that `new` makes for a number of cores, at addresses of up to
/// `address_bits` bits.
pub(crate) fn run<T: PageTable>(address_bits: u32, new: impl Fn(usize) -> T) {
    run_with(address_bits, new, |_, _| {});
}

/// Runs the suite and also checks what only this design promises, after each operation.
pub(crate) fn run_with<T: PageTable>(
    address_bits: u32,
    new: impl Fn(usize) -> T,
    promise: impl Fn(&T, &FakeFrames),
) {
    let config = Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    };
    let memory = (
        prop_oneof![Just(1 << 12), Just(1 << 15), Just((1 << 19) + 512)],
        prop_oneof![
            Just(0u32),
            Just(40),
            Just(70),
            Just(90),
            Just(98),
            Just(100)
        ],
        any::<u64>(),
    );
    let operations = proptest::collection::vec(operation(), 1..120);
    TestRunner::new(config)
        .run(
            &(memory, operations),
            |((count, percent, seed), operations)| {
                let frames = FakeFrames::new(count, percent, seed);
                let mut lab = Lab::new(new(CORES), frames, address_bits);
                for operation in operations {
                    lab.apply(&operation);
                    promise(&lab.table, &lab.frames);
                }
                lab.finish();
                Ok(())
            },
        )
        .unwrap_or_else(|failure| panic!("{failure}"));
    exhaust(address_bits, new);
}

/// One page in each of ever more regions, until no frame is left for a page or for the table.
fn exhaust<T: PageTable>(address_bits: u32, new: impl Fn(usize) -> T) {
    let mut lab = Lab::new(new(CORES), FakeFrames::new(1 << 11, 50, 7), address_bits);
    for region in 0..1 << 11 {
        let place = TestPage {
            space: 0,
            gib: (region >> 9) as usize,
            region: region & 511,
            index: 3,
        };
        if lab.frames.free_frames() == 0 || lab.map(place, PageSize::Base4K, true, true).is_err() {
            lab.finish();
            return;
        }
    }
    panic!("more pages were mapped than there are frames");
}

/// A base page; few of them, so that operations meet.
#[derive(Clone, Copy, Debug)]
struct TestPage {
    space: u16,
    gib: usize,
    region: u32,
    index: u32,
}

#[derive(Clone, Debug)]
enum Operation {
    /// Allocate virtual memory.
    Reserve(TestPage, u64, PageSize),
    /// Map a page over whatever was mapped there; the flags: writable, and whether the reverse
    /// map knows the page before the table does.
    Map(TestPage, PageSize, bool, bool),
    /// Map a frame that is mapped already also in another address space.
    Share(prop::sample::Index, u16),
    Unmap(prop::sample::Index),
    /// Change permission, or move to a fresh frame.
    Update(prop::sample::Index, bool, bool),
    /// Unmap a range and give the virtual memory up.
    Release(TestPage, u64),
    /// The same of all of an address space, which is another one from then on.
    End(u16),
    /// Walk where something is mapped.
    WalkMapped(prop::sample::Index, usize),
    /// Walk anywhere.
    Walk(TestPage, usize),
}

fn size() -> impl Strategy<Value = PageSize> {
    prop_oneof![
        6 => Just(PageSize::Base4K),
        3 => Just(PageSize::Large2M),
        1 => Just(PageSize::Huge1G),
    ]
}

fn place() -> impl Strategy<Value = TestPage> {
    let region = prop_oneof![0u32..4, 60u32..70, Just(511u32)];
    let index = prop_oneof![0u32..3, Just(8u32), Just(511u32)];
    (0u16..3, 0usize..8, region, index).prop_map(|(space, gib, region, index)| TestPage {
        space,
        gib,
        region,
        index,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    use prop::sample::Index;
    let pages = prop_oneof![1u64..2000, 1u64..100_000, 1u64..2_000_000];
    prop_oneof![
        2 => (place(), pages.clone(), size()).prop_map(|(p, n, s)| Operation::Reserve(p, n, s)),
        6 => (place(), size(), any::<bool>(), any::<bool>())
            .prop_map(|(p, s, w, r)| Operation::Map(p, s, w, r)),
        2 => (any::<Index>(), 0u16..3).prop_map(|(i, space)| Operation::Share(i, space)),
        2 => any::<Index>().prop_map(Operation::Unmap),
        2 => (any::<Index>(), any::<bool>(), any::<bool>())
            .prop_map(|(i, m, w)| Operation::Update(i, m, w)),
        1 => (place(), pages).prop_map(|(p, n)| Operation::Release(p, n)),
        1 => (0u16..3).prop_map(Operation::End),
        3 => (any::<Index>(), 0..CORES).prop_map(|(i, core)| Operation::WalkMapped(i, core)),
        2 => (place(), 0..CORES).prop_map(|(p, core)| Operation::Walk(p, core)),
    ]
}

/// A mapped page, as the twin names it.
type Key = (Asid, Vpn, PageSize);

struct Lab<T> {
    table: T,
    frames: FakeFrames,
    directory: PageDirectory,
    twin: BTreeMap<Key, Translation>,
    /// Number of mappings of each page of data, by first frame.
    mapped: BTreeMap<Pfn, u32>,
    gibs: Vec<u64>,
    /// The address spaces that there are now.
    spaces: [Asid; 3],
    walk: Walk,
}

impl<T: PageTable> Lab<T> {
    fn new(table: T, frames: FakeFrames, address_bits: u32) -> Self {
        let top = 1 << (address_bits - 30);
        Lab {
            table,
            frames,
            // As few numbers as do: those of an address space that has ended are others' soon.
            directory: PageDirectory::of_at_most(3 * 8),
            twin: BTreeMap::new(),
            mapped: BTreeMap::new(),
            // Neighbours, and such as share ever fewer levels of a radix tree.
            gibs: vec![0, 1, 2, 511, 512, top / 4, top / 2 - 2, top / 2 - 1],
            spaces: [Asid(0), Asid(1), Asid(2)],
            walk: Walk::new(),
        }
    }

    fn asid(&self, space: u16) -> Asid {
        self.spaces[usize::from(space)]
    }

    fn vpn(&self, place: TestPage) -> Vpn {
        let TestPage {
            gib, region, index, ..
        } = place;
        let first = self.gibs[gib % self.gibs.len()] << 18;
        Vpn(first + u64::from(region << 9 | index))
    }

    fn page(&mut self, asid: Asid, vpn: Vpn) -> Page {
        let id = self.directory.page(asid, vpn).expect("few gibs");
        Page { id, asid, vpn }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Reserve(place, pages, size) => {
                let vpn = self.vpn(place);
                let page = self.page(self.asid(place.space), vpn);
                let mut work = Work::default();
                // Up to the next 512 GiB at most, so as not to run over the top of addresses.
                let pages = pages.min((1 << 27) - (vpn.0 & ((1 << 27) - 1)));
                self.table
                    .reserve(&mut self.frames, page, pages, size, &mut work);
                self.follow(&work, None);
            }
            Operation::Map(place, size, writable, known) => {
                let _ = self.map(place, size, writable, known);
            }
            Operation::Share(index, space) => {
                let Some((key, translation)) = self.pick(index) else {
                    return;
                };
                let page = (self.asid(space), key.1, key.2);
                if page.0 != key.0 {
                    self.clear(page);
                    // Clearing leaves the frame alone: its first owner is in another space.
                    let _ = self.enter(page, translation, true);
                }
            }
            Operation::Unmap(index) => {
                if let Some((key, _)) = self.pick(index) {
                    self.unmap(key);
                }
            }
            Operation::Update(index, moves, writable) => {
                let Some((key, old)) = self.pick(index) else {
                    return;
                };
                let moved = moves.then(|| self.frames.allocate_data(key.2, true));
                let pfn = moved.flatten().unwrap_or(old.pfn);
                let new = Translation {
                    pfn,
                    writable,
                    ..old
                };
                let page = self.page(key.0, key.1);
                assert!(self.table.update(page, new));
                self.twin.insert(key, new);
                if pfn != old.pfn {
                    self.take(page.id, pfn);
                    self.drop_frame(page.id, old.pfn);
                }
            }
            Operation::Release(place, pages) => {
                let first = self.vpn(place);
                self.release(self.asid(place.space), first, pages);
            }
            Operation::End(space) => self.end(space),
            Operation::WalkMapped(index, core) => {
                if let Some((key, _)) = self.pick(index) {
                    let offset = index.index(key.2.base_pages() as usize) as u64;
                    self.check(core, key.0, Vpn(key.1.0 + offset));
                }
            }
            Operation::Walk(place, core) => {
                let vpn = self.vpn(place);
                let reach = u64::from(place.region * 7 + place.index);
                self.check_range(self.asid(place.space), vpn.0..vpn.0 + reach);
                self.check(core, self.asid(place.space), vpn);
            }
        }
        assert_eq!(self.table.table_bytes(), self.frames.table_bytes());
        for asid in self.spaces {
            self.check_range(asid, 0..u64::MAX);
        }
    }

    fn pick(&self, index: prop::sample::Index) -> Option<(Key, Translation)> {
        if self.twin.is_empty() {
            return None;
        }
        let (key, translation) = self.twin.iter().nth(index.index(self.twin.len()))?;
        Some((*key, *translation))
    }

    /// Maps a fresh page of data; the caller's memory may be short of one.
    fn map(
        &mut self,
        place: TestPage,
        size: PageSize,
        writable: bool,
        known: bool,
    ) -> Result<(), MapError> {
        let page = (
            self.asid(place.space),
            self.vpn(place).align_down(size),
            size,
        );
        self.clear(page);
        let Some(pfn) = self.frames.allocate_data(size, true) else {
            return Ok(());
        };
        self.enter(
            page,
            Translation {
                pfn,
                size,
                writable,
            },
            known,
        )
    }

    /// Maps a page where nothing is mapped, to frames in use.
    fn enter(&mut self, key: Key, translation: Translation, known: bool) -> Result<(), MapError> {
        let page = self.page(key.0, key.1);
        if known {
            self.frames.owners(translation.pfn).push(page.id);
        }
        let mut work = Work::default();
        let result = self
            .table
            .map(&mut self.frames, page, translation, &mut work);
        let pfn = self.follow(&work, Some(translation.pfn)).expect("as given");
        if !known {
            self.frames.owners(pfn).push(page.id);
        }
        *self.mapped.entry(pfn).or_default() += 1;
        if result.is_ok() {
            self.twin.insert(key, Translation { pfn, ..translation });
            self.check(0, key.0, key.1);
        } else {
            assert!(
                self.table.lookup(page).is_none(),
                "a failed map left a mapping"
            );
            self.drop_frame(page.id, pfn);
        }
        result
    }

    fn take(&mut self, owner: PageId, pfn: Pfn) {
        self.frames.owners(pfn).push(owner);
        *self.mapped.entry(pfn).or_default() += 1;
    }

    fn drop_frame(&mut self, owner: PageId, pfn: Pfn) {
        let owners = self.frames.owners(pfn);
        let at = owners.iter().position(|&id| id == owner).expect("an owner");
        owners.swap_remove(at);
        let count = self.mapped.get_mut(&pfn).expect("mapped");
        *count -= 1;
        if *count == 0 {
            self.mapped.remove(&pfn);
            self.frames.free_data(pfn);
        }
    }

    /// Applies to the twin what the table reported as moved; says where `watched` is now.
    fn follow(&mut self, work: &Work, mut watched: Option<Pfn>) -> Option<Pfn> {
        for moved in &work.displaced {
            for translation in self.twin.values_mut() {
                if translation.pfn == moved.from {
                    translation.pfn = moved.to;
                }
            }
            if let Some(count) = self.mapped.remove(&moved.from) {
                self.mapped.insert(moved.to, count);
            }
            if watched == Some(moved.from) {
                watched = Some(moved.to);
            }
        }
        watched
    }

    fn unmap(&mut self, key: Key) {
        let old = self.twin.remove(&key).expect("mapped");
        let page = self.page(key.0, key.1);
        let mut work = Work::default();
        let unmapped = self.table.unmap(&mut self.frames, page, key.2, &mut work);
        assert_eq!(unmapped, Some(old), "{key:?}");
        self.follow(&work, None);
        let again = self.table.unmap(&mut self.frames, page, key.2, &mut work);
        assert_eq!(again, None, "{key:?} was unmapped twice");
        assert!(!self.table.update(page, old));
        self.drop_frame(page.id, old.pfn);
        for core in 0..CORES {
            self.check(core, key.0, key.1);
        }
    }

    /// Unmaps everything that a page would overlap.
    fn clear(&mut self, (asid, vpn, size): Key) {
        let end = vpn.0 + u64::from(size.base_pages());
        self.clear_range(asid, vpn, end);
    }

    fn clear_range(&mut self, asid: Asid, first: Vpn, end: u64) {
        let overlapping: Vec<Key> = self
            .twin
            .keys()
            .filter(|(space, vpn, size)| {
                *space == asid && vpn.0 < end && vpn.0 + u64::from(size.base_pages()) > first.0
            })
            .copied()
            .collect();
        for key in overlapping {
            self.unmap(key);
        }
    }

    fn release(&mut self, asid: Asid, first: Vpn, pages: u64) {
        self.clear_range(asid, first, first.0 + pages);
        let page = self.page(asid, first);
        self.table.release(&mut self.frames, page, pages);
        for core in 0..CORES {
            self.check(core, asid, first);
        }
    }

    /// Ends an address space; the next one in its place has pages at the same addresses.
    fn end(&mut self, space: u16) {
        let asid = self.asid(space);
        for gib in self.gibs.clone() {
            self.release(asid, Vpn(gib << 18), 1 << 27);
        }
        self.table.end(&mut self.frames, asid);
        self.directory.give_back(asid);
        self.spaces[usize::from(space)] = Asid(asid.0 + 3);
    }

    /// The twin's answer for a base page.
    fn expected(&self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        PageSize::ALL.iter().find_map(|&size| {
            let first = vpn.align_down(size);
            let whole = self.twin.get(&(asid, first, size))?;
            Some(Translation {
                pfn: Pfn(whole.pfn.0 + (vpn.0 - first.0) as u32),
                ..*whole
            })
        })
    }

    fn check(&mut self, core: usize, asid: Asid, vpn: Vpn) {
        let page = self.page(asid, vpn);
        let expected = self.expected(asid, vpn);
        assert_eq!(self.table.lookup(page), expected, "look-up of {page:?}");
        for size in PageSize::ALL {
            let first = vpn.align_down(size).0;
            let end = first + u64::from(size.base_pages());
            let overlapping = self.twin.keys().find(|(space, vpn, size)| {
                let last = vpn.0 + u64::from(size.base_pages());
                *space == asid && vpn.0 < end && last > first
            });
            let unmapped = self.table.is_unmapped(page, size);
            assert_eq!(unmapped, overlapping.is_none(), "{size:?} around {page:?}");
        }
        self.table.host_prefetch(page);
        self.walk.clear();
        let walked = self.table.walk(core, page, &mut self.walk);
        assert_eq!(walked, expected, "walk of {page:?} on core {core}");
        let mut step = 0;
        for read in self.walk.reads() {
            assert!(self.frames.is_table(read.addr), "{read:?} reads no table");
            assert!(read.step == step || read.step == step + 1, "{read:?}");
            step = read.step;
        }
    }

    /// The mapped pages of a range are the twin's that reach into it, in order.
    fn check_range(&self, asid: Asid, pages: Range<u64>) {
        let mut at = pages.start;
        let mut found = Vec::new();
        while let Some(run) = self.table.next_mapped(asid, at..pages.end) {
            found.extend(run.pages().map(|page| (page.vpn, run.size, page.id)));
            at = run.end();
        }
        let overlaps = |&&(space, vpn, size): &&Key| {
            let end = vpn.0 + u64::from(size.base_pages());
            space == asid && vpn.0 < pages.end && end > pages.start
        };
        let expected = self.twin.keys().filter(overlaps);
        let expected: Vec<_> = expected.map(|&(_, vpn, size)| (vpn, size)).collect();
        let named: Vec<_> = found.iter().map(|&(vpn, size, _)| (vpn, size)).collect();
        assert_eq!(named, expected, "mapped in {pages:?} of {asid:?}");
        for (vpn, size, id) in found {
            assert_eq!(self.directory.resolve(id), (asid, vpn));
            let page = Page { id, asid, vpn };
            for wanted in PageSize::ALL {
                assert!(
                    !self.table.is_unmapped(page, wanted),
                    "{page:?} of {size:?}"
                );
            }
        }
    }

    fn check_all(&mut self) {
        for (asid, vpn, _) in self.twin.keys().copied().collect::<Vec<_>>() {
            for core in 0..CORES {
                self.check(core, asid, vpn);
            }
        }
    }

    /// Gives everything back: no table may be left.
    fn finish(mut self) {
        self.check_all();
        for key in self.twin.keys().copied().collect::<Vec<_>>() {
            self.unmap(key);
        }
        for space in 0..3 {
            self.end(space);
        }
        assert_eq!(self.table.table_bytes(), 0);
        assert_eq!(self.frames.table_bytes(), 0, "table frames are left");
        assert!(self.mapped.is_empty());
    }
}
