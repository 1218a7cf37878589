//! Puts the words of a file into rings, as the plugin has put them there, for a recording to read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use pagelab_recorder_wire::region::{RINGS, State, ring_words};

use super::codec::Damaged;
use super::event::{Event, Opened};
use super::file::Unread;
use super::read::{Item, Items};
use crate::shared::{Shared, Writer};

/// Words that wait for room at most: more than a program can have written before it was known whose they are.
const MOST_WAITING: usize = 1 << 25;

/// Users of rings at a time at most: far more than there can be when all that comes before has been read.
const MOST_USERS: usize = 4 * RINGS;

/// User of a ring.
struct User {
    /// With the ring that it had.
    opened: Opened,
    /// The one that it has, once there are words for it and one is free.
    ring: Option<usize>,
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
    /// Player of what comes from there.
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

    /// Goes on to the next event that is not of a ring; `None` where the file ends. After a round all that was
    /// seen at a time is in the rings, or as much as has room.
    pub(crate) fn step(&mut self, shared: &Shared) -> Result<Option<Event>, Unread> {
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
                Event::Open(opened) => self.open(opened)?,
                Event::Ended { user } => {
                    self.users.get_mut(&user).ok_or(Damaged)?.ended = true;
                }
                Event::Round => {
                    self.put(shared);
                    return Ok(Some(event));
                }
                Event::Gone { .. } | Event::End { .. } | Event::Note(_) => return Ok(Some(event)),
            }
        }
    }

    /// Notes who uses a ring from now on.
    fn open(&mut self, opened: Opened) -> Result<(), Damaged> {
        if self.users.len() >= MOST_USERS {
            return Err(Damaged);
        }
        let new = User {
            opened,
            ring: None,
            writer: None,
            waiting: VecDeque::new(),
            ended: false,
        };
        self.users.insert(opened.user, new);
        Ok(())
    }

    /// Takes rings back that the recording has let go.
    fn take_back(&mut self, shared: &Shared) {
        self.users.retain(|_, user| {
            let Some(ring) = user.ring else { return true };
            let open = shared.state(ring) != State::Free;
            if !open {
                self.claimed[ring] = false;
                self.waiting -= user.waiting.iter().map(Vec::len).sum::<usize>();
            }
            open
        });
    }

    /// The ring for who had this one: the same, or one as large, or any that is free. The recording lets rings go later
    /// than they were let go when the words were taken: it knows some only by words that come after theirs.
    fn free_ring(&self, index: usize) -> Option<usize> {
        let free = |ring: &usize| !self.claimed[*ring];
        let as_large = |ring: &usize| free(ring) && ring_words(*ring) == ring_words(index);
        let same = Some(index).filter(free);
        same.or_else(|| (0..RINGS).find(as_large))
            .or_else(|| (0..RINGS).find(free))
    }

    /// Puts words into the rings, as many as have room.
    pub(crate) fn put(&mut self, shared: &Shared) {
        self.take_back(shared);
        let users: Vec<u64> = self.users.keys().copied().collect();
        let mut any_free = true;
        for number in users {
            // A program replaces another when all of that one has been read.
            let ready = |user: &User| {
                let Opened {
                    process, claimed, ..
                } = user.opened;
                !user.opened.first
                    || !self.users.values().any(|other| {
                        other.opened.process == process
                            && other.opened.claimed < claimed
                            && !other.waiting.is_empty()
                    })
            };
            let opens = |user: &&User| any_free && user.ring.is_none() && ready(user);
            let place = self.users.get(&number).filter(opens).and_then(|user| {
                let place = self.free_ring(user.opened.index as usize);
                any_free = place.is_some();
                place
            });
            let Some(user) = self.users.get_mut(&number) else {
                continue;
            };
            if let Some(index) = place {
                self.claimed[index] = true;
                user.ring = Some(index);
                let ring = shared.ring(index);
                let opened = &user.opened;
                ring.claimed.store(opened.claimed, Ordering::Relaxed);
                ring.process.store(opened.process, Ordering::Relaxed);
                ring.pid.store(opened.pid, Ordering::Relaxed);
                ring.tid.store(opened.tid, Ordering::Relaxed);
                ring.parent.store(opened.parent, Ordering::Relaxed);
                ring.first.store(opened.first.into(), Ordering::Relaxed);
                (ring.definitions).store(opened.definitions.into(), Ordering::Relaxed);
                user.writer = Some(shared.writer(index));
            }
            let (Some(writer), Some(index)) = (&mut user.writer, user.ring) else {
                continue;
            };
            while let Some(words) = user.waiting.front()
                && writer.put(shared, words)
            {
                self.waiting -= words.len();
                user.waiting.pop_front();
            }
            if user.ended && user.waiting.is_empty() {
                let state = &shared.ring(index).state.0;
                state.store(State::Ended as u32, Ordering::Release);
                user.ended = false;
            }
        }
    }
}
