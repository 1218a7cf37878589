//! Reads a file of words, on a thread of its own: events, and words as the plugin has reported them.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use pagelab_recorder_wire::region::{RINGS, ring_words};
use pagelab_recorder_wire::word::{Kind, Word};

use super::codec::{Damaged, Decoder, Place, Rest};
use super::event::{Event, Head};
use super::file::{FrameReader, Parts, Unread};

/// Instructions of a block, and bytes of one: QEMU makes none longer (TCG_MAX_INSNS; an instruction has 15 at most).
const MOST_INSTRUCTIONS: u64 = 512;
const MOST_BYTES: u64 = 16 * MOST_INSTRUCTIONS;
/// Numbers of blocks of which there is no definition: each process may have taken one for a block that it has not
/// come to define.
const UNDEFINED: u64 = 1 << 16;

/// So many words, or more by those of one event, are read at a time, and so many times ahead.
const AT_A_TIME: usize = 1 << 18;
const AHEAD: usize = 4;

/// Next item.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// Not of words.
    Event(Event),
    Words {
        user: u64,
        words: Vec<u64>,
    },
}

/// Items read at a time, and up to where in the file; or why there is nothing more, if not for its end.
pub(crate) type Items = Result<(Vec<Item>, u64), Unread>;

/// A file of which the header has been read.
pub(crate) struct Reading<R> {
    frames: FrameReader<R>,
    decoder: Decoder,
    frame: Parts,
    /// Read of the frame: events, codes, values, messages.
    read: [usize; 4],
    users: HashMap<u64, User>,
    blocks: u64,
    processes: HashSet<u32>,
}

/// User of a ring, by its words.
struct User {
    place: Place,
    definitions: bool,
    /// Words of one event at most: they have to lie side by side.
    most: usize,
}

impl<R: Read> Reading<R> {
    /// Starts with what the file says first.
    pub(crate) fn new(input: R) -> Result<(Reading<R>, Head), Unread> {
        let (frames, header) = FrameReader::new(input)?;
        let other =
            Unread::Other("another build of pagelab has written it, and only that can read it");
        let head = Head::read(&header)?.ok_or(other)?;
        let reading = Reading {
            frames,
            decoder: Decoder::new(),
            frame: Parts::default(),
            read: [0; 4],
            users: HashMap::new(),
            blocks: 0,
            processes: HashSet::from([0]),
        };
        Ok((reading, head))
    }

    /// Reads on, on a thread of its own.
    pub(crate) fn spawn<'scope>(mut self, scope: &'scope Scope<'scope, '_>) -> Receiver<Items>
    where
        R: Send + 'scope,
    {
        let (items, receiver) = sync_channel(AHEAD);
        scope.spawn(move || {
            loop {
                let (read, more) = self.some();
                let sent = items.send(Ok((read, self.frames.bytes())));
                match more {
                    Ok(true) if sent.is_ok() => {}
                    Ok(_) => return,
                    Err(why) => {
                        // Nobody may want it any more.
                        let _ = items.send(Err(why));
                        return;
                    }
                }
            }
        });
        receiver
    }

    /// Some of what comes, and whether there is more.
    fn some(&mut self) -> (Vec<Item>, Result<bool, Unread>) {
        let (mut items, mut words) = (Vec::new(), 0);
        while words < AT_A_TIME && items.len() < AT_A_TIME {
            match self.next() {
                Ok(Some(item)) => {
                    if let Item::Words { words: some, .. } = &item {
                        words += some.len();
                    }
                    items.push(item);
                }
                Ok(None) => return (items, Ok(false)),
                Err(why) => return (items, Err(why)),
            }
        }
        (items, Ok(true))
    }

    fn next(&mut self) -> Result<Option<Item>, Unread> {
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
            if let Event::Words { user, items, codes } = event {
                let words = self.words(user, items as usize, codes as usize)?;
                return Ok(Some(Item::Words { user, words }));
            }
            if let Event::Open(opened) = event {
                let index = opened.index as usize;
                if index >= RINGS || self.users.contains_key(&opened.user) {
                    return Err(Unread::Damaged);
                }
                let user = User {
                    place: Place::default(),
                    definitions: opened.definitions,
                    most: ring_words(index) / 2,
                };
                self.users.insert(opened.user, user);
            }
            return Ok(Some(Item::Event(event)));
        }
    }

    fn words(&mut self, user: u64, items: usize, codes: usize) -> Result<Vec<u64>, Damaged> {
        let user = self.users.get_mut(&user).ok_or(Damaged)?;
        // Each item is a word at least.
        if items > user.most {
            return Err(Damaged);
        }
        let [_, of_codes, values, messages] = &mut self.read;
        let codes = (self.frame.codes.get(*of_codes..))
            .and_then(|rest| rest.get(..codes))
            .ok_or(Damaged)?;
        let mut rest = Rest {
            codes,
            values: &self.frame.values[*values..],
            messages: &self.frame.messages[*messages..],
        };
        let mut words = Vec::with_capacity(items);
        let (definitions, blocks, processes) =
            (user.definitions, &mut self.blocks, &mut self.processes);
        let place = &mut user.place;
        (self.decoder).words(place, items, &mut rest, &mut words, |message| {
            check(message, definitions, blocks, processes)
        })?;
        *of_codes += codes.len();
        *values = self.frame.values.len() - rest.values.len();
        *messages = self.frame.messages.len() - rest.messages.len();
        if words.len() > user.most {
            return Err(Damaged);
        }
        Ok(words)
    }
}

/// Refuses a message that may not be put into a ring: of what a plugin writes it says nothing that would need endless
/// room.
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

/// True if the bytes of a block are as many as its instructions have.
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
