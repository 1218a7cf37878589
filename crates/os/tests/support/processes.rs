use pagelab_addr::{PAGE_BYTES, PageSize};
use pagelab_events::{Advice, Backing, Control, Protection};
use std::collections::{BTreeMap, BTreeSet};

/// Kind of a process's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Private, with these contents.
    Private(u64),
    /// A page of shared memory: object and page number.
    Shared(u32, u64),
}

/// Processes as their programs see them: pages and contents, nothing of frames.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    /// By process and page.
    pub pages: BTreeMap<(u32, u64), Kind>,
    shared: BTreeMap<(u32, u64), u64>,
    /// Private pages that were called free and not written since: their contents may be lost.
    pub free: BTreeSet<(u32, u64)>,
    objects: u32,
    heaps: BTreeMap<u32, (u64, u64)>,
    announced: BTreeMap<u32, bool>,
}

impl Processes {
    pub fn read(&self, process: u32, vpn: u64) -> Option<u64> {
        match *self.pages.get(&(process, vpn))? {
            Kind::Private(contents) => Some(contents),
            Kind::Shared(object, page) => {
                Some(self.shared.get(&(object, page)).copied().unwrap_or(0))
            }
        }
    }

    pub fn is_shared(&self, process: u32, vpn: u64) -> bool {
        matches!(self.pages.get(&(process, vpn)), Some(Kind::Shared(..)))
    }

    /// An access, which makes memory appear where there is none.
    pub fn touch(&mut self, process: u32, vpn: u64) {
        if self.pages.contains_key(&(process, vpn)) {
            return;
        }
        let announced = self.announced.get(&process).copied().unwrap_or(false);
        let unit = if announced {
            1
        } else {
            u64::from(PageSize::Large2M.base_pages())
        };
        let start = vpn / unit * unit;
        let is_free = |page: &u64| !self.pages.contains_key(&(process, *page));
        let below: Vec<u64> = (start..vpn).rev().take_while(is_free).collect();
        let above: Vec<u64> = (vpn..start + unit).take_while(is_free).collect();
        for page in below.into_iter().chain(above) {
            self.pages.insert((process, page), Kind::Private(0));
        }
    }

    pub fn write(&mut self, process: u32, vpn: u64, contents: u64) {
        self.touch(process, vpn);
        self.free.remove(&(process, vpn));
        match self.pages.get_mut(&(process, vpn)) {
            Some(Kind::Private(old)) => *old = contents,
            Some(&mut Kind::Shared(object, page)) => {
                self.shared.insert((object, page), contents);
            }
            None => unreachable!(),
        }
    }

    fn clear(&mut self, process: u32, range: std::ops::Range<u64>) {
        self.pages
            .retain(|&(owner, vpn), _| owner != process || !range.contains(&vpn));
        self.free
            .retain(|&(owner, vpn)| owner != process || !range.contains(&vpn));
        let pages = &self.pages;
        self.shared.retain(|&(object, _), _| {
            pages
                .values()
                .any(|kind| matches!(kind, Kind::Shared(other, _) if *other == object))
        });
    }

    pub fn control(&mut self, process: u32, event: &Control) {
        let range = |addr: u64, len: u64| addr / PAGE_BYTES..(addr + len) / PAGE_BYTES;
        match *event {
            Control::Map {
                addr, len, backing, ..
            } => {
                self.announced.insert(process, true);
                self.clear(process, range(addr, len));
                let object = self.objects;
                self.objects += 1;
                let shared = matches!(backing, Backing::SharedAnonymous | Backing::SharedFile);
                for (page, vpn) in range(addr, len).enumerate() {
                    let kind = if shared {
                        Kind::Shared(object, page as u64)
                    } else {
                        Kind::Private(0)
                    };
                    self.pages.insert((process, vpn), kind);
                }
            }
            Control::Unmap { addr, len } => self.clear(process, range(addr, len)),
            Control::Advise {
                addr,
                len,
                advice: Advice::DontNeed,
            } => {
                for vpn in range(addr, len) {
                    if let Some(Kind::Private(contents)) = self.pages.get_mut(&(process, vpn)) {
                        *contents = 0;
                    }
                }
            }
            Control::Advise {
                addr,
                len,
                advice: Advice::Free,
            } => self.free.extend(range(addr, len).map(|vpn| (process, vpn))),
            Control::Remap {
                old_addr,
                old_len,
                new_addr,
                new_len,
            } => {
                self.remap(process, range(old_addr, old_len), range(new_addr, new_len));
            }
            Control::Brk { end } => {
                self.announced.insert(process, true);
                let end = end / PAGE_BYTES;
                let &mut (start, ref mut old) = self.heaps.entry(process).or_insert((end, end));
                if end < start {
                    return;
                }
                let old = std::mem::replace(old, end);
                self.clear(process, old.min(end)..old.max(end));
                for vpn in old..end {
                    self.pages.insert((process, vpn), Kind::Private(0));
                }
            }
            Control::Fork { child } => self.fork(process, child),
            Control::Exec | Control::Exit { .. } => self.end(process),
            _ => {}
        }
    }

    fn end(&mut self, process: u32) {
        self.clear(process, 0..u64::MAX);
        self.heaps.remove(&process);
        self.announced.remove(&process);
    }

    fn fork(&mut self, process: u32, child: u32) {
        if child == process {
            return;
        }
        self.end(child);
        let copy: Vec<_> = self
            .pages
            .range((process, 0)..(process + 1, 0))
            .map(|(&k, &v)| (k, v))
            .collect();
        let free: Vec<_> = (self.free.range((process, 0)..(process + 1, 0)))
            .map(|&(_, vpn)| (child, vpn))
            .collect();
        self.free.extend(free);
        self.pages.extend(
            copy.into_iter()
                .map(|((_, vpn), kind)| ((child, vpn), kind)),
        );
        if let Some(&heap) = self.heaps.get(&process) {
            self.heaps.insert(child, heap);
        }
        if let Some(&announced) = self.announced.get(&process) {
            self.announced.insert(child, announced);
        }
    }

    fn remap(&mut self, process: u32, old: std::ops::Range<u64>, new: std::ops::Range<u64>) {
        let overlap = old.start < new.end && new.start < old.end;
        if new.is_empty() || (overlap && old.start != new.start) {
            return;
        }
        // The next page of the same memory: of shared memory the object's next.
        let next = |kind: Option<Kind>, by: u64| match kind {
            Some(Kind::Shared(object, page)) => Kind::Shared(object, page + by),
            _ => Kind::Private(0),
        };
        if old.is_empty() {
            let source = self.pages.get(&(process, old.start)).copied();
            if !matches!(source, Some(Kind::Shared(..))) {
                return;
            }
            // Keep the object while the new place is cleared, though it be its only other user.
            self.pages.insert((u32::MAX, 0), next(source, 0));
            self.clear(process, new.clone());
            for (index, vpn) in new.enumerate() {
                self.pages
                    .insert((process, vpn), next(source, index as u64));
            }
            self.clear(u32::MAX, 0..1);
            return;
        }
        let last = self.pages.get(&(process, old.end - 1)).copied();
        let kept = (old.end - old.start).min(new.end - new.start);
        let moved: Vec<_> = (0..kept)
            .map(|page| self.pages.get(&(process, old.start + page)).copied())
            .collect();
        let free: Vec<u64> = (0..kept)
            .filter(|page| self.free.contains(&(process, old.start + page)))
            .collect();
        self.pages.insert((u32::MAX, 0), next(last, 0));
        for (index, kind) in moved.iter().enumerate() {
            if let Some(kind) = kind {
                self.pages.insert((u32::MAX, 1 + index as u64), *kind);
            }
        }
        self.clear(process, old);
        self.clear(process, new.clone());
        let new_start = new.start;
        for (index, vpn) in new.enumerate() {
            let kind = match moved.get(index) {
                Some(&kind) => kind,
                None => Some(next(last, 1 + (index as u64 - kept))),
            };
            if let Some(kind) = kind {
                self.pages.insert((process, vpn), kind);
            }
        }
        self.free
            .extend(free.iter().map(|page| (process, new_start + page)));
        self.clear(u32::MAX, 0..u64::MAX);
    }

    /// Takes the contents of what is free and was not kept.
    pub fn lose(&mut self, kept: impl Fn(u32, u64) -> bool) {
        for &(process, vpn) in &self.free {
            if let Some(Kind::Private(contents)) = self.pages.get_mut(&(process, vpn))
                && !kept(process, vpn)
            {
                *contents = 0;
            }
        }
    }

    /// All pages of shared memory that were written.
    pub fn shared_contents(&self) -> impl Iterator<Item = u64> + '_ {
        self.shared.values().copied()
    }
}

/// Memory that may be read and written.
pub const READ_WRITE: Protection = Protection(Protection::READ | Protection::WRITE);
