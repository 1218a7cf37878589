//! When instructions have their results, by the registers that they make of others.
//!
//! An instruction can begin when it is dispatched and has its operands. So the times at which registers are
//! there after a piece of code are the latest of some before it, each plus a constant, and of the piece's
//! dispatch plus another: a product of a matrix in the algebra of maximum and plus. Its rows are worked out
//! once a piece, and what nobody will look at is left out.

use crate::step::{Step, UNITS};
use pagelab_registers::{REGISTERS, VECTORS, members};

/// Places beside the registers: when what a load finds was there, when the next instruction can have each unit,
/// when the address of the access is, and what the access makes.
pub(crate) const FOUND: usize = REGISTERS;
const UNIT: usize = FOUND + 1;
/// As many as may be needed after another piece has made them.
const INPUTS: usize = UNIT + UNITS;
pub(crate) const ADDRESS: usize = INPUTS;
pub(crate) const RESULT: usize = ADDRESS + 1;
/// Place where nothing is ever put.
const NEVER: usize = RESULT + 1;
/// Place of registers that a row needs after another has written them.
const KEPT: usize = NEVER + 1;
/// As many as a byte can name: enough for all.
pub(crate) const PLACES: usize = 256;

/// Times of arithmetic, and of loads that hit the first level.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Slots in a cycle.
    pub width: u32,
    /// Cycles that an address takes more from an index that is scaled.
    pub scaled_index: u32,
    /// Slots of a load that hits the first level.
    pub hit: u64,
    /// Slots from what is stored to a load of the same, into an integer register and into a vector's.
    pub forwarded: [u64; 2],
}

/// A piece of code: instructions of which no more than the last one is an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Its copies: the first of them and the end; its rows.
    copies: [u32; 2],
    rows: [u32; 2],
    pub(crate) instructions: u32,
    /// It ends with an access.
    pub(crate) accesses: bool,
}

/// When a place is ready: the latest of the piece's dispatch and of two places, each plus some slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) place: u8,
    pub(crate) of: [u8; 2],
    /// The piece does not retire before it.
    pub(crate) computes: bool,
    pub(crate) slots: [u16; 2],
    pub(crate) after_dispatch: u16,
}

/// Pieces of code.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    all: Vec<Piece>,
    /// Places that are copied, and where to.
    copies: Vec<(u8, u8)>,
    rows: Vec<Row>,
}

/// The latest of a piece's dispatch and of places, each plus something; [`NONE`] where a place, or dispatch,
/// has no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Latest {
    dispatch: i64,
    places: [i64; INPUTS],
}

const NONE: i64 = i64::MIN;

impl Latest {
    const NOTHING: Latest = Latest {
        dispatch: NONE,
        places: [NONE; INPUTS],
    };

    fn of_place(place: usize) -> Latest {
        let mut of = Latest::NOTHING;
        of.places[place] = 0;
        of
    }

    fn of_dispatch(slots: i64) -> Latest {
        Latest {
            dispatch: slots,
            ..Latest::NOTHING
        }
    }

    fn later(mut self, slots: i64) -> Latest {
        for value in self.places.iter_mut().chain([&mut self.dispatch]) {
            if *value != NONE {
                *value += slots;
            }
        }
        self
    }

    fn max(mut self, other: Latest) -> Latest {
        self.dispatch = self.dispatch.max(other.dispatch);
        for (value, other) in self.places.iter_mut().zip(other.places) {
            *value = other.max(*value);
        }
        self
    }
}

/// When registers are ready within a piece.
struct Known {
    /// Registers that it has written; the others are as they were before.
    written: u32,
    registers: [Latest; REGISTERS],
}

impl Known {
    fn latest(&self, set: u32) -> Latest {
        members(set).fold(Latest::NOTHING, |of, register| {
            of.max(if self.written >> register & 1 != 0 {
                self.registers[register]
            } else {
                Latest::of_place(register)
            })
        })
    }

    fn write(&mut self, register: usize, ready: Latest) {
        self.written |= 1 << register;
        self.registers[register] = ready;
    }
}

/// A place, when it is ready, and whether the piece does not retire before.
type Made = (usize, Latest, bool);

impl Pieces {
    /// Stands for a piece behind which another thread goes on, whose registers have long been there.
    pub const OTHER_REGISTERS: u32 = u32::MAX;

    /// Takes instructions of which no more than the last one is an access; returns the piece's number. Of
    /// what they write, registers that are not `live` are written again before anybody reads them.
    pub fn add(&mut self, steps: &[Step], live: u32, times: &Times) -> u32 {
        let mut known = Known {
            written: 0,
            registers: [Latest::NOTHING; REGISTERS],
        };
        // A load's value is there when the access is done, which is for the clock to say.
        let mut brought = 0;
        let mut made: Vec<Made> = Vec::new();
        let mut units: [Option<Latest>; UNITS] = [None; UNITS];
        let slots_of = |cycles: u32| i64::from(cycles * times.width);
        for (number, step) in (1..).zip(steps) {
            let slots = slots_of(step.cycles.into());
            let dispatched = Latest::of_dispatch(number);
            let mut begins = known.latest(step.data).max(dispatched);
            let last = number as usize == steps.len();
            if last && step.accesses() {
                let scaled = known.latest(step.scaled);
                let scaled = scaled.later(slots_of(times.scaled_index));
                let address = known.latest(step.addresses).max(scaled);
                made.push((ADDRESS, address, false));
                if step.loads {
                    let hit = address.max(dispatched).later(times.hit as i64);
                    let vector = (step.writes | step.merges) & VECTORS != 0;
                    let forwarded = times.forwarded[usize::from(vector)];
                    begins = begins
                        .max(hit)
                        .max(Latest::of_place(FOUND).later(forwarded as i64));
                }
                if step.stores {
                    made.push((RESULT, begins.later(slots), true));
                }
                if step.data == 0 && slots == 0 {
                    brought = step.writes;
                }
            }
            // In the order of the program, and as if its operands were there: what waits for these
            // lets others go first.
            if let Some((unit, halves)) = step.unit {
                let free = units[unit as usize].unwrap_or(Latest::of_place(UNIT + unit as usize));
                let slots = i64::from(times.width * u32::from(halves) / 2);
                units[unit as usize] = Some(free.max(dispatched).later(slots));
            }
            let result = begins.later(slots);
            for register in members(step.merges) {
                let kept = known.latest(1 << register).later(slots);
                known.write(register, kept.max(result));
            }
            for register in members(step.writes) {
                known.write(register, result);
            }
        }
        let of_registers = members(known.written & live).map(|register| {
            (
                register,
                known.registers[register],
                brought >> register & 1 == 0,
            )
        });
        made.extend(of_registers);
        let of_units = (UNIT..).zip(units);
        made.extend(of_units.filter_map(|(place, free)| Some((place, free?, true))));
        let before = [self.copies.len() as u32, self.rows.len() as u32];
        let (order, kept) = in_order(made);
        let copied = kept
            .iter()
            .enumerate()
            .filter(|&(place, &copy)| copy != place);
        self.copies
            .extend(copied.map(|(place, &copy)| (place as u8, copy as u8)));
        for (place, latest, computes) in &order {
            self.encode(*place, latest, *computes, &kept);
        }
        self.all.push(Piece {
            copies: [before[0], self.copies.len() as u32],
            rows: [before[1], self.rows.len() as u32],
            instructions: steps.len() as u32,
            accesses: steps.last().is_some_and(Step::accesses),
        });
        self.all.len() as u32 - 1
    }

    /// The piece of a number; none for one that stands for other registers.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&Piece> {
        self.all.get(number as usize)
    }

    /// Places that are copied before a piece runs, and where to.
    #[inline(always)]
    pub(crate) fn copies(&self, of: &Piece) -> &[(u8, u8)] {
        &self.copies[of.copies[0] as usize..of.copies[1] as usize]
    }

    #[inline(always)]
    pub(crate) fn rows(&self, of: &Piece) -> &[Row] {
        &self.rows[of.rows[0] as usize..of.rows[1] as usize]
    }

    /// As many rows as it takes: those after the first add a place each.
    fn encode(&mut self, place: usize, latest: &Latest, computes: bool, kept: &[usize]) {
        // Its own place, where that is a part of it, comes first, before it is written.
        let own = latest.places.get(place).filter(|&&slots| slots != NONE);
        let others = (latest.places.iter().enumerate())
            .filter(|&(of, &slots)| slots != NONE && of != place)
            .map(|(of, &slots)| (kept[of], slots));
        let mut terms = own
            .map(|&slots| (kept[place], slots))
            .into_iter()
            .chain(others);
        let mut terms = || terms.next();
        let mut of = [terms(), terms()];
        let mut after_dispatch = latest.dispatch.max(0);
        loop {
            let [one, other] = of.map(|of| of.unwrap_or((NEVER, 0)));
            self.rows.push(Row {
                place: place as u8,
                of: [one.0 as u8, other.0 as u8],
                computes,
                slots: [capped(one.1), capped(other.1)],
                after_dispatch: capped(after_dispatch),
            });
            let Some(next) = terms() else {
                return;
            };
            of = [Some((place, 0)), Some(next)];
            after_dispatch = 0;
        }
    }
}

/// An order in which nothing needs what something before it has written, but for places that are copied
/// before; and the place where each is found.
fn in_order(mut made: Vec<Made>) -> (Vec<Made>, [usize; INPUTS]) {
    let mut kept = std::array::from_fn(|place| place);
    let mut copies = KEPT..PLACES;
    let mut order = Vec::with_capacity(made.len());
    while !made.is_empty() {
        let needed = |&(place, ..): &Made| {
            kept.get(place) == Some(&place)
                && (made.iter()).any(|(by, of, _)| *by != place && of.places[place] != NONE)
        };
        let free = made.iter().position(|one| !needed(one));
        if let Some(free) = free {
            order.push(made.swap_remove(free));
        } else {
            // There are more places than registers.
            kept[made[0].0] = copies.next().unwrap_or(NEVER);
        }
    }
    (order, kept)
}

/// A time that is longer than a row can say is as long as it can.
fn capped(slots: i64) -> u16 {
    slots.clamp(0, u16::MAX.into()) as u16
}
