use super::config::VictimaConfig;
use pagelab_addr::{PageId, PageSize};
use std::collections::HashMap;

/// The predictor of what walks cost: two saturating counters in each page-table entry, and a box
/// of their values in which a page is costly.
#[derive(Debug)]
pub(super) struct Predictor {
    config: VictimaConfig,
    /// By the page's number in units of its size: 4 KiB, 2 MiB. The counter of walks is in the low
    /// four bits, that of walks that memory served in the others.
    counters: [HashMap<u32, u8>; 2],
}

impl Predictor {
    pub(super) fn new(config: VictimaConfig) -> Self {
        Predictor {
            config,
            counters: Default::default(),
        }
    }

    /// The counters of pages of a size; pages of 1 GiB have none.
    fn of(&mut self, size: PageSize) -> Option<&mut HashMap<u32, u8>> {
        match size {
            PageSize::Base4K => Some(&mut self.counters[0]),
            PageSize::Large2M => Some(&mut self.counters[1]),
            PageSize::Huge1G => None,
        }
    }

    /// A walk has found a page, with or without a read that memory served.
    pub(super) fn walked(&mut self, page: PageId, size: PageSize, memory: bool) {
        let VictimaConfig {
            frequency_bits,
            cost_bits,
            ..
        } = self.config;
        let Some(counters) = self.of(size) else {
            return;
        };
        let both = counters.entry(page.0 >> size.order()).or_default();
        let (walks, costs) = (*both & 15, *both >> 4);
        let walks = (walks + 1).min((1 << frequency_bits) - 1);
        let costs = (costs + u8::from(memory)).min((1 << cost_bits) - 1);
        *both = walks | costs << 4;
    }

    /// True if a page is costly to translate.
    pub(super) fn costly(&mut self, page: PageId, size: PageSize) -> bool {
        let VictimaConfig {
            frequency, cost, ..
        } = self.config;
        let counters = self.of(size);
        let both = counters.and_then(|counters| counters.get(&(page.0 >> size.order())));
        let both = both.copied().unwrap_or(0);
        let within = |value: u8, [least, most]: [u32; 2]| (least..=most).contains(&value.into());
        within(both & 15, frequency) && within(both >> 4, cost)
    }

    /// The kernel has written the entries of these base pages: the counters begin anew.
    pub(super) fn forget(&mut self, first: PageId, pages: u32) {
        for (counters, size) in
            (self.counters.iter_mut()).zip([PageSize::Base4K, PageSize::Large2M])
        {
            let last = (first.0 + pages - 1) >> size.order();
            let first = first.0 >> size.order();
            if (last - first) as usize <= counters.len() {
                for number in first..=last {
                    counters.remove(&number);
                }
            } else {
                counters.retain(|number, _| !(first..=last).contains(number));
            }
        }
    }
}
