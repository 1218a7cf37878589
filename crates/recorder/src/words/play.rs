//! Puts the words of a file into rings, as the plugin has put them there, for a recording to read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use pagelab_recorder_wire::region::{RINGS, State, ring_words};

use super::codec::Damaged;
use super::event::Event;
use super::file::Unread;
use super::read::{Item, Items};
use crate::shared::{Shared, Writer};

/// Words that wait for room at most: more than a program can have written before it was known whose they are.
const MOST_WAITING: usize = 1 << 25;

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
    /// `None` until it is open.
    writer: Option<Writer>,
    /// Words without room in the ring.
    waiting: VecDeque<Vec<u64>>,
    ended: bool,
}

/// Puts what is read of a file into rings.
pub(crate) struct Player {
    receiver: Receiver<Items>,
    items: std::vec::IntoIter<Item>,
    bytes: u64,
    users: BTreeMap<u64, User>,
    claimed: Vec<bool>,
    waiting: usize,
}

impl Player {
    /// Of what comes from there.
    pub(crate) fn new(receiver: Receiver<Items>) -> Player {
        Player {
            receiver,
            items: Vec::new().into_iter(),
            bytes: 0,
            users: BTreeMap::new(),
            claimed: vec![false; RINGS],
            waiting: 0,
        }
    }

    /// Bytes of the file read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Words that have no room yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Goes on to the next step; `None` where the file ends.
    pub(crate) fn step(&mut self, shared: &Shared) -> Result<Option<Step>, Unread> {
        loop {
            let Some(item) = self.items.next() else {
                // The reader ends with what it has sent.
                let Ok(items) = self.receiver.recv() else {
                    return Ok(None);
                };
                let (items, bytes) = items?;
                self.items = items.into_iter();
                self.bytes = bytes;
                continue;
            };
            let event = match item {
                Item::Event(event) => event,
                Item::Words { user, words } => {
                    let user = self.users.get_mut(&user).ok_or(Damaged)?;
                    self.waiting += words.len();
                    if self.waiting > MOST_WAITING {
                        return Err(Unread::Damaged);
                    }
                    user.waiting.push_back(words);
                    continue;
                }
            };
            match event {
                Event::Words { .. } => {}
                Event::Open { .. } => self.open(&event, shared)?,
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
                writer: None,
                waiting: VecDeque::new(),
                ended: false,
            },
        );
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
