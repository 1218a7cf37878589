//! Stores whose lines have left the first level again before they are written.
//!
//! A line is asked for when a store has its address, and written when the stores before it have been: x86
//! writes in the order of the program. Where more lines of one set than it has ways are asked for meanwhile, what
//! came first is driven out and has to be fetched once more when its turn has come, which nothing overlaps.

/// Said of a line that nothing waits to be written to.
const NOTHING: u64 = u64::MAX;

/// The lines that filled the first level last, and when what was stored to them was written. A set gives up the
/// one that came first.
#[derive(Clone, Debug)]
pub(crate) struct DrivenOut {
    ways: usize,
    sets: usize,
    /// `ways` times for each set, less what was late until then: a line that is fetched once more makes all
    /// later that is still to be written.
    written: Box<[u64]>,
    /// `ways` lines for each set, and which of them is the oldest.
    lines: Box<[u32]>,
    oldest: Box<[u32]>,
    /// Time to fetch a line once more, and for how long that has been done so far.
    again: u64,
    late: u64,
}

impl DrivenOut {
    pub(crate) fn new(sets: usize, ways: usize, again: u64) -> Self {
        DrivenOut {
            ways,
            sets,
            written: vec![NOTHING; sets * ways].into(),
            lines: vec![u32::MAX; sets * ways].into(),
            oldest: vec![0; sets].into(),
            again,
            late: 0,
        }
    }

    /// A line arrives while something is still to be written. It is written then if it is stored to, unless that
    /// is said to be later. Returns how much later all is written that is still to be, since the line whose place it
    /// takes was among that.
    pub(crate) fn fill(&mut self, line: u32, arrives: u64, store: bool) -> u64 {
        let written = if store {
            arrives.saturating_sub(self.late)
        } else {
            NOTHING
        };
        let before = self.put(line, written);
        if before == NOTHING || before + self.late <= arrives {
            return 0;
        }
        self.late += self.again;
        self.again
    }

    /// Writes a store to a line at `time`.
    pub(crate) fn write(&mut self, line: u32, time: u64) {
        let first = line as usize % self.sets * self.ways;
        let mut lines = self.lines[first..first + self.ways].iter();
        let written = time - self.late;
        match lines.position(|&held| held == line) {
            Some(place) => self.written[first + place] = written,
            None => _ = self.put(line, written),
        }
    }

    /// Puts a line into its set; what it replaces.
    fn put(&mut self, line: u32, written: u64) -> u64 {
        let set = line as usize % self.sets;
        let oldest = &mut self.oldest[set];
        let place = set * self.ways + *oldest as usize;
        *oldest += 1;
        if *oldest as usize == self.ways {
            *oldest = 0;
        }
        self.lines[place] = line;
        std::mem::replace(&mut self.written[place], written)
    }
}
