//! Whose value lies in memory: what a load waits for that reads what was stored just before.

/// How many granules are remembered. Stores of the last [`Stores::REACH`] accesses are looked for, and
/// few of them are to places of their own.
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
    slots: Box<[Slot; SLOTS]>,
}

/// A granule, and the loads that produced its two units.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    granule: u64,
    producers: [u64; 2],
}

impl Default for Stores {
    fn default() -> Stores {
        Stores {
            slots: Box::new([Slot::default(); SLOTS]),
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
            let slot = &mut self.slots[place(granule)];
            if producer != 0 || slot.granule == granule {
                *slot = Slot {
                    granule,
                    producers: [producer; 2],
                };
            }
        } else {
            self.put_units(addr, size, producer);
        }
    }

    fn put_units(&mut self, addr: u64, size: u16, producer: u64) {
        let last = addr.wrapping_add(u64::from(size));
        for unit in units(addr, size) {
            let granule = unit >> 1;
            let slot = &mut self.slots[place(granule)];
            if slot.granule != granule {
                if producer == 0 {
                    continue;
                }
                *slot = Slot {
                    granule,
                    producers: [0; 2],
                };
            }
            let start = unit << UNIT;
            let whole = start >= addr && start.wrapping_add(4) <= last;
            let held = &mut slot.producers[unit as usize & 1];
            *held = if whole { producer } else { producer.max(*held) };
        }
    }

    /// The youngest load whose value a load from there reads; 0 for none.
    #[inline(always)]
    pub fn find(&self, addr: u64, size: u16) -> u64 {
        let last = addr.wrapping_add(u64::from(size).wrapping_sub(1));
        let granule = addr >> GRANULE;
        if last >> GRANULE != granule {
            return units(addr, size)
                .map(|unit| self.producer(unit))
                .max()
                .unwrap_or(0);
        }
        let slot = &self.slots[place(granule)];
        let [first, last] = [addr, last].map(|byte| (byte >> UNIT) as usize & 1);
        let producer = slot.producers[first].max(slot.producers[last]);
        if slot.granule == granule { producer } else { 0 }
    }

    fn producer(&self, unit: u64) -> u64 {
        let slot = &self.slots[place(unit >> 1)];
        if slot.granule == unit >> 1 {
            slot.producers[unit as usize & 1]
        } else {
            0
        }
    }

    /// Memory has changed by other means.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::default());
    }
}

/// Neighbours have slots of their own, and so, mostly, have places a multiple of 4 KiB apart.
fn place(granule: u64) -> usize {
    (granule ^ (granule / SLOTS as u64)) as usize % SLOTS
}

/// The units that an access touches.
fn units(addr: u64, size: u16) -> impl Iterator<Item = u64> {
    let first = addr >> UNIT;
    let count = ((addr & 3) + u64::from(size)).div_ceil(4);
    first..first + count
}
