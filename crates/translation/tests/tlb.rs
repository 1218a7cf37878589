//! The conventional TLB beside lists of (size, page) in order of use.

use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};
use pagelab_memory::dispatch;
use pagelab_memory::simd::{Simd, SimdLevel};
use pagelab_translation::{
    ConventionalTlb, Mapped, Page, Tlb, TlbArrayConfig, TlbConfig, Translation,
};
use proptest::prelude::*;

/// Level that had the page, and its frame.
#[derive(Debug, PartialEq)]
enum Found {
    First(Pfn),
    Second(Pfn),
    Nowhere,
}

/// One array: sets of (size, first page, frame, writable), most recently used first.
struct ListArray {
    ways: usize,
    sets: Vec<Vec<(PageSize, u32, u32, bool)>>,
}

impl ListArray {
    fn new(config: TlbArrayConfig) -> Self {
        ListArray {
            ways: config.ways as usize,
            sets: vec![Vec::new(); (config.entries / config.ways) as usize],
        }
    }

    fn set(&mut self, page: u32, size: PageSize) -> &mut Vec<(PageSize, u32, u32, bool)> {
        let sets = self.sets.len();
        &mut self.sets[(page / size.base_pages()) as usize % sets]
    }

    fn take(&mut self, page: u32, size: PageSize) -> Option<(PageSize, u32, u32, bool)> {
        let first = page - page % size.base_pages();
        let set = self.set(page, size);
        let at = set.iter().position(|e| (e.0, e.1) == (size, first))?;
        Some(set.remove(at))
    }

    fn put(&mut self, entry: (PageSize, u32, u32, bool)) {
        let ways = self.ways;
        let set = self.set(entry.1, entry.0);
        set.insert(0, entry);
        set.truncate(ways);
    }
}

/// Two levels, the 2 MiB and 1 GiB pages in arrays of their own or not.
struct ListTlb {
    l1: Vec<ListArray>,
    l2: Vec<ListArray>,
    l1_of: [usize; 3],
    l2_of: [usize; 3],
}

impl ListTlb {
    fn new(config: &TlbConfig) -> Self {
        let level = |configs: [Option<TlbArrayConfig>; 3]| {
            let (mut arrays, mut of) = (Vec::new(), [0; 3]);
            for (size, config) in configs.into_iter().enumerate() {
                arrays.extend(config.map(ListArray::new));
                of[size] = arrays.len() - 1;
            }
            (arrays, of)
        };
        let (l1, l1_of) = level([Some(config.l1_4k), config.l1_2m, config.l1_1g]);
        let (l2, l2_of) = level([Some(config.l2_4k), config.l2_2m, config.l2_1g]);
        ListTlb {
            l1,
            l2,
            l1_of,
            l2_of,
        }
    }

    fn lookup(&mut self, page: u32, store: bool) -> Found {
        let pfn = |entry: (PageSize, u32, u32, bool)| Pfn(entry.2 + page - entry.1);
        for size in PageSize::ALL {
            if let Some(entry) = self.l1[self.l1_of[size as usize]].take(page, size)
                && (entry.3 || !store)
            {
                self.l1[self.l1_of[size as usize]].put(entry);
                return Found::First(pfn(entry));
            }
        }
        for size in PageSize::ALL {
            if let Some(entry) = self.l2[self.l2_of[size as usize]].take(page, size)
                && (entry.3 || !store)
            {
                self.l2[self.l2_of[size as usize]].put(entry);
                self.l1[self.l1_of[size as usize]].put(entry);
                return Found::Second(pfn(entry));
            }
        }
        Found::Nowhere
    }
}

/// Mapped pages of the test: 2 MiB pages in every third region, 1 GiB pages in 1 GiB region 2, the rest by 4 KiB
/// pages; frames equal page numbers so that every answer can be checked.
fn mapping(page: u32, writable: bool) -> Translation {
    let size = match (page >> 18, (page >> 9) % 3) {
        (2, _) => PageSize::Huge1G,
        (_, 0) => PageSize::Large2M,
        _ => PageSize::Base4K,
    };
    Translation {
        pfn: Pfn(page),
        size,
        writable,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Access { page: u32, store: bool },
    Invalidate { page: u32, pages: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = (0u32..4, 0u32..40, 0u32..40)
        .prop_map(|(gib, region, index)| gib << 18 | region << 9 | index);
    let step = prop_oneof![
        40 => (page.clone(), any::<bool>()).prop_map(|(page, store)| Step::Access { page, store }),
        1 => (page, 1u32..1500).prop_map(|(page, pages)| Step::Invalidate { page, pages }),
    ];
    proptest::collection::vec(step, 1..600)
}

fn geometry() -> impl Strategy<Value = TlbConfig> {
    let array =
        || (1u32..5, 1u32..20).prop_map(|(sets, ways)| TlbArrayConfig::new(sets * ways, ways));
    let optional = move || proptest::option::of(array());
    (
        array(),
        optional(),
        optional(),
        array(),
        optional(),
        optional(),
    )
        .prop_map(|(l1_4k, l1_2m, l1_1g, l2_4k, l2_2m, l2_1g)| TlbConfig {
            l1_4k,
            l1_2m,
            l1_1g,
            l2_4k,
            l2_2m,
            l2_1g,
            l2_cycles: 8,
            asids: true,
        })
}

/// A walk has read nothing but the page that it was for.
struct Nothing;

impl Mapped for Nothing {
    fn lookup(&self, _: Page) -> Option<Translation> {
        None
    }
}

fn named(page: u32) -> Page {
    Page {
        id: PageId(page),
        asid: Asid(0),
        vpn: Vpn(u64::from(page)),
    }
}

#[inline(always)]
fn drive<S: Simd>(config: &TlbConfig, steps: &[Step]) {
    let mut fast = ConventionalTlb::new(config).unwrap();
    let mut slow = ListTlb::new(config);
    // A page becomes writable at the first store to it, as after a copy-on-write fault.
    let mut written = std::collections::HashSet::new();
    for step in steps {
        match *step {
            Step::Access { page, store } => {
                let found = if let Some(pfn) = fast.lookup_first::<S>(PageId(page), store) {
                    Found::First(pfn)
                } else if let Some(pfn) = fast.lookup_second::<S>(named(page), store) {
                    Found::Second(pfn)
                } else {
                    Found::Nowhere
                };
                assert_eq!(found, slow.lookup(page, store), "{step:?}");
                if found == Found::Nowhere {
                    let size = mapping(page, true).size;
                    let first = page - page % size.base_pages();
                    if store {
                        written.insert(first);
                    }
                    let found = mapping(page, written.contains(&first));
                    fast.fill::<S>(named(page), found, &Nothing);
                    let entry = (size, first, first, found.writable);
                    slow.l1[slow.l1_of[size as usize]].put(entry);
                    slow.l2[slow.l2_of[size as usize]].put(entry);
                }
            }
            Step::Invalidate { page, pages } => {
                let pages = pages.min((1 << 18) - (page & 0x3ffff));
                fast.invalidate(named(page), pages);
                for array in slow.l1.iter_mut().chain(&mut slow.l2) {
                    for set in &mut array.sets {
                        set.retain(|e| e.1 + e.0.base_pages() <= page || e.1 >= page + pages);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn equals_lists_in_order_of_use(config in geometry(), steps in steps()) {
        for level in SimdLevel::available() {
            let (config, steps): (&TlbConfig, &[Step]) = (&config, &steps);
            dispatch!(level, <S>(config: &TlbConfig, steps: &[Step]) -> () {
                drive::<S>(config, steps);
            });
        }
    }
}

#[test]
fn an_array_without_whole_sets_is_refused() {
    let good = TlbArrayConfig::new(64, 4);
    let config = TlbConfig {
        l1_4k: TlbArrayConfig::new(64, 5),
        l1_2m: None,
        l1_1g: None,
        l2_4k: good,
        l2_2m: None,
        l2_1g: None,
        l2_cycles: 8,
        asids: true,
    };
    assert!(ConventionalTlb::new(&config).is_err());
}
