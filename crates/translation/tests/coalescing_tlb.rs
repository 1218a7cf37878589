//! A TLB whose entries cover several 4 KiB pages beside one that keeps lists of the pages that each
//! entry has, in order of use.

use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};
use pagelab_memory::dispatch;
use pagelab_memory::simd::{Baseline, Simd, SimdLevel};
use pagelab_translation::{
    ConventionalTlb, Mapped, Page, Tlb, TlbArrayConfig, TlbConfig, Translation,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Mapped pages: the frame of each, and whether it may be written.
type Memory = BTreeMap<u32, (u32, bool)>;

struct Walked<'a>(&'a Memory);

impl Mapped for Walked<'_> {
    fn lookup(&self, page: Page) -> Option<Translation> {
        assert_eq!(page.vpn.0, u64::from(page.id.0) + VPN, "both names move");
        let &(frame, writable) = self.0.get(&page.id.0)?;
        Some(Translation {
            pfn: Pfn(frame),
            size: PageSize::Base4K,
            writable,
        })
    }
}

/// Virtual page numbers are not the dense ones.
const VPN: u64 = 0x10_0000;

fn named(page: u32) -> Page {
    Page {
        id: PageId(page),
        asid: Asid(0),
        vpn: Vpn(u64::from(page) + VPN),
    }
}

/// An entry: the pages that it has, each with its frame; it is that of one page or of a group.
#[derive(Clone, Debug)]
struct Entry {
    group: bool,
    pages: Vec<(u32, u32)>,
    writable: bool,
}

impl Entry {
    fn frame(&self, page: u32) -> Option<u32> {
        Some(self.pages.iter().find(|p| p.0 == page)?.1)
    }
}

struct ListLevel {
    config: TlbArrayConfig,
    sets: Vec<Vec<Entry>>,
}

impl ListLevel {
    fn new(config: TlbArrayConfig) -> Self {
        ListLevel {
            config,
            sets: vec![Vec::new(); (config.entries / config.ways) as usize],
        }
    }

    /// Sets are chosen by the page or, for an entry of several, by the group.
    fn set(&mut self, page: u32, group: bool) -> &mut Vec<Entry> {
        let pages = if group { self.config.coalesce } else { 1 };
        let sets = self.sets.len();
        &mut self.sets[(page / pages) as usize % sets]
    }

    fn look(&mut self, page: u32, store: bool) -> Option<Entry> {
        for group in [false, true] {
            let set = self.set(page, group);
            let has = |e: &Entry| e.group == group && e.frame(page).is_some();
            let Some(at) = set.iter().position(has) else {
                continue;
            };
            let entry = set.remove(at);
            if entry.writable || !store {
                set.insert(0, entry.clone());
                return Some(entry);
            }
        }
        None
    }

    /// Enters as much of what `from` has as an entry of this level can.
    fn enter(&mut self, page: u32, from: &Entry) {
        let TlbArrayConfig {
            coalesce,
            partial,
            ways,
            ..
        } = self.config;
        let mut pages = from.pages.clone();
        pages.retain(|p| p.0 / coalesce == page / coalesce);
        let whole = pages.len() as u32 == coalesce && pages[0].1.is_multiple_of(coalesce);
        let group = coalesce > 1 && (whole || partial && pages.len() > 1);
        if !group {
            pages.retain(|p| p.0 == page);
        }
        let set = self.set(page, group);
        if group {
            // One entry of a group at a time.
            set.retain(|e| !(e.group && e.pages[0].0 / coalesce == page / coalesce));
        }
        set.insert(
            0,
            Entry {
                group,
                pages,
                writable: from.writable,
            },
        );
        set.truncate(ways as usize);
    }

    fn drop_all(&mut self, first: u32, pages: u32) {
        for set in &mut self.sets {
            set.retain(|e| e.pages.iter().all(|p| p.0 < first || p.0 >= first + pages));
        }
    }
}

/// The pages around one that are contiguous with it in both memories, page by page, in its 16.
fn row(memory: &Memory, page: u32) -> Entry {
    let (frame, writable) = memory[&page];
    let same = |other: &u32| {
        memory
            .get(other)
            .is_some_and(|&(f, w)| w == writable && f + page == frame + other)
    };
    let below = (page / 16 * 16..page).rev().take_while(same);
    let above = (page + 1..page / 16 * 16 + 16).take_while(same);
    let mut all: Vec<u32> = below.chain([page]).chain(above).collect();
    all.sort_unstable();
    Entry {
        group: false,
        pages: all.into_iter().map(|p| (p, memory[&p].0)).collect(),
        writable,
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A missing page is mapped first, where the frame of the run says, or elsewhere.
    Access { page: u32, store: bool },
    /// Pages are mapped in a row, from a frame on.
    Map {
        page: u32,
        pages: u32,
        frame: u32,
        writable: bool,
    },
    /// Some pages go, and the TLB is told.
    Unmap { page: u32, pages: u32 },
    /// A page moves, and the TLB is told.
    Move { page: u32, frame: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = 0u32..160;
    let step = prop_oneof![
        60 => (page.clone(), any::<bool>()).prop_map(|(page, store)| Step::Access { page, store }),
        6 => (page.clone(), 1u32..40, 0u32..64, 0u32..4, any::<bool>()).prop_map(
            |(page, pages, block, off, writable)| Step::Map {
                page,
                pages,
                // Aligned as the page is, or a little off.
                frame: block * 1024 + page + if off == 3 { 1 } else { 0 },
                writable,
            }
        ),
        2 => (page.clone(), 1u32..30).prop_map(|(page, pages)| Step::Unmap { page, pages }),
        2 => (page.clone(), 1u32..2).prop_map(|(page, pages)| Step::Unmap { page, pages }),
        2 => (page, 0u32..100_000).prop_map(|(page, frame)| Step::Move { page, frame }),
    ];
    proptest::collection::vec(step, 1..500)
}

fn array() -> impl Strategy<Value = TlbArrayConfig> {
    let kind = prop_oneof![
        Just((1, false)),
        Just((4, false)),
        Just((8, false)),
        Just((16, false)),
        Just((4, true)),
        Just((8, true)),
    ];
    (1u32..5, 1u32..20, kind).prop_map(|(sets, ways, (coalesce, partial))| TlbArrayConfig {
        coalesce,
        partial,
        ..TlbArrayConfig::new(sets * ways, ways)
    })
}

#[inline(always)]
fn drive<S: Simd>(l1: TlbArrayConfig, l2: TlbArrayConfig, steps: &[Step]) {
    let config = TlbConfig {
        l1_4k: l1,
        l1_2m: None,
        l1_1g: None,
        l2_4k: l2,
        l2_2m: None,
        l2_1g: None,
        l2_cycles: 8,
        asids: true,
    };
    let mut fast = ConventionalTlb::new(&config).unwrap();
    let (mut slow1, mut slow2) = (ListLevel::new(l1), ListLevel::new(l2));
    let mut memory = Memory::new();
    for step in steps {
        match *step {
            Step::Access { page, store } => {
                let first = fast.lookup_first::<S>(PageId(page), store);
                let slow_first = slow1.look(page, store);
                let expected = slow_first.as_ref().and_then(|e| e.frame(page)).map(Pfn);
                assert_eq!(first, expected, "first level, {step:?}");
                if first.is_some() {
                    assert_eq!(first.map(|f| f.0), memory.get(&page).map(|m| m.0));
                    continue;
                }
                let second = fast.lookup_second::<S>(named(page), store);
                let slow_second = slow2.look(page, store);
                let expected = slow_second.as_ref().and_then(|e| e.frame(page)).map(Pfn);
                assert_eq!(second, expected, "second level, {step:?}");
                if let Some(entry) = slow_second {
                    slow1.enter(page, &entry);
                    continue;
                }
                // A fault: the page appears, or becomes writable, which its copies are told of.
                let old = memory.get(&page).copied();
                let now = match old {
                    None => (page + 2048, true),
                    Some((frame, writable)) => (frame, writable || store),
                };
                if old.is_some_and(|old| old != now) {
                    fast.invalidate(named(page), 1);
                    slow1.drop_all(page, 1);
                    slow2.drop_all(page, 1);
                }
                memory.insert(page, now);
                let found = Walked(&memory).lookup(named(page)).unwrap();
                fast.fill::<S>(named(page), found, &Walked(&memory));
                let entry = row(&memory, page);
                slow1.enter(page, &entry);
                slow2.enter(page, &entry);
            }
            Step::Map {
                page,
                pages,
                frame,
                writable,
            } => {
                fast.invalidate(named(page), pages);
                slow1.drop_all(page, pages);
                slow2.drop_all(page, pages);
                memory.extend((0..pages).map(|i| (page + i, (frame + i, writable))));
            }
            Step::Unmap { page, pages } => {
                fast.invalidate(named(page), pages);
                slow1.drop_all(page, pages);
                slow2.drop_all(page, pages);
                memory.retain(|&p, _| p < page || p >= page + pages);
            }
            Step::Move { page, frame } => {
                fast.invalidate(named(page), 1);
                slow1.drop_all(page, 1);
                slow2.drop_all(page, 1);
                if let Some(there) = memory.get_mut(&page) {
                    there.0 = frame;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn equals_lists_of_the_pages_of_each_entry(l1 in array(), l2 in array(), steps in steps()) {
        for level in SimdLevel::available() {
            let (l1, l2, steps): (TlbArrayConfig, TlbArrayConfig, &[Step]) = (l1, l2, &steps);
            dispatch!(level, <S>(l1: TlbArrayConfig, l2: TlbArrayConfig, steps: &[Step]) -> () {
                drive::<S>(l1, l2, steps);
            });
        }
    }
}

fn tlb(l1_4k: TlbArrayConfig, l1_2m: Option<TlbArrayConfig>) -> TlbConfig {
    TlbConfig {
        l1_4k,
        l1_2m,
        l1_1g: None,
        l2_4k: TlbArrayConfig::new(64, 4),
        l2_2m: None,
        l2_1g: None,
        l2_cycles: 8,
        asids: true,
    }
}

/// Sixteen pages in a row of frames, through a first level of four entries that cover four each:
/// a walk each, and then all are there.
#[test]
fn four_entries_reach_sixteen_pages() {
    let memory: Memory = (0..16).map(|p| (p, (p + 64, true))).collect();
    let four = TlbArrayConfig {
        coalesce: 4,
        ..TlbArrayConfig::new(4, 4)
    };
    let mut tlb = ConventionalTlb::new(&tlb(four, None)).unwrap();
    for page in 0..16 {
        let found = tlb.lookup_first::<Baseline>(PageId(page), true);
        assert_eq!(found.is_some(), page % 4 != 0);
        if found.is_none() {
            let found = Walked(&memory).lookup(named(page)).unwrap();
            let walked = Walked(&memory);
            let order = tlb.fill::<Baseline>(named(page), found, &walked);
            assert_eq!(order, 2);
        }
    }
    assert_eq!(tlb.counters().l1_misses, 4);
}

#[test]
fn what_cannot_be_is_refused() {
    let entries = TlbArrayConfig::new(64, 4);
    for (coalesce, partial) in [
        (0, false),
        (2, false),
        (3, false),
        (32, false),
        (16, true),
        (1, true),
    ] {
        let array = TlbArrayConfig {
            coalesce,
            partial,
            ..entries
        };
        assert!(ConventionalTlb::new(&tlb(array, None)).is_err());
    }
    let larger = TlbArrayConfig {
        coalesce: 4,
        ..entries
    };
    assert!(ConventionalTlb::new(&tlb(entries, Some(larger))).is_err());
}
