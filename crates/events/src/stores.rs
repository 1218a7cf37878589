//! Loads whose values lie in memory: what a load waits for that reads what was stored just before.

use std::ops::Range;

/// Number of granules that are remembered. Stores of the last [`Stores::REACH`] accesses are looked for, and few of
/// them are to places of their own.
const SLOTS: usize = 512;
const GRANULE: u32 = 3;
const UNIT: u32 = 2;

/// The last stores of one thread, and the load that produced what each has stored.
///
/// A core answers a load from its store buffer when an older store to the same place has not been
/// written yet, and so not before what is stored has been loaded itself. Accesses are numbered from
/// 1 by whoever asks; 0 is no load. The four bytes of an aligned unit are held as one: a load can be
/// found to need what was stored beside it, as happens to it in a core, whose store buffer gives out
/// whole values only. Two granules of eight bytes may want the same slot; the one that was stored
/// to last has it. So a dependence can be missed, but only one on a store that is not the last.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The granule in each slot.
    granules: Box<[u64; SLOTS]>,
    /// The loads that produced its two units. Apart from the granules: of most loads nothing is found, and then
    /// only those are looked at.
    producers: Box<[[u64; 2]; SLOTS]>,
}

impl Default for Stores {
    fn default() -> Stores {
        Stores {
            granules: Box::new([0; SLOTS]),
            producers: Box::new([[0; 2]; SLOTS]),
        }
    }
}

impl Stores {
    /// So many accesses on, a load is taken to wait for nothing that was stored. The largest cores hold
    /// twice as many (Golden Cove 192 loads and 112 stores), but have written most of their stores by
    /// then, and more distances make larger recordings: 0.95 bytes an access of a recursive program
    /// with 255, 0.70 with 127.
    pub const REACH: u64 = 127;

    /// Stores what load `producer` has produced.
    #[inline(always)]
    pub fn put(&mut self, addr: u64, size: u16, producer: u64) {
        if size == 8 && addr.trailing_zeros() >= GRANULE {
            let granule = addr >> GRANULE;
            let slot = place(granule);
            if producer != 0 {
                self.granules[slot] = granule;
                self.producers[slot] = [producer; 2];
            } else if self.granules[slot] == granule {
                self.producers[slot] = [0; 2];
            }
        } else {
            self.put_units(addr, size, producer);
        }
    }

    fn put_units(&mut self, addr: u64, size: u16, producer: u64) {
        let last = addr.wrapping_add(u64::from(size));
        for (granule, units) in granules(addr, size) {
            let slot = place(granule);
            if self.granules[slot] != granule {
                if producer == 0 {
                    continue;
                }
                self.granules[slot] = granule;
                self.producers[slot] = [0; 2];
            }
            for unit in units {
                let start = (granule << 1 | unit) << UNIT;
                let whole = start >= addr && start.wrapping_add(4) <= last;
                let held = &mut self.producers[slot][unit as usize & 1];
                *held = if whole { producer } else { producer.max(*held) };
            }
        }
    }

    /// The youngest load whose value a load from there reads; 0 for none.
    #[inline(always)]
    pub fn find(&self, addr: u64, size: u16) -> u64 {
        let first = addr & ((1 << GRANULE) - 1);
        let last = first + u64::from(size).wrapping_sub(1);
        if last >> GRANULE != 0 {
            return self.find_units(addr, size);
        }
        let granule = addr >> GRANULE;
        let slot = place(granule);
        if self.granules[slot] != granule {
            return 0;
        }
        let [first, last] = [first, last].map(|byte| (byte >> UNIT) as usize & 1);
        self.producers[slot][first].max(self.producers[slot][last])
    }

    fn find_units(&self, addr: u64, size: u16) -> u64 {
        let mut youngest = 0;
        for (granule, units) in granules(addr, size) {
            let slot = place(granule);
            if self.granules[slot] == granule {
                for unit in units {
                    youngest = youngest.max(self.producers[slot][unit as usize & 1]);
                }
            }
        }
        youngest
    }

    /// Memory has changed by other means.
    pub fn clear(&mut self) {
        self.granules.fill(0);
        self.producers.fill([0; 2]);
    }
}

/// Neighbours have slots of their own, and so, mostly, have places a multiple of 4 KiB apart.
#[inline(always)]
fn place(granule: u64) -> usize {
    (granule ^ (granule / SLOTS as u64)) as usize % SLOTS
}

/// The granules that an access touches, and which units of each, 0 and 1.
#[inline(always)]
fn granules(addr: u64, size: u16) -> impl Iterator<Item = (u64, Range<u64>)> {
    let first = addr >> GRANULE;
    // From the first granule on.
    let last = (addr & 7) + u64::from(size).saturating_sub(1);
    (0..(last >> GRANULE) + 1).map(move |granule| {
        let from = if granule == 0 { addr >> UNIT & 1 } else { 0 };
        let to = if granule == last >> GRANULE {
            (last >> UNIT & 1) + 1
        } else {
            2
        };
        (first + granule, from..to)
    })
}
