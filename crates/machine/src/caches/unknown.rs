//! Contents of caches, or of the TLB, at the beginning of a window, estimated.
//!
//! Accesses that a sample leaves out would have brought lines in and driven others out. The first reference of a
//! window to a line, an *unknown* reference (Wood, Hill, Kessler, "A model for estimating trace-sample miss
//! ratios", SIGMETRICS 1991, section 2), finds it only if it has been used within the time in which the
//! program touches as many lines as there is room for. How likely that is follows from how many windows have
//! touched the line; the time, from how many lines there are of each kind (Xiang, Ding, Luo, Bao, "HOTL: a
//! higher order theory of locality", ASPLOS 2013, section 3). For a TLB, lines are pages.

use pagelab_addr::{LINE_SHIFT, PAGE_SHIFT};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Lines whose windows are counted; of more a sample is, by their numbers (Waldspurger et al., "Efficient MRC
/// construction with SHARDS", FAST 2015).
const MOST_LINES: usize = 1 << 20;
/// Windows that the first estimate is made from.
const FEWEST: u32 = 3;
/// Windows between two estimates, as a part of all before them.
const BETWEEN: u32 = 8;
/// The bits of a line's number that decide whether it is counted: not those by which a table finds it.
const MASK: u64 = 1 << 32;
/// Windows after which a program that has not filled the level is taken never to do so.
const LONGEST: f64 = 1e9;
const HALVINGS: u32 = 40;
/// Lines of a page, log2.
const PAGE_LINES: u32 = PAGE_SHIFT - LINE_SHIFT;

/// Lines are spread by their numbers.
#[derive(Default)]
struct ByLine(u64);

impl Hasher for ByLine {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("lines are numbers");
    }

    fn write_u32(&mut self, line: u32) {
        self.0 = spread(line);
    }
}

/// A line's number, with its bits mixed (Knuth, TAOCP volume 3, section 6.4).
fn spread(line: u32) -> u64 {
    let mixed = u64::from(line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

type Lines = HashSet<u32, BuildHasherDefault<ByLine>>;

/// Unknown references of a sampled stream to one cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unknown {
    /// Lines that the cache holds.
    capacity: f64,
    /// This window has seen a reference.
    begun: bool,
    /// Lines that are known to be touched since the last window.
    here: Lines,
    /// Windows that touched a line, of those lines that have no bit of the mask set when spread.
    windows_of: HashMap<u32, u32, BuildHasherDefault<ByLine>>,
    mask: u64,
    /// Windows with this one.
    windows: u32,
    /// Estimates are due with so many windows.
    estimate_at: u32,
    /// The chance of a miss, by the number of windows that touched the line before; and of any line.
    chances: Vec<f64>,
    of_any: Option<f64>,
    /// Time for which a line stays in the cache untouched, in windows; half a one less, as in `estimate`.
    time: f64,
    /// Windows that a window with its gap is as long as.
    spread: f64,
    /// Lines that a window touches, and that are in memory.
    a_window: f64,
    memory: f64,
    /// By page: the window behind the gap in which the kernel filled it, and how many lines it had filled then.
    filled: HashMap<u32, (u32, u64), BuildHasherDefault<ByLine>>,
    lines_filled: u64,
    /// The part of a miss that is due: misses come as evenly as their chances allow.
    due: f64,
}

impl Unknown {
    /// References to a cache that holds so many lines.
    pub(crate) fn new(capacity: usize) -> Self {
        Unknown {
            capacity: capacity as f64,
            estimate_at: FEWEST,
            ..Unknown::default()
        }
    }

    /// Begins a window, unless one has begun of which nothing was seen. Programs have so many lines of memory; a
    /// window with its gap is as long as `spread` of them.
    pub(crate) fn begin_window(&mut self, lines: f64, spread: f64) {
        if self.windows > 0 && !self.begun {
            return;
        }
        self.estimate(lines);
        self.spread = spread;
        self.memory = lines;
        self.here.clear();
        self.windows += 1;
        self.begun = false;
    }

    /// True unless what was touched half a gap ago has probably left the cache by now.
    pub(crate) fn lasts(&self) -> bool {
        self.of_any.is_none() || 2.0 * self.time >= self.spread
    }

    /// The kernel has filled a line in the gap before this window.
    pub(crate) fn fill(&mut self, line: u32) {
        self.touch(line);
        self.lines_filled += 1;
        let now = (self.windows, self.lines_filled);
        self.filled.insert(line >> PAGE_LINES, now);
    }

    /// The chance that a line misses, beside that of others of which no window knows: if the kernel has filled it, none
    /// while it and the program have not touched as many since as there is room for, and after that at least the
    /// chance that the program has not touched it in a gap.
    fn since_filled(&self, line: u32, chance: f64) -> f64 {
        let Some(&(window, filled)) = self.filled.get(&(line >> PAGE_LINES)) else {
            return chance;
        };
        let since = f64::from(self.windows - window) * self.spread;
        let by_kernel = (self.lines_filled - filled) as f64 / self.capacity;
        if since / self.time + by_kernel <= 1.0 {
            return 0.0;
        }
        let untouched = if by_kernel > 1.0 {
            1.0 - since * self.a_window / self.memory
        } else {
            0.0
        };
        chance.max(untouched)
    }

    /// A line is known to have been touched since the last window.
    pub(crate) fn touch(&mut self, line: u32) {
        self.here.insert(line);
    }

    /// A line is touched by what the cache serves anyhow, or by the kernel that fills it.
    pub(crate) fn note(&mut self, line: u32) {
        if self.here.insert(line) {
            self.count(line);
        }
    }

    /// Takes a reference to the cache; returns whether it misses, of an unknown one that is estimated.
    pub(crate) fn misses(&mut self, line: u32) -> Option<bool> {
        self.begun = true;
        if !self.here.insert(line) {
            return None;
        }
        let before = self.count(line);
        let of_any = self.of_any?;
        let chance = before.map_or(of_any, |before| {
            self.chances.get(before as usize).copied().unwrap_or(0.0)
        });
        self.due += match before {
            Some(0) => self.since_filled(line, chance),
            _ => chance,
        };
        let misses = self.due >= 1.0;
        self.due -= f64::from(u8::from(misses));
        Some(misses)
    }

    /// Counts this window as one that touched a line; returns how many did before, where that is known.
    fn count(&mut self, line: u32) -> Option<u32> {
        if spread(line) & self.mask != 0 {
            return None;
        }
        let windows = self.windows_of.entry(line).or_insert(0);
        *windows += 1;
        let before = *windows - 1;
        if self.windows_of.len() > MOST_LINES {
            self.mask = self.mask << 1 | MASK;
            let mask = self.mask;
            (self.windows_of).retain(|&line, _| spread(line) & mask == 0);
        }
        Some(before)
    }

    /// Estimates chances from the windows so far.
    fn estimate(&mut self, memory: f64) {
        if self.windows < self.estimate_at {
            return;
        }
        self.estimate_at = self.windows + 1 + self.windows / BETWEEN;
        let mut lines = vec![0.0; self.windows as usize + 1];
        let part = f64::from(1 << self.mask.count_ones());
        for &windows in self.windows_of.values() {
            lines[windows as usize] += part;
        }
        let seen = Seen::new(lines, memory);
        // An unknown line has not been touched since the window began, on average half of one ago.
        let time = (seen.time_to_touch(self.capacity) - 0.5).max(0.0);
        self.time = time;
        self.chances = (seen.untouched(time)).collect();
        self.chances[0] = seen.new_lines(time);
        let (mut misses, mut all) = (0.0, 0.0);
        for (windows, &lines) in seen.lines.iter().enumerate().skip(1) {
            let touches = windows as f64 * lines;
            misses += touches * self.chances[windows - 1];
            all += touches;
        }
        self.of_any = (all > 0.0).then(|| misses / all);
        self.a_window = all / seen.windows();
    }
}

/// Lines that some windows have seen. Times are in windows, one behind the other.
struct Seen {
    /// Lines by how many of the windows touched them.
    lines: Vec<f64>,
    /// The chance that a window touches a line that one has touched, or none has: Chao, "Estimating the population
    /// size for capture-recapture data with unequal catchability", Biometrics 43(4), 1987. At least what makes
    /// the lines in memory all that there are.
    once: f64,
}

impl Seen {
    fn new(lines: Vec<f64>, memory: f64) -> Self {
        let windows = lines.len() as f64 - 1.0;
        let (once, twice) = (lines[1].max(1.0), 2.0 * lines[2]);
        let chao = twice / ((windows - 1.0) * once + twice);
        let unseen = (memory - lines.iter().sum::<f64>()).max(1.0);
        Seen {
            once: (once / windows / unseen).clamp(chao, 1.0),
            lines,
        }
    }

    fn windows(&self) -> f64 {
        self.lines.len() as f64 - 1.0
    }

    /// The chance that lines of each number of windows are touched in none of so many windows, drawn
    /// from these (Hurlbert, "The nonconcept of species diversity", Ecology 52(4), 1971).
    fn untouched(&self, time: f64) -> impl Iterator<Item = f64> {
        let left = (0..self.lines.len()).map(|at| self.windows() - at as f64);
        left.scan(1.0, move |untouched, left| {
            let now = *untouched;
            *untouched *= (1.0 - time / left).max(0.0);
            Some(now)
        })
    }

    /// The part of new lines, those of a moment in which none of these windows touched them, that would have
    /// been new for so long, too.
    fn new_lines(&self, time: f64) -> f64 {
        (1.0 - self.once).powf((time - self.windows()).max(0.0))
    }

    /// Lines that are touched in a time.
    fn touched(&self, time: f64) -> f64 {
        let lines = self.lines.iter().zip(self.untouched(time));
        let within: f64 = lines
            .map(|(lines, untouched)| lines * (1.0 - untouched))
            .sum();
        let beyond = (time - self.windows()).max(0.0);
        let of_new = if self.once > 0.0 {
            (1.0 - (1.0 - self.once).powf(beyond)) / self.once
        } else {
            beyond
        };
        within + self.lines[1] / self.windows() * of_new
    }

    /// The time to touch so many lines; infinite where all are fewer.
    fn time_to_touch(&self, lines: f64) -> f64 {
        let mut above = 1.0;
        while self.touched(above) < lines {
            above *= 2.0;
            if above > LONGEST {
                return f64::INFINITY;
            }
        }
        let mut below = 0.0;
        for _ in 0..HALVINGS {
            let middle = (below + above) / 2.0;
            *if self.touched(middle) < lines {
                &mut below
            } else {
                &mut above
            } = middle;
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use super::{FEWEST, Unknown};
    use std::collections::{BTreeMap, HashMap, HashSet};

    const CAPACITY: usize = 8000;
    const WINDOW: u64 = 2000;
    const PERIOD: u64 = 20_000;
    const WINDOWS: u64 = 40;

    /// A level that sees all, and drives out what was used least recently.
    #[derive(Default)]
    struct Whole {
        used: HashMap<u32, u64>,
        order: BTreeMap<u64, u32>,
        now: u64,
    }

    impl Whole {
        fn misses(&mut self, line: u32) -> bool {
            self.now += 1;
            let before = self.used.insert(line, self.now);
            if let Some(before) = before {
                self.order.remove(&before);
            }
            self.order.insert(self.now, line);
            if self.order.len() > CAPACITY {
                let (_, oldest) = self.order.pop_first().unwrap();
                self.used.remove(&oldest);
            }
            before.is_none()
        }
    }

    /// The part of windows' references that miss, in a level that sees all and as it is estimated; without the
    /// first windows.
    fn ratios(memory: f64, lines: impl Fn(u64) -> u64) -> (f64, f64) {
        let (mut whole, mut unknown) = (Whole::default(), Unknown::new(CAPACITY));
        let (mut missed, mut estimated) = (0, 0);
        for now in 0..WINDOWS * PERIOD {
            let line = lines(now) as u32;
            let misses = whole.misses(line);
            let (window, at) = (now / PERIOD, now % PERIOD);
            if at == 0 {
                unknown.begin_window(memory, (PERIOD / WINDOW) as f64);
            }
            if at < WINDOW {
                let estimate = unknown.misses(line);
                if window >= FEWEST.into() {
                    missed += u64::from(misses);
                    estimated += u64::from(estimate.unwrap_or(false));
                }
            }
        }
        let all = ((WINDOWS - u64::from(FEWEST)) * WINDOW) as f64;
        (missed as f64 / all, estimated as f64 / all)
    }

    /// A number that nobody can tell from a random one (Steele, Lea, Flood, "Fast splittable pseudorandom
    /// number generators", OOPSLA 2014).
    fn random(of: u64) -> u64 {
        let mixed = (of ^ (of >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[track_caller]
    fn agrees(memory: f64, lines: impl Fn(u64) -> u64) {
        let (whole, estimated) = ratios(memory, lines);
        assert!(
            (whole - estimated).abs() < 0.03,
            "{whole:.3}, estimated {estimated:.3}"
        );
    }

    #[test]
    fn what_fits_hits() {
        agrees(1e9, |now| random(now) % 4000);
        agrees(1e9, |now| now % 6000);
        agrees(7500.0, |now| now % 7500);
    }

    #[test]
    fn what_is_used_once_misses() {
        agrees(1e9, |now| now);
    }

    #[test]
    fn what_fits_in_part_hits_in_part() {
        agrees(1e9, |now| random(now) % 12_000);
        agrees(1e9, |now| random(now) % 30_000);
        agrees(1e9, |now| random(now) % 1_000_000);
    }

    #[test]
    fn of_several_kinds_of_lines_each_is_as_it_would_be() {
        // Half of the references are to few lines, the others to new ones.
        agrees(1e9, |now| {
            if random(now).is_multiple_of(2) {
                random(!now) % 2000
            } else {
                10_000 + now
            }
        });
        // Lines ever less frequent.
        agrees(1e9, |now| {
            (50_000.0_f64.powf((random(now) >> 11) as f64 / (1_u64 << 53) as f64)) as u64
        });
    }

    /// The part of windows' first references to lines that a kernel has filled at once, in the first gap, that
    /// miss: in a level that sees all, and as it is estimated where the level takes them to be there.
    fn ratios_of_filled(lines: u32, others: u64) -> (f64, f64) {
        let (mut whole, mut unknown) = (Whole::default(), Unknown::new(CAPACITY));
        let (mut missed, mut estimated, mut all) = (0, 0, 0);
        let mut touched = HashSet::new();
        for now in 0..WINDOWS * PERIOD {
            let (window, at) = (now / PERIOD, now % PERIOD);
            if at == 0 {
                unknown.begin_window(1e9, (PERIOD / WINDOW) as f64);
            }
            if (window, at) == (6, 0) {
                for line in 0..lines {
                    whole.misses(line);
                    unknown.fill(line);
                }
            }
            // Most references are to what fits; one of ten is a filled line's first, for some windows: too few to
            // estimate anything from.
            let is_new = now % 10 == 0 && (7..10).contains(&window);
            let line = if is_new {
                ((now / 10) % u64::from(lines)) as u32
            } else {
                1_000_000 + (random(now) % others) as u32
            };
            let first = is_new && touched.insert(line);
            let misses = whole.misses(line);
            if at < WINDOW {
                let estimate = unknown.misses(line);
                if first {
                    all += 1;
                    missed += u32::from(misses);
                    estimated += u32::from(estimate.unwrap_or(false));
                }
            }
        }
        (
            f64::from(missed) / f64::from(all),
            f64::from(estimated) / f64::from(all),
        )
    }

    #[test]
    fn what_the_kernel_filled_is_there_as_long_as_there_is_room() {
        let (whole, estimated) = ratios_of_filled(4096, 2000);
        assert!(
            whole == 0.0 && estimated < 0.05,
            "{whole:.3}, {estimated:.3}"
        );
        for others in [2000, 7900] {
            let (whole, estimated) = ratios_of_filled(60_000, others);
            assert!(whole > 0.8 && estimated > 0.8, "{whole:.3}, {estimated:.3}");
        }
    }
}
