//! The columns of a chunk's accesses, turned into streams of small numbers that compress well.
//!
//! docs/trace-format.md is the definition. In short: each distinct *shape* (operation, gap,
//! dependence) of a chunk has a number, its *code*. A *site* stands for the instruction that makes an
//! access: where the code is recorded its number, else the last three codes, hashed. It
//! remembers its last address and how that came about; what is stored is the code, and how far the
//! prediction from the site was off. Where the code is recorded, a shape's gap is what differs from
//! the instructions that the flow has in between, an execution of a block has the codes of an earlier
//! one where it can ([`forms`]), and addresses that follow from others of the block are left out.
//! (Predicting values from a hash of what came before: Sazeides and Smith, "The Predictability of
//! Data Values", MICRO 1997; for traces: Burtscher, "VPC3", SIGMETRICS 2004.)

mod columns;
mod common_fields;
mod decoder;
mod encoder;
mod forms;
mod layout;
mod limits;
mod shapes;

pub use columns::{BATCH, Columns, Work};
pub use common_fields::CommonFields;
pub use decoder::{Decoder, before};
pub use encoder::{Encoder, Execution};
pub use forms::MAX_STREAM as MAX_FORMS;
pub use layout::{Form, FourShapes, FourSites, Layout};
pub use limits::MAX_ACCESSES;

use shapes::Shape;

/// One more than the largest distance of a sibling, in accesses.
pub const WINDOW: usize = 256;
/// Number of sites without code. Twice as many save less than 5 % of a trace, half as many cost up to 12 %.
const SITES: usize = 4096;
/// Number of sites with code. Four times as many save 1 to 4 % of a trace; what is kept of these fits a
/// core's second-level cache.
const CODE_SITES: usize = 1 << 14;

/// Facts of accesses from the code that makes them, one entry each.
#[derive(Clone, Copy, Default)]
pub struct FromCode<'a> {
    /// Their instructions.
    pub sites: &'a [u32],
    /// Instructions of the flow since the access before.
    pub gaps: &'a [u32],
}

impl FromCode<'_> {
    /// The site that remembers access `index`'s last address.
    #[inline]
    fn site(self, index: usize) -> u16 {
        (self.sites[index] as usize % CODE_SITES) as u16
    }
}

/// An access of this code, in a form.
#[derive(Clone, Copy, Default)]
pub struct Coded {
    shape: Shape,
    /// The dependence that it always has, if `bits` are all set. If none are it is told by that of
    /// a sibling that may have another each time.
    dep: u32,
    bits: u32,
}

/// The streams of the accesses of one chunk.
#[derive(Default)]
pub struct Streams {
    /// The distinct shapes in the order of their codes, as varints.
    pub shapes: Vec<u8>,
    /// Low byte of each code: of each access's, unless a form says it.
    pub codes_low: Vec<u8>,
    /// High byte of each code.
    pub codes_high: Vec<u8>,
    /// The class of each access whose address does not follow from another: which prediction was
    /// taken, and the residual's length.
    pub classes: Vec<u8>,
    /// The residuals, each in as many bytes as its class says.
    pub residuals: Vec<u8>,
    /// Forms of the executions of blocks.
    pub forms: Vec<u8>,
}

/// The address is the base plus the residual. The base is the sibling's address, or the site's
/// last one when there is no sibling.
const FROM_BASE: u8 = 0;
/// The address is the base plus the site's last move from its base plus the residual.
const STEP_FROM_BASE: u8 = 1;
/// The address is that of the access before plus the site's last move from there plus the
/// residual.
const STEP_FROM_PREVIOUS: u8 = 2;

/// Classes at or above this are none: a predictor times 8 plus a length from 0 to 7.
const CLASSES: u8 = 24;

/// Last codes of files up to version 4, where a chunk with code has its codes as differences from the last one at the
/// same instruction, of which the low 16 bits count.
#[derive(Clone, Debug)]
struct LastCodes(Box<[u16; 1 << 16]>);

impl LastCodes {
    fn new() -> LastCodes {
        LastCodes(boxed())
    }

    /// Replaces differences by codes.
    fn decode(&mut self, sites: &[u32], codes: &mut [u16]) {
        self.0.fill(0);
        for (&site, code) in sites.iter().zip(codes) {
            let last = &mut self.0[site as usize % (1 << 16)];
            *last = last.wrapping_add(*code);
            *code = *last;
        }
    }
}

/// Bytes of the residual of a class.
const fn residual_bytes(class: u8) -> usize {
    let length = class % 8;
    (length + (length == 7) as u8) as usize
}

/// The codes of the last three accesses.
#[derive(Clone, Copy, Default)]
struct History(u64);

impl History {
    fn push(&mut self, code: u16) {
        self.0 = (self.0 << 16 | u64::from(code)) & 0xffff_ffff_ffff;
    }

    /// The site of the access whose code was pushed last: 2^64 divided by the golden ratio
    /// spreads the codes over the top bits.
    fn site(self) -> u16 {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SITES.ilog2())) as u16
    }
}

/// A large array, made on the heap.
fn boxed<T: Clone + Default, const N: usize>() -> Box<[T; N]> {
    let values = vec![T::default(); N].into_boxed_slice();
    values.try_into().ok().expect("the length is N")
}
