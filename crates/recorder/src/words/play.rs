//! Puts the words of a file into rings, as the plugin has put them there, for a recording to read.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::{self, Read};
use std::sync::atomic::Ordering;

use pagelab_recorder_wire::region::{RINGS, State, ring_words};
use pagelab_recorder_wire::word::{Kind, Word};

use super::codec::{Damaged, Decoder, Place, Rest};
use super::event::{Event, Head};
use super::file::{FrameReader, Parts, Unread};
use crate::shared::{Shared, Writer};

/// Words that wait for room at most: more than a program can have written before it was known whose they are.
const MOST_WAITING: usize = 1 << 25;
/// Instructions of a block, and bytes of one: QEMU makes none longer (TCG_MAX_INSNS; an instruction has 15 at most).
const MOST_INSTRUCTIONS: u64 = 512;
const MOST_BYTES: u64 = 16 * MOST_INSTRUCTIONS;
/// Numbers of blocks of which there is no definition: each process may have taken one for a block that it has not
/// come to define.
const UNDEFINED: u64 = 1 << 16;

/// What comes next in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// All that was seen at a time is in the rings, or as much as has room.
    Round,
    /// A process has ended, with this status.
    Gone { process: u32, status: i32 },
    /// The program has ended with a status or, if so, by a signal.
    End { signal: bool, number: i32 },
    /// What the user should know.
    Note(String),
}

/// Who uses a ring.
struct User {
    ring: usize,
    process: u32,
    tid: u32,
    claimed: u64,
    first: bool,
    definitions: bool,
    place: Place,
    /// `None` until it is open.
    writer: Option<Writer>,
    /// Words without room in the ring.
    waiting: VecDeque<Vec<u64>>,
    ended: bool,
}

/// Reads a file into rings.
pub(crate) struct Player<R> {
    frames: FrameReader<R>,
    decoder: Decoder,
    frame: Parts,
    /// Read of the frame: events, codes, values, messages.
    read: [usize; 4],
    users: BTreeMap<u64, User>,
    claimed: Vec<bool>,
    waiting: usize,
    blocks: u64,
    processes: HashSet<u32>,
}

impl<R: Read> Player<R> {
    /// Starts with what the file says first.
    pub(crate) fn new(input: R) -> Result<(Player<R>, Head), Unread> {
        let (frames, header) = FrameReader::new(input)?;
        let other =
            Unread::Other("another build of pagelab has written it, and only that can read it");
        let head = Head::read(&header)?.ok_or(other)?;
        let player = Player {
            frames,
            decoder: Decoder::new(),
            frame: Parts::default(),
            read: [0; 4],
            users: BTreeMap::new(),
            claimed: vec![false; RINGS],
            waiting: 0,
            blocks: 0,
            processes: HashSet::from([0]),
        };
        Ok((player, head))
    }

    /// Bytes of the file read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.frames.bytes()
    }

    /// Words that have no room yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Goes on to the next step; `None` where the file ends.
    pub(crate) fn step(&mut self, shared: &Shared) -> Result<Option<Step>, Unread> {
        loop {
            let mut events = &self.frame.events[self.read[0]..];
            let event = Event::take(&mut events)?;
            self.read[0] = self.frame.events.len() - events.len();
            let Some(event) = event else {
                let whole = self.read[1] == self.frame.codes.len()
                    && self.read[2] == self.frame.values.len()
                    && self.read[3] == self.frame.messages.len();
                if !whole {
                    return Err(Unread::Damaged);
                }
                let Some(frame) = self.frames.next()? else {
                    return Ok(None);
                };
                self.frame = frame;
                self.read = [0; 4];
                continue;
            };
            match event {
                Event::Open { .. } => self.open(&event, shared)?,
                Event::Words { user, items, codes } => {
                    self.words(user, items as usize, codes as usize)?;
                }
                Event::Ended { user } => {
                    self.users.get_mut(&user).ok_or(Damaged)?.ended = true;
                }
                Event::Round => {
                    self.put(shared);
                    return Ok(Some(Step::Round));
                }
                Event::Gone { process, status } => return Ok(Some(Step::Gone { process, status })),
                Event::End { signal, number } => return Ok(Some(Step::End { signal, number })),
                Event::Note(text) => return Ok(Some(Step::Note(text))),
            }
        }
    }

    /// Notes who uses a ring from now on: the same ring as then if it is free.
    fn open(&mut self, event: &Event, shared: &Shared) -> Result<(), Damaged> {
        let Event::Open {
            user,
            index,
            claimed,
            process,
            tid,
            first,
            definitions,
        } = *event
        else {
            return Ok(());
        };
        // Rings that the recording has let go.
        self.users.retain(|_, user| {
            let open = user.writer.is_none() || shared.state(user.ring) != State::Free;
            if !open {
                self.claimed[user.ring] = false;
                self.waiting -= user.waiting.iter().map(Vec::len).sum::<usize>();
            }
            open
        });
        let index = index as usize;
        let of_the_same_size =
            |ring: &usize| !self.claimed[*ring] && ring_words(*ring) == ring_words(index);
        if index >= RINGS || self.users.contains_key(&user) {
            return Err(Damaged);
        }
        let ring = if self.claimed[index] {
            (0..RINGS).find(of_the_same_size).ok_or(Damaged)?
        } else {
            index
        };
        self.claimed[ring] = true;
        self.users.insert(
            user,
            User {
                ring,
                process,
                tid,
                claimed,
                first,
                definitions,
                place: Place::default(),
                writer: None,
                waiting: VecDeque::new(),
                ended: false,
            },
        );
        Ok(())
    }

    fn words(&mut self, user: u64, items: usize, codes: usize) -> Result<(), Damaged> {
        let user = self.users.get_mut(&user).ok_or(Damaged)?;
        let [_, of_codes, values, messages] = &mut self.read;
        let codes = (self.frame.codes.get(*of_codes..))
            .and_then(|rest| rest.get(..codes))
            .ok_or(Damaged)?;
        let mut rest = Rest {
            codes,
            values: &self.frame.values[*values..],
            messages: &self.frame.messages[*messages..],
        };
        let mut words = Vec::with_capacity(items.min(1 << 15));
        // Each item is a word at least.
        if items > ring_words(user.ring) / 2 {
            return Err(Damaged);
        }
        let (definitions, blocks, processes) =
            (user.definitions, &mut self.blocks, &mut self.processes);
        self.decoder
            .words(&mut user.place, items, &mut rest, &mut words, |message| {
                check(message, definitions, blocks, processes)
            })?;
        *of_codes += codes.len();
        *values = self.frame.values.len() - rest.values.len();
        *messages = self.frame.messages.len() - rest.messages.len();
        self.waiting += words.len();
        if self.waiting > MOST_WAITING || words.len() > ring_words(user.ring) / 2 {
            return Err(Damaged);
        }
        user.waiting.push_back(words);
        Ok(())
    }

    /// Puts words into the rings, as many as have room.
    pub(crate) fn put(&mut self, shared: &Shared) {
        let users: Vec<u64> = self.users.keys().copied().collect();
        for number in users {
            // A program replaces another when all of that one has been read.
            let ready = |user: &User| {
                !user.first
                    || !self.users.values().any(|other| {
                        other.process == user.process
                            && other.claimed < user.claimed
                            && !other.waiting.is_empty()
                    })
            };
            let opens =
                (self.users.get(&number)).is_some_and(|user| user.writer.is_none() && ready(user));
            let Some(user) = self.users.get_mut(&number) else {
                continue;
            };
            if opens {
                let ring = shared.ring(user.ring);
                ring.claimed.store(user.claimed, Ordering::Relaxed);
                ring.process.store(user.process, Ordering::Relaxed);
                ring.tid.store(user.tid, Ordering::Relaxed);
                ring.first.store(user.first.into(), Ordering::Relaxed);
                (ring.definitions).store(user.definitions.into(), Ordering::Relaxed);
                user.writer = Some(shared.writer(user.ring));
            }
            if let Some(writer) = &mut user.writer {
                while let Some(words) = user.waiting.front()
                    && writer.put(shared, words)
                {
                    self.waiting -= words.len();
                    user.waiting.pop_front();
                }
            }
            if user.ended && user.waiting.is_empty() && user.writer.is_some() {
                let state = &shared.ring(user.ring).state.0;
                state.store(State::Ended as u32, Ordering::Release);
                user.ended = false;
            }
        }
    }
}

/// Whether a message may be put into a ring: of what a plugin writes it says nothing that would need endless room.
fn check(
    message: &[u64],
    definitions: bool,
    blocks: &mut u64,
    processes: &mut HashSet<u32>,
) -> Result<(), Damaged> {
    let Some(Word::Message(kind, payload)) = message.first().map(|&word| Word::decode(word)) else {
        return Err(Damaged);
    };
    let good = match kind {
        Kind::Wrap | Kind::Block => false,
        Kind::Define => match *message {
            [_, number, _, instructions, ref bytes @ ..] => {
                *blocks += 1;
                definitions
                    && number < 2 * *blocks + UNDEFINED
                    && instructions <= MOST_INSTRUCTIONS
                    && (bytes.len() as u64) * 8 <= MOST_BYTES + MOST_INSTRUCTIONS
                    && has_all_bytes(instructions as usize, bytes)
            }
            _ => false,
        },
        Kind::Forked => u32::try_from(payload).is_ok_and(|process| processes.insert(process)),
        _ => true,
    };
    if good { Ok(()) } else { Err(Damaged) }
}

/// Whether the bytes of a block are as many as its instructions have.
fn has_all_bytes(instructions: usize, words: &[u64]) -> bool {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let lengths = bytes.take(instructions);
    let all: usize = lengths.map(usize::from).sum();
    instructions + all <= 8 * words.len()
}

/// The words of a file that are not read further say why.
pub(crate) fn said(why: Unread) -> io::Error {
    match why {
        Unread::Short => io::Error::other("the words end before the program did"),
        Unread::Damaged => io::Error::other("the file of words is damaged"),
        Unread::Other(what) => io::Error::other(what),
        Unread::System(error) => error,
    }
}
