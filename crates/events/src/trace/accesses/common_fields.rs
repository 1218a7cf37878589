//! Executions in a row that are alike: what is found out once of their accesses.

use super::{CODE_SITES, Coded, WINDOW};
use crate::trace::code::UsualAccess;

/// Accesses are compared so many at a time.
const GROUP: usize = 4;

/// Common facts of accesses that are made by the same blocks in the same forms.
#[derive(Default)]
pub struct CommonFields {
    /// Number of them, and how many of them were looked at.
    len: usize,
    count: usize,
    /// The dependences that are always the same, and which these are: all bits for each. None of
    /// some more, so that there are whole groups.
    deps: Vec<u32>,
    fixed: Vec<u32>,
    /// The others, and how far back their siblings are, which tell them.
    told: Vec<(u16, u8)>,
    /// Accesses whose addresses follow from no other's.
    pub own: Vec<Own>,
    /// For each load on which any depends, the last that does.
    pub dependants: Vec<u16>,
}

/// An access by its number among them, the site that remembers its last address, and how far back its
/// sibling is; 0 for none.
pub struct Own {
    pub index: u16,
    pub site: u16,
    pub sibling: u8,
}

impl CommonFields {
    /// Begins anew, with accesses of these dependences, at most [`WINDOW`].
    pub fn start(&mut self, deps: &[u32]) {
        self.len = deps.len();
        self.count = 0;
        self.deps.clear();
        self.deps.extend_from_slice(deps);
        self.deps.resize(deps.len().next_multiple_of(GROUP), 0);
        self.fixed.clear();
        self.fixed.resize(self.deps.len(), 0);
        self.told.clear();
        self.own.clear();
        self.dependants.clear();
        let mut seen = [false; WINDOW];
        for (index, &dep) in deps.iter().enumerate().rev() {
            let place = &mut seen[(index as u32).wrapping_sub(dep) as usize % WINDOW];
            if dep != 0 && !std::mem::replace(place, true) {
                self.dependants.push(index as u16);
            }
        }
    }

    /// The next access, and what it is.
    pub fn push(&mut self, access: &UsualAccess, made: &Coded) {
        let index = self.count;
        self.count += 1;
        let sibling = made.shape.sibling;
        if access.follows.back == 0 {
            self.own.push(Own {
                index: index as u16,
                site: (access.site as usize % CODE_SITES) as u16,
                sibling,
            });
        }
        self.fixed[index] = made.bits;
        if made.bits == 0 {
            self.told.push((index as u16, sibling));
        }
    }

    /// Number of them.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the first of these accesses depend on loads as they do, behind accesses with the dependences `before`.
    /// There may have to be some more of them.
    #[inline(always)]
    pub fn depend_so(&self, deps: &[u32], before: &[u32; WINDOW]) -> bool {
        let Some(whole) = deps.get(..self.deps.len()) else {
            return false;
        };
        let mut differs = [0; GROUP];
        let groups = whole.as_chunks::<GROUP>().0.iter();
        let own = self.deps.as_chunks().0.iter();
        let fixed = self.fixed.as_chunks().0.iter();
        for ((deps, own), fixed) in groups.zip(own).zip(fixed) {
            let (own, fixed): (&[u32; GROUP], &[u32; GROUP]) = (own, fixed);
            for at in 0..GROUP {
                differs[at] |= (deps[at] ^ own[at]) & fixed[at];
            }
        }
        differs == [0; GROUP]
            && self.told.iter().all(|&(index, back)| {
                let (index, back) = (usize::from(index), usize::from(back));
                let sibling = match index.checked_sub(back) {
                    Some(index) => deps[index],
                    None => before[WINDOW + index - back],
                };
                deps[index] == sibling.wrapping_add(back as u32)
            })
    }
}
