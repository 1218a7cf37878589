//! Lists of pages by their last use (`struct lruvec` in include/linux/mmzone.h), and how old pages are that left: an
//! active and an inactive list of each kind, or the lists of generations.

use super::generations::{self, Generations};
pub(crate) use super::kind::Kind;
use crate::frames::frame_lists::FrameLists;
use pagelab_addr::Pfn;

/// Bits of a word of the bit maps.
const WORD: u32 = u64::BITS;

/// The lists, by units that come and go together: a page, or a folio by its first frame.
#[derive(Clone, Debug)]
pub(crate) struct Lru {
    pub(crate) units: FrameLists,
    /// Base pages of each list.
    pub(super) pages: Vec<u64>,
    /// Generations in place of active and inactive lists, where that is asked.
    pub(super) generations: Option<Box<Generations>>,
    /// By frame, accessed bits of page tables' entries; by unit, `PG_referenced` and whether it is mapped
    /// executable.
    accessed: Vec<u64>,
    referenced: Vec<u64>,
    executable: Vec<u64>,
    /// By unit, whether its program has called it free.
    lazily_free: Vec<u64>,
    /// Pages that have left or become active, ever: by it ages are told (`nonresident_age`).
    age: u64,
    /// Pages of each kind that were active again when they came back, ever.
    reactivated: [u64; 2],
    /// Pages that were, until the end of the last reclaim (`snapshot_refaults`).
    reactivated_before: [u64; 2],
    /// Recent cost of taking pages of each kind (`lru_note_cost`).
    costs: [u64; 2],
}

impl Lru {
    pub(crate) fn new(frames: u32, in_generations: bool) -> Self {
        let lists = if in_generations {
            generations::LISTS
        } else {
            4
        };
        let words = frames.div_ceil(WORD) as usize;
        Lru {
            units: FrameLists::new(lists, frames),
            pages: vec![0; lists],
            generations: in_generations.then(|| Box::new(Generations::new(frames))),
            accessed: vec![0; words],
            referenced: vec![0; words],
            executable: vec![0; words],
            lazily_free: vec![0; words],
            age: 0,
            reactivated: [0; 2],
            reactivated_before: [0; 2],
            costs: [0; 2],
        }
    }

    /// Adds a unit that was just mapped: new pages are not active.
    pub(crate) fn add(&mut self, head: Pfn, pages: u64, kind: Kind) {
        let list = match &mut self.generations {
            Some(generations) => {
                generations.set_refaulted(head, false);
                generations.youngest(kind)
            }
            None => kind.list(false),
        };
        self.put(head, pages, list);
        set(&mut self.accessed, head, true);
        set(&mut self.referenced, head, false);
        set(&mut self.executable, head, false);
        set(&mut self.lazily_free, head, false);
    }

    /// Puts a unit on top of a list, from wherever it was.
    pub(crate) fn put(&mut self, head: Pfn, pages: u64, list: usize) {
        self.remove(head, pages);
        self.units.push(head, list);
        self.pages[list] += pages;
        if let Some(generations) = &mut self.generations {
            generations.set_counted(head, list);
        }
    }

    /// Puts a unit below all others of a list.
    pub(super) fn put_below(&mut self, head: Pfn, pages: u64, list: usize) {
        self.remove(head, pages);
        self.units.push_below(head, list);
        self.pages[list] += pages;
        if let Some(generations) = &mut self.generations {
            generations.set_counted(head, list);
        }
    }

    /// Has a unit count for a list and stay where it is (`folio_update_gen`).
    pub(super) fn count_for(&mut self, head: Pfn, pages: u64, list: usize) {
        if let Some(generations) = &mut self.generations {
            self.pages[generations.counted(head)] -= pages;
            self.pages[list] += pages;
            generations.set_counted(head, list);
            generations.set_refaulted(head, false);
        }
    }

    /// Kind of a unit that is in a list.
    pub(super) fn kind(&self, head: Pfn) -> Option<Kind> {
        let list = self.units.list(head)?;
        Some(match self.generations {
            Some(_) => generations::kind_of(list),
            None => Kind::of(list).0,
        })
    }

    /// Puts a unit where what is not used goes (`folio_deactivate`).
    pub(super) fn cool(&mut self, head: Pfn, pages: u64, kind: Kind) {
        let list = match &self.generations {
            Some(generations) => generations.cold(kind),
            None => kind.list(false),
        };
        self.put(head, pages, list);
    }

    pub(crate) fn remove(&mut self, head: Pfn, pages: u64) -> Option<usize> {
        let mut list = self.units.remove(head)?;
        if let Some(generations) = &self.generations {
            list = generations.counted(head);
        }
        self.pages[list] -= pages;
        Some(list)
    }

    pub(crate) fn moved(&mut self, from: Pfn, to: Pfn) {
        if let Some(list) = self.units.remove(from) {
            self.units.push(to, list);
            if let Some(generations) = &mut self.generations {
                generations.moved(from, to);
            }
            let units = [
                &mut self.referenced,
                &mut self.executable,
                &mut self.lazily_free,
            ];
            for bits in units {
                let bit = get(bits, from);
                set(bits, to, bit);
            }
            set(&mut self.accessed, to, true);
        }
    }

    /// A page walk has set an accessed bit.
    #[inline]
    pub(crate) fn note_accessed(&mut self, pfn: Pfn) {
        set(&mut self.accessed, pfn, true);
    }

    pub(crate) fn note_executable(&mut self, head: Pfn) {
        set(&mut self.executable, head, true);
    }

    pub(crate) fn is_executable(&self, head: Pfn) -> bool {
        get(&self.executable, head)
    }

    /// Has a unit that was free for its program be anonymous memory as any other, since it was used. Whether it was.
    pub(super) fn ends_freedom(&mut self, head: Pfn, order: u32) -> bool {
        let was = self.is_lazily_free(head);
        if was {
            self.set_lazily_free(head, false);
            self.activate(head, 1 << order, Kind::Anonymous);
        }
        was
    }

    pub(crate) fn set_lazily_free(&mut self, head: Pfn, free: bool) {
        set(&mut self.lazily_free, head, free);
    }

    pub(crate) fn is_lazily_free(&self, head: Pfn) -> bool {
        get(&self.lazily_free, head)
    }

    /// Clears the accessed bits of a unit, and says how many were set (`folio_referenced`).
    pub(crate) fn take_accessed(&mut self, head: Pfn, order: u32) -> u32 {
        let (first, frames) = (head.0, 1u32 << order);
        if frames < WORD {
            let mask = ((1 << frames) - 1) << (first % WORD);
            let word = &mut self.accessed[(first / WORD) as usize];
            let set = *word & mask;
            *word &= !mask;
            return set.count_ones();
        }
        let words = (first / WORD) as usize..((first + frames) / WORD) as usize;
        let words = self.accessed[words].iter_mut();
        words.map(|word| std::mem::take(word).count_ones()).sum()
    }

    /// Sets `PG_referenced` of a unit, and says whether it was set.
    pub(crate) fn set_referenced(&mut self, head: Pfn, referenced: bool) -> bool {
        let before = get(&self.referenced, head);
        set(&mut self.referenced, head, referenced);
        before
    }

    /// Makes a unit active (`folio_activate`).
    pub(crate) fn activate(&mut self, head: Pfn, pages: u64, kind: Kind) {
        if let Some(generations) = &mut self.generations {
            generations.set_refaulted(head, false);
            let youngest = generations.youngest(kind);
            self.put(head, pages, youngest);
            return;
        }
        self.put(head, pages, kind.list(true));
        self.age += pages;
    }

    /// Counts pages of a unit that leaves; the age by which they are known when they come back (`workingset_eviction`).
    pub(crate) fn note_eviction(&mut self, head: Pfn, kind: Kind, pages: u64) -> u64 {
        if let Some(generations) = &mut self.generations {
            return generations.note_eviction(head, kind, pages);
        }
        let age = self.age;
        self.age += pages;
        age
    }

    /// Takes note of a page that comes back (`workingset_refault`): it is active at once where memory of
    /// twice the active size would have kept it. Whether it is.
    pub(crate) fn refault(&mut self, head: Pfn, kind: Kind, evicted: u64, swaps: bool) -> bool {
        if let Some(generations) = &mut self.generations {
            let soon = generations.refault(head, kind, evicted);
            self.reactivated[kind as usize] += u64::from(soon);
            return soon;
        }
        self.note_cost(kind, 1);
        let list = |kind: Kind, active| self.pages[kind.list(active)];
        let mut size = list(Kind::File, true);
        if kind == Kind::Anonymous {
            size += list(Kind::File, false);
        }
        if swaps {
            size += list(Kind::Anonymous, true);
            if kind == Kind::File {
                size += list(Kind::Anonymous, false);
            }
        }
        let recent = self.age - evicted <= size;
        if recent {
            self.activate(head, 1, kind);
            self.reactivated[kind as usize] += 1;
        }
        recent
    }

    /// Adds to the cost of a kind's pages, half of which is forgotten as memory is used (`lru_note_cost`).
    pub(crate) fn note_cost(&mut self, kind: Kind, cost: u64) {
        self.costs[kind as usize] += cost;
        let size: u64 = self.pages.iter().sum();
        if self.costs.iter().sum::<u64>() > size / 4 {
            self.costs = self.costs.map(|cost| cost / 2);
        }
    }

    /// True if a kind's pages that are not active are few beside those that are (`inactive_is_low`).
    pub(crate) fn inactive_is_low(&self, kind: Kind) -> bool {
        let [inactive, active] = [false, true].map(|active| self.pages[kind.list(active)]);
        let gigabytes = (inactive + active) >> (30 - pagelab_addr::PAGE_SHIFT);
        let ratio = if gigabytes > 0 {
            (10 * gigabytes).isqrt()
        } else {
            1
        };
        inactive * ratio < active
    }

    /// True if pages of a kind may stop being active (`may_deactivate` in `prepare_scan_control`).
    fn may_deactivate(&self, kind: Kind) -> bool {
        let number = kind as usize;
        self.inactive_is_low(kind) || self.reactivated[number] != self.reactivated_before[number]
    }

    /// The kinds whose pages may stop being active now.
    pub(crate) fn deactivating(&self) -> [bool; 2] {
        Kind::ALL.map(|kind| self.may_deactivate(kind))
    }

    pub(crate) fn end_reclaim(&mut self) {
        self.reactivated_before = self.reactivated;
    }

    /// True if pages of files are so few that only others can be taken (`file_is_tiny`).
    fn file_is_tiny(&self, priority: u32, short_of: u64) -> bool {
        let pages = |kind: Kind, active| self.pages[kind.list(active)];
        let files = pages(Kind::File, false) + pages(Kind::File, true);
        let inactive = pages(Kind::Anonymous, false);
        files <= short_of && !self.may_deactivate(Kind::Anonymous) && inactive >> priority > 0
    }

    /// Pages of each list to look at (`get_scan_count`). All of memory may be `short_of` some pages.
    pub(crate) fn scan_counts(
        &self,
        priority: u32,
        swaps: bool,
        swappiness: u32,
        short_of: Option<u64>,
    ) -> [u64; 4] {
        let tiny = short_of.is_some_and(|pages| self.file_is_tiny(priority, pages));
        let inactive_files = self.pages[Kind::File.list(false)];
        let plenty = inactive_files >> priority > 0 && !self.may_deactivate(Kind::File);
        let shares = if !swaps || plenty && !tiny {
            [0, 1]
        } else if priority > 0 && tiny {
            [1, 0]
        } else if priority == 0 && swappiness > 0 {
            [1, 1]
        } else {
            let [anonymous, file] = self.costs;
            let total = anonymous + file;
            let (anonymous, file) = (total + anonymous, total + file);
            let swappiness = u64::from(swappiness);
            let total = anonymous + file;
            [
                swappiness * (total + 1) / (anonymous + 1),
                (200 - swappiness) * (total + 1) / (file + 1),
            ]
        };
        // At the last priority all pages are looked at.
        let equal = shares == [1, 1];
        let sum: u64 = shares.iter().sum();
        std::array::from_fn(|list| {
            let (kind, _) = Kind::of(list);
            let share = shares[kind as usize];
            let pages = self.pages[list] >> priority;
            if equal {
                pages
            } else {
                pages * share / sum.max(1)
            }
        })
    }
}

fn get(bits: &[u64], pfn: Pfn) -> bool {
    bits[(pfn.0 / WORD) as usize] >> (pfn.0 % WORD) & 1 == 1
}

fn set(bits: &mut [u64], pfn: Pfn, value: bool) {
    let bit = 1 << (pfn.0 % WORD);
    let word = &mut bits[(pfn.0 / WORD) as usize];
    *word = *word & !bit | if value { bit } else { 0 };
}
