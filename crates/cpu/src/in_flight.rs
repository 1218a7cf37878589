/// Lines or translations that are under way: each has been asked for and has not arrived.
///
/// What the caches and TLBs hold is decided in program order, before any time is known, so a
/// reference that they call a hit may be for something that is yet to arrive. This table knows
/// when: whoever comes meanwhile has it then and not before, and asks nobody else for it (the
/// misses merge, as in the miss status holding registers of Kroft, ISCA 1981).
///
/// The place of a key is a hash of it, and a newer key takes an older one's place. There are many
/// more places than things under way, so that one is seldom forgotten before it arrives.
#[derive(Clone, Debug)]
pub struct InFlight {
    places: Box<[Entry; PLACES]>,
    /// The last of all arrivals: who comes later need not look.
    latest: u64,
}

const PLACES: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    arrives: u64,
    /// Time from the request until it arrives.
    latency: u32,
    key: u32,
}

impl Default for InFlight {
    fn default() -> Self {
        Self::new()
    }
}

impl InFlight {
    /// Nothing is under way.
    pub fn new() -> Self {
        InFlight {
            places: Box::new([Entry::default(); PLACES]),
            latest: 0,
        }
    }

    /// Multiplicative hashing (Knuth, TAOCP volume 3, section 6.4): lines that are used together
    /// lie at round distances.
    #[inline(always)]
    fn place(key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> (32 - PLACES.ilog2())) as usize
    }

    /// True if nothing is under way any more at `time`.
    #[inline(always)]
    pub fn none_at(&self, time: u64) -> bool {
        time >= self.latest
    }

    /// When something arrives that was asked for before `time` and is still under way then.
    #[inline(always)]
    pub fn joined(&self, key: u32, time: u64) -> Option<u64> {
        let entry = &self.places[Self::place(key)];
        let under_way = entry.key == key
            && time < entry.arrives
            && time + u64::from(entry.latency) >= entry.arrives;
        under_way.then_some(entry.arrives)
    }

    /// When something arrives that the caches hold, in the order of the program, because of
    /// another reference, which may be yet to come when this one comes at `time`.
    ///
    /// If so, this one is the first to ask for it, and it arrives that much sooner.
    #[inline(always)]
    pub fn joined_or_first(&mut self, key: u32, time: u64) -> Option<u64> {
        let entry = &mut self.places[Self::place(key)];
        if entry.key != key || time >= entry.arrives {
            return None;
        }
        entry.arrives = entry.arrives.min(time + u64::from(entry.latency));
        Some(entry.arrives)
    }

    /// Something is asked for and arrives later.
    #[inline(always)]
    pub fn ask(&mut self, key: u32, asked: u64, arrives: u64) {
        self.places[Self::place(key)] = Entry {
            arrives,
            latency: (arrives - asked) as u32,
            key,
        };
        self.latest = self.latest.max(arrives);
    }
}
