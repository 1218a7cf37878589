use crate::{Displaced, FrameUse, Frames};
use pagelab_addr::{PAGE_BYTES, PageId, PageSize, Pfn, PhysAddr};
use std::collections::BTreeMap;

/// Physical memory for tests: slow and obvious. Every misuse panics.
#[derive(Clone, Debug)]
pub(crate) struct FakeFrames {
    state: Vec<State>,
    free: usize,
    /// Pages of data by first frame.
    data: BTreeMap<u32, Data>,
    /// Table allocations by first frame: their orders.
    tables: BTreeMap<u32, u32>,
    random: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// Belongs to the page of data that starts at this frame.
    Data(u32),
    Table,
}

#[derive(Clone, Debug)]
struct Data {
    size: PageSize,
    movable: bool,
    owners: Vec<PageId>,
}

impl FakeFrames {
    /// `count` frames, about `percent` % of them in use by others: half of it in 2 MiB pages,
    /// the rest scattered 4 KiB pages, an eighth of all unmovable.
    pub(crate) fn new(count: u32, percent: u32, seed: u64) -> Self {
        let mut frames = FakeFrames {
            state: vec![State::Free; count as usize],
            free: count as usize,
            data: BTreeMap::new(),
            tables: BTreeMap::new(),
            random: seed | 1,
        };
        for block in (0..count).step_by(512) {
            let movable = frames.chance() >= 12;
            let large = percent > 0 && frames.chance() < percent / 2 && block + 512 <= count;
            if large {
                frames.place(block, PageSize::Large2M, movable);
                continue;
            }
            // Frames of the blocks left that make up the rest.
            let rest = (percent - percent / 2) * 100 / (100 - percent / 2);
            for frame in block..(block + 512).min(count) {
                if frames.chance() < rest {
                    frames.place(frame, PageSize::Base4K, movable);
                }
            }
        }
        frames
    }

    /// 0 to 99, the same sequence for the same seed.
    fn chance(&mut self) -> u32 {
        // xorshift64, Marsaglia 2003.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 32) % 100) as u32
    }

    fn place(&mut self, first: u32, size: PageSize, movable: bool) {
        for frame in first..first + size.base_pages() {
            self.put(frame, State::Data(first));
        }
        let owners = Vec::new();
        self.data.insert(
            first,
            Data {
                size,
                movable,
                owners,
            },
        );
    }

    fn put(&mut self, frame: u32, state: State) {
        let old = std::mem::replace(&mut self.state[frame as usize], state);
        assert_ne!(
            old == State::Free,
            state == State::Free,
            "frame {frame}: {old:?} to {state:?}"
        );
        if state == State::Free {
            self.free += 1;
        } else {
            self.free -= 1;
        }
    }

    /// The first free aligned run of 2^order frames, looking from the middle of memory on.
    fn find(&self, order: u32) -> Option<u32> {
        let size = 1 << order;
        if self.free < size {
            return None;
        }
        let starts = self.state.len() / size;
        (0..starts)
            .map(|i| (i + starts / 2) % starts * size)
            .find(|&start| {
                let run = &self.state[start..start + size];
                run.iter().all(|&state| state == State::Free)
            })
            .map(|start| start as u32)
    }

    /// Takes frames for a page of data.
    pub(crate) fn allocate_data(&mut self, size: PageSize, movable: bool) -> Option<Pfn> {
        let first = self.find(size.order())?;
        self.place(first, size, movable);
        Some(Pfn(first))
    }
    /// Takes these very frames, which are free, for a page of data.
    pub(crate) fn occupy(&mut self, first: Pfn, size: PageSize, movable: bool) {
        self.place(first.0, size, movable);
    }

    /// Gives the frames of a page of data back.
    pub(crate) fn free_data(&mut self, first: Pfn) {
        let data = self.data.remove(&first.0).expect("a page of data");
        for frame in first.0..first.0 + data.size.base_pages() {
            self.put(frame, State::Free);
        }
    }

    /// The pages that map a page of data, for the caller to change.
    pub(crate) fn owners(&mut self, first: Pfn) -> &mut Vec<PageId> {
        &mut self.data.get_mut(&first.0).expect("a page of data").owners
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.tables.values().map(|order| PAGE_BYTES << order).sum()
    }

    pub(crate) fn is_table(&self, addr: PhysAddr) -> bool {
        self.state[addr.pfn().0 as usize] == State::Table
    }

    pub(crate) fn free_frames(&self) -> usize {
        self.free
    }
}

impl Frames for FakeFrames {
    fn count(&self) -> u32 {
        self.state.len() as u32
    }

    fn usage(&self, pfn: Pfn) -> FrameUse {
        match self.state[pfn.0 as usize] {
            State::Free => FrameUse::Free,
            State::Table => FrameUse::PageTable,
            State::Data(first) => {
                let data = &self.data[&first];
                if data.movable {
                    FrameUse::Movable(data.size)
                } else {
                    FrameUse::Unmovable(data.size)
                }
            }
        }
    }

    fn in_fragmented_block(&self, pfn: Pfn) -> bool {
        let block = pfn.0 & !511;
        let end = (block + 512).min(self.count());
        let used = (block..end).filter(|&f| self.usage(Pfn(f)) != FrameUse::Free);
        let (mut some, mut small) = (false, false);
        for frame in used {
            some = true;
            small |= match self.usage(Pfn(frame)) {
                FrameUse::Movable(size) | FrameUse::Unmovable(size) => size == PageSize::Base4K,
                _ => true,
            };
        }
        let all = (block..end).all(|f| self.usage(Pfn(f)) != FrameUse::Free);
        some && (!all || small)
    }

    fn allocate_table(&mut self, order: u32) -> Option<Pfn> {
        let first = self.find(order)?;
        for frame in first..first + (1 << order) {
            self.put(frame, State::Table);
        }
        self.tables.insert(first, order);
        Some(Pfn(first))
    }

    fn claim_table(&mut self, pfn: Pfn) -> bool {
        if self.usage(pfn) != FrameUse::Free {
            return false;
        }
        self.put(pfn.0, State::Table);
        self.tables.insert(pfn.0, 0);
        true
    }

    fn displace(&mut self, pfn: Pfn) -> Option<Displaced> {
        let FrameUse::Movable(size) = self.usage(pfn) else {
            return None;
        };
        let to = self.find(size.order())?;
        let State::Data(from) = self.state[pfn.0 as usize] else {
            unreachable!("movable frames hold data");
        };
        let owners = std::mem::take(self.owners(Pfn(from)));
        self.free_data(Pfn(from));
        self.place(to, size, true);
        self.owners(Pfn(to)).clone_from(&owners);
        assert!(self.claim_table(pfn));
        Some(Displaced {
            owners,
            size,
            from: Pfn(from),
            to: Pfn(to),
        })
    }

    fn free_table(&mut self, pfn: Pfn, order: u32) {
        assert_eq!(
            self.tables.remove(&pfn.0),
            Some(order),
            "frame {pfn:?} was not taken so"
        );
        for frame in pfn.0..pfn.0 + (1 << order) {
            self.put(frame, State::Free);
        }
    }
}
