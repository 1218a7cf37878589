//! Events beside the words, and the header: numbers of seven bits a byte, the lowest first.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pagelab_events::coding;
use pagelab_recorder_wire::region;

use super::codec::Damaged;
use crate::window::Window;

/// Place of a window's thinning among the flags.
const THINNING: u32 = 3;
/// Texts are not longer.
const MOST_TEXT: u64 = 1 << 20;

/// An event, in the order in which it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A ring has come into use.
    Open(Opened),
    /// Words and messages of a ring, with so many bytes of codes.
    Words { user: u64, items: u32, codes: u32 },
    /// Its thread has ended.
    Ended { user: u64 },
    /// All rings were looked at.
    Round,
    /// A process has ended, with a status as a shell has it.
    Gone { process: u32, status: i32 },
    /// The program has ended with a status or, if so, by a signal.
    End { signal: bool, number: i32 },
    /// Note for the user.
    Note(String),
}

/// User of a ring from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) user: u64,
    /// The ring.
    pub(crate) index: u32,
    pub(crate) claimed: u64,
    pub(crate) process: u32,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Number of the process that forked it.
    pub(crate) parent: u32,
    pub(crate) first: bool,
    pub(crate) definitions: bool,
}

impl Event {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Event::Open(of) => {
                out.push(0);
                let kind = u64::from(of.first) | u64::from(of.definitions) << 1;
                put_all(&[of.user, of.index.into(), of.claimed], out);
                put_all(&[of.process, of.pid, of.tid, of.parent].map(u64::from), out);
                coding::put(out, kind);
            }
            Event::Words { user, items, codes } => {
                out.push(1);
                put_all(&[user, items.into(), codes.into()], out);
            }
            Event::Ended { user } => {
                out.push(2);
                coding::put(out, user);
            }
            Event::Round => out.push(3),
            Event::Gone { process, status } => {
                out.push(4);
                put_all(&[process.into(), (status as u32).into()], out);
            }
            Event::End { signal, number } => {
                out.push(5);
                put_all(&[signal.into(), (number as u32).into()], out);
            }
            Event::Note(ref text) => {
                out.push(6);
                put_text(text, out);
            }
        }
    }

    /// The next event of a frame; `None` at its end.
    pub(crate) fn take(rest: &mut &[u8]) -> Result<Option<Event>, Damaged> {
        let Some((&kind, behind)) = rest.split_first() else {
            return Ok(None);
        };
        *rest = behind;
        Ok(Some(match kind {
            0 => {
                let [user, index, claimed, process, pid, tid, parent, kind] = take_all(rest)?;
                Event::Open(Opened {
                    user,
                    index: narrow(index)?,
                    claimed,
                    process: narrow(process)?,
                    pid: narrow(pid)?,
                    tid: narrow(tid)?,
                    parent: narrow(parent)?,
                    first: kind & 1 != 0,
                    definitions: kind & 2 != 0,
                })
            }
            1 => {
                let [user, items, codes] = take_all(rest)?;
                Event::Words {
                    user,
                    items: narrow(items)?,
                    codes: narrow(codes)?,
                }
            }
            2 => Event::Ended { user: take(rest)? },
            3 => Event::Round,
            4 => {
                let [process, status] = take_all(rest)?;
                Event::Gone {
                    process: narrow(process)?,
                    status: narrow(status)? as i32,
                }
            }
            5 => {
                let [signal, number] = take_all(rest)?;
                Event::End {
                    signal: signal != 0,
                    number: narrow(number)? as i32,
                }
            }
            6 => Event::Note(take_text(rest)?),
            _ => return Err(Damaged),
        }))
    }
}

/// Facts before the program runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    /// Statements of the trace about itself: names and values.
    pub(crate) about: Vec<(String, String)>,
    pub(crate) window: Window,
    pub(crate) with_code: bool,
    pub(crate) verbatim: bool,
    /// The program's process.
    pub(crate) pid: u32,
    /// When it was started.
    pub(crate) began: SystemTime,
}

impl Head {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Window {
            in_instructions,
            skip,
            limit,
            period,
            sample,
            thinning,
        } = self.window;
        let began = self.began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let flags = u64::from(in_instructions)
            | u64::from(self.with_code) << 1
            | u64::from(self.verbatim) << 2
            | thinning << THINNING;
        let mut out = region::MAGIC.to_le_bytes().to_vec();
        let about = self.about.len() as u64;
        let pid = u64::from(self.pid);
        let numbers = [
            flags,
            skip,
            limit,
            period,
            sample,
            pid,
            began.as_secs(),
            began.subsec_nanos().into(),
            about,
        ];
        put_all(&numbers, &mut out);
        for (name, value) in &self.about {
            put_text(name, &mut out);
            put_text(value, &mut out);
        }
        out
    }

    /// Contents of a header; `None` if another build of the recorder has written it, whose words mean something else.
    pub(crate) fn read(mut rest: &[u8]) -> Result<Option<Head>, Damaged> {
        let (magic, behind) = rest.split_first_chunk().ok_or(Damaged)?;
        if u64::from_le_bytes(*magic) != region::MAGIC {
            return Ok(None);
        }
        rest = behind;
        let [
            flags,
            skip,
            limit,
            period,
            sample,
            pid,
            seconds,
            nanos,
            about,
        ] = take_all(&mut rest)?;
        let since = Duration::new(
            seconds,
            u32::try_from(nanos).map_err(|_| Damaged)? % 1_000_000_000,
        );
        let about = (0..about).map(|_| Ok((take_text(&mut rest)?, take_text(&mut rest)?)));
        Ok(Some(Head {
            about: about.collect::<Result<_, Damaged>>()?,
            window: Window {
                in_instructions: flags & 1 != 0,
                skip,
                limit,
                period,
                sample,
                thinning: flags >> THINNING,
            },
            with_code: flags & 2 != 0,
            verbatim: flags & 4 != 0,
            pid: narrow(pid)?,
            began: UNIX_EPOCH.checked_add(since).ok_or(Damaged)?,
        }))
    }
}

fn put_all(numbers: &[u64], out: &mut Vec<u8>) {
    for &number in numbers {
        coding::put(out, number);
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    coding::put(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn take(rest: &mut &[u8]) -> Result<u64, Damaged> {
    coding::take(rest).ok_or(Damaged)
}

fn take_all<const N: usize>(rest: &mut &[u8]) -> Result<[u64; N], Damaged> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = take(rest)?;
    }
    Ok(numbers)
}

fn take_text(rest: &mut &[u8]) -> Result<String, Damaged> {
    let length = take(rest)?;
    if length > MOST_TEXT {
        return Err(Damaged);
    }
    let (text, behind) = rest.split_at_checked(length as usize).ok_or(Damaged)?;
    *rest = behind;
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn narrow(number: u64) -> Result<u32, Damaged> {
    u32::try_from(number).map_err(|_| Damaged)
}
