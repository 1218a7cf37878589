use crate::demand::Demand;
use crate::{GeometryError, StridesConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prefetchers of a core's second-level cache.
///
/// The first two prefetchers look at lines that the first level asks for and at no instruction. Neither
/// leaves the 4 KiB page of the line, as those cannot that see physical addresses, unless
/// `crosses_pages` is set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefetchConfig {
    /// The other line of the aligned two that a line is one of which the second level misses.
    pub adjacent: bool,
    /// Pages whose lines are followed, one direction each; 0 for none.
    pub streams: u32,
    /// Number of lines that a stream is ahead at the most.
    pub ahead: u32,
    /// Distance in lines between accesses of a stream at the most: 63, anywhere in its page, if not said.
    #[serde(default = "anywhere", skip_serializing_if = "is_anywhere")]
    pub within: u32,
    /// Number of lines that it fetches at an access at the most. Intel's two, if not said (Intel 64
    /// and IA-32 Architectures Optimization Reference Manual, "Data Prefetching", of the streamer).
    #[serde(default = "two", skip_serializing_if = "is_two")]
    pub at_once: u32,
    /// A stream goes on in the next page of the address space.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub crosses_pages: bool,
    /// The share of the second level's requests for data that miss from which on it is busy: what
    /// is fetched then goes into the last level only. `None` where it always goes into both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Prefetcher by instructions and the addresses of all their loads, where the source says which
    /// instructions these are. `None` for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strides: Option<StridesConfig>,
}

/// Lines of a 4 KiB page.
const LINES: i32 = 64;
/// Accesses in one direction, after the first, that make a stream.
const CONFIRMED: u32 = 2;
/// The most lines that a stream may fetch at an access.
const MOST_AT_ONCE: u32 = 8;
/// And an instruction's strides.
const BY_STRIDE: usize = 1;

/// The most lines that one access fetches ahead.
pub const MAX_PREFETCHES: usize = 1 + MOST_AT_ONCE as usize + BY_STRIDE;

fn anywhere() -> u32 {
    LINES as u32 - 1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_anywhere(lines: &u32) -> bool {
    *lines == anywhere()
}

fn two() -> u32 {
    2
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_two(lines: &u32) -> bool {
    *lines == 2
}

/// A core's prefetchers.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    config: PrefetchConfig,
    /// The most recently used first.
    streams: Vec<Stream>,
    demand: Option<Demand>,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u32,
    /// The page that it goes on in, once that was asked.
    beyond: Option<u32>,
    /// The last line asked for, and the furthest that was fetched: 0 to 63 in the page, and in the
    /// one beyond it as if that followed.
    last: i32,
    furthest: i32,
    up: bool,
    steps: u32,
}

impl Prefetcher {
    /// Prefetchers that have seen nothing.
    ///
    /// # Errors
    /// [`GeometryError`] for more streams than a processor could look through, and for distances beyond
    /// a page.
    pub fn new(config: &PrefetchConfig) -> Result<Self, GeometryError> {
        let possible = config.streams <= 1024 && config.ahead < LINES as u32;
        let possible = possible && (1..LINES as u32).contains(&config.within);
        if !possible || !(1..=MOST_AT_ONCE).contains(&config.at_once) {
            return Err(GeometryError::Prefetch);
        }
        if config
            .busy
            .is_some_and(|share| !(0.0..=1.0).contains(&share))
        {
            return Err(GeometryError::Busy);
        }
        Ok(Prefetcher {
            config: *config,
            streams: Vec::with_capacity(config.streams as usize),
            demand: config.busy.map(Demand::new),
        })
    }

    /// True if the first line that it has fetched for one that is asked for is the other one of an
    /// aligned two: to be fetched only if the second level misses the one asked for, since what
    /// Intel's completes is lines that come into that level (Intel 64 and IA-32 Architectures
    /// Optimization Reference Manual, "Data Prefetching").
    pub fn completes_pairs(&self) -> bool {
        self.config.adjacent
    }

    /// A line is asked for; says which others are to be fetched. `beyond` finds the frame of the page
    /// after its page in the address space (with `true`), or before it. Whether they go into the last
    /// level only.
    pub fn asked(
        &mut self,
        line: u32,
        beyond: impl FnMut(bool) -> Option<u32>,
        fetch: impl FnMut(u32),
    ) -> bool {
        self.look_ahead(line, beyond, fetch);
        self.demand.as_mut().is_some_and(Demand::ask)
    }

    /// True if streams go on in the next page of the address space.
    pub fn crosses_pages(&self) -> bool {
        self.config.crosses_pages && self.config.streams > 0
    }

    /// True if it wants to know what was missed.
    pub fn wants_answers(&self) -> bool {
        self.demand.is_some()
    }

    /// Takes the answer of the second level about the first of the lines asked for that has none
    /// yet.
    pub fn answer(&mut self, missed: bool) {
        if let Some(demand) = &mut self.demand {
            demand.answer(missed);
        }
    }

    fn look_ahead(
        &mut self,
        line: u32,
        beyond: impl FnMut(bool) -> Option<u32>,
        mut fetch: impl FnMut(u32),
    ) {
        if self.config.adjacent {
            fetch(line ^ 1);
        }
        if self.config.streams == 0 {
            return;
        }
        let (page, at) = (line / LINES as u32, (line % LINES as u32) as i32);
        let place = self.place_of(page, at);
        self.streams[..=place].rotate_right(1);
        let stream = &mut self.streams[0];
        if at != stream.last {
            stream.follow(at, self.config.within);
            if stream.steps >= CONFIRMED {
                stream.fetch(&self.config, beyond, fetch);
            }
        }
    }

    /// The place of the stream in this page: one that is there, one that comes there from the page
    /// before, or a new one in the place of the one that was used longest ago.
    fn place_of(&mut self, page: u32, at: i32) -> usize {
        let mut comes = None;
        for (place, stream) in self.streams.iter().enumerate() {
            if stream.page == page {
                return place;
            }
            if stream.beyond == Some(page) {
                comes = comes.or(Some(place));
            }
        }
        if let Some(place) = comes {
            self.streams[place].cross(page);
            return place;
        }
        self.streams.truncate(self.config.streams as usize - 1);
        self.streams.push(Stream {
            page,
            beyond: None,
            last: at,
            furthest: at,
            up: true,
            steps: 0,
        });
        self.streams.len() - 1
    }
}

impl Stream {
    fn follow(&mut self, at: i32, within: u32) {
        let up = at > self.last;
        let apart = at.abs_diff(self.last);
        if up != self.up || apart > within {
            (self.up, self.steps, self.beyond) = (up, 0, None);
            self.furthest = at;
        }
        self.steps += u32::from(apart <= within);
        self.last = at;
    }

    /// Has come to the page beyond its own.
    fn cross(&mut self, page: u32) {
        let passed = if self.up { LINES } else { -LINES };
        self.last -= passed;
        self.furthest -= passed;
        (self.page, self.beyond) = (page, None);
    }

    fn fetch(
        &mut self,
        config: &PrefetchConfig,
        mut beyond: impl FnMut(bool) -> Option<u32>,
        mut fetch: impl FnMut(u32),
    ) {
        let ahead = config.ahead as i32;
        for _ in 0..config.at_once {
            let next = if self.up {
                self.furthest.max(self.last) + 1
            } else {
                self.furthest.min(self.last) - 1
            };
            if (next - self.last).abs() > ahead {
                return;
            }
            let page = if (0..LINES).contains(&next) {
                self.page
            } else if !config.crosses_pages {
                return;
            } else {
                self.beyond = self.beyond.or_else(|| beyond(self.up));
                let Some(page) = self.beyond else { return };
                page
            };
            fetch(page * LINES as u32 + next.rem_euclid(LINES) as u32);
            self.furthest = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(config: PrefetchConfig, lines: &[u32]) -> Vec<Vec<u32>> {
        let mut prefetcher = Prefetcher::new(&config).unwrap();
        let of_line = |&line| {
            let mut fetched = Vec::new();
            prefetcher.asked(line, |_| None, |line| fetched.push(line));
            fetched
        };
        lines.iter().map(of_line).collect()
    }

    const STREAMS: PrefetchConfig = PrefetchConfig {
        adjacent: false,
        streams: 2,
        ahead: 4,
        within: 63,
        at_once: 2,
        crosses_pages: false,
        busy: None,
        strides: None,
    };

    #[test]
    fn the_other_line_of_two() {
        let config = PrefetchConfig {
            adjacent: true,
            streams: 0,
            ahead: 0,
            within: 63,
            at_once: 2,
            crosses_pages: false,
            busy: None,
            strides: None,
        };
        assert_eq!(fetched(config, &[6, 7]), [[7], [6]]);
    }

    #[test]
    fn a_stream_runs_ahead_and_stays_in_its_page() {
        assert_eq!(
            fetched(STREAMS, &[64, 65, 66, 67, 68, 125, 126]),
            [
                vec![],
                vec![],
                vec![67, 68],
                vec![69, 70],
                vec![71, 72],
                vec![126, 127],
                vec![],
            ]
        );
        assert_eq!(
            fetched(STREAMS, &[70, 69, 68, 66, 65]),
            [vec![], vec![], vec![67, 66], vec![65, 64], vec![]]
        );
    }

    #[test]
    fn a_turn_begins_anew_and_the_oldest_page_is_forgotten() {
        assert_eq!(
            fetched(STREAMS, &[0, 1, 2, 1, 0]),
            [vec![], vec![], vec![3, 4], vec![], vec![]]
        );
        // Pages 0, 1 and 2 in turn: only two are known at a time.
        let turns = [0, 64, 128, 1, 65, 129, 2, 66, 130];
        assert!(fetched(STREAMS, &turns).iter().all(Vec::is_empty));
    }

    #[test]
    fn accesses_of_a_stream_are_not_far_apart() {
        let near = PrefetchConfig {
            within: 2,
            ..STREAMS
        };
        assert_eq!(
            fetched(near, &[0, 2, 4, 7, 8, 10]),
            [vec![], vec![], vec![5, 6], vec![], vec![], vec![11, 12]]
        );
    }

    #[test]
    fn a_stream_goes_on_in_the_next_page() {
        let mut config = STREAMS;
        (config.crosses_pages, config.at_once) = (true, 4);
        // Pages 5, 3 and 8 follow each other.
        let beside = |page, up| match (page, up) {
            (5, true) | (8, false) => Some(3),
            (3, true) => Some(8),
            (3, false) => Some(5),
            _ => None,
        };
        let lines = |pages: &[u32], within: Vec<u32>| -> Vec<u32> {
            let of_page = |page: &u32| within.iter().map(|at| page * 64 + at).collect::<Vec<_>>();
            pages.iter().flat_map(of_page).collect()
        };
        let up = lines(&[5, 3, 8], (0..64).collect());
        let down = lines(&[8, 3, 5], (0..64).rev().collect());
        for asked in [up, down] {
            let mut prefetcher = Prefetcher::new(&config).unwrap();
            let mut fetched = Vec::new();
            for &line in &asked {
                let beyond = |up| beside(line / 64, up);
                prefetcher.asked(line, beyond, |line| fetched.push(line));
            }
            // All but the first three, each once, in their order.
            assert_eq!(fetched, asked[3..]);
        }
    }

    #[test]
    fn what_no_processor_has_is_refused() {
        let mut config = STREAMS;
        let refused = [
            (1025, 4, 2, 2),
            (2, 64, 2, 2),
            (2, 4, 0, 2),
            (2, 4, 9, 2),
            (2, 4, 2, 0),
            (2, 4, 2, 64),
        ];
        for (streams, ahead, at_once, within) in refused {
            (config.streams, config.ahead) = (streams, ahead);
            (config.at_once, config.within) = (at_once, within);
            assert!(Prefetcher::new(&config).is_err(), "{config:?}");
        }
    }
}
