//! Lists of frames, each of which is in one at most (`list_head` in `struct page`).

use pagelab_addr::Pfn;

/// No frame.
const NONE: u32 = u32::MAX;
/// The list of a frame that is in none.
const NO_LIST: u8 = u8::MAX;

const UP: usize = 0;
const DOWN: usize = 1;

/// A few lists of frames.
#[derive(Clone, Debug)]
pub(crate) struct FrameLists {
    /// By frame: the next towards the top of its list, and towards the bottom.
    links: Vec<[u32; 2]>,
    /// By frame: the list that it is in.
    lists: Vec<u8>,
    /// Top and bottom of each list, and its length.
    ends: Vec<[u32; 2]>,
    lengths: Vec<u64>,
}

impl FrameLists {
    /// Empty lists, so many, for this many frames.
    pub(crate) fn new(lists: usize, frames: u32) -> Self {
        let frames = frames as usize;
        FrameLists {
            links: vec![[NONE; 2]; frames],
            lists: vec![NO_LIST; frames],
            ends: vec![[NONE; 2]; lists],
            lengths: vec![0; lists],
        }
    }

    /// The list of a frame.
    #[inline]
    pub(crate) fn list(&self, pfn: Pfn) -> Option<usize> {
        let list = self.lists[pfn.0 as usize];
        (list != NO_LIST).then_some(usize::from(list))
    }

    /// Takes a frame from its list: which one, if it was in any.
    pub(crate) fn remove(&mut self, pfn: Pfn) -> Option<usize> {
        let list = self.list(pfn)?;
        self.lists[pfn.0 as usize] = NO_LIST;
        let [up, down] = self.links[pfn.0 as usize];
        match up {
            NONE => self.ends[list][UP] = down,
            _ => self.links[up as usize][DOWN] = down,
        }
        match down {
            NONE => self.ends[list][DOWN] = up,
            _ => self.links[down as usize][UP] = up,
        }
        self.lengths[list] -= 1;
        Some(list)
    }

    /// Puts a frame that is in no list on top of one.
    pub(crate) fn push(&mut self, pfn: Pfn, list: usize) {
        debug_assert_eq!(self.list(pfn), None);
        let below = std::mem::replace(&mut self.ends[list][UP], pfn.0);
        match below {
            NONE => self.ends[list][DOWN] = pfn.0,
            _ => self.links[below as usize][UP] = pfn.0,
        }
        self.links[pfn.0 as usize] = [NONE, below];
        self.lists[pfn.0 as usize] = list as u8;
        self.lengths[list] += 1;
    }

    /// Puts a frame that is in no list below all others of one.
    pub(crate) fn push_below(&mut self, pfn: Pfn, list: usize) {
        debug_assert_eq!(self.list(pfn), None);
        let above = std::mem::replace(&mut self.ends[list][DOWN], pfn.0);
        match above {
            NONE => self.ends[list][UP] = pfn.0,
            _ => self.links[above as usize][DOWN] = pfn.0,
        }
        self.links[pfn.0 as usize] = [above, NONE];
        self.lists[pfn.0 as usize] = list as u8;
        self.lengths[list] += 1;
    }

    /// Puts a frame on top of a list, from wherever it was.
    pub(crate) fn move_to(&mut self, pfn: Pfn, list: usize) {
        self.remove(pfn);
        self.push(pfn, list);
    }

    fn frame(link: u32) -> Option<Pfn> {
        (link != NONE).then_some(Pfn(link))
    }

    /// The top of a list.
    pub(crate) fn top(&self, list: usize) -> Option<Pfn> {
        Self::frame(self.ends[list][UP])
    }

    /// The bottom of a list.
    pub(crate) fn bottom(&self, list: usize) -> Option<Pfn> {
        Self::frame(self.ends[list][DOWN])
    }

    /// A list's frames from the bottom up.
    pub(crate) fn upwards(&self, list: usize) -> impl Iterator<Item = Pfn> + '_ {
        std::iter::successors(self.bottom(list), |pfn| {
            Self::frame(self.links[pfn.0 as usize][UP])
        })
    }

    /// Frames in a list.
    pub(crate) fn length(&self, list: usize) -> u64 {
        self.lengths[list]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_are_as_vectors_are(
            steps in proptest::collection::vec((0u32..12, 0usize..3, 0u32..3), 1..200)
        ) {
            let mut lists = FrameLists::new(3, 12);
            let mut naive = vec![Vec::<Pfn>::new(); 3];
            for (frame, list, place) in steps {
                let pfn = Pfn(frame);
                let was = naive.iter().position(|frames| frames.contains(&pfn));
                prop_assert_eq!(lists.list(pfn), was);
                for frames in &mut naive {
                    frames.retain(|&other| other != pfn);
                }
                if place == 0 {
                    lists.remove(pfn);
                    lists.push_below(pfn, list);
                    naive[list].insert(0, pfn);
                } else if place == 1 {
                    lists.move_to(pfn, list);
                    naive[list].push(pfn);
                } else {
                    prop_assert_eq!(lists.remove(pfn), was);
                }
                for (list, frames) in naive.iter().enumerate() {
                    prop_assert_eq!(&lists.upwards(list).collect::<Vec<_>>(), frames);
                    prop_assert_eq!(lists.length(list), frames.len() as u64);
                    prop_assert_eq!(lists.top(list), frames.last().copied());
                    prop_assert_eq!(lists.bottom(list), frames.first().copied());
                }
            }
        }
    }
}
