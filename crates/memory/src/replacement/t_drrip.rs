use super::drrip::{Drrip, DrripKeys};
use super::intervals::{DISTANT, NEAR};
use super::policy::Policy;
use super::{Access, Kind};

/// See [`super::Replacement::TDrrip`].
#[derive(Clone, Debug)]
pub(crate) struct TDrrip {
    drrip: Drrip,
}

impl Policy for TDrrip {
    type Keys = DrripKeys;

    fn new(keys: &DrripKeys, sets: usize, ways: usize) -> Self {
        TDrrip {
            drrip: Drrip::new(keys, sets, ways),
        }
    }

    fn has(ways: u32) -> bool {
        Drrip::has(ways)
    }

    fn check(keys: &DrripKeys) -> Result<(), &'static str> {
        Drrip::check(keys)
    }

    fn hit(&mut self, set: usize, way: usize, access: &Access) {
        self.drrip.hit(set, way, access);
    }

    fn victim(&mut self, set: usize, entries: &[u32], access: &Access) -> usize {
        self.drrip.victim(set, entries, access)
    }

    fn fill(&mut self, set: usize, way: usize, access: &Access) {
        let intervals = &mut self.drrip.intervals;
        match access.kind {
            Kind::Walk { level: 1 } => intervals.set(set, way, NEAR),
            Kind::Load | Kind::Store if access.walked => intervals.set(set, way, DISTANT),
            _ => self.drrip.fill(set, way, access),
        }
    }
}
