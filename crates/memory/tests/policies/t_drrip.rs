use crate::drrip::Drrip;
use crate::lists::{Words, accesses, hits, loads, same, shape};
use pagelab_memory::{Access, DrripKeys, Kind, Replacement};
use proptest::prelude::*;

/// DRRIP but for leaves of the table and loads whose page was walked for.
struct TDrrip(Drrip);

impl Words for TDrrip {
    fn hit(&mut self, at: (usize, usize), access: &Access) {
        self.0.hit(at, access);
    }

    fn victim(&mut self, set: usize) -> usize {
        self.0.victim(set)
    }

    fn fill(&mut self, (set, way): (usize, usize), access: &Access) {
        let data = [Kind::Load, Kind::Store].contains(&access.kind);
        if access.kind == (Kind::Walk { level: 1 }) {
            self.0.values[set][way] = 0;
        } else if data && access.walked {
            self.0.values[set][way] = 3;
        } else {
            self.0.fill((set, way), access);
        }
    }
}

proptest! {
    #[test]
    fn equals_its_words((sets, ways) in shape(), accesses in accesses()) {
        let keys = DrripKeys::default();
        let words = TDrrip(Drrip::new(keys, sets, ways));
        same(Replacement::TDrrip(keys), (sets, ways), &accesses, words);
    }
}

/// A program that touches more pages than the TLB has: each access reads a leaf of the table, of
/// which there are few, and then data that it does not come back to.
#[test]
fn leaves_outlive_data_that_were_walked_for() {
    let (sets, ways) = (64, 8);
    let mut stream = Vec::new();
    for number in 0..40_000u32 {
        // All over the pages: eight entries a line, data of a page of its own.
        let page = number.wrapping_mul(2_654_435_761) >> 20;
        let leaf = Access::new(page / 8 % 448, Kind::Walk { level: 1 });
        stream.push(leaf);
        let mut load = loads(1, std::iter::once(100_000 + number));
        load[0].walked = true;
        stream.extend(load);
    }
    let leaves = |name: &str| {
        let hits = hits(Replacement::named(name).unwrap(), sets, ways, &stream);
        let of_walks = hits.iter().step_by(2).skip(20_000).filter(|&&hit| hit);
        of_walks.count() as f64 / 20_000.0
    };
    // 512 lines of leaves, as many as the cache holds.
    assert!(leaves("t-drrip") > 0.99, "{}", leaves("t-drrip"));
    assert!(leaves("drrip") < 0.8, "{}", leaves("drrip"));
    assert!(leaves("lru") < 0.2, "{}", leaves("lru"));
}
