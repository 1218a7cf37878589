//! Shapes, and the numbering of a chunk's distinct ones.

use super::MAX_ACCESSES;
use crate::trace::varint;

/// An access apart from its address.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    pub op: u16,
    /// Distance of the last access that depends on the same load; 0 for none.
    pub sibling: u8,
    pub gap: u32,
    /// The dependence, when there is no sibling.
    pub dep: u32,
}

impl Shape {
    /// Appends the shape to the dictionary.
    pub fn put(self, out: &mut Vec<u8>) {
        varint::put(out, u64::from(self.op));
        varint::put(out, u64::from(self.gap));
        let dependence = match self.sibling {
            0 => u64::from(self.dep) << 1,
            sibling => u64::from(sibling) << 1 | 1,
        };
        varint::put(out, dependence);
    }

    /// Takes a shape from the front of the dictionary; `None` when the bytes are none.
    pub fn take(input: &mut &[u8]) -> Option<Shape> {
        let mut shape = Shape {
            op: varint::take(input)?.try_into().ok()?,
            gap: varint::take(input)?.try_into().ok()?,
            ..Shape::default()
        };
        let dependence = varint::take(input)?;
        if dependence & 1 == 0 {
            shape.dep = (dependence >> 1).try_into().ok()?;
        } else {
            shape.sibling = (dependence >> 1).try_into().ok()?;
            if shape.sibling == 0 {
                return None;
            }
        }
        Some(shape)
    }

    fn hash(self) -> u64 {
        let low = u64::from(self.gap) << 32 | u64::from(self.dep);
        let high = u64::from(self.op) << 8 | u64::from(self.sibling);
        (low.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ high).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

const SLOTS: usize = 4 * MAX_ACCESSES;

/// Numbers the distinct shapes of a chunk in the order of their appearance.
///
/// An open-addressed hash table that forgets everything by counting its generation up.
pub struct Numbering {
    /// Generation in the high half, code in the low; no generation is 0.
    slots: Vec<u32>,
    generation: u16,
    shapes: Vec<Shape>,
}

impl Numbering {
    pub fn new() -> Numbering {
        Numbering {
            slots: vec![0; SLOTS],
            generation: 1,
            shapes: Vec::with_capacity(MAX_ACCESSES),
        }
    }

    /// The code of a shape, found fast if it is the guess, which becomes it. At most [`MAX_ACCESSES`]
    /// shapes are numbered between two clearings.
    #[inline(always)]
    pub fn code(&mut self, shape: Shape, guess: &mut u16) -> u16 {
        if self.shapes.get(usize::from(*guess)) != Some(&shape) {
            *guess = self.find(shape);
        }
        *guess
    }

    fn find(&mut self, shape: Shape) -> u16 {
        let mut slot = (shape.hash() >> (64 - SLOTS.ilog2())) as usize;
        loop {
            let found = self.slots[slot % SLOTS];
            if (found >> 16) as u16 != self.generation {
                let code = self.shapes.len() as u16;
                self.slots[slot % SLOTS] = u32::from(self.generation) << 16 | u32::from(code);
                self.shapes.push(shape);
                return code;
            }
            if self.shapes[usize::from(found as u16)] == shape {
                return found as u16;
            }
            slot += 1;
        }
    }

    /// The shapes in the order of their codes.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    pub fn clear(&mut self) {
        self.shapes.clear();
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.slots.fill(0);
            self.generation = 1;
        }
    }
}
