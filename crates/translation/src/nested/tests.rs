use super::*;
use crate::conformance::{self, FakeFrames};
use crate::{Dpt, DptConfig, Radix, RadixConfig, Run, WalkCacheConfig};
use std::collections::HashSet;

const GUEST_FRAMES: u32 = 1 << 15;

fn without_tlb() -> NestedConfig {
    NestedConfig {
        tlb: WalkCacheConfig::NONE,
        ..NestedConfig::default()
    }
}

fn radix(levels: u32) -> Radix {
    let mut config = RadixConfig {
        levels,
        ..RadixConfig::default()
    };
    let pwc = &mut config.pwc;
    for cache in [&mut pwc.pgd, &mut pwc.p4d, &mut pwc.pud, &mut pwc.pmd] {
        *cache = WalkCacheConfig::NONE;
    }
    Radix::new(&config, 1).unwrap()
}

/// The host's frame for a frame of the guest.
fn host_frame(frame: u32) -> Pfn {
    Pfn((1 << 18) + (frame ^ 0x155))
}

/// The host's table, with the whole memory of the guest mapped, and its frames.
fn backed<H: PageTable>(mut host: H) -> (H, FakeFrames) {
    let mut frames = FakeFrames::new(1 << 19, 0, 1);
    for frame in 0..GUEST_FRAMES {
        let translation = Translation {
            pfn: host_frame(frame),
            size: PageSize::Base4K,
            writable: true,
        };
        let mut work = Work::default();
        host.map(&mut frames, host_page(Pfn(frame)), translation, &mut work)
            .unwrap();
    }
    (host, frames)
}

fn page(vpn: u64) -> Page {
    Page {
        id: PageId(vpn as u32),
        asid: Asid(1),
        vpn: Vpn(vpn),
    }
}

/// Reads of the first walk and of one more for another page beside it.
fn reads<G: PageTable, H: PageTable>(guest: G, host: H) -> [Vec<crate::WalkRead>; 2] {
    let (host, host_frames) = backed(host);
    let mut nested = Nested::new(guest, host, &without_tlb(), 1).unwrap();
    let mut frames = FakeFrames::new(GUEST_FRAMES, 0, 2);
    let mut tables = HashSet::new();
    for vpn in [5, 6] {
        let translation = Translation {
            pfn: Pfn(100 + vpn as u32),
            size: PageSize::Base4K,
            writable: vpn == 5,
        };
        let mut work = Work::default();
        nested
            .map(&mut frames, page(vpn), translation, &mut work)
            .unwrap();
    }
    for frame in
        (0..GUEST_FRAMES).filter(|&frame| frames.usage(Pfn(frame)) == crate::FrameUse::PageTable)
    {
        tables.insert(host_frame(frame));
    }
    [5, 6].map(|vpn| {
        let mut walk = Walk::new();
        let found = nested.walk(0, page(vpn), &mut walk).unwrap();
        assert_eq!(found.pfn, host_frame(100 + vpn as u32));
        assert_eq!(found.writable, vpn == 5);
        // Each read is of the guest's tables where the host has them, or of the host's.
        for read in walk.reads() {
            let frame = read.addr.pfn();
            let of_host = host_frames.usage(frame) == crate::FrameUse::PageTable;
            assert!(of_host || tables.contains(&frame), "{read:?}");
        }
        walk.reads().to_vec()
    })
}

/// Bhargava et al., ASPLOS 2008, figure 1: each of n guest levels takes m host reads and its own,
/// and the data's address m more: (n + 1)(m + 1) - 1, one after the other.
#[test]
fn cold_radix_walks_read_24_and_35_entries() {
    for (levels, expected) in [(4, 24), (5, 35)] {
        for reads in reads(radix(levels), radix(levels)) {
            assert_eq!(reads.len(), expected);
            let steps: Vec<u8> = reads.iter().map(|read| read.step).collect();
            assert_eq!(steps, (0..expected as u8).collect::<Vec<_>>());
        }
    }
}

/// DPT paper, section VII-F: one read for the guest's entry, one for its address, one for the
/// data's address. Its metadata caches know where the entries are by the second walk.
#[test]
fn dpt_walks_read_3_entries() {
    let dpt = || Dpt::new(&DptConfig::default(), 1).unwrap();
    let [cold, warm] = reads(dpt(), dpt());
    assert_eq!(warm.len(), 3);
    assert!(cold.len() > 3);
}

#[test]
fn guest_and_host_may_differ() {
    let dpt = Dpt::new(&DptConfig::default(), 1).unwrap();
    let [_, warm] = reads(radix(4), dpt);
    assert_eq!(warm.len(), 4 * 2 + 1);
}

#[test]
fn the_nested_tlb_spares_the_translation_of_tables() {
    let (host, _) = backed(radix(4));
    let mut nested = Nested::new(radix(4), host, &NestedConfig::default(), 1).unwrap();
    let mut frames = FakeFrames::new(GUEST_FRAMES, 0, 2);
    let translation = Translation {
        pfn: Pfn(9),
        size: PageSize::Base4K,
        writable: true,
    };
    let mut work = Work::default();
    nested
        .map(&mut frames, page(5), translation, &mut work)
        .unwrap();
    let mut count = || {
        let mut walk = Walk::new();
        nested.walk(0, page(5), &mut walk).unwrap();
        walk.reads().len()
    };
    assert_eq!(count(), 24);
    assert_eq!(count(), 4 + 4);
}

/// An entry reaches as far as the smaller page.
#[test]
fn a_large_page_of_the_guest_is_as_large_as_the_hosts() {
    let (host, _) = backed(radix(4));
    let mut nested = Nested::new(radix(4), host, &without_tlb(), 1).unwrap();
    let mut frames = FakeFrames::new(GUEST_FRAMES, 0, 2);
    let translation = Translation {
        pfn: Pfn(512),
        size: PageSize::Large2M,
        writable: true,
    };
    let mut work = Work::default();
    nested
        .map(&mut frames, page(1024), translation, &mut work)
        .unwrap();
    let found = nested.walk(0, page(1024 + 7), &mut Walk::new()).unwrap();
    assert_eq!(found.size, PageSize::Base4K);
    assert_eq!(found.pfn, host_frame(512 + 7));
}

/// To the guest's operating system it is the guest's page table: over a host that changes no
/// address it does all that a page table must.
#[test]
fn conforms() {
    conformance::run(48, |cores| {
        let guest = Radix::new(&RadixConfig::default(), cores).unwrap();
        Nested::new(guest, Unchanged, &NestedConfig::default(), cores).unwrap()
    });
}

/// A host whose every frame is the guest's of the same number.
#[derive(Debug)]
struct Unchanged;

impl PageTable for Unchanged {
    fn release<F: Frames>(&mut self, _: &mut F, _: Page, _: u64) {}

    fn end<F: Frames>(&mut self, _: &mut F, _: Asid) {}

    fn map<F: Frames>(
        &mut self,
        _: &mut F,
        _: Page,
        _: Translation,
        _: &mut Work,
    ) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap<F: Frames>(
        &mut self,
        _: &mut F,
        _: Page,
        _: PageSize,
        _: &mut Work,
    ) -> Option<Translation> {
        None
    }

    fn update(&mut self, _: Page, _: Translation) -> bool {
        false
    }

    fn lookup(&self, page: Page) -> Option<Translation> {
        Some(Translation {
            pfn: Pfn(page.id.0),
            size: PageSize::Huge1G,
            writable: true,
        })
    }

    fn next_mapped(&self, _: Asid, _: std::ops::Range<u64>) -> Option<Run> {
        None
    }

    fn is_unmapped(&self, _: Page, _: PageSize) -> bool {
        false
    }

    fn walk(&mut self, _: usize, page: Page, _: &mut Walk) -> Option<Translation> {
        self.lookup(page)
    }

    fn host_prefetch(&self, _: Page) {}

    fn table_bytes(&self) -> u64 {
        0
    }
}
