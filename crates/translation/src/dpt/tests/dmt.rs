//! The metadata table: what happens when it fills and when memory is short.

use super::super::dmt::Dmt;
use super::super::metadata::Metadata;
use super::*;

const SEED: u64 = 9;

fn new(frames: &mut FakeFrames, entries: u32) -> Result<Dmt, MapError> {
    Dmt::new(frames, entries, SEED, &mut Work::default())
}

fn add(dmt: &mut Dmt, frames: &mut FakeFrames, group: u64) -> Result<(), MapError> {
    dmt.make_entry(frames, group * 64, &mut Work::default())?;
    dmt.set(group * 64 + group % 64, some(group));
    Ok(())
}

fn some(group: u64) -> Metadata {
    Metadata::new(PageSize::ALL[group as usize % 3], group as u32 % 16)
}

fn assert_holds(dmt: &Dmt, groups: u64) {
    for tag in 0..groups * 64 {
        let expected = if tag % 64 == tag / 64 % 64 {
            some(tag / 64)
        } else {
            Metadata::INVALID
        };
        assert_eq!(dmt.get(tag), expected);
    }
}

#[test]
fn six_bits_hold_stride_and_step() {
    for stride in PageSize::ALL {
        for step in 0..=Metadata::MAX_STEP {
            let metadata = Metadata::new(stride, step);
            assert_eq!(metadata.decode(), Some((stride, step)));
            let frame = 100 + u64::from(stride.base_pages()) * u64::from(step);
            assert_eq!(metadata.frame(100, 1000), Some((frame % 1000) as u32));
        }
    }
    assert_eq!(Metadata::INVALID.decode(), None);
}

#[test]
fn a_table_that_fills_moves_to_twice_the_memory() {
    let mut frames = FakeFrames::new(1 << 12, 0, 1);
    let mut dmt = new(&mut frames, 64).unwrap();
    for group in 0..1000 {
        add(&mut dmt, &mut frames, group).unwrap();
    }
    assert_holds(&dmt, 1000);
    assert_eq!(dmt.frames(), 32, "1000 entries in 2048 places of 64 bytes");
    assert_eq!(frames.table_bytes(), 32 * PAGE_BYTES);
    dmt.free(&mut frames);
    assert_eq!(frames.table_bytes(), 0);
}

#[test]
fn without_contiguous_memory_a_table_starts_smaller_and_fills_to_the_last_entry() {
    let mut frames = FakeFrames::new(1 << 12, 0, 1);
    // Every other frame is taken.
    for frame in (0..1 << 12).step_by(2) {
        frames.occupy(Pfn(frame), PageSize::Base4K, false);
    }
    let mut dmt = new(&mut frames, 8192).unwrap();
    assert_eq!(dmt.frames(), 1);
    for group in 0..64 {
        add(&mut dmt, &mut frames, group).unwrap();
    }
    assert_eq!(
        add(&mut dmt, &mut frames, 64),
        Err(MapError::OutOfFrames),
        "an error, and"
    );
    assert_holds(&dmt, 64);
    // Memory comes back: the table goes on.
    frames.free_data(Pfn(2000));
    add(&mut dmt, &mut frames, 64).unwrap();
    assert_holds(&dmt, 65);
}

#[test]
fn entries_of_memory_given_up_make_room() {
    let mut frames = FakeFrames::new(1 << 12, 0, 1);
    let mut dmt = new(&mut frames, 64).unwrap();
    for group in 0..10_000 {
        add(&mut dmt, &mut frames, group).unwrap();
        dmt.set(group * 64 + group % 64, Metadata::INVALID);
    }
    assert_eq!(dmt.frames(), 1);
    assert_eq!(dmt.get(9999 * 64 + 9999 % 64), Metadata::INVALID);
}

#[test]
fn a_search_reads_from_the_hash_on_around_the_end() {
    let mut frames = FakeFrames::new(1 << 12, 0, 1);
    let mut dmt = new(&mut frames, 64).unwrap();
    for group in 0..40 {
        add(&mut dmt, &mut frames, group).unwrap();
    }
    let start = (0..1 << 12)
        .find(|&f| frames.is_table(Pfn(f).address()))
        .unwrap();
    let mut slots = BTreeSet::new();
    let mut longest = 0;
    for group in 0..40 {
        let hash = Dmt::hash(group, SEED);
        let probes = dmt.probes(group, hash);
        for number in 0..probes.count {
            let slot = (hash as usize + number) % 64;
            let address = Pfn(start).address().0 + slot as u64 * 64;
            assert_eq!(probes.address(number), PhysAddr(address));
        }
        // Each entry ends the search in a place of its own.
        assert!(slots.insert(probes.address(probes.count - 1).0));
        longest = longest.max(probes.count);
    }
    assert!(longest > 1, "some collide");
}

#[test]
fn no_memory_for_metadata_is_an_error_and_loses_nothing() {
    let mut bench = Bench::new(&bare());
    bench.map(1 << 20, PageSize::Base4K).unwrap();
    let before = bench.frames.table_bytes();
    let page = bench.page(1 << 30);
    while bench
        .frames
        .allocate_data(PageSize::Large2M, false)
        .is_some()
    {}
    while bench
        .frames
        .allocate_data(PageSize::Base4K, false)
        .is_some()
    {}
    let translation = Translation {
        pfn: Pfn(0),
        size: PageSize::Large2M,
        writable: false,
    };
    let result = bench
        .table
        .map(&mut bench.frames, page, translation, &mut bench.work);
    assert_eq!(result, Err(MapError::OutOfFrames));
    assert_eq!(bench.frames.table_bytes(), before);
    assert!(bench.lookup(1 << 20).is_some());
}
