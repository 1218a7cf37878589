//! Decides by samples whether registers are followed, which takes half as many instructions again as a simulation
//! without.

/// Accesses of which the first are looked at before the rest.
const WINDOW: u64 = 32 * TURN;
/// The first of them only make the state that a sample begins with.
const WARM_UP: u64 = TURN;
const SAMPLE: u64 = 2 * TURN;
/// A turn of accesses: a machine hands over no more at once.
pub const TURN: u64 = 256;

/// Arithmetic that takes less than one part in so many of a sample's time is left out until the window ends:
/// most code computes several things side by side, faster than it is dispatched.
const PARTS: u64 = 64;

/// For one core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampled {
    follows: bool,
    /// The core's time, and how long it had waited for arithmetic, when the sample began.
    since: (u64, u64),
}

impl Sampled {
    /// Looks at the core before its next accesses, which begin a turn or are within one, after so many others.
    pub(crate) fn look(&mut self, accesses: u64, now: u64, waited: u64) {
        match accesses % WINDOW {
            0 => self.follows = true,
            WARM_UP => self.since = (now, waited),
            at if at == WARM_UP + SAMPLE => {
                let (began, waited_before) = self.since;
                self.follows = (waited - waited_before) * PARTS > now - began;
            }
            _ => {}
        }
    }

    /// True if registers are followed through the next accesses.
    pub(crate) fn follows(&self) -> bool {
        self.follows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns that are followed, of a window whose waits are so many slots of each turn's thousand.
    fn followed(waits: u64) -> u64 {
        let mut sampled = Sampled::default();
        let turns = 0..WINDOW / TURN;
        let follows = |turn| {
            sampled.look(turn * TURN, turn * 1000, turn * waits);
            sampled.follows()
        };
        turns.map(follows).filter(|&follows| follows).count() as u64
    }

    #[test]
    fn a_window_is_followed_where_its_sample_waits() {
        assert_eq!(followed(0), 3);
        assert_eq!(followed(15), 3);
        assert_eq!(followed(16), 32);
        assert_eq!(followed(900), 32);
    }
}
