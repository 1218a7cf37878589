/// Rate of events in 1000 instructions: counted over windows, of which the last that has ended is
/// known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    window: u64,
    limit: f64,
    /// Instructions at the beginning of the window.
    instructions: u64,
    events: u64,
    high: bool,
}

impl Rate {
    pub(super) fn new(window: u64, limit: f64) -> Self {
        Rate {
            window,
            limit,
            instructions: 0,
            events: 0,
            high: false,
        }
    }

    /// So much has happened so far.
    pub(super) fn at(&mut self, instructions: u64, events: u64) {
        let passed = instructions - self.instructions;
        if passed >= self.window {
            let happened = (events - self.events) as f64;
            self.high = happened * 1000.0 > self.limit * passed as f64;
            self.instructions = instructions;
            self.events = events;
        }
    }

    /// True if it was above the limit.
    pub(super) fn high(&self) -> bool {
        self.high
    }
}
