//! One core with its caches, on which a design that looks into them is tested by itself.

use crate::caches::{PrivateCaches, SharedCache};
use crate::config::MachineConfig;
use crate::machine::chunk::Chunk;
use crate::mmu::lists::Caches;
use crate::mmu::{CachePort, Found, Hit, Mmu, Port, Request, Walks};
use pagelab_addr::PageDirectory;
use pagelab_events::NO_SITE;
use pagelab_memory::MODIFY;
use pagelab_memory::simd::Baseline;
use pagelab_translation::{Page, Walk};

/// Everything around a design that it may ask.
pub(super) struct Stage {
    pub(super) caches: Vec<PrivateCaches>,
    pub(super) shared: SharedCache,
    pub(super) directory: PageDirectory,
    pub(super) chunk: Chunk,
    looks: CachePort,
    pub(super) walks: Walks,
}

/// Place where a translation was found.
pub(super) enum Translated {
    First,
    Behind(Hit),
    Walked(Found),
}

impl Stage {
    pub(super) fn new(config: &MachineConfig) -> Self {
        Stage {
            caches: vec![PrivateCaches::new(&config.caches, 1).unwrap()],
            shared: SharedCache::new(&config.caches, 1, 1).unwrap(),
            directory: PageDirectory::new(),
            chunk: Chunk::default(),
            looks: CachePort::new(1, false),
            walks: Walks::new(),
        }
    }

    /// Begins a chunk.
    pub(super) fn begin(&mut self) {
        self.chunk.clear();
        self.chunk.served.clear();
    }

    pub(super) fn port(&mut self) -> Port<'_> {
        Port {
            core: 0,
            caches: &mut self.caches,
            shared: &mut self.shared,
            directory: &self.directory,
            chunk: &mut self.chunk,
            looks: &mut self.looks,
            instruction: NO_SITE,
        }
    }

    /// Translates a mapped page as the machine does.
    pub(super) fn translate<M: Mmu>(&mut self, mmu: &mut M, request: &Request) -> Translated {
        let mut walks = std::mem::replace(&mut self.walks, Walks::new());
        walks.asked.clear();
        let port = &mut self.port();
        let &Request { page, store, .. } = request;
        let translated = if mmu.lookup_first::<Baseline>(0, page.id, store).is_some() {
            Translated::First
        } else if let Some(hit) = mmu.lookup_behind::<Baseline>(request, port, &mut walks) {
            Translated::Behind(hit)
        } else {
            Translated::Walked(mmu.walk::<Baseline>(request, port, &mut walks).unwrap())
        };
        self.walks = walks;
        translated
    }

    /// Has data go through the caches.
    pub(super) fn reference(&mut self, line: u32, store: bool) {
        let modify = if store { MODIFY } else { 0 };
        self.chunk.references.push(line | modify);
        self.port().serve_data(&[]);
    }

    /// Holds what the second and the last level have beside what lists do.
    pub(super) fn compare(&self, twin: &Caches, when: impl Fn() -> String) {
        for (cache, twin) in [
            (&self.caches[0].l2, &twin.l2),
            (&self.shared.llc, &twin.llc),
        ] {
            let mut has: Vec<u32> = cache.held().collect();
            has.sort_unstable();
            assert_eq!(has, twin.keys(), "{}", when());
        }
    }
}

/// Request of the core for a page.
pub(super) fn request(page: Page, line: u32, store: bool) -> Request {
    Request {
        core: 0,
        page,
        line,
        store,
        instruction: NO_SITE,
        instructions: 0,
    }
}

/// Lines that a walk reads, with their steps.
pub(super) fn lines_of(walk: &Walk) -> Vec<(u32, u8)> {
    let line = |address: u64| (address / 64) as u32;
    walk.reads()
        .iter()
        .map(|read| (line(read.addr.0), read.step))
        .collect()
}
