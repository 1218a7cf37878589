//! Values that loads find stored, against a memory that keeps each byte by itself.

use std::collections::HashMap;

use pagelab_events::Stores;
use proptest::prelude::*;

/// Each byte has the load that produced it. With `unit` 4, what is stored to a part of a unit is
/// taken to be in all of it, beside what was there.
struct Bytes {
    unit: u64,
    producers: HashMap<u64, u64>,
}

impl Bytes {
    fn new(unit: u64) -> Bytes {
        Bytes {
            unit,
            producers: HashMap::new(),
        }
    }

    fn put(&mut self, addr: u64, size: u16, producer: u64) {
        let stored = addr..addr + u64::from(size);
        let first = stored.start / self.unit * self.unit;
        for start in (first..stored.end).step_by(self.unit as usize) {
            let all = start..start + self.unit;
            let whole = all.clone().all(|byte| stored.contains(&byte));
            for byte in all {
                let held = self.producers.entry(byte).or_default();
                *held = if whole { producer } else { producer.max(*held) };
            }
        }
    }

    fn find(&self, addr: u64, size: u16) -> u64 {
        (addr..addr + u64::from(size))
            .filter_map(|byte| self.producers.get(&byte).copied())
            .max()
            .unwrap_or(0)
    }
}

/// A store of what a load has produced, if any has, or a load; where, and of how many bytes.
#[derive(Clone, Copy, Debug)]
struct Access {
    stores: bool,
    produced: bool,
    addr: u64,
    size: u16,
}

/// Accesses at multiples of `align` in a page and, with `far`, in others of the same address in it.
fn accesses(align: u64, far: bool) -> impl Strategy<Value = Vec<Access>> {
    let size = prop::sample::select(vec![1u16, 2, 4, 8, 10, 16, 32, 64]);
    let page = if far { 0..200u64 } else { 0..1 };
    let access = (any::<bool>(), any::<bool>(), page, 0..256u64, size);
    let access = access.prop_map(move |(stores, produced, page, place, size)| Access {
        stores,
        produced,
        addr: (0x7fff_1000 + page * 4096 + place) / align * align,
        size: size.max(align as u16) / align as u16 * align as u16,
    });
    prop::collection::vec(access, 0..400)
}

/// Every load: what `Stores` finds, and what each twin does.
fn found(accesses: &[Access], twins: &mut [Bytes]) -> Vec<(u64, Vec<u64>)> {
    let mut stores = Stores::default();
    let mut loads = Vec::new();
    for (number, access) in (1..).zip(accesses) {
        let &Access { addr, size, .. } = access;
        if access.stores {
            let producer = if access.produced { number } else { 0 };
            stores.put(addr, size, producer);
            twins
                .iter_mut()
                .for_each(|twin| twin.put(addr, size, producer));
        } else {
            let twins = twins.iter().map(|twin| twin.find(addr, size)).collect();
            loads.push((stores.find(addr, size), twins));
        }
    }
    loads
}

proptest! {
    #[test]
    fn whole_units_are_followed_exactly(accesses in accesses(4, false)) {
        for (found, twins) in found(&accesses, &mut [Bytes::new(1)]) {
            prop_assert_eq!(found, twins[0]);
        }
    }

    #[test]
    fn parts_of_a_unit_are_held_as_one(accesses in accesses(1, false)) {
        for (found, twins) in found(&accesses, &mut [Bytes::new(4), Bytes::new(1)]) {
            prop_assert_eq!(found, twins[0]);
            prop_assert!(found >= twins[1]);
        }
    }

    #[test]
    fn places_that_want_the_same_slot_lose_what_was_stored_and_invent_nothing(
        accesses in accesses(1, true),
    ) {
        for (found, twins) in found(&accesses, &mut [Bytes::new(4)]) {
            prop_assert!(found <= twins[0]);
        }
    }
}

#[test]
fn the_last_store_is_found_wherever_it_was() {
    let mut stores = Stores::default();
    let mut number = 0;
    for shift in 0..64 {
        for addr in [1u64 << shift, !0 << shift] {
            number += 1;
            stores.put(addr & !7, 8, number);
            assert_eq!(stores.find(addr & !7, 8), number);
        }
    }
    stores.clear();
    assert_eq!(stores.find(8, 8), 0);
}
