//! A branch predictor, for what a processor would have mispredicted.
//!
//! Which branches a program mispredicts depends on the processor, but between those of the last ten
//! years little: what follows the history of the last hundred branches is foreseen, what depends on
//! the data is not. This one is a hashed perceptron (Tarjan and Skadron, "Merging path and gshare
//! indexing in perceptron branch prediction", ACM TACO 2005), of the size that is published for
//! such predictors, with Seznec's adaptive threshold ("Analysis of the O-GEometric History Length
//! branch predictor", ISCA 2005, section 3.1.2).

/// Branches whose outcomes each table is indexed with.
const HISTORIES: [u32; TABLES] = [0, 3, 7, 13, 23, 40, 70, 120];
const TABLES: usize = 8;
/// log2 of the weights of a table.
const WEIGHTS: u32 = 12;
/// log2 of the targets that are remembered of indirect branches.
const TARGETS: u32 = 11;

/// A core's learning of a thread's branches.
#[derive(Clone, Debug)]
pub(crate) struct Predictor {
    weights: [[i8; 1 << WEIGHTS]; TABLES],
    /// The outcomes of the last branches, the youngest in bit 0.
    history: u128,
    /// Certainty at which nothing is learnt of a prediction, and what adapts that.
    threshold: i32,
    adapt: i32,
    /// The last target of an indirect branch, and of one with a certain history.
    last_targets: [u64; 1 << TARGETS],
    targets: [Target; 1 << TARGETS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Target {
    branch: u64,
    history: u64,
    target: u64,
}

impl Predictor {
    pub(crate) fn new() -> Box<Predictor> {
        Box::new(Predictor {
            weights: [[0; 1 << WEIGHTS]; TABLES],
            history: 0,
            threshold: 20,
            adapt: 0,
            last_targets: [0; 1 << TARGETS],
            targets: [Target::default(); 1 << TARGETS],
        })
    }

    /// A conditional branch at an address goes this way. Whether that was foreseen.
    #[inline]
    pub(crate) fn conditional(&mut self, branch: u64, taken: bool) -> bool {
        let places = self.places(branch);
        let mut sum = 0;
        for (weights, place) in self.weights.iter().zip(places) {
            sum += i32::from(weights[place]);
        }
        let foreseen = (sum >= 0) == taken;
        if !foreseen || sum.abs() <= self.threshold {
            let step = if taken { 1 } else { -1 };
            for (weights, place) in self.weights.iter_mut().zip(places) {
                weights[place] = weights[place].saturating_add(step);
            }
            self.adapt_threshold(foreseen);
        }
        self.history = self.history << 1 | u128::from(taken);
        foreseen
    }

    /// An indirect branch goes to an address. Whether that was foreseen.
    pub(crate) fn indirect(&mut self, branch: u64, target: u64) -> bool {
        let history = self.history as u64;
        let place = (mix(branch ^ mix(history)) >> (64 - TARGETS)) as usize;
        let last = &mut self.last_targets[(mix(branch) >> (64 - TARGETS)) as usize];
        let known = &mut self.targets[place];
        let predicted = if (known.branch, known.history) == (branch, history) {
            known.target
        } else {
            *last
        };
        *last = target;
        *known = Target {
            branch,
            history,
            target,
        };
        self.history = self.history << 3 | u128::from(mix(target) >> 61);
        predicted == target
    }

    /// The weights of a branch, by its address and what was before it.
    #[inline(always)]
    fn places(&self, branch: u64) -> [usize; TABLES] {
        let low = self.history as u64;
        let high = (self.history >> 64) as u64;
        let branch = mix(branch);
        let place = |table: usize| {
            let length = HISTORIES[table];
            let seen = match length {
                0..64 => low & ((1 << length) - 1),
                _ => low ^ (high & ((1 << (length - 64)) - 1)).rotate_left(29),
            };
            (mix(branch ^ seen ^ u64::from(length)) >> (64 - WEIGHTS)) as usize
        };
        // Spelled out, so that all lengths are constants.
        [
            place(0),
            place(1),
            place(2),
            place(3),
            place(4),
            place(5),
            place(6),
            place(7),
        ]
    }

    /// Learns as often from predictions that were right and not sure as from wrong ones.
    fn adapt_threshold(&mut self, foreseen: bool) {
        self.adapt += if foreseen { -1 } else { 1 };
        if self.adapt.abs() == 64 {
            self.threshold = (self.threshold + self.adapt.signum()).max(0);
            self.adapt = 0;
        }
    }
}

/// Spreads a key over the upper bits (multiplicative hashing with the golden ratio, Knuth, TAOCP
/// volume 3, section 6.4).
#[inline(always)]
fn mix(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
