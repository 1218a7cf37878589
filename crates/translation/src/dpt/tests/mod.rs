mod dmt;
mod linux_log;
mod placement;
mod reserve;
mod walk;

use super::*;
use crate::conformance::{self, FakeFrames};
use crate::{FrameUse, PageTable, WalkCacheConfig};
use pagelab_addr::{PageDirectory, Pfn, PhysAddr, Vpn};
use std::collections::BTreeSet;

/// Further promises of DPT: the metadata lead to every page of PTEs, no frame holds two, and no
/// address stands for two regions.
fn promise(table: &Dpt, frames: &FakeFrames) {
    let mut seen = BTreeSet::new();
    for (spot, page) in table.organisation.layout.all_pages() {
        assert_eq!(
            table.organisation.frame_by_metadata(spot, frames.count()),
            Some(page.frame.0),
            "{spot:?}"
        );
        assert_eq!(frames.usage(page.frame), FrameUse::PageTable);
        seen.insert((spot.size, page.frame, spot.asid, spot.tag));
    }
    let frames: BTreeSet<_> = seen.iter().map(|&(_, frame, ..)| frame).collect();
    let tags: BTreeSet<_> = seen
        .iter()
        .map(|&(size, _, a, tag)| (size, a, tag))
        .collect();
    assert_eq!(frames.len() as u64, table.organisation.counters.pte_pages);
    assert_eq!(tags.len() as u64, table.organisation.counters.pte_pages);
}

fn conforms(config: &DptConfig) {
    conformance::run_with(57, |cores| Dpt::new(config, cores).unwrap(), promise);
}

#[test]
fn the_default_conforms() {
    conforms(&DptConfig::default());
}

#[test]
fn conforms_with_little_of_everything() {
    let mut config = DptConfig {
        max_soa_step: 1,
        max_cva_count: 1,
        max_cva_mib: 8,
        prefer: Prefer::Fragmentation,
        ptp_mib: 16,
        ..DptConfig::default()
    };
    config.dmt.base = 64;
    config.dmt.large = 64;
    conforms(&config);
}

#[test]
fn conforms_without_each_technique() {
    let without: [fn(&mut DptConfig); 6] = [
        |config| config.max_soa_step = 0,
        |config| config.max_cva_count = 0,
        |config| config.cpd = false,
        |config| config.fap = false,
        |config| config.dmc.base.entries = 0,
        |config| {
            config.max_soa_step = 0;
            config.max_cva_count = 0;
            config.cpd = false;
            config.fap = false;
        },
    ];
    for change in without {
        let mut config = DptConfig::default();
        change(&mut config);
        conforms(&config);
    }
}

#[test]
fn an_impossible_configuration_is_refused_by_its_key() {
    let refused = |change: fn(&mut DptConfig)| {
        let mut config = DptConfig::default();
        change(&mut config);
        Dpt::new(&config, 1).unwrap_err().key
    };
    assert_eq!(refused(|c| c.max_soa_step = 16), "max_soa_step");
    assert_eq!(refused(|c| c.ptp_mib = 1 << 30), "ptp_mib");
    assert_eq!(refused(|c| c.max_cva_count = u32::MAX), "max_cva_count");
    assert_eq!(refused(|c| c.dmt.large = 100), "dmt.2M");
    assert_eq!(refused(|c| c.dmc.huge.ways = 5), "dmc.1G");
}

/// Frames of the memory in the tests of placement: 4 GiB.
const FRAMES: u32 = 1 << 20;
const ASID: Asid = Asid(4);

/// A table over otherwise free memory.
struct Bench {
    table: Dpt,
    frames: FakeFrames,
    directory: PageDirectory,
    work: Work,
}

impl Bench {
    fn new(config: &DptConfig) -> Self {
        Bench {
            table: Dpt::new(config, 1).unwrap(),
            frames: FakeFrames::new(FRAMES, 0, 1),
            directory: PageDirectory::new(),
            work: Work::default(),
        }
    }

    fn page(&mut self, vpn: u64) -> Page {
        let (asid, vpn) = (ASID, Vpn(vpn));
        let id = self.directory.page(asid, vpn).unwrap();
        Page { id, asid, vpn }
    }

    /// Maps a page to a fresh frame, whose reverse map knows it.
    fn map(&mut self, vpn: u64, size: PageSize) -> Result<Pfn, MapError> {
        let page = self.page(vpn);
        let pfn = self.frames.allocate_data(size, true).unwrap();
        self.frames.owners(pfn).push(page.id);
        self.map_to(vpn, size, pfn).map(|()| pfn)
    }

    fn map_to(&mut self, vpn: u64, size: PageSize, pfn: Pfn) -> Result<(), MapError> {
        let page = self.page(vpn);
        let translation = Translation {
            pfn,
            size,
            writable: true,
        };
        self.table
            .map(&mut self.frames, page, translation, &mut self.work)
    }

    fn unmap(&mut self, vpn: u64, size: PageSize) {
        let page = self.page(vpn);
        let old = self
            .table
            .unmap(&mut self.frames, page, size, &mut self.work);
        assert!(old.is_some());
    }

    fn reserve(&mut self, vpn: u64, pages: u64, size: PageSize) {
        let page = self.page(vpn);
        self.table
            .reserve(&mut self.frames, page, pages, size, &mut self.work);
    }

    fn lookup(&mut self, vpn: u64) -> Option<Pfn> {
        let page = self.page(vpn);
        self.table.lookup(page).map(|translation| translation.pfn)
    }

    /// The addresses that a walk reads, by step.
    fn walk(&mut self, vpn: u64) -> Vec<Vec<PhysAddr>> {
        let page = self.page(vpn);
        let mut walk = Walk::new();
        let walked = self.table.walk(0, page, &mut walk);
        assert_eq!(walked, self.table.lookup(page));
        let mut steps: Vec<Vec<PhysAddr>> = Vec::new();
        for read in walk.reads() {
            steps.resize(usize::from(read.step) + 1, Vec::new());
            steps[usize::from(read.step)].push(read.addr);
        }
        steps
    }

    /// The frame of the page of PTEs that a walk ends in.
    fn pte_frame(&mut self, vpn: u64) -> Pfn {
        let steps = self.walk(vpn);
        steps.last().unwrap()[0].pfn()
    }

    /// The frame that the hash names for the 4 KiB pages around `vpn`, `offset` frames further.
    fn hashed(&self, vpn: u64, offset: u32) -> Pfn {
        let seed = self.table.organisation.layout.seed(ASID, PageSize::Base4K);
        Pfn((super::placement::base_frame(vpn >> 9, seed, FRAMES) + offset) % FRAMES)
    }

    /// Puts other programs' 4 KiB pages into these frames.
    fn occupy(&mut self, frames: impl IntoIterator<Item = Pfn>, movable: bool) {
        for frame in frames {
            self.frames.occupy(frame, PageSize::Base4K, movable);
        }
    }
}

/// All techniques off but those that a test turns on.
fn bare() -> DptConfig {
    DptConfig {
        max_soa_step: 0,
        max_cva_count: 0,
        cpd: false,
        fap: false,
        ..DptConfig::default()
    }
}
