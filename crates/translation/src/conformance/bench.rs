use super::FakeFrames;
use crate::{MapError, Page, PageTable, Translation, Walk, Work};
use pagelab_addr::{Asid, PageDirectory, PageSize, Pfn, Vpn};

/// A table with pages mapped at page numbers of choice, for what a design promises alone.
pub(crate) struct Bench<T> {
    pub(crate) table: T,
    pub(crate) frames: FakeFrames,
    pub(crate) work: Work,
    directory: PageDirectory,
}

impl<T: PageTable> Bench<T> {
    pub(crate) fn new(table: T, frames: FakeFrames) -> Self {
        Bench {
            table,
            frames,
            work: Work::default(),
            directory: PageDirectory::new(),
        }
    }

    pub(crate) fn page(&mut self, vpn: u64) -> Page {
        let (asid, vpn) = (Asid(7), Vpn(vpn));
        let id = self.directory.page(asid, vpn).unwrap();
        Page { id, asid, vpn }
    }

    pub(crate) fn map(&mut self, vpn: u64, size: PageSize) -> Result<(), MapError> {
        let page = self.page(vpn);
        let translation = Translation {
            pfn: Pfn(1 << 20),
            size,
            writable: true,
        };
        let (frames, work) = (&mut self.frames, &mut self.work);
        self.table.map(frames, page, translation, work)
    }

    pub(crate) fn unmap(&mut self, vpn: u64, size: PageSize) {
        let page = self.page(vpn);
        let (frames, work) = (&mut self.frames, &mut self.work);
        assert!(self.table.unmap(frames, page, size, work).is_some());
    }

    /// Addresses that a walk reads, by step.
    pub(crate) fn walk(&mut self, vpn: u64) -> Vec<Vec<u64>> {
        let page = self.page(vpn);
        let mut walk = Walk::new();
        let found = self.table.walk(0, page, &mut walk);
        assert_eq!(found, self.table.lookup(page));
        let mut steps = Vec::new();
        for read in walk.reads() {
            steps.resize(usize::from(read.step) + 1, Vec::new());
            steps[usize::from(read.step)].push(read.addr.0);
        }
        steps
    }

    /// Number of reads of each step.
    pub(crate) fn reads(&mut self, vpn: u64) -> Vec<usize> {
        self.walk(vpn).iter().map(Vec::len).collect()
    }
}
