//! The same words read at once and by way of a file.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, UNIX_EPOCH};

use pagelab_events::{Batch, Metadata, TraceWriter};
use pagelab_recorder_wire::block::{Block, Reporting};
use pagelab_recorder_wire::region::{NO_PARENT, Ring, State};
use pagelab_recorder_wire::word::{ENTRY_SHIFT, Kind, SIZE_SHIFT};
use proptest::prelude::*;

use super::event::Head;
use super::file::FrameWriter;
use super::{Drain, Reading, Unread};
use crate::afterwards::play;
use crate::following::Following;
use crate::output::Output;
use crate::recording::Recording;
use crate::shared::{Shared, Writer, fresh};
use crate::window::{Window, Windows};
use crate::{Ended, Progress};

/// Instructions of blocks: their lengths and bytes.
const BLOCKS: [(&[u8], &[u8]); 5] = [
    // mov (%rdi),%rax; add $8,%rdi; mov %rax,8(%rdi); jne
    (
        &[3, 4, 4, 2],
        b"\x48\x8b\x07\x48\x83\xc7\x08\x48\x89\x47\x08\x75\xf3",
    ),
    // push %rbp; mov %rax,-8(%rsp); ret
    (&[1, 5, 1], b"\x55\x48\x89\x44\x24\xf8\xc3"),
    // rep movsb
    (&[2], b"\xf3\xa4"),
    // lock xadd %eax,(%rdi)
    (&[4], b"\xf0\x0f\xc1\x07"),
    // syscall
    (&[2], b"\x0f\x05"),
];

/// Action of a thread.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Executes a block so often, at these addresses, but for the last words of the last time.
    Execute {
        block: usize,
        times: u8,
        at: u32,
        step: u8,
        less: u8,
    },
    /// Calls read() into memory there.
    Reads {
        at: u32,
        bytes: u16,
    },
    /// Waits for the last process that was forked.
    Waits,
    /// Maps memory: the epoch moves.
    Maps {
        at: u32,
    },
    /// Makes a thread, or a process, which goes on as the threads do that there are.
    Clones {
        process: bool,
    },
    /// Makes a process and is killed before it comes to say so.
    Orphans,
    Ends,
    /// Leaves something out.
    Skips(u16),
    Note,
}

fn act() -> impl Strategy<Value = Act> {
    let execute = (0..BLOCKS.len(), 1u8.., 0u32..1 << 20, 0u8..4, 0u8..3);
    let execute = execute.prop_map(|(block, times, at, step, less)| Act::Execute {
        block,
        times,
        at,
        step,
        less,
    });
    prop_oneof![
        30 => execute,
        3 => (any::<u32>(), any::<u16>()).prop_map(|(at, bytes)| Act::Reads { at, bytes }),
        3 => any::<u32>().prop_map(|at| Act::Maps { at }),
        3 => any::<bool>().prop_map(|process| Act::Clones { process }),
        1 => Just(Act::Orphans),
        1 => Just(Act::Ends),
        1 => any::<u16>().prop_map(Act::Skips),
        1 => Just(Act::Note),
    ]
}

/// A thread of a program.
struct Thread {
    process: u32,
    tid: u32,
    writer: Writer,
    ring: usize,
    ended: bool,
}

/// A program, as far as a recorder can see it.
struct Program<'a> {
    shared: &'a Shared,
    threads: Vec<Thread>,
    definitions: Vec<Writer>,
    rings: usize,
    epoch: u64,
    next: u32,
}

impl<'a> Program<'a> {
    fn new(shared: &'a Shared) -> Program<'a> {
        let mut program = Program {
            shared,
            threads: Vec::new(),
            definitions: Vec::new(),
            rings: 0,
            epoch: 1,
            next: 100,
        };
        program.start(0, 100, None, true);
        program.process();
        program
    }

    fn open(
        &mut self,
        process: u32,
        tid: u32,
        parent: Option<u32>,
        first: bool,
        definitions: bool,
    ) -> (Writer, usize) {
        let index = self.rings;
        self.rings += 1;
        let ring: &Ring = self.shared.ring(index);
        ring.claimed.store(index as u64, Ordering::Relaxed);
        ring.process.store(process, Ordering::Relaxed);
        // None has this number: they end at 2^22.
        ring.pid.store(u32::MAX, Ordering::Relaxed);
        ring.tid.store(tid, Ordering::Relaxed);
        ring.parent
            .store(parent.unwrap_or(NO_PARENT), Ordering::Relaxed);
        ring.first.store(first.into(), Ordering::Relaxed);
        ring.definitions
            .store(definitions.into(), Ordering::Relaxed);
        (self.shared.writer(index), index)
    }

    fn start(&mut self, process: u32, tid: u32, parent: Option<u32>, first: bool) {
        let (writer, ring) = self.open(process, tid, parent, first, false);
        self.threads.push(Thread {
            process,
            tid,
            writer,
            ring,
            ended: false,
        });
    }

    /// A process has a ring for its blocks, which the first has defined.
    fn process(&mut self) {
        let process = self.definitions.len() as u32;
        let (mut writer, _) = self.open(process, 0, None, false, true);
        for (number, (lengths, bytes)) in BLOCKS.iter().enumerate().filter(|_| process == 0) {
            let mut all = [*lengths, *bytes].concat();
            all.resize(all.len().next_multiple_of(8), 0);
            let pc = 0x1000 * (number as u64 + 1);
            let mut message = vec![0, number as u64, pc, lengths.len() as u64];
            message.extend(
                all.chunks(8)
                    .map(|word| u64::from_le_bytes(word.try_into().unwrap())),
            );
            message[0] = Kind::Define.word(message.len() as u64 - 1);
            assert!(writer.put(self.shared, &message));
        }
        self.definitions.push(writer);
    }

    fn act(&mut self, thread: usize, act: Act) {
        let thread = thread % self.threads.len();
        let (process, tid) = (self.threads[thread].process, self.threads[thread].tid);
        if self.threads[thread].ended {
            return;
        }
        let mut words = Vec::new();
        let call = |number: u64, arguments: [u64; 6]| {
            let mut message = vec![Kind::Syscall.word(number)];
            message.extend(arguments);
            message
        };
        let returns = |number: u64, result: u64| [Kind::SyscallReturn.word(number), result, 0];
        let mut started = None;
        match act {
            Act::Execute {
                block,
                times,
                at,
                step,
                less,
            } => {
                let (lengths, bytes) = BLOCKS[block];
                let pc = 0x1000 * (block as u64 + 1);
                let analysed = Block::analyse(pc, lengths, bytes, Reporting::Needed);
                for time in 0..u64::from(times) {
                    words.push(Kind::Block.word(block as u64));
                    for (entry, of) in analysed.script.iter().enumerate() {
                        if of.is_reported() {
                            let address = u64::from(at) * 64 + time * u64::from(step);
                            let size = u64::from(of.size.trailing_zeros()) << SIZE_SHIFT;
                            words.push((entry as u64) << ENTRY_SHIFT | size | address);
                        }
                    }
                }
                words.truncate(words.len() - usize::from(less).min(words.len() - 1));
            }
            Act::Reads { at, bytes } => {
                words.extend(call(0, [3, at.into(), bytes.into(), 0, 0, 0]));
                words.extend(returns(0, bytes.into()));
            }
            Act::Maps { at } => {
                self.epoch += 2;
                (self.shared.header().epoch.0).store(self.epoch, Ordering::Release);
                words.push(Kind::Epoch.word(self.epoch - 1));
                words.extend(call(9, [0, 4096, 3, 0x22, u64::MAX, 0]));
                words.extend(returns(9, u64::from(at) << 12));
                words.push(Kind::Epoch.word(self.epoch));
            }
            Act::Clones { process: forks } if self.rings < 14 => {
                self.next += 1;
                let flags = if forks { 0 } else { libc::CLONE_VM as u64 };
                words.extend(call(56, [flags, 0, 0, 0, 0, 0]));
                words.extend(returns(56, self.next.into()));
                let of = if forks {
                    self.definitions.len() as u32
                } else {
                    process
                };
                if forks {
                    words.push(Kind::Forked.word(of.into()));
                }
                started = Some((of, forks));
            }
            Act::Orphans if self.rings < 14 => {
                self.next += 1;
                started = Some((self.definitions.len() as u32, true));
            }
            Act::Clones { .. } | Act::Orphans => {}
            Act::Ends => {
                words.extend(call(60, [0; 6]));
                words.push(Kind::ThreadEnd.word(0));
            }
            Act::Waits => {
                words.extend(call(61, [0; 6]));
                words.extend(returns(61, self.next.into()));
            }
            Act::Skips(count) => {
                words.extend([Kind::Skipped.word(0), 2 * u64::from(count), count.into()])
            }
            Act::Note => words.extend([Kind::Note.word(5), u64::from_le_bytes(*b"hello\0\0\0")]),
        }
        let _ = tid;
        assert!(self.threads[thread].writer.put(self.shared, &words));
        if let Some((child, first)) = started {
            self.start(child, self.next, first.then_some(process), first);
            if first {
                self.process();
            }
        }
        if matches!(act, Act::Ends) {
            self.threads[thread].ended = true;
            let state = &self.shared.ring(self.threads[thread].ring).state.0;
            state.store(State::Ended as u32, Ordering::Release);
        }
    }
}

/// Acts of threads, a round of them after the other.
type Rounds = Vec<Vec<(usize, Act)>>;

fn rounds() -> impl Strategy<Value = Rounds> {
    let round = prop::collection::vec((0usize..8, act()), 0..12);
    prop::collection::vec(round, 1..12)
}

fn memory() -> Shared {
    Shared::new(|header| *header = fresh()).unwrap()
}

fn temporary() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("pagelab-words-{}-{number}", std::process::id()))
}

fn head(window: Window) -> Head {
    Head {
        about: vec![("program".to_owned(), "of no file".to_owned())],
        window,
        with_code: true,
        verbatim: false,
        // None has this number: they end at 2^22.
        pid: u32::MAX,
        began: UNIX_EPOCH,
    }
}

/// Batches that a recording makes of it at once.
fn at_once(rounds: &Rounds, window: Window) -> Vec<Batch> {
    let shared = memory();
    let head = head(window);
    let windows = Windows::new(window, false);
    let mut recording = Recording::new(
        &shared,
        windows,
        Output::new(Vec::new(), true),
        head.pid,
        head.began,
    );
    let mut program = Program::new(&shared);
    for round in rounds {
        for &(thread, act) in round {
            program.act(thread, act);
        }
        recording.round().unwrap();
    }
    recording.gone(0, 3).unwrap();
    recording.round().unwrap();
    let (_, output) = recording.finish();
    let (batches, written) = output.finish();
    written.unwrap();
    batches.unwrap()
}

/// The file that a drain makes of it.
fn drained(rounds: &Rounds, window: Window) -> Vec<u8> {
    drained_by(window, |drain, program| {
        for round in rounds {
            for &(thread, act) in round {
                program.act(thread, act);
            }
            drain.round().unwrap();
            drain.write().unwrap();
        }
        // Other processes have no number that any has: they are not gone.
        drain.gone(0, 3).unwrap();
        drain.round().unwrap();
    })
}

/// The file that a drain makes of a program that does this.
fn drained_by(window: Window, work: impl FnOnce(&mut Drain<'_>, &mut Program<'_>)) -> Vec<u8> {
    let shared = memory();
    let path = temporary();
    let writer = FrameWriter::new(File::create(&path).unwrap(), &head(window).bytes()).unwrap();
    let mut drain = Drain::new(&shared, writer, u32::MAX, None);
    work(&mut drain, &mut Program::new(&shared));
    drain.finish(Ended::Status(3)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    bytes
}

/// Batches made of a file, and why that is not all.
fn made(file: impl Read + Send) -> Result<(Vec<Batch>, Option<String>), Unread> {
    let (reading, head) = Reading::new(file)?;
    let go_on = &mut |_, _: &dyn Fn() -> Progress| false;
    let played = play(reading, &head, Vec::new(), Ok(()), Instant::now(), go_on);
    let (outcome, batches) = played.unwrap();
    Ok((batches.unwrap(), outcome.incomplete))
}

fn trace(batches: &[Batch]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Metadata::new()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap()
}

/// Accesses and control events, one by one.
fn events(batches: &[Batch]) -> Vec<String> {
    let mut all = Vec::new();
    for batch in batches {
        let mut controls = batch.controls.iter().peekable();
        for index in 0..=batch.len() {
            while let Some((_, control)) = controls.next_if(|(at, _)| *at as usize <= index) {
                all.push(format!("{} {control:?}", batch.process));
            }
            if index < batch.len() {
                all.push(format!("{} {:?}", batch.process, batch.access(index)));
            }
        }
    }
    all
}

fn windows() -> impl Strategy<Value = Window> {
    prop_oneof![
        3 => Just(Window::default()),
        1 => (any::<bool>(), 0u64..2000, 0u64..4000).prop_map(|(in_instructions, skip, limit)| Window {
            in_instructions,
            skip,
            limit,
            ..Window::default()
        }),
        1 => (1u64..500, prop_oneof![Just(0u64), 1u64..20]).prop_map(|(sample, thinning)| Window {
            sample,
            period: 3 * sample,
            thinning,
            ..Window::default()
        }),
    ]
}

/// A parent waits for a child and forks another; that both are gone is noticed at once, the other first.
#[test]
fn children_that_end_together_are_whole_in_any_order() {
    let made_in_order = |ends: [u32; 2]| {
        let file = drained_by(Window::default(), |drain, program| {
            for child in [1, 2] {
                let execute = Act::Execute {
                    block: 0,
                    times: 9,
                    at: 100,
                    step: 8,
                    less: 0,
                };
                program.act(0, Act::Clones { process: true });
                program.act(child, execute);
                program.act(child, Act::Ends);
                program.act(0, Act::Waits);
            }
            drain.round().unwrap();
            for child in ends {
                drain.gone(child, 0).unwrap();
            }
            drain.gone(0, 3).unwrap();
        });
        let (batches, incomplete) = made(Cursor::new(file)).unwrap();
        assert_eq!(incomplete, None);
        events(&batches)
    };
    let expected = made_in_order([1, 2]);
    let of_second = expected.iter().filter(|event| event.starts_with("2 "));
    // Nine times a load, a store and what is between them, an instruction fetch each, and its end.
    assert!(of_second.count() > 9 * 2);
    assert_eq!(made_in_order([2, 1]), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_trace_made_afterwards_is_the_one_made_at_once(rounds in rounds(), window in windows()) {
        let at_once = at_once(&rounds, window);
        let (afterwards, incomplete) = made(Cursor::new(drained(&rounds, window))).unwrap();
        prop_assert_eq!(incomplete, None);
        prop_assert!(at_once == afterwards, "{:#?}\n{:#?}", events(&at_once), events(&afterwards));
        prop_assert_eq!(trace(&at_once), trace(&afterwards));
    }

    #[test]
    fn a_file_is_read_up_to_where_it_ends(rounds in rounds(), at in any::<prop::sample::Index>()) {
        let file = drained(&rounds, Window::default());
        let (whole, _) = made(Cursor::new(&file)).unwrap();
        let part = &file[..at.index(file.len())];
        if let Ok((part, incomplete)) = made(Cursor::new(part)) {
            prop_assert_eq!(incomplete.as_deref(), Some("the words end before the program did"));
            // A frame is a round here, and what ends with it is a whole recording.
            let (part, whole) = (events(&part), events(&whole));
            prop_assert!(whole.starts_with(&part), "{:#?}\n{:#?}", part, whole);
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed(rounds in rounds(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut file = drained(&rounds, Window::default());
        let (whole, _) = made(Cursor::new(&file)).unwrap();
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        if let Ok((part, incomplete)) = made(Cursor::new(&file)) {
            prop_assert!(incomplete.is_some());
            let (part, whole) = (events(&part), events(&whole));
            prop_assert!(whole.starts_with(&part), "{:#?}\n{:#?}", part, whole);
        }
    }
}
