//! The mosaic TLB beside lists of entries in order of use, over mappings that change.

use pagelab_addr::{Asid, PageId, PageSize, Pfn, Vpn};
use pagelab_memory::dispatch;
use pagelab_memory::simd::{Simd, SimdLevel};
use pagelab_translation::{
    Cpfn, Iceberg, Mapped, MosaicConfig, MosaicTlb, Page, Tlb, TlbArrayConfig, TlbConfig,
    Translation,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Entry {
    size: PageSize,
    /// The first page that it is for.
    first: u32,
    /// A mosaic page, or a page on its own.
    mosaic: bool,
    /// Frame and permission of each page that it translates; of a larger page only the first's.
    pages: BTreeMap<u32, (u32, bool)>,
}

/// One level; all kinds of entries share its sets, the most recently used first.
struct ListLevel {
    ways: usize,
    sets: Vec<Vec<Entry>>,
    group: u32,
}

impl ListLevel {
    fn new(config: TlbArrayConfig, group: u32) -> Self {
        ListLevel {
            ways: config.ways as usize,
            sets: vec![Vec::new(); (config.entries / config.ways) as usize],
            group,
        }
    }

    fn unit(&self, size: PageSize, mosaic: bool) -> u32 {
        if mosaic {
            self.group
        } else {
            size.base_pages()
        }
    }

    fn set(&mut self, page: u32, size: PageSize, mosaic: bool) -> &mut Vec<Entry> {
        let number = page / self.unit(size, mosaic);
        let sets = self.sets.len();
        &mut self.sets[number as usize % sets]
    }

    /// Looks up what may translate a page, mosaic pages first, then single pages by size.
    fn lookup(&mut self, page: u32, store: bool) -> Option<(Entry, u32)> {
        let kinds = [(PageSize::Base4K, true)]
            .into_iter()
            .chain(PageSize::ALL.map(|size| (size, false)));
        for (size, mosaic) in kinds {
            let unit = self.unit(size, mosaic);
            let first = page / unit * unit;
            let set = self.set(page, size, mosaic);
            let same = |e: &Entry| (e.size, e.mosaic, e.first) == (size, mosaic, first);
            let Some(at) = set.iter().position(same) else {
                continue;
            };
            let mut entry = set.remove(at);
            let key = if mosaic { page } else { first };
            match entry.pages.get(&key).copied() {
                Some((_, false)) if store => {
                    entry.pages.remove(&key);
                    if mosaic {
                        set.insert(0, entry);
                    }
                }
                found => {
                    set.insert(0, entry.clone());
                    if let Some((frame, _)) = found {
                        return Some((entry, frame + page - key));
                    }
                }
            }
        }
        None
    }

    fn put(&mut self, entry: Entry) {
        let ways = self.ways;
        let set = self.set(entry.first, entry.size, entry.mosaic);
        set.retain(|e| (e.size, e.mosaic, e.first) != (entry.size, entry.mosaic, entry.first));
        set.insert(0, entry);
        set.truncate(ways);
    }

    fn invalidate(&mut self, pages: std::ops::Range<u32>) {
        let group = self.group;
        for set in &mut self.sets {
            set.retain_mut(|entry| {
                if !entry.mosaic {
                    let end = entry.first + entry.size.base_pages();
                    return end <= pages.start || pages.end <= entry.first;
                }
                entry.pages.retain(|page, _| !pages.contains(page));
                // An entry all of whose pages are in the range leaves.
                entry.first < pages.start || pages.end < entry.first + group
            });
        }
    }
}

const PAGES: u32 = 1 << 11;
/// Mapped as one larger page.
const LARGE: u32 = 2 * 512;

#[derive(Clone, Debug)]
enum Step {
    Access {
        page: u32,
        store: bool,
    },
    /// An instruction is fetched, whose first level is another.
    Fetch {
        page: u32,
    },
    /// Maps a page to one of its places, or elsewhere; writable or not.
    Map {
        page: u32,
        place: Option<u8>,
        writable: bool,
    },
    Unmap {
        page: u32,
        pages: u32,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = || prop_oneof![0..80u32, 0..PAGES];
    let step = prop_oneof![
        20 => (page(), any::<bool>()).prop_map(|(page, store)| Step::Access { page, store }),
        5 => page().prop_map(|page| Step::Fetch { page }),
        10 => (page(), proptest::option::weighted(0.8, 0..Cpfn::PLACES as u8), any::<bool>())
            .prop_map(|(page, place, writable)| Step::Map { page, place, writable }),
        1 => (page(), 1u32..150).prop_map(|(page, pages)| Step::Unmap { page, pages }),
    ];
    proptest::collection::vec(step, 1..800)
}

fn geometry() -> impl Strategy<Value = TlbConfig> {
    let array =
        || (1u32..4, 1u32..20).prop_map(|(sets, ways)| TlbArrayConfig::new(sets * ways, ways));
    (array(), array()).prop_map(|(l1_4k, l2_4k)| TlbConfig {
        l1_4k,
        l1_2m: None,
        l1_1g: None,
        l2_4k,
        l2_2m: None,
        l2_1g: None,
        l2_cycles: 8,
        asids: true,
    })
}

struct Pages<'a>(&'a BTreeMap<u32, Translation>);

impl Mapped for Pages<'_> {
    fn lookup(&self, page: Page) -> Option<Translation> {
        self.0.get(&page.id.0).copied()
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
/// Mappings of a page of 2 MiB.
fn large_page() -> BTreeMap<u32, Translation> {
    let translation = |page| Translation {
        pfn: Pfn((1 << 20) + page - LARGE),
        size: PageSize::Large2M,
        writable: true,
    };
    (LARGE..LARGE + 512)
        .map(|page| (page, translation(page)))
        .collect()
}

/// Entry that a walk which finds a page enters.
fn entry_of(
    page: u32,
    found: Translation,
    mapped: &BTreeMap<u32, Translation>,
    group: u32,
    iceberg: Iceberg,
) -> Entry {
    let in_place = |page: u32, found: &Translation| {
        let mut places = (0..Cpfn::PLACES as u8).map(Cpfn);
        found.size == PageSize::Base4K
            && places.any(|cpfn| iceberg.expand(PageId(page), cpfn) == found.pfn)
    };
    let mosaic = in_place(page, &found);
    let unit = if mosaic {
        group
    } else {
        found.size.base_pages()
    };
    let first = page / unit * unit;
    let pages = if mosaic {
        (mapped.range(first..first + group))
            .filter(|(page, found)| in_place(**page, found))
            .map(|(&page, found)| (page, (found.pfn.0, found.writable)))
            .collect()
    } else {
        BTreeMap::from([(first, (found.pfn.0 - (page - first), found.writable))])
    };
    Entry {
        size: found.size,
        first,
        mosaic,
        pages,
    }
}

fn drive<S: Simd>(config: &TlbConfig, group: u32, steps: &[Step]) {
    let iceberg = Iceberg::new(Pfn(0), 1 << 14).unwrap();
    let mut fast = MosaicTlb::new(config, MosaicConfig { pages: group }, iceberg).unwrap();
    let (mut l1, mut l2) = (
        ListLevel::new(config.l1_4k, group),
        ListLevel::new(config.l2_4k, group),
    );
    let mut mapped = large_page();
    for step in steps {
        match *step {
            Step::Access { page, store } => {
                let first = fast.lookup_first::<S>(PageId(page), store);
                let slow_first = l1.lookup(page, store);
                assert_eq!(
                    first,
                    slow_first.map(|found| Pfn(found.1)),
                    "first: {step:?}"
                );
                if first.is_some() {
                    continue;
                }
                let second = fast.lookup_second::<S>(named(page), store);
                let slow_second = l2.lookup(page, store);
                assert_eq!(
                    second,
                    slow_second.as_ref().map(|found| Pfn(found.1)),
                    "{step:?}"
                );
                if let Some((entry, _)) = slow_second {
                    l1.put(entry);
                    continue;
                }
                let Some(&found) = mapped.get(&page) else {
                    continue;
                };
                if store && !found.writable {
                    continue;
                }
                fast.fill::<S>(named(page), found, &Pages(&mapped));
                let entry = entry_of(page, found, &mapped, group, iceberg);
                l1.put(entry.clone());
                l2.put(entry);
            }
            Step::Fetch { page } => {
                let found = fast.lookup_code::<S>(named(page));
                let slow = l2.lookup(page, false);
                assert_eq!(found, slow.map(|found| Pfn(found.1)), "{step:?}");
                if let (None, Some(&found)) = (found, mapped.get(&page)) {
                    fast.fill_code::<S>(named(page), found, &Pages(&mapped));
                    l2.put(entry_of(page, found, &mapped, group, iceberg));
                }
            }
            Step::Map {
                page,
                place,
                writable,
            } => {
                if (LARGE..LARGE + 512).contains(&page) {
                    continue;
                }
                let pfn = match place {
                    Some(place) => iceberg.expand(PageId(page), Cpfn(place)),
                    None => Pfn((1 << 15) + page),
                };
                let size = PageSize::Base4K;
                if mapped
                    .insert(
                        page,
                        Translation {
                            pfn,
                            size,
                            writable,
                        },
                    )
                    .is_some()
                {
                    fast.invalidate(named(page), 1);
                    l1.invalidate(page..page + 1);
                    l2.invalidate(page..page + 1);
                }
            }
            Step::Unmap { page, pages } => {
                let end = (page + pages).min(PAGES);
                if page < LARGE + 512 && LARGE < end {
                    continue;
                }
                mapped.retain(|mapped, _| !(page..end).contains(mapped));
                fast.invalidate(named(page), end - page);
                l1.invalidate(page..end);
                l2.invalidate(page..end);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn agrees_with_lists(config in geometry(), log_group in 2u32..7, steps in steps()) {
        for level in SimdLevel::available() {
            let (config, group, steps): (&TlbConfig, u32, &[Step]) = (&config, 1 << log_group, &steps);
            dispatch!(level, <S>(config: &TlbConfig, group: u32, steps: &[Step]) -> () {
                drive::<S>(config, group, steps);
            });
        }
    }
}
