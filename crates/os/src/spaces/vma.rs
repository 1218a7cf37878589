use crate::spaces::shared_memory::ObjectId;
use pagelab_addr::Vpn;
use pagelab_events::{Backing, Protection};
use std::collections::BTreeMap;
use std::ops::Range;

/// Advice of madvise about large pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HugeAdvice {
    #[default]
    None,
    Wanted,
    Unwanted,
    /// The process forbids itself large pages. No VMA says so by itself: see `AddressSpace::seen`.
    Forbidden,
}

/// Advice of madvise about forks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AtFork {
    #[default]
    Copied,
    /// The child does not have it (MADV_DONTFORK).
    Left,
    /// The child finds zeros (MADV_WIPEONFORK).
    Wiped,
}

/// A run of pages of one kind: a virtual memory area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vma {
    pub(crate) start: u64,
    /// One past the last page.
    pub(crate) end: u64,
    pub(crate) prot: Protection,
    pub(crate) backing: Backing,
    pub(crate) advice: HugeAdvice,
    pub(crate) at_fork: AtFork,
    /// It is brk's: joined with no mapping below (`vma_prev_limit` in brk(2), since Linux 6.1).
    pub(crate) is_heap: bool,
    /// exec has mapped it: a program's bss, or the first thread's stack.
    pub(crate) is_execs: bool,
    /// For files and shared memory: the object, and which page of it `start` shows.
    pub(crate) object: Option<(ObjectId, u64)>,
}

impl Vma {
    /// Private anonymous memory that may be read and written.
    pub(crate) fn anonymous(pages: Range<u64>) -> Self {
        Vma {
            start: pages.start,
            end: pages.end,
            prot: Protection(Protection::READ | Protection::WRITE),
            backing: Backing::Anonymous,
            advice: HugeAdvice::None,
            at_fork: AtFork::Copied,
            is_heap: false,
            is_execs: false,
            object: None,
        }
    }

    /// Code of a file.
    pub(crate) fn code(pages: Range<u64>) -> Self {
        Vma {
            prot: Protection(Protection::READ | Protection::EXEC),
            backing: Backing::PrivateFile,
            ..Vma::anonymous(pages)
        }
    }

    pub(crate) fn pages(&self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn writable(&self) -> bool {
        self.prot.0 & Protection::WRITE != 0
    }

    /// True if stores to it are seen by all who map it (VM_SHARED).
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.backing, Backing::SharedAnonymous | Backing::SharedFile)
    }

    /// True if a memory file system gives it: anonymous, private, and mapped by the program (`fbmm_wants`).
    #[inline]
    pub(crate) fn is_private(&self) -> bool {
        matches!(self.backing, Backing::Anonymous | Backing::Stack) && !self.is_execs
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.backing, Backing::PrivateFile | Backing::SharedFile)
    }

    /// True if it covers a range of pages.
    pub(crate) fn covers(&self, pages: Range<u64>) -> bool {
        self.start <= pages.start && pages.end <= self.end
    }

    /// The part of it inside a range that overlaps it.
    pub(crate) fn clip(&self, pages: Range<u64>) -> Vma {
        let start = self.start.max(pages.start);
        self.at(start, start, self.end.min(pages.end))
    }

    /// The same kind of memory from `start` to `end`; its first page shows what page `from` of
    /// this one shows.
    pub(crate) fn at(&self, from: u64, start: u64, end: u64) -> Vma {
        let object = self
            .object
            .map(|(id, page)| (id, page + (from - self.start)));
        Vma {
            start,
            end,
            object,
            ..*self
        }
    }

    /// True if `next` starts where this ends and is of the same kind.
    fn continues(&self, next: &Vma) -> bool {
        self.end == next.start && self.at(self.end, next.start, next.end) == *next
    }
}

/// The VMAs of an address space: ordered, apart from each other, neighbours of the same kind
/// merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vmas {
    by_start: BTreeMap<u64, Vma>,
    /// The last one found: most faults fall into the same VMA as the one before.
    last: Option<Vma>,
}

impl Vmas {
    /// The VMA around a page.
    #[inline]
    pub(crate) fn find(&mut self, vpn: Vpn) -> Option<Vma> {
        if let Some(last) = self.last
            && last.start <= vpn.0
            && vpn.0 < last.end
        {
            return Some(last);
        }
        let (_, vma) = self.by_start.range(..=vpn.0).next_back()?;
        if vpn.0 >= vma.end {
            return None;
        }
        self.last = Some(*vma);
        self.last
    }

    /// The first VMA that starts above a page.
    pub(crate) fn next_above(&self, vpn: Vpn) -> Option<Vma> {
        let mut above = self.by_start.range(vpn.0 + 1..);
        above.next().map(|(_, vma)| *vma)
    }

    /// The parts of VMAs inside a range, ascending.
    pub(crate) fn within(&self, pages: Range<u64>) -> impl Iterator<Item = Vma> + '_ {
        let before = self.by_start.range(..pages.start).next_back();
        let inside = self.by_start.range(pages.clone());
        before
            .into_iter()
            .chain(inside)
            .map(|(_, vma)| *vma)
            .filter({
                let start = pages.start;
                move |vma| vma.end > start
            })
            .map(move |vma| vma.clip(pages.clone()))
    }

    /// True if any VMA touches a range.
    pub(crate) fn touch(&self, pages: Range<u64>) -> bool {
        self.within(pages).next().is_some()
    }

    /// All of them, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Vma> + '_ {
        self.by_start.values().copied()
    }

    /// Adds a VMA where there is none, and merges it with its neighbours.
    pub(crate) fn insert(&mut self, mut vma: Vma) {
        debug_assert!(vma.start < vma.end && !self.touch(vma.start..vma.end));
        self.last = None;
        if let Some((_, before)) = self.by_start.range(..vma.start).next_back()
            && before.continues(&vma)
        {
            vma = before.at(before.start, before.start, vma.end);
        }
        if let Some(after) = self.by_start.get(&vma.end).copied()
            && vma.continues(&after)
        {
            self.by_start.remove(&after.start);
            vma.end = after.end;
        }
        self.by_start.insert(vma.start, vma);
    }

    /// Cuts a range out and returns what was there, ascending.
    pub(crate) fn remove(&mut self, pages: Range<u64>) -> Vec<Vma> {
        let removed: Vec<Vma> = self.within(pages.clone()).collect();
        if removed.is_empty() {
            return removed;
        }
        self.last = None;
        if let Some((_, &before)) = self.by_start.range(..pages.start).next_back()
            && before.end > pages.start
        {
            let left = before.at(before.start, before.start, pages.start);
            self.by_start.insert(left.start, left);
            self.keep_right(before, pages.end);
        }
        let starts: Vec<u64> = self
            .by_start
            .range(pages.clone())
            .map(|(&start, _)| start)
            .collect();
        for start in starts {
            if let Some(vma) = self.by_start.remove(&start) {
                self.keep_right(vma, pages.end);
            }
        }
        removed
    }

    fn keep_right(&mut self, vma: Vma, from: u64) {
        if vma.end > from {
            self.by_start.insert(from, vma.at(from, from, vma.end));
        }
    }
}
