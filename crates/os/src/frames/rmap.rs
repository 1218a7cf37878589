use pagelab_addr::PageId;

/// Set in a frame's owner word when it is the head of a list in [`OwnerLists`].
const LIST: u32 = 1 << 31;
/// The end of a list; as an owner word, a frame without owners.
pub(crate) const NO_OWNER: u32 = u32::MAX;

/// Owner of a block of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A page that maps it.
    Page(PageId),
    /// A slot of shared memory, which holds it whether or not a page maps it.
    Slot(u32),
}

impl Owner {
    const SLOT: u32 = 1 << 31;

    fn encode(self) -> u32 {
        match self {
            Owner::Page(id) => id.0,
            Owner::Slot(slot) => slot | Self::SLOT,
        }
    }

    fn decode(code: u32) -> Owner {
        if code & Self::SLOT == 0 {
            Owner::Page(PageId(code))
        } else {
            Owner::Slot(code & !Self::SLOT)
        }
    }
}

/// The reverse map of frames with more than one owner.
///
/// Nearly every frame has one, a page, whose number is then the frame's owner word itself. For the
/// others the word leads to a list here, 8 bytes an owner.
#[derive(Clone, Debug)]
pub(crate) struct OwnerLists {
    /// An owner, and the word that leads to the next node.
    nodes: Vec<(u32, u32)>,
    free: u32,
}

impl OwnerLists {
    pub(crate) fn new() -> Self {
        OwnerLists {
            nodes: Vec::new(),
            free: NO_OWNER,
        }
    }

    /// The owner word after adding an owner to a frame with owner word `word`.
    pub(crate) fn add(&mut self, word: u32, owner: Owner) -> u32 {
        let code = owner.encode();
        if word == NO_OWNER {
            return match owner {
                Owner::Page(_) => code,
                Owner::Slot(_) => self.node(code, NO_OWNER),
            };
        }
        let rest = if word & LIST == 0 {
            self.node(word, NO_OWNER)
        } else {
            word
        };
        self.node(code, rest)
    }

    /// The owner word after removing an owner.
    ///
    /// # Panics
    /// When it is not one of the frame's owners.
    pub(crate) fn remove(&mut self, word: u32, owner: Owner) -> u32 {
        let code = owner.encode();
        if word & LIST == 0 {
            assert_eq!(word, code, "the frame has another owner");
            return NO_OWNER;
        }
        let head = self.unlink(word, code);
        self.collapse(head)
    }

    /// The head of a list without its node for `code`.
    fn unlink(&mut self, head: u32, code: u32) -> u32 {
        let (mut at, mut previous) = (head, NO_OWNER);
        loop {
            assert_ne!(at, NO_OWNER, "not an owner of the frame");
            let (owner, next) = self.nodes[index(at)];
            if owner != code {
                (previous, at) = (at, next);
                continue;
            }
            self.recycle(at);
            if previous == NO_OWNER {
                return next;
            }
            self.nodes[index(previous)].1 = next;
            return head;
        }
    }

    /// Turns a list of one page into that page's own number.
    fn collapse(&mut self, head: u32) -> u32 {
        if head == NO_OWNER {
            return head;
        }
        let (code, next) = self.nodes[index(head)];
        if next != NO_OWNER || code & Owner::SLOT != 0 {
            return head;
        }
        self.recycle(head);
        code
    }

    /// The owners behind an owner word, last added first.
    pub(crate) fn iter(&self, word: u32) -> impl Iterator<Item = Owner> + '_ {
        let mut at = word;
        std::iter::from_fn(move || {
            if at == NO_OWNER {
                return None;
            }
            let code = if at & LIST == 0 {
                std::mem::replace(&mut at, NO_OWNER)
            } else {
                let (code, next) = self.nodes[index(at)];
                at = next;
                code
            };
            Some(Owner::decode(code))
        })
    }

    fn node(&mut self, code: u32, next: u32) -> u32 {
        if self.free == NO_OWNER {
            let at = self.nodes.len() as u32 | LIST;
            self.nodes.push((code, next));
            return at;
        }
        let at = self.free;
        self.free = self.nodes[index(at)].1;
        self.nodes[index(at)] = (code, next);
        at
    }

    fn recycle(&mut self, at: u32) {
        self.nodes[index(at)].1 = self.free;
        self.free = at;
    }
}

fn index(at: u32) -> usize {
    (at & !LIST) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn owners_are_a_multiset(
            steps in proptest::collection::vec((0usize..4, 0u32..6, any::<bool>(), any::<bool>()), 1..200)
        ) {
            let mut lists = OwnerLists::new();
            let mut words = [NO_OWNER; 4];
            let mut naive = vec![Vec::new(); 4];
            for (frame, number, slot, add) in steps {
                let owner = if slot { Owner::Slot(number) } else { Owner::Page(PageId(number)) };
                let position = naive[frame].iter().position(|&other| other == owner);
                if add {
                    words[frame] = lists.add(words[frame], owner);
                    naive[frame].push(owner);
                } else if let Some(position) = position {
                    words[frame] = lists.remove(words[frame], owner);
                    naive[frame].remove(position);
                }
                for (word, naive) in words.iter().zip(&naive) {
                    let mut found: Vec<u32> = lists.iter(*word).map(Owner::encode).collect();
                    let mut expected: Vec<u32> = naive.iter().map(|owner| owner.encode()).collect();
                    found.sort_unstable();
                    expected.sort_unstable();
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
