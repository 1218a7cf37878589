//! References that each level sends on.

use super::descent::{Descent, OUT, origin, slot};
use super::descriptions::Descriptions;
use crate::caches::served::Served;
use pagelab_memory::{Access, Cache, CacheAccess, Kind, MODIFY, Outcome};

/// Outcome of one reference, which is described.
pub(super) struct One {
    access: Access,
    found: Option<CacheAccess>,
}

impl One {
    pub(super) fn new(access: Access) -> Self {
        One {
            access,
            found: None,
        }
    }

    pub(super) fn hit(&self) -> bool {
        self.found.is_some_and(|found| found.hit)
    }

    pub(super) fn written_back(&self) -> Option<u32> {
        let found = self.found.filter(|found| found.evicts_modified)?;
        Some(found.evicted & !MODIFY)
    }
}

impl Outcome for One {
    fn of(&mut self, _: usize, access: CacheAccess) {
        self.found = Some(access);
    }

    fn describe(&self, _: usize, _: u32) -> Access {
        self.access
    }
}

/// The modified line that the write-back of another made leave.
pub(super) struct Gone(pub(super) Option<u32>);

impl Outcome for Gone {
    fn of(&mut self, _: usize, access: CacheAccess) {
        self.0 = access.evicts_modified.then_some(access.evicted & !MODIFY);
    }

    fn describe(&self, _: usize, reference: u32) -> Access {
        Access::new(reference & !MODIFY, Kind::WriteBack)
    }
}

/// References that go on to the second level.
pub(super) struct FromL1<'a, 'below> {
    pub(super) references: &'a [u32],
    pub(super) l2: &'below Cache,
    pub(super) described: &'a [Access],
    pub(super) descents: &'a mut [Descent],
    pub(super) len: usize,
}

impl FromL1<'_, '_> {
    /// Sends a reference of a walk on that did not look in the first level.
    pub(super) fn pass_on(&mut self, place: usize) {
        let line = self.references[place];
        self.l2.host_prefetch(line);
        self.descents[self.len] = (line, place as u32);
        self.len += 1;
    }
}

impl Outcome for FromL1<'_, '_> {
    /// Sends on what missed, and a modified line that made room for it.
    ///
    /// Which of these hit nobody can predict below the first level: what should not go on is
    /// overwritten by the next, without a branch. Each reference sends at most two lines on.
    #[inline(always)]
    fn of(&mut self, place: usize, access: CacheAccess) {
        if access.hit {
            return;
        }
        let line = self.references[place] & !MODIFY;
        self.l2.host_prefetch(line);
        self.descents[self.len] = (line, place as u32);
        self.descents[self.len + 1] = (access.evicted | MODIFY, place as u32 | OUT);
        self.len += 1 + usize::from(access.evicts_modified);
    }

    fn describe(&self, place: usize, _: u32) -> Access {
        self.described[place]
    }
}

/// References that go on to the last level.
pub(super) struct FromL2<'a, 'below> {
    pub(super) down: &'a [Descent],
    pub(super) llc: &'below Cache,
    pub(super) answers: &'a mut [Served],
    pub(super) descents: &'a mut [Descent],
    pub(super) len: usize,
    pub(super) descriptions: Descriptions<'below>,
}

impl Outcome for FromL2<'_, '_> {
    #[inline(always)]
    fn of(&mut self, at: usize, access: CacheAccess) {
        let (reference, place) = self.down[at];
        let line = reference & !MODIFY;
        self.llc.host_prefetch(line);
        self.answers[slot(place, self.descriptions.outgoing)] = Served::L2;
        self.descents[self.len] = (line, place);
        self.len += usize::from(!access.hit & (place & OUT == 0));
        self.descents[self.len] = (access.evicted | MODIFY, place | OUT);
        self.len += usize::from(access.evicts_modified);
    }

    fn describe(&self, at: usize, _: u32) -> Access {
        self.descriptions.describe(self.down[at])
    }
}

/// Places that serve the last level's references.
pub(super) struct FromLlc<'a> {
    pub(super) down: &'a [Descent],
    pub(super) answers: &'a mut [Served],
    pub(super) writebacks: &'a mut u64,
    /// The lines written back, where that is wanted.
    pub(super) list: Option<&'a mut Vec<(u32, u32)>>,
    pub(super) descriptions: Descriptions<'a>,
}

impl Outcome for FromLlc<'_> {
    #[inline(always)]
    fn of(&mut self, at: usize, access: CacheAccess) {
        let (_, place) = self.down[at];
        let Descriptions {
            prefetches,
            outgoing,
            ..
        } = self.descriptions;
        *self.writebacks += u64::from(access.evicts_modified);
        if let Some(list) = &mut self.list
            && access.evicts_modified
        {
            let of = origin(place, outgoing, prefetches);
            list.push((of, access.evicted & !MODIFY));
        }
        self.answers[slot(place, outgoing)] = if access.hit {
            Served::Llc
        } else {
            Served::Dram
        };
    }

    fn describe(&self, at: usize, _: u32) -> Access {
        self.descriptions.describe(self.down[at])
    }
}

/// One reference, at a place that is not the first.
pub(super) struct At<'a, O> {
    pub(super) place: usize,
    pub(super) outcome: &'a mut O,
}

impl<O: Outcome> Outcome for At<'_, O> {
    #[inline(always)]
    fn of(&mut self, _: usize, access: CacheAccess) {
        self.outcome.of(self.place, access);
    }

    fn describe(&self, _: usize, reference: u32) -> Access {
        self.outcome.describe(self.place, reference)
    }
}
