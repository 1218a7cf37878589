use super::prefetcher::Prefetcher;
use crate::GeometryError;

/// Lines of a 4 KiB page.
const LINES: i32 = 64;
/// Accesses in one direction, after the first, that make a stream.
const CONFIRMED: u32 = 2;
/// The most lines that a stream may fetch at an access.
const MOST_AT_ONCE: u32 = 8;

/// Keys of streams, which lie among those of `caches.prefetch`.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamsKeys {
    pub(super) streams: u32,
    pub(super) ahead: u32,
    pub(super) within: u32,
    pub(super) at_once: u32,
    pub(super) crosses_pages: bool,
}

/// Pages whose lines are followed, in one direction each.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    keys: StreamsKeys,
    /// The most recently used first.
    streams: Vec<Stream>,
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

impl Prefetcher for Streams {
    type Keys = StreamsKeys;

    const MOST: usize = MOST_AT_ONCE as usize;

    fn new(keys: &StreamsKeys) -> Result<Self, GeometryError> {
        let possible = keys.streams <= 1024 && keys.ahead < LINES as u32;
        let possible = possible && (1..LINES as u32).contains(&keys.within);
        if !possible || !(1..=MOST_AT_ONCE).contains(&keys.at_once) {
            return Err(GeometryError::Prefetch);
        }
        Ok(Streams {
            keys: *keys,
            streams: Vec::with_capacity(keys.streams as usize),
        })
    }

    fn is_off(keys: &StreamsKeys) -> bool {
        keys.streams == 0
    }

    fn missed(
        &mut self,
        line: u32,
        beside: &mut impl FnMut(bool) -> Option<u32>,
        fetch: &mut impl FnMut(u32),
    ) {
        let (page, at) = (line / LINES as u32, (line % LINES as u32) as i32);
        let place = self.place_of(page, at);
        self.streams[..=place].rotate_right(1);
        let stream = &mut self.streams[0];
        if at != stream.last {
            stream.follow(at, self.keys.within);
            if stream.steps >= CONFIRMED {
                stream.fetch(&self.keys, beside, fetch);
            }
        }
    }
}

impl Streams {
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
        self.streams.truncate(self.keys.streams as usize - 1);
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
        keys: &StreamsKeys,
        beside: &mut impl FnMut(bool) -> Option<u32>,
        fetch: &mut impl FnMut(u32),
    ) {
        let ahead = keys.ahead as i32;
        for _ in 0..keys.at_once {
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
            } else if !keys.crosses_pages {
                return;
            } else {
                self.beyond = self.beyond.or_else(|| beside(self.up));
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
    use super::super::{PrefetchConfig, Prefetchers};

    fn fetched(config: PrefetchConfig, lines: &[u32]) -> Vec<Vec<u32>> {
        let mut prefetcher = Prefetchers::new(&config).unwrap();
        let of_line = |&line| {
            let mut fetched = Vec::new();
            prefetcher.asked(line, |_| None, |line| fetched.push(line));
            fetched
        };
        lines.iter().map(of_line).collect()
    }

    const STREAMS: PrefetchConfig = PrefetchConfig {
        streams: 2,
        ahead: 4,
        ..PrefetchConfig::NONE
    };

    #[test]
    fn the_other_line_of_two() {
        let config = PrefetchConfig {
            adjacent: true,
            ..PrefetchConfig::NONE
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
            let mut prefetcher = Prefetchers::new(&config).unwrap();
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
            assert!(Prefetchers::new(&config).is_err(), "{config:?}");
        }
    }
}
