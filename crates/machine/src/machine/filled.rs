//! Lines that the kernel leaves in the caches when it fills a page in a fault.

use super::translate::reference;
use super::{Machine, other_pages};
use crate::caches;
use crate::config::FilledPages;
use crate::mmu::Mmu;
use pagelab_addr::{Asid, LINE_BYTES, PAGE_BYTES, PageId, Pfn, Vpn};
use pagelab_events::Op;
use pagelab_os::Effects;
use pagelab_translation::{Page, PageTable};

impl<M: Mmu> Machine<M> {
    /// Lists the lines of the page that the last fault has filled.
    #[cold]
    pub(crate) fn list_filled(&mut self, page: Page) {
        let place = self.chunk.references.as_slice().len() as u32;
        let (core, most) = (self.current_core(), self.frames_held());
        for pfn in filled_frames(&self.effects, page, self.mmu.table(), most) {
            for line in filled_lines(pfn) {
                caches::note(&mut self.caches[core], &mut self.shared, line);
                self.chunk.filled.push((line, place));
            }
        }
    }

    /// Leaves lines of a page in the caches that was touched where accesses were left out, and of those that were
    /// filled with it.
    #[cold]
    pub(crate) fn fill_touched(&mut self, asid: Asid, vpn: Vpn) {
        if self.shared.filled_pages == FilledPages::Memory || self.effects.pages_zeroed == 0 {
            return;
        }
        // The last of them, ascending.
        let filled = self.effects.pages_zeroed.next_power_of_two();
        let first = vpn.0 / filled * filled;
        let pages = first..first + filled;
        let other = other_pages!(self, asid);
        let frames = pages.rev().filter_map(|vpn| {
            let address = Vpn(vpn).address().0;
            other.frame(address, address)
        });
        let frames: Vec<u32> = frames.take(self.frames_held() as usize).collect();
        let core = self.current_core();
        for line in frames
            .into_iter()
            .rev()
            .flat_map(|frame| filled_lines(Pfn(frame)))
        {
            caches::fill(&mut self.caches[core], &mut self.shared, line);
            caches::note_between(&mut self.caches[core], &mut self.shared, line);
        }
    }

    /// More frames than caches hold: what is filled before so many others is in none any more.
    fn frames_held(&self) -> u64 {
        2 * self.shared.llc.capacity() as u64 * LINE_BYTES / PAGE_BYTES
    }
}

/// The frames that a fault on a page has filled, in that order, at most so many of the last. None where it
/// has filled more than one page, of whatever size.
fn filled_frames(
    effects: &Effects,
    page: Page,
    table: &impl PageTable,
    most: u64,
) -> impl Iterator<Item = Pfn> {
    let filled = effects.pages_zeroed + effects.pages_copied;
    let filled = if filled.is_power_of_two() { filled } else { 0 };
    let within = page.vpn.0 % filled.max(1);
    let out = filled.saturating_sub(most) as usize;
    let numbers = order_of_filling(filled, within).skip(out);
    numbers.filter_map(move |number| {
        let part = Page {
            id: PageId(page.id.0 - within as u32 + number as u32),
            asid: page.asid,
            vpn: Vpn(page.vpn.0 - within + number),
        };
        Some(table.found(part)?.pfn)
    })
}

/// The lines of a frame that has been filled, all of them modified.
fn filled_lines(pfn: Pfn) -> impl Iterator<Item = u32> {
    let lines = (0..PAGE_BYTES).step_by(LINE_BYTES as usize);
    lines.map(move |at| reference(pfn, at, Op::store(8)))
}

/// The order in which Linux fills the small pages of a large one: those around the one that was asked for
/// come last, by turns from its left and its right, so that they stay in the caches (`process_huge_page()` in
/// mm/memory.c).
fn order_of_filling(pages: u64, asked: u64) -> impl Iterator<Item = u64> {
    // Around the one that was asked for there are as many as its shorter side has, on the longer side one more.
    let in_first_half = 2 * asked <= pages;
    let (far, near) = if in_first_half {
        (2 * asked..pages, 0..2 * asked)
    } else {
        let start = 2 * asked - pages;
        (0..start, start..pages)
    };
    let far = (0..far.end - far.start).map(move |n| {
        if in_first_half {
            far.end - 1 - n
        } else {
            far.start + n
        }
    });
    let half = (near.end - near.start) / 2;
    let near = (0..half).flat_map(move |n| [near.start + n, near.end - 1 - n]);
    far.chain(near)
}

#[cfg(test)]
mod tests {
    use super::order_of_filling;

    #[test]
    fn pages_near_the_one_that_is_asked_for_are_filled_last() {
        let order = |pages, asked| order_of_filling(pages, asked).collect::<Vec<_>>();
        assert_eq!(order(1, 0), [0]);
        assert_eq!(order(4, 0), [3, 2, 1, 0]);
        assert_eq!(order(8, 2), [7, 6, 5, 4, 0, 3, 1, 2]);
        assert_eq!(order(8, 6), [0, 1, 2, 3, 4, 7, 5, 6]);
        for asked in 0..512 {
            let mut all = order(512, asked);
            assert_eq!(all[511], asked);
            all.sort_unstable();
            assert!(all.into_iter().eq(0..512));
        }
    }
}
