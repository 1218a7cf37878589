//! A batch's columns while they are filled: of fixed length, and a little longer than what can be in them, so that
//! four accesses can be written at once anywhere.

use super::layout::{FourShapes, FourSites, Terms};
use crate::{Batch, Op};

/// Accesses of a batch, at most: 22 bytes each, so that a batch stays in a core's own caches.
pub const BATCH: usize = 4096;
/// And what the last four may be longer.
const ROOM: usize = BATCH + 4;

/// Columns of a batch's accesses until their addresses are known.
pub struct Work {
    pub terms: [Terms; ROOM],
    pub offset: [i32; ROOM],
}

impl Work {
    pub fn new() -> Box<Work> {
        Box::new(Work {
            terms: [0; ROOM],
            offset: [0; ROOM],
        })
    }
}

/// The columns.
pub struct Columns<'a> {
    pub addr: &'a mut [u64; ROOM],
    pub op: &'a mut [Op; ROOM],
    pub gap: &'a mut [u32; ROOM],
    pub dep: &'a mut [u32; ROOM],
    pub site: &'a mut [u32; ROOM],
    pub work: &'a mut Work,
}

impl<'a> Columns<'a> {
    /// The columns of a batch; what is in them is overwritten. They are to be truncated afterwards.
    pub fn of(batch: &'a mut Batch, work: &'a mut Work) -> Columns<'a> {
        Columns {
            addr: whole(&mut batch.addr),
            op: whole(&mut batch.op),
            gap: whole(&mut batch.gap),
            dep: whole(&mut batch.dep),
            site: whole(&mut batch.site),
            work,
        }
    }

    /// Writes four accesses, as the form and the block say, from access `at` on, which is below [`BATCH`].
    #[inline(always)]
    pub fn put(&mut self, at: usize, shapes: &FourShapes, sites: &FourSites) {
        let at = at % BATCH;
        *four(self.op, at) = shapes.op.map(Op);
        *four(self.gap, at) =
            std::array::from_fn(|index| shapes.gap[index].wrapping_add(sites.gap[index]));
        *four(self.dep, at) = shapes.dep;
        *four(self.site, at) = sites.site;
        *four(&mut self.work.terms, at) =
            std::array::from_fn(|index| shapes.terms[index] | sites.terms[index]);
        *four(&mut self.work.offset, at) = sites.offset;
    }

    /// Writes one of the four.
    pub fn put_one(&mut self, at: usize, shapes: &FourShapes, sites: &FourSites, index: usize) {
        let index = index % 4;
        self.op[at] = Op(shapes.op[index]);
        self.gap[at] = shapes.gap[index].wrapping_add(sites.gap[index]);
        self.dep[at] = shapes.dep[index];
        self.site[at] = sites.site[index];
        self.work.terms[at] = shapes.terms[index] | sites.terms[index];
        self.work.offset[at] = sites.offset[index];
    }
}

/// A column at its full length. One that has been used before is hardly written to for that.
fn whole<T: Clone + Default>(column: &mut Vec<T>) -> &mut [T; ROOM] {
    column.resize(ROOM, T::default());
    (&mut column[..]).try_into().expect("the length is ROOM")
}

#[inline(always)]
fn four<T>(column: &mut [T; ROOM], at: usize) -> &mut [T; 4] {
    (&mut column[at..at + 4]).try_into().expect("four of them")
}
