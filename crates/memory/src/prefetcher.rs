use crate::demand::Demand;
use crate::{GeometryError, StridesConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a core's second-level cache fetches before it is asked for.
///
/// The first two prefetchers look at lines that the first level asks for and at no instruction;
/// neither leaves the 4 KiB page of the line, since they see physical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefetchConfig {
    /// The other line of the aligned two that a line is one of which the second level misses.
    pub adjacent: bool,
    /// Pages whose lines are followed, one direction each; 0 for none.
    pub streams: u32,
    /// How many lines a stream is ahead at the most, two more at each access.
    pub ahead: u32,
    /// The share of the second level's requests for data that miss from which on it is busy: what
    /// is fetched then goes into the last level only. `None` where it always goes into both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// What looks at instructions and the addresses of all their loads, where the source says which
    /// instructions these are. `None` for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strides: Option<StridesConfig>,
}

/// Lines of a 4 KiB page.
const LINES: u32 = 64;
/// Accesses in one direction, after the first, that make a stream.
const CONFIRMED: u32 = 2;
/// Lines that a stream fetches at an access.
const AT_ONCE: u32 = 2;
/// And an instruction's strides.
const BY_STRIDE: usize = 1;

/// The most lines that one access fetches ahead.
pub const MAX_PREFETCHES: usize = 1 + AT_ONCE as usize + BY_STRIDE;

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
    /// The last line asked for, and the furthest that was fetched, in the page.
    last: u32,
    furthest: u32,
    up: bool,
    steps: u32,
}

impl Prefetcher {
    /// Prefetchers that have seen nothing.
    ///
    /// # Errors
    /// [`GeometryError`] for more streams than a processor could look through.
    pub fn new(config: &PrefetchConfig) -> Result<Self, GeometryError> {
        if config.streams > 1024 || config.ahead >= LINES {
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

    /// Whether the first line that it has fetched for one that is asked for is the other one of an
    /// aligned two: to be fetched only if the second level misses the one asked for, since what
    /// Intel's completes is lines that come into that level (Intel 64 and IA-32 Architectures
    /// Optimization Reference Manual, "Data Prefetching").
    pub fn completes_pairs(&self) -> bool {
        self.config.adjacent
    }

    /// A line is asked for; says which others are to be fetched. Whether into the last level only.
    pub fn asked(&mut self, line: u32, fetch: impl FnMut(u32)) -> bool {
        self.look_ahead(line, fetch);
        self.demand.as_mut().is_some_and(Demand::ask)
    }

    /// Whether it wants to know what was missed.
    pub fn wants_answers(&self) -> bool {
        self.demand.is_some()
    }

    /// Whether the second level missed the first of the lines asked for that has no answer yet.
    pub fn answer(&mut self, missed: bool) {
        if let Some(demand) = &mut self.demand {
            demand.answer(missed);
        }
    }

    fn look_ahead(&mut self, line: u32, mut fetch: impl FnMut(u32)) {
        if self.config.adjacent {
            fetch(line ^ 1);
        }
        if self.config.streams == 0 {
            return;
        }
        let (page, at) = (line / LINES, line % LINES);
        let known = self.streams.iter().position(|stream| stream.page == page);
        let place = known.unwrap_or_else(|| {
            self.streams.truncate(self.config.streams as usize - 1);
            self.streams.push(Stream {
                page,
                last: at,
                furthest: at,
                up: true,
                steps: 0,
            });
            self.streams.len() - 1
        });
        self.streams[..=place].rotate_right(1);
        let stream = &mut self.streams[0];
        if at != stream.last {
            stream.follow(at);
            if stream.steps >= CONFIRMED {
                stream.fetch(self.config.ahead, fetch);
            }
        }
    }
}

impl Stream {
    fn follow(&mut self, at: u32) {
        let up = at > self.last;
        if up != self.up {
            (self.up, self.steps) = (up, 0);
            self.furthest = at;
        }
        self.steps += 1;
        self.last = at;
    }

    fn fetch(&mut self, ahead: u32, mut fetch: impl FnMut(u32)) {
        for _ in 0..AT_ONCE {
            let next = if self.up {
                let next = self.furthest.max(self.last) + 1;
                (next <= (self.last + ahead).min(LINES - 1)).then_some(next)
            } else {
                let next = self.furthest.min(self.last).checked_sub(1);
                next.filter(|next| next + ahead >= self.last)
            };
            let Some(next) = next else { return };
            fetch(self.page * LINES + next);
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
            prefetcher.asked(line, |line| fetched.push(line));
            fetched
        };
        lines.iter().map(of_line).collect()
    }

    const STREAMS: PrefetchConfig = PrefetchConfig {
        adjacent: false,
        streams: 2,
        ahead: 4,
        busy: None,
        strides: None,
    };

    #[test]
    fn the_other_line_of_two() {
        let config = PrefetchConfig {
            adjacent: true,
            streams: 0,
            ahead: 0,
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
}
