use super::intervals::{DISTANT, Intervals, LONG, MAX_WAYS, NEAR};
use super::policy::Policy;
use super::{Access, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of DRRIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DrripKeys {
    /// Sets that lead, for each of the two ways to insert and each core.
    pub leaders: u32,
    /// Bits of the counter of each core by which the other sets follow.
    pub selector_bits: u32,
    /// Number of insertions by BRRIP of which one is long and not distant.
    pub one_in: u32,
}

impl Default for DrripKeys {
    fn default() -> Self {
        // Section 5 of the paper.
        DrripKeys {
            leaders: 32,
            selector_bits: 10,
            one_in: 32,
        }
    }
}

/// See [`super::Replacement::Drrip`].
#[derive(Clone, Debug)]
pub(crate) struct Drrip {
    pub(super) intervals: Intervals,
    keys: DrripKeys,
    /// Distance between leaders of one kind.
    spacing: usize,
    /// By core: grows where SRRIP's leaders miss, falls where BRRIP's do.
    selectors: Vec<u32>,
    /// Insertions by BRRIP.
    inserted: u32,
}

impl Policy for Drrip {
    type Keys = DrripKeys;

    fn new(keys: &DrripKeys, sets: usize, ways: usize) -> Self {
        Drrip {
            intervals: Intervals::new(sets, ways),
            keys: *keys,
            spacing: (sets / keys.leaders as usize).max(2),
            selectors: Vec::new(),
            inserted: 0,
        }
    }

    fn has(ways: u32) -> bool {
        ways <= MAX_WAYS
    }

    fn check(keys: &DrripKeys) -> Result<(), &'static str> {
        let possible = keys.leaders > 0 && keys.one_in > 0;
        (possible && (1..=16).contains(&keys.selector_bits))
            .then_some(())
            .ok_or("leaders and one_in are at least 1, selector_bits 1 to 16")
    }

    fn hit(&mut self, set: usize, way: usize, access: &Access) {
        if access.kind != Kind::WriteBack {
            self.intervals.set(set, way, NEAR);
        }
    }

    fn victim(&mut self, set: usize, _: &[u32], _: &Access) -> usize {
        self.intervals.victim(set)
    }

    fn fill(&mut self, set: usize, way: usize, access: &Access) {
        let interval = if access.kind != Kind::WriteBack && self.thrashes(set, access.core) {
            self.inserted = (self.inserted + 1) % self.keys.one_in;
            if self.inserted == 0 { LONG } else { DISTANT }
        } else {
            LONG
        };
        self.intervals.set(set, way, interval);
    }
}

impl Drrip {
    /// A core misses in a set: true if what it brings is inserted as BRRIP does.
    fn thrashes(&mut self, set: usize, core: u32) -> bool {
        let most = (1 << self.keys.selector_bits) - 1;
        let core = core as usize;
        if self.selectors.len() <= core {
            self.selectors.resize(core + 1, most / 2);
        }
        let selector = &mut self.selectors[core];
        let at = (set + self.spacing - 2 * core % self.spacing) % self.spacing;
        match at {
            0 => {
                *selector = (*selector + 1).min(most);
                false
            }
            1 => {
                *selector = selector.saturating_sub(1);
                true
            }
            _ => *selector > most / 2,
        }
    }
}
