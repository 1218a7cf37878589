use super::prefetcher::{Load, Prefetcher};
use crate::GeometryError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prefetcher for instructions whose loads are a constant distance apart.
///
/// Intel's "IP-based stride prefetcher" (Intel 64 and IA-32 Architectures Optimization Reference
/// Manual, "Data Prefetching") and AMD's "L1 Stride" (Software Optimization Guide for the AMD Family
/// 19h Processors, "Prefetching of Data"); the idea is Baer and Chen's (Supercomputing 1991).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StridesConfig {
    /// Instructions that are followed.
    pub instructions: u32,
    /// Number of strides ahead; 0 for none.
    pub ahead: u32,
    /// The longest stride in bytes.
    pub longest: u32,
    /// Fetched lines may lie in another 4 KiB page.
    #[serde(default)]
    pub crosses_pages: bool,
}

/// A core's instructions and what their loads are apart.
#[derive(Clone, Debug)]
pub(super) struct Strides {
    config: StridesConfig,
    /// By instruction: the place is a hash of it, and a newer one takes an older one's.
    places: Box<[Entry]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The instruction's number and 1; 0 where there is none.
    site: u64,
    last: u64,
    stride: i64,
}

const LINE: u64 = 64;
const PAGE: u64 = 4096;

impl Prefetcher for Strides {
    type Keys = StridesConfig;

    const SEES_LOADS: bool = true;
    const MOST: usize = 1;

    fn new(config: &StridesConfig) -> Result<Self, GeometryError> {
        let (instructions, ahead) = (config.instructions, config.ahead);
        let possible = (1..=1 << 16).contains(&instructions) && ahead <= 64;
        if !possible || !(1..=1 << 20).contains(&config.longest) {
            return Err(GeometryError::Prefetcher(
                "strides: instructions are 1 to 65536, ahead is 0 to 64, longest 1 to 1048576",
            ));
        }
        Ok(Strides {
            config: *config,
            places: vec![Entry::default(); instructions as usize].into(),
        })
    }

    fn is_off(config: &StridesConfig) -> bool {
        config.ahead == 0
    }

    fn loaded(&mut self, load: Load, next: &mut Vec<u64>) {
        next.extend(self.after(load.instruction, load.address));
    }
}

impl Strides {
    /// An instruction loads from an address; says from which line's address on to fetch, if its loads
    /// have been as far apart twice and what is fetched is a line that it has not come to.
    #[inline]
    fn after(&mut self, site: u32, addr: u64) -> Option<u64> {
        // Multiplicative hashing (Knuth, TAOCP volume 3, section 6.4), scaled to the places.
        let hash = u64::from(site.wrapping_mul(0x9e37_79b1));
        let at = (hash * self.places.len() as u64) >> 32;
        let place = &mut self.places[at as usize];
        let site = u64::from(site) + 1;
        if place.site != site {
            *place = Entry {
                site,
                last: addr,
                stride: 0,
            };
            return None;
        }
        let stride = addr.wrapping_sub(place.last) as i64;
        place.last = addr;
        if stride == 0 {
            // The same again is no step.
            return None;
        }
        let again = stride == place.stride;
        place.stride = stride;
        if !again || stride.unsigned_abs() > u64::from(self.config.longest) {
            return None;
        }
        let ahead = i64::from(self.config.ahead);
        let before = addr.checked_add_signed(stride * (ahead - 1))?;
        let target = before.checked_add_signed(stride)?;
        let new_line = target / LINE != before / LINE && target / LINE != addr / LINE;
        let reachable = self.config.crosses_pages || target / PAGE == addr / PAGE;
        (new_line && reachable).then_some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strides(ahead: u32, crosses_pages: bool) -> Strides {
        Strides::new(&StridesConfig {
            instructions: 4,
            ahead,
            longest: 2048,
            crosses_pages,
        })
        .unwrap()
    }

    fn fetched(strides: &mut Strides, site: u32, addrs: &[u64]) -> Vec<Option<u64>> {
        let of = |&addr| strides.after(site, addr);
        addrs.iter().map(of).collect()
    }

    #[test]
    fn the_third_of_equal_steps_fetches() {
        let mut up = strides(2, false);
        let of_up = fetched(&mut up, 7, &[0, 100, 200, 300, 350, 400]);
        assert_eq!(of_up, [None, None, Some(400), Some(500), None, None]);
        let mut down = strides(1, false);
        let of_down = fetched(&mut down, 7, &[1000, 900, 800, 700]);
        assert_eq!(of_down, [None, None, Some(700), Some(600)]);
    }

    #[test]
    fn short_steps_fetch_each_line_once() {
        let mut strides = strides(4, false);
        let addrs: Vec<u64> = (0..24).map(|number| 8 * number).collect();
        let lines: Vec<u64> = (fetched(&mut strides, 1, &addrs).into_iter().flatten())
            .map(|addr| addr / 64)
            .collect();
        // 24 words are three lines; the last is at hand when they end, and one more ahead.
        assert_eq!(lines, [1, 2, 3]);
    }

    #[test]
    fn pages_are_left_only_where_that_is_said() {
        let addrs = [1024, 2048, 3072];
        assert_eq!(fetched(&mut strides(1, false), 1, &addrs)[2], None);
        assert_eq!(fetched(&mut strides(1, true), 1, &addrs)[2], Some(4096));
    }

    #[test]
    fn long_steps_and_none_fetch_nothing() {
        let far = [0, 4096, 8192, 12288];
        assert_eq!(fetched(&mut strides(1, true), 1, &far), [None; 4]);
        assert_eq!(fetched(&mut strides(1, true), 1, &[5; 4]), [None; 4]);
        // The end of the address space.
        let last = [u64::MAX - 200, u64::MAX - 100, u64::MAX];
        assert_eq!(fetched(&mut strides(1, true), 1, &last), [None; 3]);
    }

    #[test]
    fn instructions_are_followed_each_for_itself() {
        let mut strides = Strides::new(&StridesConfig {
            instructions: 64,
            ahead: 1,
            longest: 2048,
            crosses_pages: false,
        })
        .unwrap();
        for step in 0..3 {
            for site in 0..2 {
                let found = strides.after(site, u64::from(site) * 8192 + step * 128);
                assert_eq!(found.is_some(), step == 2, "{site}");
            }
        }
    }

    #[test]
    fn what_no_processor_has_is_refused() {
        for (instructions, ahead, longest) in [(0, 1, 1), (1, 65, 1), (1, 1, 0), (1 << 17, 1, 1)] {
            let config = StridesConfig {
                instructions,
                ahead,
                longest,
                crosses_pages: false,
            };
            assert!(Strides::new(&config).is_err(), "{config:?}");
        }
    }
}
