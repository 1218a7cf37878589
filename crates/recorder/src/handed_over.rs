//! Actions of threads one after the other stay so in a recording, whenever the rings are looked at.

use std::fs::File;
use std::io::Cursor;
use std::sync::atomic::Ordering;
use std::time::{Instant, UNIX_EPOCH};

use pagelab_events::{Batch, Control};
use pagelab_recorder_wire::word::Kind;

use crate::afterwards::play;
use crate::following::Following;
use crate::output::Output;
use crate::recording::Recording;
use crate::shared::{Shared, Writer, fresh};
use crate::window::{Window, Windows};
use crate::words::{Drain, FrameWriter, Head, Reading};
use crate::{Ended, Progress};

/// The rings have room for so many.
const MAPPINGS: u64 = 40_000;
/// Each time, rings are seldom looked at in the very moment that matters.
const TIMES: usize = 12;
/// The rings of the two threads. Those in between take time to look at.
const RINGS: [usize; 2] = [0, 15];
const PID: u32 = u32::MAX;

/// The memory, for the thread that plays the plugin in both threads' place.
struct Mapped<'a>(&'a Shared);

// SAFETY: used to write into rings that nobody else writes into; all else in the memory is atomic.
unsafe impl Send for Mapped<'_> {}

impl Mapped<'_> {
    fn hand_over(self, maps: &mut Writer, unmaps: &mut Writer) {
        for number in 1..=MAPPINGS {
            let address = number << 12;
            let map = call(9, [0, 4096, 3, 0x22, u64::MAX, 0], address);
            change(maps, self.0, &map);
            let unmap = call(11, [address, 4096, 0, 0, 0, 0], 0);
            change(unmaps, self.0, &unmap);
        }
    }
}

/// The call and its return.
fn call(number: u64, arguments: [u64; 6], result: u64) -> [u64; 10] {
    let [a, b, c, d, e, f] = arguments;
    let returns = Kind::SyscallReturn.word(number);
    [
        Kind::Syscall.word(number),
        a,
        b,
        c,
        d,
        e,
        f,
        returns,
        result,
        0,
    ]
}

fn put(writer: &mut Writer, shared: &Shared, words: &[u64]) {
    while !writer.put(shared, words) {
        std::thread::yield_now();
    }
}

/// A call that changes an address space, as the plugin writes it.
fn change(writer: &mut Writer, shared: &Shared, call: &[u64]) {
    let next_epoch = |writer: &mut Writer| {
        let epoch = shared.header().epoch.0.fetch_add(1, Ordering::SeqCst) + 1;
        put(writer, shared, &[Kind::Epoch.word(epoch)]);
    };
    next_epoch(writer);
    put(writer, shared, call);
    next_epoch(writer);
}

/// One thread maps memory, and another unmaps it, while rounds are made.
fn hand_over(shared: &Shared, mut round: impl FnMut()) {
    shared.ring(RINGS[0]).first.store(1, Ordering::Relaxed);
    for index in RINGS[0] + 1..RINGS[1] {
        (shared.ring(index).definitions).store(1, Ordering::Relaxed);
        shared.writer(index);
    }
    let [mut maps, mut unmaps] = RINGS.map(|index| shared.writer(index));
    let makes_a_thread = [libc::CLONE_VM as u64, 0, 0, 0, 0, 0];
    put(&mut maps, shared, &call(56, makes_a_thread, 0));
    let mapped = Mapped(shared);
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || mapped.hand_over(&mut maps, &mut unmaps));
        while !writing.is_finished() {
            round();
        }
    });
}

fn check(batches: Option<Vec<Batch>>) {
    let mut mapped = None;
    let mut unmapped = 0;
    for (_, control) in batches.iter().flatten().flat_map(|batch| &batch.controls) {
        match *control {
            Control::Map { addr, .. } => assert_eq!(mapped.replace(addr), None),
            Control::Unmap { addr, .. } => {
                assert_eq!(mapped.take(), Some(addr));
                unmapped += 1;
            }
            _ => {}
        }
    }
    assert_eq!(unmapped, MAPPINGS);
}

#[test]
fn what_one_thread_maps_another_unmaps_at_once() {
    (0..TIMES).for_each(|_| check(at_once()));
}

#[test]
fn what_one_thread_maps_another_unmaps_afterwards() {
    (0..TIMES).for_each(|_| check(afterwards()));
}

fn at_once() -> Option<Vec<Batch>> {
    let shared = Shared::new(|header| *header = fresh()).unwrap();
    let output = Output::new(Vec::<Batch>::new(), false);
    let windows = Windows::new(Window::default(), false);
    let mut recording = Recording::new(&shared, windows, output, PID, UNIX_EPOCH);
    hand_over(&shared, || {
        recording.round().unwrap();
    });
    recording.gone(0, 0).unwrap();
    let (_, output) = recording.finish();
    let (batches, written) = output.finish();
    written.unwrap();
    batches
}

fn afterwards() -> Option<Vec<Batch>> {
    let shared = Shared::new(|header| *header = fresh()).unwrap();
    let path = std::env::temp_dir().join(format!("pagelab-handed-over-{}", std::process::id()));
    let head = Head {
        about: Vec::new(),
        window: Window::default(),
        with_code: false,
        verbatim: false,
        pid: PID,
        began: UNIX_EPOCH,
    };
    let writer = FrameWriter::new(File::create(&path).unwrap(), &head.bytes()).unwrap();
    let mut drain = Drain::new(&shared, writer, PID, None);
    hand_over(&shared, || {
        drain.round().unwrap();
    });
    drain.gone(0, 0).unwrap();
    drain.finish(Ended::Status(0)).unwrap();
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let (reading, head) = Reading::new(Cursor::new(file)).unwrap();
    let go_on = &mut |_, _: &dyn Fn() -> Progress| false;
    let played = play(reading, &head, Vec::new(), Ok(()), Instant::now(), go_on);
    let (outcome, batches) = played.unwrap();
    assert_eq!(outcome.incomplete, None);
    batches
}
