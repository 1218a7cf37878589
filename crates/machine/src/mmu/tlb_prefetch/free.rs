use pagelab_addr::{PageId, PageSize, Vpn};
use pagelab_translation::Page;
use std::collections::VecDeque;

/// log2 of the entries of a line.
pub(super) const SHIFT: u32 = 3;

/// A distance is worth it when pages that far have been asked for more often.
const THRESHOLD: u32 = 100;
/// At this all counts are halved.
const MOST: u32 = 1023;
const SAMPLES: usize = 64;

/// Filter of the entries that a walk reads besides its own, by their distance from it (SBFP:
/// Vavouliotis et al., ISCA 2021).
#[derive(Debug, Default)]
pub(super) struct Free {
    /// Number of times that pages at a distance were asked for, from -7 on.
    useful: [u32; 15],
    /// Entries that were not taken lately: number and order of the page, distance.
    sampled: VecDeque<(u32, u8, i8)>,
}

/// The pages of a size whose entries are in the same line as a page's, and how far they are.
pub(super) fn neighbours(page: Page, size: PageSize) -> impl Iterator<Item = (i8, Page)> {
    let at = (page.id.0 >> size.order()) as i8 & 7;
    let others = (-at..8 - at).filter(|&distance| distance != 0);
    others.filter_map(move |distance| Some((distance, moved(page, size, distance.into())?)))
}

impl Free {
    pub(super) fn worth(&self, distance: i8) -> bool {
        self.useful[(distance + 7) as usize] > THRESHOLD
    }

    pub(super) fn useful(&mut self, distance: i8) {
        let count = &mut self.useful[(distance + 7) as usize];
        *count += 1;
        if *count == MOST {
            self.useful.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// An entry was not taken.
    pub(super) fn sample(&mut self, page: PageId, size: PageSize, distance: i8) {
        let order = size.order() as u8;
        let number = page.0 >> order;
        if self
            .sampled
            .iter()
            .any(|&(of, by, _)| (of, by) == (number, order))
        {
            return;
        }
        if self.sampled.len() == SAMPLES {
            self.sampled.pop_front();
        }
        self.sampled.push_back((number, order, distance));
    }

    /// A page has missed that was not in the buffer.
    pub(super) fn missed(&mut self, page: PageId) {
        let found = (self.sampled.iter()).position(|&(number, order, _)| page.0 >> order == number);
        if let Some((_, _, distance)) = found.and_then(|at| self.sampled.remove(at)) {
            self.useful(distance);
        }
    }

    pub(super) fn forget(&mut self, stale: impl Fn(u32, u8) -> bool) {
        self.sampled
            .retain(|&(number, order, _)| !stale(number, order));
    }
}

/// The page so many pages of a size away, within the same aligned 1 GiB.
pub(super) fn moved(page: Page, size: PageSize, distance: i64) -> Option<Page> {
    let base = i64::from(page.id.0 >> size.order() << size.order());
    let id = base.checked_add(distance.checked_mul(1 << size.order())?)?;
    if id >> PageSize::Huge1G.order() != base >> PageSize::Huge1G.order() {
        return None;
    }
    let vpn = page.vpn.0 + id as u64 - u64::from(page.id.0);
    Some(Page {
        id: PageId(id as u32),
        vpn: Vpn(vpn),
        ..page
    })
}
