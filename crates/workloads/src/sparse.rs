//! The same program with its memory spread out in virtual address space.

use crate::memory::BASE;
use pagelab_addr::PageSize;
use pagelab_events::{Batch, Control, Source, SourceError, WarmUp};

/// Bytes that one entry of a page table's second level maps.
const REGION: u64 = PageSize::Large2M.bytes();

/// Address of the lowest region, so that 64 GiB fit below 2^47 even with 2 GiB for each region.
const LOWEST: u64 = 1 << 44;

/// A built-in program whose memory takes `sparsity` regions of address space for each region of memory: the
/// region that was number `n` from the bottom of the mmap area becomes number `n * sparsity`, and
/// what lies between is not mapped.
///
/// A mapping becomes one for each region that it reaches, as a program makes them that maps
/// 2 MiB at a time. An access across the end of a region ends there.
pub(crate) struct Sparse<S> {
    source: S,
    sparsity: u64,
}

impl<S: Source> Sparse<S> {
    pub(crate) fn new(source: S, sparsity: u64) -> Self {
        Sparse { source, sparsity }
    }

    /// New address of a byte.
    #[inline]
    fn place(&self, addr: u64) -> u64 {
        let offset = addr - BASE;
        LOWEST + offset / REGION * REGION * self.sparsity + offset % REGION
    }

    /// New ranges of a range, region by region: first byte and length.
    fn pieces(&self, addr: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let starts =
            std::iter::successors(Some(addr), |start| Some(start / REGION * REGION + REGION));
        let starts = starts.take_while(move |&start| start < addr + len);
        starts.map(move |start| {
            let end = (start / REGION * REGION + REGION).min(addr + len);
            (self.place(start), end - start)
        })
    }

    /// Pushes the control events that one becomes.
    fn spread(&self, control: Control, mut push: impl FnMut(Control)) {
        match control {
            Control::Map {
                addr,
                len,
                prot,
                backing,
                populate,
            } => {
                for (addr, len) in self.pieces(addr, len) {
                    push(Control::Map {
                        addr,
                        len,
                        prot,
                        backing,
                        populate,
                    });
                }
            }
            Control::Unmap { addr, len } => {
                for (addr, len) in self.pieces(addr, len) {
                    push(Control::Unmap { addr, len });
                }
            }
            Control::Protect { .. }
            | Control::Remap { .. }
            | Control::Advise { .. }
            | Control::Brk { .. } => unreachable!("built-in programs only map and unmap"),
            other => push(other),
        }
    }
}

impl<S: Source> Source for Sparse<S> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.source.next_batch(batch)?;
        for (addr, op) in batch.addr.iter_mut().zip(&mut batch.op) {
            let left = REGION - *addr % REGION;
            op.0 -= u64::from(op.size()).saturating_sub(left) as u16;
            *addr = self.place(*addr);
        }
        for (at, control) in std::mem::take(&mut batch.controls) {
            self.spread(control, |control| batch.controls.push((at, control)));
        }
        Ok(more)
    }

    fn remaining(&self) -> Option<u64> {
        self.source.remaining()
    }

    fn warm_up(&self) -> WarmUp {
        self.source.warm_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_events::{Access, Backing, Op, Protection};

    /// One batch.
    struct Once(Option<Batch>);

    impl Source for Once {
        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            *batch = self.0.take().unwrap_or_default();
            Ok(!batch.is_empty())
        }
    }

    fn map(addr: u64, len: u64) -> Control {
        Control::Map {
            addr,
            len,
            prot: Protection(Protection::READ),
            backing: Backing::Anonymous,
            populate: true,
        }
    }

    /// Worked out by hand: region 0 goes to 16 TiB, region 1 16 MiB further, region 2 32 MiB.
    #[test]
    fn every_region_is_mapped_and_unmapped_by_itself_and_accesses_end_with_theirs() {
        let mut batch = Batch::default();
        batch.push_control(map(0x7000_0000_0000, 0x1000));
        batch.push_control(map(0x7000_001f_f000, 0x20_2000));
        batch.push_control(Control::Thread { thread: 0 });
        for (addr, op) in [
            (0x7000_0000_0008, Op::load(8)),
            (0x7000_001f_fff0, Op::store(32)),
            (0x7000_0020_0010, Op::load(16)),
            (0x7000_003f_fff0, Op::load(16)),
        ] {
            let (gap, dep) = (3, 0);
            batch.push(Access { addr, op, gap, dep });
        }
        batch.push_control(Control::Unmap {
            addr: 0x7000_003f_f000,
            len: 0x2000,
        });
        batch.push_control(Control::Exit { status: 0 });
        let mut sparse = Sparse::new(Once(Some(batch.clone())), 8);
        let mut out = Batch::default();
        assert!(sparse.next_batch(&mut out).unwrap());
        assert_eq!(
            out.controls,
            [
                (0, map(0x1000_0000_0000, 0x1000)),
                (0, map(0x1000_001f_f000, 0x1000)),
                (0, map(0x1000_0100_0000, 0x20_0000)),
                (0, map(0x1000_0200_0000, 0x1000)),
                (0, Control::Thread { thread: 0 }),
                (
                    4,
                    Control::Unmap {
                        addr: 0x1000_011f_f000,
                        len: 0x1000
                    }
                ),
                (
                    4,
                    Control::Unmap {
                        addr: 0x1000_0200_0000,
                        len: 0x1000
                    }
                ),
                (4, Control::Exit { status: 0 }),
            ]
        );
        let addresses = [
            0x1000_0000_0008,
            0x1000_001f_fff0,
            0x1000_0100_0010,
            0x1000_011f_fff0,
        ];
        assert_eq!(out.addr, addresses);
        assert_eq!(
            out.op,
            [Op::load(8), Op::store(16), Op::load(16), Op::load(16)]
        );
        assert_eq!((&out.gap, &out.dep), (&batch.gap, &batch.dep));
        assert!(!sparse.next_batch(&mut out).unwrap());
    }
}
