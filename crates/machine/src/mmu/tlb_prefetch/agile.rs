use super::lru_table::LruTable;
use super::{Miss, Prefetcher};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Three prefetchers, of which the one prefetches that would have foreseen most of late, or none
/// (ATP: Vavouliotis et al., ISCA 2021).
#[derive(Debug)]
pub(super) struct Agile {
    /// The last two pages that missed, the later first.
    history: [Option<i64>; 2],
    /// By instruction: the page that missed last, and its distance from the one before.
    strides: LruTable<(i64, i64)>,
    /// Pages that each would have prefetched: H2P, MASP, STP.
    foreseen: [VecDeque<i64>; 3],
    enable: Counter<255>,
    first: Counter<63>,
    second: Counter<3>,
}

/// Pages remembered of each.
const FORESEEN: usize = 16;

impl Default for Agile {
    fn default() -> Self {
        Agile {
            history: [None; 2],
            strides: LruTable::new(const { NonZeroU32::new(64).unwrap() }),
            foreseen: Default::default(),
            enable: Counter::default(),
            first: Counter::default(),
            second: Counter::default(),
        }
    }
}

impl Prefetcher for Agile {
    fn missed(&mut self, miss: Miss, next: &mut Vec<i64>) {
        let [h2p, masp, stp] = (self.foreseen.each_ref()).map(|pages| pages.contains(&miss.page));
        self.enable.turn(h2p || masp || stp, !(h2p || masp || stp));
        self.first
            .turn(h2p && !(masp || stp), !h2p && (masp || stp));
        self.second.turn(masp && !stp, stp && !masp);
        let said = [
            self.twice(miss.page),
            self.by_instruction(miss),
            stride(miss.page),
        ];
        for (foreseen, said) in self.foreseen.iter_mut().zip(&said) {
            foreseen.extend(said.iter().flatten());
            foreseen.drain(..foreseen.len().saturating_sub(FORESEEN));
        }
        if self.enable.high() {
            let chosen = match (self.first.high(), self.second.high()) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            };
            next.extend(said[chosen].iter().flatten());
        }
    }
}

impl Agile {
    /// H2P: the last two distances once more.
    fn twice(&mut self, page: i64) -> [Option<i64>; 4] {
        let [last, before] = self.history;
        self.history = [Some(page), last];
        let again = |from: Option<i64>, to: Option<i64>| Some(page + to? - from?);
        [again(last, Some(page)), again(before, last), None, None]
    }

    /// MASP: the distance from the instruction's last page, and the one that was stored there.
    fn by_instruction(&mut self, miss: Miss) -> [Option<i64>; 4] {
        let Some(instruction) = miss.instruction else {
            return [None; 4];
        };
        let (entry, known) = self.strides.of(instruction.into());
        let stride = if known { miss.page - entry.0 } else { 0 };
        let stored = std::mem::replace(entry, (miss.page, stride)).1;
        let by = |stride: i64| (stride != 0).then_some(miss.page + stride);
        [by(stored), by(stride), None, None]
    }
}

/// STP: those around.
fn stride(page: i64) -> [Option<i64>; 4] {
    [1, -1, 2, -2].map(|by| Some(page + by))
}

/// A saturating counter that begins in the middle.
#[derive(Debug)]
struct Counter<const MAX: u8>(u8);

impl<const MAX: u8> Default for Counter<MAX> {
    fn default() -> Self {
        Counter(MAX / 2 + 1)
    }
}

impl<const MAX: u8> Counter<MAX> {
    fn turn(&mut self, up: bool, down: bool) {
        self.0 = (self.0 + u8::from(up && self.0 < MAX)) - u8::from(down && self.0 > 0);
    }

    fn high(&self) -> bool {
        self.0 > MAX / 2
    }
}
