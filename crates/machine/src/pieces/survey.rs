//! The first pass over a stream: what may change its memory, and what is used again how much later.

use super::touched::Touched;
use pagelab_addr::{LINE_SHIFT, PAGE_SHIFT, VirtAddr, Vpn};
use pagelab_events::{Batch, Control, Divisible, Source};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What may change the memory of a stream, after so many of its accesses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) after: u64,
    pub(super) process: u32,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Control(Control),
    /// The next access is to a page that may not be mapped, or not writable.
    Touch {
        vpn: Vpn,
        store: bool,
    },
}

/// Sizes of what is looked at for reuse: lines, pages, what a line of page-table entries maps, what
/// an entry of the level above maps; and of how many of them one is, the logarithm.
pub(super) const GRAINS: [Grain; 4] = [
    Grain {
        shift: LINE_SHIFT,
        one_in: 6,
    },
    Grain {
        shift: PAGE_SHIFT,
        one_in: 5,
    },
    Grain {
        shift: PAGE_SHIFT + 3,
        one_in: 4,
    },
    Grain {
        shift: PAGE_SHIFT + 9,
        one_in: 2,
    },
];

/// What of a stream is looked at together. A sample in space: of what is looked at, every use is
/// seen (SHARDS: Waldspurger et al., FAST 2015).
#[derive(Clone, Copy, Debug)]
pub(super) struct Grain {
    pub(super) shift: u32,
    pub(super) one_in: u32,
}

/// First and last use of each unit in a stretch, in accesses before it.
pub(super) type Uses = HashMap<u64, (u64, u64), BuildHasherDefault<Spread>>;

/// Keys of [`Uses`] are hashed where they are made.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        // The highest bits, by which a sample is taken, are the same for all keys.
        self.0.rotate_right(32)
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// What was seen of a stretch.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) events: Vec<Event>,
    pub(super) uses: [Uses; GRAINS.len()],
    /// Whether the stream cannot be read beyond.
    pub(super) broken: bool,
    /// After how many accesses the stream says that it leaves others out.
    pub(super) left_out: Vec<u64>,
}

/// A unit's name, mixed so that any bits of it will do as a sample (Knuth, TAOCP volume 3,
/// section 6.4).
#[inline(always)]
fn name(process: u32, unit: u64) -> u64 {
    (unit ^ u64::from(process) << 52).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Looks at a stretch of a stream. Counts the accesses in `progress`.
pub(super) fn look(
    stream: &dyn Divisible,
    from: u64,
    to: Option<u64>,
    stop: &AtomicBool,
    progress: &AtomicU64,
) -> Seen {
    let mut seen = Seen::default();
    let Ok(mut source) = stream.stretch(from, to) else {
        seen.broken = true;
        return seen;
    };
    let mut batch = Batch::default();
    let mut looking = Looking {
        touched: Touched::default(),
        at: from,
        last: [(0, 0, 0); GRAINS.len()],
        seen,
    };
    while !stop.load(Ordering::Relaxed) {
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => {
                looking.seen.broken = true;
                break;
            }
        }
        looking.batch(&batch);
        progress.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }
    looking.finish()
}

struct Looking {
    touched: Touched,
    at: u64,
    /// Of each grain the unit used last, and its uses in a row.
    last: [(u64, u64, u64); GRAINS.len()],
    seen: Seen,
}

impl Looking {
    fn batch(&mut self, batch: &Batch) {
        let mut controls = batch.controls.iter().peekable();
        let process = batch.process;
        for (index, (&addr, &op)) in batch.addr.iter().zip(&batch.op).enumerate() {
            while let Some((_, control)) = controls.next_if(|next| next.0 as usize <= index) {
                self.control(process, control);
            }
            let end = addr.saturating_add(u64::from(op.size()).max(1) - 1);
            let pages = VirtAddr(addr).vpn().0..=VirtAddr(end).vpn().0;
            for vpn in pages.map(Vpn) {
                if self.touched.touch(process, vpn, op.is_store()) {
                    let store = op.is_store();
                    self.event(process, What::Touch { vpn, store });
                }
            }
            for (number, &Grain { shift, one_in }) in GRAINS.iter().enumerate() {
                let unit = name(process, addr >> shift);
                if unit >> (64 - one_in) == 0 {
                    self.used(number, unit);
                }
            }
            self.at += 1;
        }
        for (_, control) in controls {
            self.control(process, control);
        }
    }

    fn event(&mut self, process: u32, what: What) {
        self.seen.events.push(Event {
            after: self.at,
            process,
            what,
        });
    }

    fn control(&mut self, process: u32, control: &Control) {
        match control {
            Control::Thread { .. } | Control::ThreadStart { .. } | Control::ThreadEnd { .. } => {
                return;
            }
            Control::Skipped { accesses, .. } if *accesses > 0 => self.seen.left_out.push(self.at),
            _ => {}
        }
        self.touched.control(process, control);
        self.event(process, What::Control(*control));
    }

    #[inline]
    fn used(&mut self, number: usize, unit: u64) {
        let (last, _, until) = &mut self.last[number];
        if *last == unit {
            *until = self.at;
            return;
        }
        self.note(number);
        self.last[number] = (unit, self.at, self.at);
    }

    fn note(&mut self, number: usize) {
        let (unit, from, until) = self.last[number];
        if unit != 0 {
            let uses = self.seen.uses[number].entry(unit).or_insert((from, until));
            uses.1 = until;
        }
    }

    fn finish(mut self) -> Seen {
        for number in 0..GRAINS.len() {
            self.note(number);
        }
        self.seen
    }
}
