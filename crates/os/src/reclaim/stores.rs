//! Pages that programs have stored to. A page without a store holds zeros.

use pagelab_addr::Asid;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// log2 of the pages of a region.
const SHIFT: u32 = 9;
/// Pages of a region.
const REGION: u64 = 1 << SHIFT;
/// Pages of a word.
const WORD: u64 = u64::BITS as u64;
/// A bit for each page of a region.
type Bits = [u64; (REGION / WORD) as usize];

/// Stores by address, so that pages may move, be copied and leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stores {
    regions: BTreeMap<(Asid, u64), Bits>,
    /// Address spaces in which stores were not seen.
    unknown: BTreeSet<Asid>,
    /// The last page noted.
    last: Option<(Asid, u64)>,
}

impl Stores {
    #[inline]
    pub(super) fn note(&mut self, asid: Asid, vpn: u64) {
        if self.last != Some((asid, vpn)) {
            let bits = self.regions.entry((asid, vpn >> SHIFT)).or_default();
            bits[(vpn % REGION / WORD) as usize] |= 1 << (vpn % WORD);
            self.last = Some((asid, vpn));
        }
    }

    /// Notes that stores to an address space are not seen.
    pub(super) fn note_unseen(&mut self, asid: Asid) {
        self.unknown.insert(asid);
    }

    /// Forgets an address space, which begins anew.
    pub(super) fn forget_all(&mut self, asid: Asid) {
        self.forget(asid, &(0..u64::MAX));
        self.unknown.remove(&asid);
    }

    /// True if a page may hold something.
    pub(super) fn has(&self, asid: Asid, vpn: u64) -> bool {
        let bits = self.regions.get(&(asid, vpn >> SHIFT));
        let stored = bits.is_some_and(|bits| is_set(bits, vpn));
        stored || self.unknown.contains(&asid)
    }

    /// Pages of a range with stores.
    fn pages(&self, asid: Asid, range: &Range<u64>) -> Vec<u64> {
        let found = self.regions.range(regions(asid, range));
        let pages = found.flat_map(|(&(_, region), bits)| {
            let pages = region * REGION..(region + 1) * REGION;
            pages.filter(|&vpn| is_set(bits, vpn))
        });
        pages.filter(|vpn| range.contains(vpn)).collect()
    }

    pub(super) fn forget(&mut self, asid: Asid, range: &Range<u64>) {
        self.last = None;
        let touched = self.regions.range(regions(asid, range));
        let touched: Vec<u64> = touched.map(|(&(_, region), _)| region).collect();
        for region in touched {
            let pages = region * REGION..(region + 1) * REGION;
            if range.start <= pages.start && pages.end <= range.end {
                self.regions.remove(&(asid, region));
            } else if let Some(bits) = self.regions.get_mut(&(asid, region)) {
                for vpn in pages.filter(|vpn| range.contains(vpn)) {
                    bits[(vpn % REGION / WORD) as usize] &= !(1 << (vpn % WORD));
                }
            }
        }
    }

    pub(super) fn copy(&mut self, from: Asid, to: Asid, range: &Range<u64>) {
        for vpn in self.pages(from, range) {
            self.note(to, vpn);
        }
        if self.unknown.contains(&from) {
            self.unknown.insert(to);
        }
    }

    pub(super) fn shift(&mut self, asid: Asid, old: &Range<u64>, to: u64) {
        let pages = self.pages(asid, old);
        self.forget(asid, old);
        for vpn in pages {
            self.note(asid, vpn - old.start + to);
        }
    }
}

/// Regions that a range has pages of.
fn regions(asid: Asid, range: &Range<u64>) -> Range<(Asid, u64)> {
    (asid, range.start >> SHIFT)..(asid, range.end.div_ceil(REGION))
}

fn is_set(bits: &Bits, vpn: u64) -> bool {
    bits[(vpn % REGION / WORD) as usize] >> (vpn % WORD) & 1 == 1
}
