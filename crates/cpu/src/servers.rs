/// Page walkers, or miss buffers: what each user has for itself for a while.
///
/// Users ask in the order of the program and not of time: one that waits for its address takes a
/// server in the future, and what asks after it may be ready long before. So the idle time before
/// such a future use is remembered as a gap, which an earlier user fills. The gaps are few and
/// bounded: a gap ends before the core's next access can start, or is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    /// When each server's last use ends, ascending: nobody asks which server it was.
    free_at: Box<[u64]>,
    gaps: [Gap; GAPS],
    len: usize,
    /// The last end of a gap: who asks later need not look.
    gaps_end: u64,
}

const GAPS: usize = 16;

/// Idle time of a server between two uses.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    from: u64,
    to: u64,
}

/// A server from a time on.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// When its use begins.
    pub begins: u64,
    place: Booking,
}

/// Idle time before a use that another user may fill.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// No user will ask for a time before.
    pub from: u64,
    /// Time of the shortest use, at least 1.
    pub least: u64,
}

#[derive(Clone, Copy, Debug)]
enum Booking {
    Server(u32),
    Gap(u32),
}

impl Servers {
    pub(crate) fn new(count: u32) -> Self {
        Servers {
            free_at: vec![0; count as usize].into(),
            gaps: [Gap::default(); GAPS],
            len: 0,
            gaps_end: 0,
        }
    }

    /// The first server that a user has who asks at `time` for about `length`.
    #[inline(always)]
    pub(crate) fn grant(&self, time: u64, length: impl FnOnce() -> u64) -> Grant {
        // The free server whose last use ended last: the others stay free for those who ask for an
        // earlier time. Of busy ones the first to be free.
        let first = self.free_at[0];
        if first <= time {
            let busy = self.free_at.iter().rev().take_while(|&&at| at > time);
            return Grant {
                begins: time,
                place: Booking::Server((self.free_at.len() - busy.count() - 1) as u32),
            };
        }
        let mut grant = Grant {
            begins: first,
            place: Booking::Server(0),
        };
        if time < self.gaps_end {
            let length = length();
            for (number, gap) in self.gaps[..self.len].iter().enumerate() {
                let begins = time.max(gap.from);
                if begins < grant.begins && begins + length <= gap.to {
                    grant = Grant {
                        begins,
                        place: Booking::Gap(number as u32),
                    };
                }
            }
        }
        grant
    }

    /// The server is used to `end`.
    #[inline(always)]
    pub(crate) fn hold(&mut self, grant: Grant, end: u64, idle: Idle) {
        match grant.place {
            Booking::Server(server) => {
                let mut place = server as usize;
                let free_at = self.free_at[place];
                while let Some(&later) = self.free_at.get(place + 1)
                    && later < end
                {
                    self.free_at[place] = later;
                    place += 1;
                }
                self.free_at[place] = end;
                let from = free_at.max(idle.from);
                if from + idle.least <= grant.begins {
                    let to = grant.begins;
                    self.add(Gap { from, to }, idle.from);
                }
            }
            Booking::Gap(number) => {
                let gap = &mut self.gaps[number as usize];
                let before = Gap {
                    from: gap.from,
                    to: grant.begins,
                };
                gap.from = end;
                if gap.from + idle.least > gap.to {
                    self.len -= 1;
                    self.gaps[number as usize] = self.gaps[self.len];
                }
                if before.from + idle.least <= before.to {
                    self.add(before, idle.from);
                }
            }
        }
    }

    fn add(&mut self, gap: Gap, horizon: u64) {
        if self.len == GAPS {
            self.drop_past(horizon);
        }
        self.gaps[self.len] = gap;
        self.len += 1;
        self.gaps_end = self.gaps_end.max(gap.to);
    }

    /// Drops the gaps that have passed, or the one that passes first.
    #[cold]
    fn drop_past(&mut self, horizon: u64) {
        let mut kept = 0;
        for at in 0..self.len {
            self.gaps[kept] = self.gaps[at];
            kept += usize::from(self.gaps[at].to > horizon);
        }
        if kept == GAPS {
            let first = (0..GAPS).min_by_key(|&at| self.gaps[at].to).unwrap_or(0);
            kept -= 1;
            self.gaps[first] = self.gaps[kept];
        }
        self.len = kept;
    }
}
