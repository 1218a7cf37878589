use super::config::UtopiaConfig;
use pagelab_addr::PageId;
use pagelab_translation::Page;
use std::collections::HashMap;

/// Finder of pages that are costly to walk for: two saturating counters in each entry of the page
/// table, of walks and of their reads that memory served.
#[derive(Debug)]
pub(super) struct Costly {
    walks: u32,
    reads: u32,
    /// By log2 of the page's base pages and its number in units of that.
    counters: HashMap<(u32, u32), (u32, u32)>,
    /// Pages that have just become costly.
    pub(super) pages: Vec<Page>,
}

/// Largest value of a counter.
const MOST: u32 = 255;

impl Costly {
    pub(super) fn new(config: &UtopiaConfig) -> Self {
        Costly {
            walks: config.costly_walks,
            reads: config.costly_reads,
            counters: HashMap::new(),
            pages: Vec::new(),
        }
    }

    /// A walk has found a page of 2^`order` base pages, and memory has served so many of its reads;
    /// whether the page has become costly. Its counters then begin anew.
    pub(super) fn walked(&mut self, page: Page, order: u32, reads: u32) -> bool {
        let key = (order, page.id.0 >> order);
        let (walks, served) = self.counters.entry(key).or_default();
        *walks = (*walks + 1).min(MOST);
        *served = (*served + reads).min(MOST);
        let costly = *walks >= self.walks && *served >= self.reads;
        if costly {
            self.counters.remove(&key);
            self.pages.push(page);
        }
        costly
    }

    /// The kernel has written the entries of these base pages: the counters begin anew.
    pub(super) fn forget(&mut self, first: PageId, pages: u32) {
        for order in [0, 9] {
            let numbers = first.0 >> order..=(first.0 + pages - 1) >> order;
            if (numbers.end() - numbers.start()) as usize <= self.counters.len() {
                for number in numbers {
                    self.counters.remove(&(order, number));
                }
            } else {
                (self.counters)
                    .retain(|&(of, number), _| of != order || !numbers.contains(&number));
            }
        }
    }
}
