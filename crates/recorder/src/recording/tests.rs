use super::*;
use crate::window::Window;
use pagelab_events::Batch;
use pagelab_recorder_wire::region::{Abandoned, Ring};

/// A plugin's work with a ring, in one process and as long as it does not wrap.
#[derive(Clone, Copy)]
struct Writer(usize);

impl Writer {
    fn ring(&self) -> &Ring {
        // SAFETY: the address of a ring whose memory outlives the writer; all is atomic.
        unsafe { &*std::ptr::with_exposed_provenance(self.0) }
    }

    fn open(shared: &Shared, index: usize, definitions: bool) -> Writer {
        let ring = shared.ring(index);
        let base = std::ptr::from_ref(ring).wrapping_add(1).expose_provenance() as u64;
        ring.base.store(base, Ordering::Relaxed);
        ring.write.store(base, Ordering::Relaxed);
        ring.first.store(u32::from(!definitions), Ordering::Relaxed);
        ring.definitions
            .store(u32::from(definitions), Ordering::Relaxed);
        ring.state.0.store(State::Open as u32, Ordering::Release);
        let used = &shared.header().rings_used.0;
        used.fetch_max(index as u32 + 1, Ordering::AcqRel);
        Writer(std::ptr::from_ref(ring).expose_provenance())
    }

    fn put(&self, words: &[u64]) {
        let write = self.ring().write.load(Ordering::Relaxed);
        for (at, &word) in words.iter().enumerate() {
            let place = std::ptr::with_exposed_provenance_mut::<u64>(write as usize);
            // SAFETY: inside the ring: the test writes less than it holds.
            unsafe { place.add(at).write(word) };
        }
        let end = write + 8 * words.len() as u64;
        self.ring().write.store(end, Ordering::Release);
    }
}

fn recording(shared: &Shared) -> Recording<'_, Vec<Batch>> {
    let output = Output::new(Vec::new(), true);
    let windows = Windows::new(Window::default(), true);
    Recording::new(shared, windows, output, 1, SystemTime::now())
}

/// The first process executes a block of one instruction twice; where that is written.
fn two_instructions(shared: &Shared) -> Writer {
    let definitions = Writer::open(shared, 0, true);
    let events = Writer::open(shared, 1, false);
    let nop = u64::from_le_bytes([1, 0x90, 0, 0, 0, 0, 0, 0]);
    definitions.put(&[Kind::Define.word(4), 0, 0x1000, 1, nop]);
    events.put(&[Kind::Block.word(0), Kind::Block.word(0)]);
    events
}

/// A block may be defined and reported while the recorder goes round, in whatever order the
/// rings have come into use.
#[test]
fn a_block_is_known_when_it_is_reported() {
    const BLOCKS: u64 = 100_000;
    let shared = Shared::new(|_| {}).unwrap();
    let mut recording = recording(&shared);
    let definitions = Writer::open(&shared, 1, true);
    recording.round().unwrap();
    // The more rings are between the two, the longer it takes from one to the other.
    for index in 2..RINGS {
        Writer::open(&shared, index, true);
    }
    recording.round().unwrap();
    let events = Writer::open(&shared, 0, false);
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let two_nops = [2, u64::from_le_bytes([1, 1, 0x90, 0x90, 0, 0, 0, 0])];
            for number in 0..BLOCKS {
                let pc = 0x1000 + 2 * number;
                let define = Kind::Define.word(4);
                definitions.put(&[define, number, pc, two_nops[0], two_nops[1]]);
                events.put(&[Kind::Block.word(number)]);
            }
        });
        while !writing.is_finished() {
            recording.round().unwrap();
        }
    });
    while recording.round().unwrap() {}
    assert_eq!(recording.instructions(), 2 * BLOCKS);
}

/// Elements of `rep stosb` are one access a line: the last ones wait for whatever comes next. Another process
/// may end meanwhile, and all is read then that is there.
#[test]
fn what_has_begun_is_no_progress() {
    let shared = Shared::new(|_| {}).unwrap();
    let mut recording = recording(&shared);
    let definitions = Writer::open(&shared, 0, true);
    let events = Writer::open(&shared, 1, false);
    let rep_stosb = u64::from_le_bytes([2, 0xf3, 0xaa, 0, 0, 0, 0, 0]);
    definitions.put(&[Kind::Define.word(4), 0, 0x1000, 1, rep_stosb]);
    events.put(&[Kind::Block.word(0), 0x2000, 0x2001]);
    let rounds = |recording: &mut Recording<'_, Vec<Batch>>| {
        (0..10).take_while(|_| recording.round().unwrap()).count()
    };
    assert!((1..10).contains(&rounds(&mut recording)));
    assert_eq!(recording.accesses(), 0);
    events.put(&[Kind::Block.word(0)]);
    assert!((1..10).contains(&rounds(&mut recording)));
    assert_eq!(recording.accesses(), 1);
}

/// A process may go on writing for hours when another one has ended: what it writes is not waited for.
#[test]
fn the_end_of_a_process_is_that_of_its_own_words() {
    let shared = Shared::new(|_| {}).unwrap();
    let mut recording = recording(&shared);
    two_instructions(&shared);
    recording.gone(1, 0).unwrap();
    assert_eq!(recording.instructions(), 0);
    recording.gone(0, 0).unwrap();
    assert_eq!(recording.instructions(), 2);
}

/// Whoever writes words that make no sense, as a program may that writes everywhere, is told of once.
#[test]
fn a_damaged_ring_is_given_up() {
    let shared = Shared::new(|_| {}).unwrap();
    let mut recording = recording(&shared);
    let events = Writer::open(&shared, 0, false);
    for _ in 0..3 {
        events.put(&[u64::MAX, 0, 0]);
        while recording.round().unwrap() {}
    }
    assert!(recording.rings[0].reader.has_caught_up());
    let (notes, _) = recording.finish();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("damaged"), "{notes:?}");
}

/// A program that goes on unrecorded writes elsewhere: what its rings have is as it was before, and is no whole.
#[test]
fn what_is_abandoned_is_read_no_further() {
    let shared = Shared::new(|_| {}).unwrap();
    let mut recording = recording(&shared);
    let events = two_instructions(&shared);
    let ring = events.ring();
    let write = ring.write.load(Ordering::Relaxed);
    ring.last.store(write, Ordering::Release);
    ring.write.store(write + 64, Ordering::Release);
    while recording.round().unwrap() {}
    assert_eq!(recording.instructions(), 2);
    (shared.header().abandoned.0).store(Abandoned::Full as u32, Ordering::Release);
    let why = recording.round().unwrap_err().to_string();
    assert!(why.contains("more than 4096 threads"), "{why}");
}

/// A parent that has waited for a child goes on when the child's end is told, however late its last words come.
#[test]
fn the_end_of_a_child_comes_before_what_its_parent_does_after_waiting() {
    const PID: u64 = 4_000_000;
    let (fork, wait4, exit_group) = (57, 61, 231);
    let shared = Shared::new(|_| {}).unwrap();
    let mut recording = recording(&shared);
    recording.watch();
    let parent = two_instructions(&shared);
    let call = |number: u64| vec![Kind::Syscall.word(number), 0, 0, 0, 0, 0, 0];
    let returns = |number: u64, result: u64| vec![Kind::SyscallReturn.word(number), result, 0];
    parent.put(&[call(fork), returns(fork, PID), vec![Kind::Forked.word(1)]].concat());
    parent.put(&[call(wait4), returns(wait4, PID)].concat());
    // Then it takes memory.
    let brk = 12;
    parent.put(&[call(brk), returns(brk, 0x10_0000)].concat());
    while recording.round().unwrap() {}
    let child = Writer::open(&shared, 2, false);
    child.ring().process.store(1, Ordering::Relaxed);
    child.put(&call(exit_group));
    child.put(&[Kind::ThreadEnd.word(0)]);
    (child.ring().state.0).store(State::Ended as u32, Ordering::Release);
    while recording.round().unwrap() {}
    while recording.round().unwrap() {}
    let (_, output) = recording.finish();
    let batches = output.finish().0.unwrap();
    let controls: Vec<Control> = batches
        .iter()
        .flat_map(|batch| batch.controls.iter().map(|(_, control)| *control))
        .filter(|control| matches!(control, Control::Exit { .. } | Control::Brk { .. }))
        .collect();
    let expected = [Control::Exit { status: 0 }, Control::Brk { end: 0x10_0000 }];
    assert_eq!(controls, expected);
}
