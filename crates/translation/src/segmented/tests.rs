//! Tag arrays beside a list of who has which frame.

use super::*;
use crate::conformance::{self, FakeFrames};
use crate::{Ideal, Radix, RadixConfig};
use pagelab_addr::{Asid, PageId, Vpn};
use proptest::prelude::*;

fn segments() -> RestSegs {
    RestSegs::new(1 << 15, [128 << 10, 16 << 20], 2, 1)
}

#[test]
fn conforms_over_radix() {
    let new = |cores| {
        let radix = Radix::new(&RadixConfig::default(), cores).unwrap();
        Segmented::new(radix, segments())
    };
    conformance::run(48, new);
}

#[derive(Clone, Debug)]
enum Step {
    Map { page: u32, frame: u32 },
    Unmap { page: u32 },
    Move { page: u32, frame: u32 },
    Forbid { page: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (page, frame) = (|| 0..48u32, || 0..40u32);
    let step = prop_oneof![
        4 => (page(), frame()).prop_map(|(page, frame)| Step::Map { page, frame }),
        2 => page().prop_map(|page| Step::Unmap { page }),
        2 => (page(), frame()).prop_map(|(page, frame)| Step::Move { page, frame }),
        1 => page().prop_map(|page| Step::Forbid { page }),
    ];
    proptest::collection::vec(step, 1..200)
}

/// Pages of two address spaces, the first 24 with the other 24 in the same sets.
fn page(number: u32, size: PageSize) -> Page {
    let (space, number) = (number / 24, number % 24);
    let offset = number << size.order();
    Page {
        id: PageId(space << 18 | offset),
        asid: Asid(space as u16),
        vpn: Vpn(u64::from(offset)),
    }
}

proptest! {
    #[test]
    fn it_has_whom_a_list_has(steps in steps(), large in any::<bool>()) {
        let size = if large { PageSize::Large2M } else { PageSize::Base4K };
        let segment = segments().of(size).unwrap();
        // The first frames of the segment, and some before it.
        let start = segment.frames().start - 8 * size.base_pages();
        let pfn = |frame: u32| Pfn(start + (frame << size.order()));
        let mut frames = FakeFrames::new(1 << 12, 0, 1);
        let mut table = Segmented::new(Ideal::new(), segments());
        let mut mapped: Vec<(u32, u32)> = Vec::new();
        // Owners of tags: page and frame, in the order in which they came.
        let mut tags: Vec<(u32, u32)> = Vec::new();
        let in_its_set = |number: u32, frame: u32| {
            let place = frame.checked_sub(8)?;
            let set = place / 2;
            let of_page = (page(number, size).id.0 >> size.order()) % segment.sets();
            (set < segment.sets() && set == of_page).then_some(())
        };
        let enter = |tags: &mut Vec<(u32, u32)>, number: u32, frame: u32| {
            let free = tags.iter().all(|tag| tag.1 != frame);
            if in_its_set(number, frame).is_some() && free {
                tags.push((number, frame));
            }
        };
        let mut work = Work::default();
        for step in steps {
            match step {
                Step::Map { page: number, frame } => {
                    if mapped.iter().any(|of| of.0 == number) {
                        continue;
                    }
                    let translation = Translation { pfn: pfn(frame), size, writable: true };
                    table.map(&mut frames, page(number, size), translation, &mut work).unwrap();
                    mapped.push((number, frame));
                    enter(&mut tags, number, frame);
                }
                Step::Unmap { page: number } => {
                    table.unmap(&mut frames, page(number, size), size, &mut work);
                    mapped.retain(|of| of.0 != number);
                    tags.retain(|of| of.0 != number);
                }
                Step::Move { page: number, frame } => {
                    let translation = Translation { pfn: pfn(frame), size, writable: true };
                    if !table.update(page(number, size), translation) {
                        continue;
                    }
                    let old = mapped.iter_mut().find(|of| of.0 == number).unwrap();
                    if old.1 != frame {
                        old.1 = frame;
                        tags.retain(|of| of.0 != number);
                        enter(&mut tags, number, frame);
                    }
                }
                Step::Forbid { page: number } => {
                    if let Some(found) = table.lookup(page(number, size)) {
                        table.update(page(number, size), Translation { writable: false, ..found });
                    }
                }
            }
            for number in 0..48 {
                let expected = tags.iter().any(|tag| tag.0 == number);
                prop_assert_eq!(table.has(size, page(number, size)), expected, "{}", number);
            }
            for set in 0..segment.sets() {
                let of_set = |tag: &&(u32, u32)| (tag.1 - 8) / 2 == set;
                let expected = tags.iter().filter(of_set).count() as u32;
                prop_assert_eq!(table.held(size, set), expected);
            }
        }
    }
}
