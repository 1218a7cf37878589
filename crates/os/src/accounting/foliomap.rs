//! FolioMap's aggregator (linux/source/include/linux/foliomap_arith.h, by the same names).
//!
//! The unit of an address space is its id's binary digits, read in the base 2 · 2^`order`; digits fill words, so
//! that none carries into another. While there are no more mappings than pages, the aggregator is their number
//! times an address space's unit if and only if that address space made them all (section 3, Eq. 1).

use pagelab_addr::Asid;

/// Bits of an id.
const ID_BITS: u32 = 22;
/// Words of the largest folio's aggregator.
const WORDS: usize = 4;

/// Sum of the units of all mappings of a folio.
#[derive(Clone, Debug)]
pub(crate) struct Aggregator {
    order: u32,
    words: [u64; WORDS],
}

impl Aggregator {
    pub(crate) fn new(order: u32) -> Self {
        Aggregator {
            order,
            words: [0; WORDS],
        }
    }

    fn digits_per_word(&self) -> u32 {
        digits_per_word(self.order)
    }

    /// One word of what a mapping by an address space adds.
    fn unit_word(&self, mm: Asid, word: u32) -> u64 {
        let id = id(mm);
        let digits = self.digits_per_word();
        let first = word * digits;
        (first..(first + digits).min(ID_BITS))
            .filter(|digit| id >> digit & 1 == 1)
            .map(|digit| 1 << ((digit - first) * (self.order + 1)))
            .sum()
    }

    pub(crate) fn add(&mut self, mm: Asid, count: u32) {
        for word in 0..WORDS {
            let units = self.unit_word(mm, word as u32).wrapping_mul(count.into());
            self.words[word] = self.words[word].wrapping_add(units);
        }
    }

    pub(crate) fn remove(&mut self, mm: Asid, count: u32) {
        for word in 0..WORDS {
            let units = self.unit_word(mm, word as u32).wrapping_mul(count.into());
            self.words[word] = self.words[word].wrapping_sub(units);
        }
    }

    /// True if the address space made all `total` mappings (`foliomap_exclusive`).
    pub(crate) fn is_exclusive(&self, mm: Asid, total: u32) -> bool {
        let matches = |word: usize| {
            self.words[word] == self.unit_word(mm, word as u32).wrapping_mul(total.into())
        };
        total <= 1 << self.order && (0..WORDS).all(matches)
    }
}

fn digits_per_word(order: u32) -> u32 {
    u64::BITS / (order + 1)
}

/// Ids begin at 1: an id of no digits would add nothing.
fn id(mm: Asid) -> u32 {
    u32::from(mm.0) + 1
}

/// Pages of a folio, from the third on, whose structures have words of its aggregator that an update on behalf of an
/// address space touches, as bits; `None` for an operation that touches all words.
///
/// Where an id has no bits beyond the first word, that alone is touched (`foliomap_change`).
pub(super) fn tail_structures(order: u32, mm: Option<Asid>) -> u32 {
    let digits = digits_per_word(order);
    if mm.is_some_and(|mm| id(mm) >> digits.min(ID_BITS) == 0) {
        return 0;
    }
    match ID_BITS.div_ceil(digits) {
        1 => 0,
        2 | 3 => 0b100,
        _ => 0b1100,
    }
}
