use pagelab_addr::PhysAddr;

/// One read that a page walker makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkRead {
    /// Physical address of the entry.
    pub addr: PhysAddr,
    /// Step of the walk, from 0. Reads of one step go out in parallel; a step starts when the last
    /// read of the step before has come back.
    pub step: u8,
}

/// One page walk: the reads it makes, in steps, and the fixed time it spends besides.
///
/// Reused from walk to walk, so that walking allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    reads: Vec<WalkRead>,
    metadata: u16,
    background: u16,
    cycles: u32,
    step: u8,
    cache_hits: u16,
    cache_lookups: u16,
}

impl Walk {
    /// An empty walk.
    pub fn new() -> Self {
        Walk {
            reads: Vec::with_capacity(64),
            ..Walk::default()
        }
    }

    /// Forgets the last walk.
    #[inline]
    pub fn clear(&mut self) {
        self.reads.clear();
        self.metadata = 0;
        self.background = 0;
        self.cycles = 0;
        self.step = 0;
        self.cache_hits = 0;
        self.cache_lookups = 0;
    }

    /// Reads an entry in the current step.
    #[inline]
    pub fn read(&mut self, addr: PhysAddr) {
        self.reads.push(WalkRead {
            addr,
            step: self.step,
        });
    }

    /// Reads something that nothing waits for. No other reads may follow.
    #[inline]
    pub fn read_in_background(&mut self, addr: PhysAddr) {
        self.read(addr);
        self.background += 1;
    }

    /// Says that all reads so far were of metadata, which tells where an entry lies (DPT's DMT,
    /// the cuckoo walk tables), and that what follows reads entries.
    #[inline]
    pub fn metadata_ends(&mut self) {
        self.metadata = self.reads.len() as u16;
    }

    /// Counts all reads so far among those that entries are read by and that something waits for.
    #[inline]
    pub fn tell_none_apart(&mut self) {
        self.metadata = 0;
        self.background = 0;
    }

    /// Ends a step: the reads after it depend on those so far.
    #[inline]
    pub fn next_step(&mut self) {
        self.step += 1;
    }

    /// The current step.
    #[inline]
    pub fn step(&self) -> u8 {
        self.step
    }

    /// Spends a fixed time (a walk-cache look-up, a hash).
    #[inline]
    pub fn spend(&mut self, cycles: u32) {
        self.cycles = self.cycles.saturating_add(cycles);
    }

    /// Counts one look-up of a walk cache (PWC, CWC, DMC).
    #[inline]
    pub fn count_cache(&mut self, hit: bool) {
        self.cache_lookups += 1;
        self.cache_hits += u16::from(hit);
    }

    /// Counts the look-ups of walk caches that another walk, a part of this one, made.
    #[inline]
    pub fn count_cache_of(&mut self, other: &Walk) {
        self.cache_lookups += other.cache_lookups;
        self.cache_hits += other.cache_hits;
    }

    /// The reads, steps ascending.
    #[inline]
    pub fn reads(&self) -> &[WalkRead] {
        &self.reads
    }

    /// Number of the reads, from the first on, that were of metadata.
    #[inline]
    pub fn metadata(&self) -> u16 {
        self.metadata
    }

    /// Number of the reads, the last ones, that nothing waits for.
    #[inline]
    pub fn background(&self) -> u16 {
        self.background
    }

    /// The fixed time, in cycles.
    #[inline]
    pub fn cycles(&self) -> u32 {
        self.cycles
    }

    /// Walk-cache look-ups, and how many of them hit.
    #[inline]
    pub fn cache(&self) -> (u16, u16) {
        (self.cache_lookups, self.cache_hits)
    }
}
