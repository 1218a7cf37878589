//! Decisions of a small machine about a stream: which level of TLB and cache has what.

use super::event_driven::{Access, Instruction, Reference, Request, Translation, Walk};
use std::collections::{BTreeMap, HashMap};

/// Accesses as a program makes them.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) gap: u32,
    pub(crate) dep: u32,
    pub(crate) arithmetic: [u16; 2],
    /// Mispredicted branch before it: the load that it waits for, and whether it reconverges.
    pub(crate) mispredicted: Option<(u32, bool)>,
    pub(crate) store: bool,
    /// Neither a load nor a store, but a prefetch.
    pub(crate) prefetch: bool,
    pub(crate) page: u32,
    /// Its line in the page.
    pub(crate) line: u32,
    /// It reaches into the next line.
    pub(crate) straddles: bool,
    pub(crate) kernel: u64,
}

/// A fully associative store, the least recently used leaves.
#[derive(Clone, Debug)]
struct Lru {
    places: usize,
    uses: u64,
    last_use: HashMap<u32, u64>,
    by_use: BTreeMap<u64, u32>,
}

impl Lru {
    fn new(places: usize) -> Self {
        Lru {
            places,
            uses: 0,
            last_use: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// True if a key is there; it is afterwards.
    fn use_key(&mut self, key: u32) -> bool {
        self.uses += 1;
        let before = self.last_use.insert(key, self.uses);
        self.by_use.insert(self.uses, key);
        if let Some(before) = before {
            self.by_use.remove(&before);
        } else if self.by_use.len() > self.places
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest);
        }
        before.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) tlb: [usize; 2],
    /// Entries of the walk cache; without one, no walk reads a directory.
    pub(crate) walk_cache: Option<usize>,
    /// Lines of the three levels.
    pub(crate) caches: [usize; 3],
    pub(crate) walks_enter: usize,
    /// Fixed time of a walk, and of a page fault, which the first access to a page takes.
    pub(crate) fixed: u64,
    pub(crate) fault: Option<u64>,
    /// Each walk reads something that nothing waits for.
    pub(crate) background: bool,
    /// Lines that are fetched ahead of one that the first level does not have.
    pub(crate) ahead: u32,
}

/// Lines of page-table entries, above all lines of data.
const ENTRIES: u32 = 1 << 24;
const DIRECTORIES: u32 = 2 << 24;
const BACKGROUND: u32 = 3 << 24;

struct Decider {
    sizes: Sizes,
    tlb: [Lru; 2],
    walk_cache: Option<Lru>,
    caches: [Lru; 3],
    mapped: std::collections::HashSet<u32>,
}

/// Takes accesses through the TLBs and caches in the order of the program.
pub(crate) fn decide(made: &[Made], sizes: Sizes) -> Vec<Access> {
    let mut decider = Decider {
        sizes,
        tlb: sizes.tlb.map(Lru::new),
        walk_cache: sizes.walk_cache.map(Lru::new),
        caches: sizes.caches.map(Lru::new),
        mapped: std::collections::HashSet::new(),
    };
    made.iter().map(|made| decider.access(made)).collect()
}

impl Decider {
    fn access(&mut self, made: &Made) -> Access {
        let first = made.page * 64 + made.line;
        let lines = first..=first + u32::from(made.straddles);
        Access {
            instructions: made.instructions.clone(),
            kernel: made.kernel,
            gap: made.gap,
            dep: made.dep,
            arithmetic: made.arithmetic,
            mispredicted: made.mispredicted,
            store: made.store,
            prefetch: made.prefetch,
            requests: if made.prefetch {
                vec![self.prefetch(first)]
            } else {
                lines.map(|line| self.request(line)).collect()
            },
        }
    }

    /// One of a page that no access has mapped yet has nothing to ask for.
    fn prefetch(&mut self, line: u32) -> Request {
        let page = line / 64;
        if self.sizes.fault.is_none() || self.mapped.contains(&page) {
            return self.request(line);
        }
        Request {
            page,
            translation: Translation::Unmapped,
            data: Reference { line, level: 0 },
            prefetches: Vec::new(),
        }
    }

    fn request(&mut self, line: u32) -> Request {
        let page = line / 64;
        let translation = if self.tlb[0].use_key(page) {
            Translation::FirstTlb
        } else if self.tlb[1].use_key(page) {
            Translation::SecondTlb
        } else {
            let mut walks = Vec::new();
            if let Some(fault) = self.sizes.fault
                && self.mapped.insert(page)
            {
                walks.push(Walk {
                    fault: Some(fault),
                    ..self.walk(page)
                });
            }
            walks.push(self.walk(page));
            Translation::Walks(walks)
        };
        let data = self.reference(line, 0);
        let ahead = if data.level > 0 { self.sizes.ahead } else { 0 };
        let prefetches = (line + 1..=line + ahead).map(|line| self.reference(line, 1));
        Request {
            page,
            translation,
            data,
            prefetches: prefetches.collect(),
        }
    }

    fn walk(&mut self, page: u32) -> Walk {
        let enter = self.sizes.walks_enter;
        let mut steps = Vec::new();
        if self
            .walk_cache
            .as_mut()
            .is_some_and(|cache| !cache.use_key(page / 512))
        {
            steps.push(vec![self.reference(DIRECTORIES + page / 512 / 8, enter)]);
        }
        let mut entries = vec![self.reference(ENTRIES + page / 8, enter)];
        if page.is_multiple_of(5) {
            // As hashed tables do that have more than one way.
            entries.push(self.reference(ENTRIES + (1 << 20) + page / 3, enter));
        }
        steps.push(entries);
        let background = if self.sizes.background {
            vec![self.reference(BACKGROUND + page, enter)]
        } else {
            Vec::new()
        };
        Walk {
            fixed: self.sizes.fixed,
            steps,
            background,
            fault: None,
        }
    }

    fn reference(&mut self, line: u32, enter: usize) -> Reference {
        let mut level = 3;
        for at in (enter..3).rev() {
            if self.caches[at].use_key(line) {
                level = at;
            }
        }
        Reference { line, level }
    }
}
