use crate::emitter::{Emitter, Loaded};
use crate::hash::{mix, random};
use crate::memory::Memory;
use crate::program::Program;
use crate::zipf::Zipf;
use crate::{Parameter, Parameters, Workload, footprint};

/// A key-value store under YCSB's load (Cooper et al., SoCC 2010): a hash table with chains and
/// items of one slab class, as in memcached, records of 1,000 bytes that are read or overwritten in
/// place. Keys are drawn as YCSB's ScrambledZipfianGenerator does, with its constant 0.99.
///
/// The network is left out: a record read is copied to a buffer, a record written comes from one.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "kv",
    description: "key-value store, zipfian keys (YCSB, 0.99), records of 1,000 bytes",
    parameters: &[
        footprint(10 << 30, 1 << 20),
        Parameter {
            name: "operations",
            description: "reads and updates",
            default: 20_000_000,
            min: 1,
            max: 1 << 50,
        },
        Parameter {
            name: "reads",
            description: "reads in a hundred operations (YCSB workload A: 50, B: 95, C: 100)",
            default: 95,
            min: 0,
            max: 100,
        },
    ],
    build,
};

/// An item of memcached: 48 bytes of header, a CAS number, a key of 24 bytes, the value and a line
/// end, in chunks of the slab class that holds it (factor 1.25, from 96 bytes on).
const ITEM: u64 = 1184;
const CHAIN: u64 = 16;
const REFERENCES: u64 = 36;
const KEY_LENGTH: u64 = 41;
const KEY: u64 = 56;
const VALUE: u64 = 80;
const VALUE_BYTES: u64 = 1000;
/// Bytes that memcpy moves at a time.
const VECTOR: u64 = 32;

/// YCSB draws from this many items whatever their number, and maps the draws to keys by a hash.
const DRAWN: u64 = 10_000_000_000;

fn build(parameters: &Parameters) -> Program {
    let items = parameters.get("footprint") / (ITEM + 8);
    let operations = parameters.get("operations");
    let reads = parameters.get("reads");
    let seed = parameters.get("seed");
    let mut memory = Memory::default();
    let store = Store::new(&mut memory, items);
    let zipf = Zipf::new(DRAWN, 0.99);
    Program::new(memory, None, move |out| {
        for operation in 0..operations {
            let key = mix(zipf.rank(random(seed, 2 * operation))) % items;
            let is_read = random(seed, 2 * operation + 1) % 100 < reads;
            store.operate(out, key as u32, is_read);
        }
    })
}

struct Store {
    buckets: u64,
    items: u64,
    buffer: u64,
    /// The items of each bucket, the last one put in first: its first item, and each item's next.
    heads: Vec<u32>,
    next: Vec<u32>,
}

/// The end of a chain.
const END: u32 = u32::MAX;

impl Store {
    fn new(memory: &mut Memory, items: u64) -> Self {
        // The table doubles when there are one and a half items to a bucket.
        let buckets = (items * 2).div_ceil(3).next_power_of_two();
        let mut store = Store {
            buckets: memory.allocate(8 * buckets),
            items: memory.allocate(ITEM * items),
            buffer: memory.allocate(VALUE_BYTES),
            heads: vec![END; buckets as usize],
            next: vec![END; items as usize],
        };
        for item in 0..items as u32 {
            let bucket = store.bucket(item);
            store.next[item as usize] = std::mem::replace(&mut store.heads[bucket], item);
        }
        store
    }

    /// The bucket of the key of an item.
    fn bucket(&self, item: u32) -> usize {
        mix(!u64::from(item)) as usize & (self.heads.len() - 1)
    }

    fn item(&self, item: u32) -> u64 {
        self.items + ITEM * u64::from(item)
    }

    fn operate(&self, out: &mut Emitter, wanted: u32, is_read: bool) {
        // Reading the request and hashing its key.
        const REQUEST: u32 = 150;
        let bucket = self.bucket(wanted);
        let mut pointer = out.load(self.buckets + 8 * bucket as u64, 8, REQUEST, Loaded::NONE);
        let mut at = self.heads[bucket];
        loop {
            let item = self.item(at);
            out.load(item + KEY_LENGTH, 1, 2, pointer);
            for word in 0..if at == wanted { 3 } else { 1 } {
                out.load(item + KEY + 8 * word, 8, 3, pointer);
            }
            if at == wanted {
                break;
            }
            pointer = out.load(item + CHAIN, 8, 2, pointer);
            at = self.next[at as usize];
        }
        let item = self.item(wanted);
        out.load(item + REFERENCES, 2, 2, pointer);
        out.store(item + REFERENCES, 2, 1, pointer);
        let (value, buffer) = ((item + VALUE, pointer), (self.buffer, Loaded::NONE));
        let (from, to) = if is_read {
            (value, buffer)
        } else {
            (buffer, value)
        };
        for offset in (0..VALUE_BYTES).step_by(VECTOR as usize) {
            let size = VECTOR.min(VALUE_BYTES - offset) as u16;
            out.load(from.0 + offset, size, 1, from.1);
            out.store(to.0 + offset, size, 0, to.1);
        }
        out.load(item + REFERENCES, 2, 30, pointer);
        out.store(item + REFERENCES, 2, 1, pointer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_places, run};
    use std::collections::HashMap;

    #[test]
    fn every_key_is_found_at_its_own_item() {
        let mut memory = Memory::default();
        let store = Store::new(&mut memory, 5000);
        for key in 0..5000 {
            let ((), accesses) = run(|out| store.operate(out, key, true));
            check_places(&memory, &accesses);
            let value = store.item(key) + VALUE;
            let copied = accesses
                .iter()
                .filter(|a| !a.op.is_store() && (value..value + VALUE_BYTES).contains(&a.addr));
            assert_eq!(
                copied.map(|a| u64::from(a.op.size())).sum::<u64>(),
                VALUE_BYTES
            );
        }
    }

    #[test]
    fn chains_hold_what_a_map_of_buckets_holds() {
        let store = Store::new(&mut Memory::default(), 3000);
        let mut map: HashMap<usize, Vec<u32>> = HashMap::new();
        for item in 0..3000 {
            map.entry(store.bucket(item)).or_default().insert(0, item);
        }
        for (bucket, &head) in store.heads.iter().enumerate() {
            let mut chain = Vec::new();
            let mut at = head;
            while at != END {
                chain.push(at);
                at = store.next[at as usize];
            }
            assert_eq!(chain, map.remove(&bucket).unwrap_or_default());
        }
    }
}
