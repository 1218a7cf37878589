use pagelab_addr::{PageId, PageSize, Vpn};
use pagelab_translation::Page;

/// Entries of a set, which fill a line.
pub(super) const WAYS: usize = 4;

/// No page has this number.
const EMPTY: u32 = u32::MAX;

/// The part of the POM-TLB that has the pages of a size: sets of a line each, the entry that was
/// used last first.
#[derive(Debug)]
pub(super) struct Sets {
    size: PageSize,
    /// log2 of the neighbours that share a set.
    shared: u32,
    first_line: u32,
    sets: Vec<[u32; WAYS]>,
    held: usize,
}

impl Sets {
    /// Sets in so many lines from one on, a power of two.
    pub(super) fn new(size: PageSize, neighbours: u32, first_line: u32, lines: u32) -> Self {
        Sets {
            size,
            shared: neighbours.ilog2(),
            first_line,
            sets: vec![[EMPTY; WAYS]; lines as usize],
            held: 0,
        }
    }

    /// The set of a page: its virtual number, with the address space folded in.
    fn set(&self, page: Page) -> usize {
        let number = (page.vpn.0 >> self.size.order() >> self.shared) ^ u64::from(page.asid.0);
        number as usize & (self.sets.len() - 1)
    }

    fn key(&self, id: PageId) -> u32 {
        id.0 >> self.size.order()
    }

    /// The line of a page's set.
    pub(super) fn line(&self, page: Page) -> u32 {
        self.first_line + self.set(page) as u32
    }

    /// True if a page is there, which is a use of it.
    pub(super) fn used(&mut self, page: Page) -> bool {
        let (key, set) = (self.key(page.id), self.set(page));
        let ways = &mut self.sets[set];
        let found = ways.iter().position(|&way| way == key);
        if let Some(at) = found {
            ways[..=at].rotate_right(1);
        }
        found.is_some()
    }

    /// Enters a page, in the place of the one whose last use is longest ago.
    pub(super) fn enter(&mut self, page: Page) {
        if self.used(page) {
            return;
        }
        let (key, set) = (self.key(page.id), self.set(page));
        let ways = &mut self.sets[set];
        self.held += usize::from(ways[WAYS - 1] == EMPTY);
        ways.rotate_right(1);
        ways[0] = key;
    }

    /// Takes those out that are of these base pages; how many.
    pub(super) fn remove(&mut self, first: Page, pages: u32) -> u64 {
        if self.held == 0 {
            return 0;
        }
        let order = self.size.order();
        let last = self.key(PageId(first.id.0 + pages - 1));
        let mut removed = 0;
        for number in self.key(first.id)..=last {
            // Both numbers are the same in their low bits.
            let id = PageId(number << order);
            let away = i64::from(id.0) - i64::from(first.id.0);
            let vpn = Vpn(first.vpn.0.wrapping_add_signed(away));
            let set = self.set(Page { id, vpn, ..first });
            let ways = &mut self.sets[set];
            if let Some(at) = ways.iter().position(|&way| way == number) {
                ways[at..].rotate_left(1);
                ways[WAYS - 1] = EMPTY;
                removed += 1;
            }
        }
        self.held -= removed as usize;
        removed
    }
}
